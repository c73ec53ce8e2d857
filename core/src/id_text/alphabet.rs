//! Encodes IDs with the digits of an alphabet, most significant digit first, and detects invalid texts.

/// The error in a text. Positions are counted in characters, starting with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text has no digits.
    Empty,
    /// The character at this position is not valid in the encoding. In base64url, the last character is also
    /// invalid if it sets bits beyond the 64 bits of an ID.
    Character(usize),
    /// The text is too short and ends after the character at this position.
    TooShort(usize),
    /// The text is too long, and the character at this position is the first extra character.
    TooLong(usize),
    /// The number exceeds the largest ID. The character at this position is the first one that makes it too
    /// large.
    TooLarge(usize),
}

/// The digits of an encoding, in ascending order, and the characters that are accepted for each digit.
///
/// No existing crate reads and writes numbers of a fixed width. data-encoding writes whole bytes, and base62
/// does not pad. lexical-core supports radices up to 36, does not pad, and accepts signs. bs58 is made for
/// byte strings. It treats leading zeros as bytes, does not pad, and is several times slower.
///
/// The radix is a constant, so the compiler turns divisions by it into multiplications.
pub struct Alphabet<const RADIX: usize> {
    /// The digits for encoding.
    digits: [u8; RADIX],
    /// The value of each character: a digit, [`NO_DIGIT`] or [`IGNORED`].
    values: [u8; 256],
}

const NO_DIGIT: u8 = 255;
const IGNORED: u8 = 254;

impl<const RADIX: usize> Alphabet<RADIX> {
    /// Creates an alphabet that writes and reads these digits.
    pub const fn new(digits: &[u8; RADIX]) -> Alphabet<RADIX> {
        Alphabet { digits: *digits, values: [NO_DIGIT; 256] }.reading(digits)
    }

    /// Accepts alternative characters for the digits 0, 1, 2 and so on.
    pub const fn reading(mut self, characters: &[u8]) -> Alphabet<RADIX> {
        let mut value = 0;
        while value < characters.len() {
            self.values[characters[value] as usize] = value as u8;
            value += 1;
        }
        self
    }

    /// Makes the decoder ignore a character at any position.
    pub const fn ignoring(mut self, character: u8) -> Alphabet<RADIX> {
        self.values[character as usize] = IGNORED;
        self
    }

    /// Fills the buffer `text` with the least significant digits of a number.
    #[inline]
    pub fn encode(&self, mut number: u64, text: &mut [u8]) {
        for digit in text.iter_mut().rev() {
            *digit = self.digits[(number % RADIX as u64) as usize];
            number /= RADIX as u64;
        }
    }

    /// Decodes a text and returns the number. The parameter `width` is the maximum number of digits, and is
    /// not greater than the number of digits of the largest ID.
    #[inline]
    pub fn decode(&self, text: &[u8], width: usize) -> Result<i64, Fault> {
        let mut number: u64 = 0;
        let mut count = 0;
        // The leftmost fault is reported. All characters before the fault are ASCII, so the byte position of
        // the fault is also its character position.
        for (index, character) in text.iter().enumerate() {
            match self.values[usize::from(*character)] {
                IGNORED => continue,
                _ if count == width => return Err(Fault::TooLong(index + 1)),
                NO_DIGIT => return Err(Fault::Character(index + 1)),
                // Only the last digit can saturate the number.
                value => number = number.saturating_mul(RADIX as u64).saturating_add(value.into()),
            }
            count += 1;
        }
        if count == 0 {
            return Err(Fault::Empty);
        }
        i64::try_from(number).map_err(|_| Fault::TooLarge(self.first_too_large(text, width)))
    }

    /// Returns the position of the first digit at which a number of full width exceeds the largest ID.
    #[cold]
    fn first_too_large(&self, text: &[u8], width: usize) -> usize {
        let mut place = (RADIX as u128).pow(width as u32);
        let mut number = 0;
        let passes = |character: &u8| {
            let value = self.values[usize::from(*character)];
            if value != IGNORED {
                place /= RADIX as u128;
                number += place * u128::from(value);
            }
            number > i64::MAX as u128
        };
        1 + text.iter().position(passes).expect("bug: the number is not too large")
    }
}
