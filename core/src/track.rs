//! [`Track`] is the state of one value of the clock sequence. Each value in use has its own track.
//!
//! Every server has track 0 for value 0, which is also the value of layouts without the field. After the
//! clock is set back, a server can have a second track for the value in use since then. Both tracks follow
//! the same rules:
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

/// A value of the clock sequence with its horizon. They are stored in one word, so a process always reads a
/// value together with its horizon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Horizon {
    value: u8,
    until_us: i64,
}

impl Horizon {
    /// The horizon of a track that has no value, or for which no horizon was ever stored.
    pub const NONE: Horizon = Horizon { value: 0, until_us: 0 };
    const INSTANT_BITS: u32 = 55;
    /// A bit that is set in the word of every value other than 0.
    const IS_OF_VALUE: u64 = 1 << 63;
    /// The highest horizon of a value other than 0, in the year 3111. IDs with such a value cannot have later
    /// times.
    pub const LAST_US: i64 = (1 << Horizon::INSTANT_BITS) - 1;

    /// Creates the horizon of a value. An instant outside the valid range is clamped to it.
    pub fn new(value: u8, until_us: i64) -> Horizon {
        let last_us = if value > 0 { Horizon::LAST_US } else { i64::MAX };
        Horizon { value, until_us: until_us.clamp(0, last_us) }
    }

    /// The value.
    pub fn value(&self) -> u8 {
        self.value
    }

    /// The instant up to which the value may be used.
    pub fn until_us(&self) -> i64 {
        self.until_us
    }

    /// Returns the horizon as an instant, or 0 if the horizon belongs to another value.
    pub fn until_us_of(&self, value: u8) -> i64 {
        if self.value == value { self.until_us } else { 0 }
    }

    /// Returns the value and its horizon in one word; 0 for [`Horizon::NONE`].
    pub fn to_word(&self) -> u64 {
        match self.value {
            0 => self.until_us as u64,
            value => Horizon::IS_OF_VALUE | u64::from(value) << Horizon::INSTANT_BITS | self.until_us as u64,
        }
    }

    /// Returns the horizon that [`Horizon::to_word`] encoded in a word. The result is [`Horizon::NONE`] for a
    /// word that `to_word` cannot return.
    pub fn from_word(word: u64) -> Horizon {
        let value = (word >> Horizon::INSTANT_BITS) as u8;
        match word & Horizon::IS_OF_VALUE {
            0 => Horizon { value: 0, until_us: word as i64 },
            _ if value == 0 => Horizon::NONE,
            _ => Horizon { value, until_us: word as i64 & Horizon::LAST_US },
        }
    }
}

/// The value of a track, and the instant at which slots with this value start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Begun {
    /// The value. For the second track, 0 means that the track has no value.
    pub value: u8,
    /// The instant at which slots start.
    pub floor_us: i64,
}

/// The state of a track, as the keeper sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Track {
    /// The value and the instant at which its slots start, or `None` until the keeper has determined them.
    pub begun: Option<Begun>,
    /// The stored horizon.
    pub stored: Horizon,
    /// The horizon that was last published.
    pub published: Horizon,
    /// The value that was last opened or about to be opened. Its horizon is the highest one that may have
    /// been stored for this value since the last reset.
    pub promised: Horizon,
    /// The high-water mark of the issued IDs, over all slots.
    pub end_of_use_us: i64,
}

impl Begun {
    /// There is no second track.
    pub const NONE: Begun = Begun { value: 0, floor_us: 0 };
}

impl Track {
    /// Returns whether the stored horizon differs from the one that this server stored. The horizon of a
    /// value that was promised but never published is not a difference, because the server was about to open
    /// that value.
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

    /// Returns whether the history of the track is unknown, as on a new server. A promise that was never
    /// fulfilled does not make the history known.
    pub fn is_unknown(&self) -> bool {
        [self.stored, self.published] == [Horizon::NONE; 2]
    }

    /// Returns the value and the instant at which its slots start. After a start of the server, this function
    /// determines both.
    pub fn begun(&self, is_lost: bool) -> Begun {
        self.begun.unwrap_or_else(|| {
            let from = if is_lost { self.promised } else { self.stored };
            // A published horizon may be higher than the promised one, because a fence publishes the floor.
            let known = [self.stored, self.published].map(|known| known.until_us_of(from.value));
            Begun { value: from.value, floor_us: known.into_iter().fold(from.until_us, i64::max) }
        })
    }

    /// Returns the instant up to which this server itself may have used the value. (The promise alone is not
    /// sufficient, because another value may have been promised since then without being opened.)
    pub fn used_us(&self, begun: Begun) -> i64 {
        let known = [self.published, self.promised].map(|known| known.until_us_of(begun.value));
        known.into_iter().fold(begun.floor_us, i64::max)
    }

    /// Returns the lowest horizon that is allowed, given everything that is known.
    pub fn known_us(&self, begun: Begun) -> i64 {
        self.used_us(begun).max(self.end_of_use_us).max(self.stored.until_us_of(begun.value))
    }
}
