//! IDs in the digits of an alphabet, the most significant first, and what can be wrong with such a text.

/// What is wrong with a text. Positions are those of a character in the text, the first of which has position
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has no digits.
    Empty,
    /// The character at this position is no digit of the encoding; or it is the last one of `base64url` and
    /// has bits for which there is no room.
    Character(usize),
    /// It ends after the character at this position.
    TooShort(usize),
    /// The character at this position is the first that is too many.
    TooLong(usize),
    /// The largest ID is smaller, as can be seen from the character at this position on.
    TooLarge(usize),
}

/// The digits of a number, in order, and the characters that are read as these.
///
/// No crate does this in a text of fixed width. data-encoding writes whole bytes, and base62 does not pad.
/// lexical-core, for radices up to 36, does not pad either, and reads signs. bs58 is made for strings of
/// bytes: it takes leading zeros for bytes, does not pad, and takes several times as long.
///
/// The radix is a constant, so that the compiler turns divisions by it into multiplications.
pub struct Alphabet<const RADIX: usize> {
    /// The digits that are written.
    digits: [u8; RADIX],
    /// What each character is worth when it is read, or [`NO_DIGIT`], or [`IGNORED`].
    values: [u8; 256],
}

const NO_DIGIT: u8 = 255;
const IGNORED: u8 = 254;

impl<const RADIX: usize> Alphabet<RADIX> {
    /// Writes and reads these digits.
    pub const fn new(digits: &[u8; RADIX]) -> Alphabet<RADIX> {
        Alphabet { digits: *digits, values: [NO_DIGIT; 256] }.reading(digits)
    }

    /// Reads these characters too, as 0, 1, 2 and so on.
    pub const fn reading(mut self, characters: &[u8]) -> Alphabet<RADIX> {
        let mut value = 0;
        while value < characters.len() {
            self.values[characters[value] as usize] = value as u8;
            value += 1;
        }
        self
    }

    /// Reads over this character, wherever it stands.
    pub const fn ignoring(mut self, character: u8) -> Alphabet<RADIX> {
        self.values[character as usize] = IGNORED;
        self
    }

    /// Fills a text with the last digits of a number.
    #[inline]
    pub fn encode(&self, mut number: u64, text: &mut [u8]) {
        for digit in text.iter_mut().rev() {
            *digit = self.digits[(number % RADIX as u64) as usize];
            number /= RADIX as u64;
        }
    }

    /// The ID that a text denotes. The width is how many digits the largest ID has: the text has no more.
    #[inline]
    pub fn decode(&self, text: &[u8], width: usize) -> Result<i64, Fault> {
        let mut number: u64 = 0;
        let mut count = 0;
        // The first fault from the left is the one to report. All that stands before it is ASCII, so that
        // bytes are characters.
        for (index, character) in text.iter().enumerate() {
            match self.values[usize::from(*character)] {
                IGNORED => continue,
                _ if count == width => return Err(Fault::TooLong(index + 1)),
                NO_DIGIT => return Err(Fault::Character(index + 1)),
                // Only the last digit can saturate it.
                value => number = number.saturating_mul(RADIX as u64).saturating_add(value.into()),
            }
            count += 1;
        }
        if count == 0 {
            return Err(Fault::Empty);
        }
        i64::try_from(number).map_err(|_| Fault::TooLarge(self.first_too_large(text, width)))
    }

    /// The position of the digit with which a number of full width passes the largest ID, whatever follows.
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
