//! [`Track`] is the state of one value of the clock sequence. Each value in use has its own track.
//!
//! Every server has track 0 for value 0, which is also the value of layouts without the field. After the
//! clock is set back, a server can have a second track for the value that it has used since then. Both tracks
//! follow the same rules:
//!
//! * A **horizon** is durable before it is published. All ticks used in IDs start before the horizon. After a
//!   start of the server, IDs continue at the horizon.
//! * The next horizon is never lower than a horizon that was stored or published, or than the time of any
//!   issued ID.
//! * Slots start at the **floor**.
//!
//! All instants are microseconds of Unix time.

/// The maximum number of tracks on a server.
pub const TRACKS: usize = 2;

/// A value of the clock sequence with its horizon. The value and the horizon are stored in one word, so a
/// process always reads both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Horizon {
    value: u8,
    until_us: i64,
}

impl Horizon {
    /// The horizon of a track without a value or without a stored horizon.
    pub const NONE: Horizon = Horizon { value: 0, until_us: 0 };
    const INSTANT_BITS: u32 = 55;
    /// The bit that is set in the word of a horizon whose value is not 0.
    const IS_OF_VALUE: u64 = 1 << 63;
    /// The highest horizon of a value other than 0, in the year 3111. IDs with a value other than 0 cannot
    /// have later times.
    pub const LAST_US: i64 = (1 << Horizon::INSTANT_BITS) - 1;

    /// Creates the horizon of a value. An instant outside the valid range is replaced by the nearest valid
    /// instant.
    pub fn new(value: u8, until_us: i64) -> Horizon {
        let last_us = if value > 0 { Horizon::LAST_US } else { i64::MAX };
        Horizon { value, until_us: until_us.clamp(0, last_us) }
    }

    /// Returns the value.
    pub fn value(&self) -> u8 {
        self.value
    }

    /// Returns the instant up to which the value may be used.
    pub fn until_us(&self) -> i64 {
        self.until_us
    }

    /// Returns the horizon as an instant if the horizon belongs to the given value, and 0 otherwise.
    pub fn until_us_of(&self, value: u8) -> i64 {
        if self.value == value { self.until_us } else { 0 }
    }

    /// Encodes the value and its horizon in one word. The word of [`Horizon::NONE`] is 0.
    pub fn to_word(&self) -> u64 {
        match self.value {
            0 => self.until_us as u64,
            value => Horizon::IS_OF_VALUE | u64::from(value) << Horizon::INSTANT_BITS | self.until_us as u64,
        }
    }

    /// Decodes a word that [`Horizon::to_word`] returned. Returns [`Horizon::NONE`] if the word is invalid.
    pub fn from_word(word: u64) -> Horizon {
        let value = (word >> Horizon::INSTANT_BITS) as u8;
        match word & Horizon::IS_OF_VALUE {
            0 => Horizon { value: 0, until_us: word as i64 },
            _ if value == 0 => Horizon::NONE,
            _ => Horizon { value, until_us: word as i64 & Horizon::LAST_US },
        }
    }
}

/// The value of a track and the floor of its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Begun {
    /// The value. For the second track, 0 means that the track has no value.
    pub value: u8,
    /// The floor, which is the instant at which slots with this value start.
    pub floor_us: i64,
}

/// The state of a track, as the keeper sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Track {
    /// The value and the floor of the track, or `None` if the keeper has not determined them yet.
    pub begun: Option<Begun>,
    /// The stored horizon.
    pub stored: Horizon,
    /// The horizon that was last published.
    pub published: Horizon,
    /// The value that was promised last, with the highest horizon that may have been stored for this value
    /// since the last reset.
    pub promised: Horizon,
    /// The high-water mark of the issued IDs, over all slots.
    pub end_of_use_us: i64,
}

impl Begun {
    /// The value and the floor of the second track of a server that has only one track.
    pub const NONE: Begun = Begun { value: 0, floor_us: 0 };
}

impl Track {
    /// Returns whether the stored horizon differs from the horizon that this server stored. A horizon that
    /// was promised but never published does not count as a difference, because this server may have stored
    /// that horizon.
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

    /// Returns whether the history of the track is unknown, as on a new server. The history remains unknown
    /// if a horizon was promised but never published.
    pub fn is_unknown(&self) -> bool {
        [self.stored, self.published] == [Horizon::NONE; 2]
    }

    /// Returns the value and the floor of the track. After a server start, this function determines both.
    pub fn begun(&self, is_lost: bool) -> Begun {
        self.begun.unwrap_or_else(|| {
            let from = if is_lost { self.promised } else { self.stored };
            // A published horizon may be higher than the promised one, because a fence publishes the floor.
            let known = [self.stored, self.published].map(|known| known.until_us_of(from.value));
            Begun { value: from.value, floor_us: known.into_iter().fold(from.until_us, i64::max) }
        })
    }

    /// Returns the latest instant at which this server itself may have used the value. (The promised horizon
    /// alone does not determine this instant, because another value may have been promised later and never
    /// opened.)
    pub fn used_us(&self, begun: Begun) -> i64 {
        let known = [self.published, self.promised].map(|known| known.until_us_of(begun.value));
        known.into_iter().fold(begun.floor_us, i64::max)
    }

    /// Returns the lowest allowed horizon, based on all known horizons and on the issued IDs.
    pub fn known_us(&self, begun: Begun) -> i64 {
        self.used_us(begun).max(self.end_of_use_us).max(self.stored.until_us_of(begun.value))
    }
}
