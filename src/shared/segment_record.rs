//! The directory entry of a segment.

use snowflake_id_core::segment_answer::SegmentState;

use super::bounded_text::BoundedText;

/// The maximum length of a segment's name, in bytes.
pub const LONGEST_NAME: usize = 255;

/// The directory entry of a segment.
#[derive(Clone, Copy, Default)]
pub struct Record {
    name: Name,
    pub state: SegmentState,
    /// The time of the registry's last answer, in microseconds of Unix time.
    pub answered_at_us: i64,
    /// The time at which the worker received the newest range, in microseconds of Unix time.
    pub taken_at_us: i64,
    /// The size of the newest range.
    pub step: i64,
    /// The last number that the segment can ever provide, or 0 if this number is unknown.
    pub max_value: i64,
    detail: BoundedText,
    /// The name of an existing segment that was probably meant, or empty if there is none.
    near: Name,
}

impl Record {
    pub fn name(&self) -> &str {
        self.name.text()
    }

    /// Returns details about the state for administrators.
    pub fn detail(&self) -> Option<String> {
        self.detail.text()
    }

    pub fn set_detail(&mut self, text: Option<&str>) {
        self.detail.set(text.unwrap_or_default());
    }

    /// Returns the name of an existing segment if this record's name is probably a misspelling of that name.
    pub fn near(&self) -> Option<&str> {
        Some(self.near.text()).filter(|name| !name.is_empty())
    }

    pub fn set_near(&mut self, name: Option<&str>) {
        self.near = name.filter(|name| name.len() <= LONGEST_NAME).map(Name::new).unwrap_or_default();
    }

    /// Returns the record of a name that was just assigned to a slot.
    ///
    /// # Panics
    /// Panics if the name exceeds [`LONGEST_NAME`].
    pub(super) fn of(name: &str) -> Record {
        Record { name: Name::new(name), ..Record::default() }
    }
}

/// The name of a segment in UTF-8.
#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; LONGEST_NAME],
    length: u8,
}

impl Default for Name {
    fn default() -> Name {
        Name { bytes: [0; LONGEST_NAME], length: 0 }
    }
}

impl Name {
    /// # Panics
    /// Panics if the string exceeds [`LONGEST_NAME`].
    fn new(text: &str) -> Name {
        let mut name = Name { length: text.len() as u8, ..Name::default() };
        name.bytes[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length.into()]).unwrap_or_default()
    }
}
