//! The tests of the core, in one program, because linking takes longer than compiling. Those for loom have programs of
//! their own.
#![cfg(not(loom))]

mod clock_sequence;
mod clock_sequence_ids;
mod clock_watch;
mod generator;
mod guess;
mod hosts;
mod id_text;
mod keeper_plan;
mod layout;
mod lease_answer;
mod lease_plan;
mod lease_round;
mod lease_state;
mod left;
mod mask;
mod number_round;
mod properties;
mod public;
mod random_runs;
mod range;
mod samples;
mod segment;
mod segment_records;
mod servers;
mod short_mask;
mod slot_key;
mod strategies;
mod threads;
mod watermark;
