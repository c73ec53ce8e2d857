//! [`BoundedText`]: a short string in shared memory.

use snowflake_id_core::message::without_controls;

/// A string of at most 512 bytes, without control characters. A longer string is truncated at a character
/// boundary.
#[derive(Clone, Copy)]
pub struct BoundedText {
    bytes: [u8; BoundedText::CAPACITY],
    length: usize,
}

impl BoundedText {
    const CAPACITY: usize = 512;

    pub fn set(&mut self, text: &str) {
        let text = without_controls(&text[..text.floor_char_boundary(BoundedText::CAPACITY)]);
        self.length = text.len();
        self.bytes[..self.length].copy_from_slice(text.as_bytes());
    }

    /// Returns the string, or `None` if it is empty.
    pub fn text(&self) -> Option<String> {
        (self.length > 0).then(|| String::from_utf8_lossy(&self.bytes[..self.length]).into_owned())
    }
}

impl Default for BoundedText {
    fn default() -> BoundedText {
        BoundedText { bytes: [0; BoundedText::CAPACITY], length: 0 }
    }
}
