//! The directory entry of a segment.

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
    /// The name of an existing segment of which this name is probably a misspelling.
    near: Name,
}

/// The state of a segment according to the registry's last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SegmentState {
    /// The registry has not answered yet.
    #[default]
    Asked,
    Open,
    /// The registry has no segment with this name. The registry and this server have no record of an earlier segment
    /// with this name.
    Unknown,
    /// The segment was dropped.
    Dropped,
    /// The registry has granted numbers of this segment to this server, but no longer has the segment: commits were
    /// lost.
    Lost,
    /// The registry may have lost commits.
    Closed,
    Exhausted,
    /// Other transactions held the row for too long.
    Busy,
    /// The registry is still in an earlier period than this server.
    Ahead,
    /// The registry's answer or the server's request was invalid.
    Invalid,
    /// The registry limits the server's role to other segments.
    Denied,
}

impl SegmentState {
    /// Returns the name of the state as view `snowflake_segments` shows it.
    pub fn name(self) -> &'static str {
        match self {
            SegmentState::Asked => "asked",
            SegmentState::Open => "open",
            SegmentState::Unknown => "unknown",
            SegmentState::Dropped => "dropped",
            SegmentState::Lost => "lost",
            SegmentState::Closed => "closed",
            SegmentState::Exhausted => "exhausted",
            SegmentState::Busy => "busy",
            SegmentState::Ahead => "ahead",
            SegmentState::Invalid => "invalid",
            SegmentState::Denied => "permission denied",
        }
    }
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

    /// The name of an existing segment of which this name is probably a misspelling.
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
    /// Panics if the text exceeds [`LONGEST_NAME`].
    fn new(text: &str) -> Name {
        let mut name = Name { length: text.len() as u8, ..Name::default() };
        name.bytes[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length.into()]).unwrap_or_default()
    }
}
