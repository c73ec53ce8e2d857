#![doc = include_str!("../README.md")]
//!
//! | module | contents |
//! | --- | --- |
//! | [`field`], [`message`], [`error`] | names of fields, wording of messages, errors |
//! | [`time_scale`] | conversion between instants and ticks |
//! | [`layout`] | [`Layout`]: how the bits of an ID are divided; its text form, its JSON form, and the presets |
//! | [`identity`] | [`Identity`]: the server that creates the IDs |
//! | [`generator`] | [`Generator`]: the pure function that determines which values come next |
//! | [`slot_key`] | [`SlotKey`]: which layouts share a slot, and the arithmetic of a slot |
//! | [`slot`] | [`Slot`] and [`Gate`]: the atomics that processes share, and the fence |
//! | [`lease`] | [`Lease`]: the range of time in which a server may use an identity |
//! | [`lease_state`] | what a server knows of its leases, and its steps in the protocol with the registry |
//! | [`unwanted`] | [`Unwanted`](unwanted::Unwanted): the leased worker IDs that a server cannot use |
//! | [`failures`] | growing pauses between attempts that fail |
//! | [`hosts`] | [`Attempts`](hosts::Attempts): which host of a connection string is tried next, and how long an attempt may take |
//! | [`protocol`] | the protocol of requests to the registry |
//! | [`reply`] | a row of a registry's answer |
//! | [`portions`] | requests for segments, divided into portions of one statement each |
//! | [`lease_call`], [`number_call`] | the calls of the registry's functions |
//! | [`lease_answer`] | the registry's answers to requests for leases, parsed and checked |
//! | [`lease_round`] | [`LeaseRound`](lease_round::LeaseRound): the conversation with the registry about leases, without I/O |
//! | [`marks`] | [`Marks`]: the lowest IDs that a transaction in progress may have taken |
//! | [`watermark`] | the counter below which no transaction in progress has taken an ID |
//! | [`samples`] | which past watermarks are kept for statements that have already begun |
//! | [`segment`] | [`Segment`]: numbers in ranges, shared by processes |
//! | [`segment_answer`] | the registry's answers to requests for numbers, parsed and checked |
//! | [`had`], [`rest`] | the highest numbers that a server was granted; the numbers that are left when it stops |
//! | [`number_round`] | [`NumberRound`](number_round::NumberRound): the conversation with the registry about numbers, without I/O |
//! | [`signed`] | the tokens that registries have signed for numbers |
//! | [`segment_records`], [`journal`] | what a server stores about numbers, and the lines of the file |
//! | [`keeper_plan`] | the decisions of the keeper, which writes the durable horizon |
//! | [`track`] | [`Track`](track::Track): floor and horizon of one value of the clock sequence |
//! | [`used`] | [`Uses`](used::Uses): identities and values under which IDs may have been created |
//! | [`reset`] | whether a server may reset to the current time |
//! | [`clock_sequence`] | the value of field `clock_seq` after the clock is set back |
//! | [`clocks`] | [`SinceBoot`](clocks::SinceBoot), [`ClockOffset`](clocks::ClockOffset): the time since boot, and the offset of a clock from that time |
//! | [`clock_watch`] | [`ClockWatch`](clock_watch::ClockWatch): which steps of the clock are followed |
//! | [`range`] | the IDs that belong to a range of time |
//! | [`reader_sql`] | a script of plain SQL that reads the IDs of a layout |
//! | [`generator_sql`] | a script of SQL and PL/pgSQL that also generates IDs |
//! | [`guess`] | the presets that an ID may belong to |
//! | [`id_text`] | [`Encoding`]: IDs as text |
//! | [`mask`] | [`Mask`]: numbers that hide when the IDs were created |
//! | [`short_mask`] | [`ShortMask`]: masked numbers with few digits, or with the bits of a layout |
//! | [`public`] | public IDs: strings with a prefix, and UUIDs, with or without a key |

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod atomic;
pub mod clock_sequence;
pub mod clock_watch;
pub mod clocks;
pub mod error;
pub mod failures;
pub mod field;
pub mod generator;
pub mod generator_sql;
pub mod guess;
pub mod had;
pub mod hosts;
#[cfg(feature = "text")]
pub mod id_text;
pub mod identity;
pub mod journal;
pub mod keeper_plan;
pub mod layout;
pub mod lease;
pub mod lease_answer;
pub mod lease_call;
pub mod lease_round;
pub mod lease_state;
pub mod left;
pub mod marks;
#[cfg(feature = "masks")]
pub mod mask;
pub mod message;
pub mod number_call;
pub mod number_round;
pub mod portions;
pub mod protocol;
#[cfg(feature = "masks")]
pub mod public;
pub mod range;
pub mod reader_sql;
pub mod reply;
pub mod reset;
pub mod rest;
pub mod samples;
pub mod segment;
pub mod segment_answer;
pub mod segment_records;
#[cfg(feature = "masks")]
pub mod short_mask;
pub mod signed;
pub mod slot;
pub mod slot_key;
#[cfg(feature = "masks")]
mod subkey;
pub mod time_scale;
pub mod track;
pub mod unwanted;
pub mod used;
pub mod watermark;

pub use error::{LayoutError, RangeError};
pub use field::Field;
pub use generator::{Generator, Reservation, Stall};
#[cfg(feature = "text")]
pub use id_text::{Encoding, TextError};
pub use identity::Identity;
pub use layout::{Decoded, Layout, Parts};
pub use lease::Lease;
pub use marks::Marks;
#[cfg(feature = "masks")]
pub use mask::Mask;
pub use segment::Segment;
#[cfg(feature = "masks")]
pub use short_mask::ShortMask;
pub use slot::{Gate, Slot};
pub use slot_key::SlotKey;
