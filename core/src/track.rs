//! [`Track`]: what one value of the clock sequence has of its own.
//!
//! A server has track 0, for value 0, which layouts without the field have as well; and at most one more, for the value
//! that is in use since the clock was set back. The rules are the same for both:
//!
//! * A **horizon** is durable before it is published. IDs start before it, and after a start they begin at it.
//! * The next horizon is no lower than anything that is stored, was published or was handed out.
//! * Slots begin at the **floor**.
//!
//! All instants are microseconds of Unix time.

/// How many tracks a server has.
pub const TRACKS: usize = 2;

/// A value of the clock sequence with its horizon. It fits one word, so that nobody ever reads the value without its
/// horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Horizon {
    value: u8,
    until_us: i64,
}

impl Horizon {
    /// No horizon was ever stored, or there is no value but 0.
    pub const NONE: Horizon = Horizon { value: 0, until_us: 0 };
    const INSTANT_BITS: u32 = 55;
    /// Set in the word of every value but 0.
    const IS_OF_VALUE: u64 = 1 << 63;
    /// The highest horizon of such a value: in the year 3111. Beyond it there are no IDs with it.
    pub const LAST_US: i64 = (1 << Horizon::INSTANT_BITS) - 1;

    /// A value, and up to when it may be used.
    pub fn new(value: u8, until_us: i64) -> Horizon {
        let last_us = if value > 0 { Horizon::LAST_US } else { i64::MAX };
        Horizon { value, until_us: until_us.clamp(0, last_us) }
    }

    /// The value.
    pub fn value(&self) -> u8 {
        self.value
    }

    /// The horizon.
    pub fn until_us(&self) -> i64 {
        self.until_us
    }

    /// The horizon if it is that of this value, else 0.
    pub fn until_us_of(&self, value: u8) -> i64 {
        if self.value == value { self.until_us } else { 0 }
    }

    /// In one word; 0 for none.
    pub fn to_word(&self) -> u64 {
        match self.value {
            0 => self.until_us as u64,
            value => Horizon::IS_OF_VALUE | u64::from(value) << Horizon::INSTANT_BITS | self.until_us as u64,
        }
    }

    /// What [`Horizon::to_word`] made a word of. A word that it cannot have made is none.
    pub fn from_word(word: u64) -> Horizon {
        let value = (word >> Horizon::INSTANT_BITS) as u8;
        match word & Horizon::IS_OF_VALUE {
            0 => Horizon { value: 0, until_us: word as i64 },
            _ if value == 0 => Horizon::NONE,
            _ => Horizon { value, until_us: word as i64 & Horizon::LAST_US },
        }
    }
}

/// The value of a track, and where slots begin that have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Begun {
    /// The value; on the second track 0 if there is none.
    pub value: u8,
    /// Where slots begin.
    pub floor_us: i64,
}

/// What the keeper sees of a track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Track {
    /// The value, and where its slots begin, once the keeper has found that out.
    pub begun: Option<Begun>,
    /// What is stored.
    pub stored: Horizon,
    /// What was published last.
    pub published: Horizon,
    /// The value that was opened, or was about to be opened, last, and the highest horizon of it that may have been stored
    /// since everything began anew last.
    pub promised: Horizon,
    /// The end of what was handed out, over all slots.
    pub end_of_use_us: i64,
}

impl Begun {
    /// There is no second track.
    pub const NONE: Begun = Begun { value: 0, floor_us: 0 };
}

impl Track {
    /// Whether what is stored is not what this server stored. (A value that was promised, but never published, was about
    /// to be opened.)
    pub fn is_changed(&self) -> bool {
        let Track { stored, published, promised, .. } = self;
        let is_promised = stored.value == promised.value;
        if *published == Horizon::NONE {
            self.begun.is_some_and(|begun| stored.value != begun.value && !is_promised)
        } else if published.value == stored.value {
            stored.until_us < published.until_us
        } else {
            !is_promised || promised.value == published.value
        }
    }

    /// Whether nothing is known of its past, as on a new server. A promise that was not kept says nothing of that.
    pub fn is_unknown(&self) -> bool {
        [self.stored, self.published] == [Horizon::NONE; 2]
    }

    /// The value, and where its slots begin; at a start that is found here.
    pub fn begun(&self, is_lost: bool) -> Begun {
        self.begun.unwrap_or_else(|| {
            let from = if is_lost { self.promised } else { self.stored };
            // A fence publishes the floor, which need not have been promised.
            let known = [self.stored, self.published].map(|known| known.until_us_of(from.value));
            Begun { value: from.value, floor_us: known.into_iter().fold(from.until_us, i64::max) }
        })
    }

    /// Up to where this server itself may have used it. (The promise alone does not say that: another value may have been
    /// promised since, and not opened.)
    pub fn used_us(&self, begun: Begun) -> i64 {
        let known = [self.published, self.promised].map(|known| known.until_us_of(begun.value));
        known.into_iter().fold(begun.floor_us, i64::max)
    }

    /// What everything that is known says of where the horizon has to be at least.
    pub fn known_us(&self, begun: Begun) -> i64 {
        self.used_us(begun).max(self.end_of_use_us).max(self.stored.until_us_of(begun.value))
    }
}
