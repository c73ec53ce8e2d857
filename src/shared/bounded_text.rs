//! [`BoundedText`]: a short text in shared memory.

/// A text of at most 512 bytes. A longer text is truncated at a character boundary. ASCII control characters become spaces:
/// the text may come from a registry, and is shown in logs and on terminals.
#[derive(Clone, Copy)]
pub struct BoundedText {
    bytes: [u8; BoundedText::CAPACITY],
    length: usize,
}

impl BoundedText {
    const CAPACITY: usize = 512;

    pub fn set(&mut self, text: &str) {
        self.length = text.floor_char_boundary(BoundedText::CAPACITY);
        for (byte, &from) in self.bytes.iter_mut().zip(&text.as_bytes()[..self.length]) {
            *byte = if from.is_ascii_control() { b' ' } else { from };
        }
    }

    /// Returns the text, or `None` if the text is empty.
    pub fn text(&self) -> Option<String> {
        (self.length > 0).then(|| String::from_utf8_lossy(&self.bytes[..self.length]).into_owned())
    }
}

impl Default for BoundedText {
    fn default() -> BoundedText {
        BoundedText { bytes: [0; BoundedText::CAPACITY], length: 0 }
    }
}
