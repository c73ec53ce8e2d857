//! Tests on real servers, all in one program. The names of folder and file say what a test is about.
//!
//! Tests in `alone` have time limits that a busy machine would exceed. scripts/test.sh runs them separately, one after
//! the other.

extern crate snowflake_id_cluster_tests as harness;

mod alone {
    mod segments;
    mod watermark;
}
mod book {
    mod changing_keys;
    mod clients;
    mod contents;
    mod kubernetes;
    pub mod messages;
    mod monitoring;
    mod other_generators;
    mod other_ways_of_reading;
    mod pages;
    mod pglogical;
    mod prose;
    mod reading_beside_changes;
    pub mod reading_in_order;
    mod reading_on_other_servers;
    mod reference;
    pub mod several_writers;
    mod switching_servers;
    mod two_servers;
    mod when_it_fails;
    mod without_the_library;
    mod writing_a_client;
}
mod check {
    mod hostile;
    mod registry;
    mod server;
    mod standby;
    mod tables;
}
mod client {
    mod clocks;
    mod hostile;
    mod hosts;
    mod leases;
    mod many;
    mod numbers;
    mod numbers_over_http;
    pub mod program;
}
mod clock_sequence {
    mod history;
    mod many_steps;
    mod steps;
    pub mod values;
}
mod fleet {
    mod accidents;
    mod citus;
    pub mod clocks;
    pub mod connecting;
    mod copies;
    mod corners;
    mod dropped_registry;
    mod encodings;
    mod failover;
    mod forgetful;
    mod hands;
    pub mod hostile_registry;
    mod lease_file;
    mod leases;
    mod moves;
    mod network;
    mod nonsense;
    mod patroni;
    mod points_in_time;
    mod registry_worker;
    mod second_host;
    mod slow_commits;
    mod stops;
    mod storm;
    mod subscribers;
    mod tar_pit;
    mod warnings;
    mod wrong_clocks;
}
mod fuzz {
    mod arguments;
    mod connection_strings;
    mod facts_and_requests;
    mod files;
    mod replies;
}
mod hostile {
    mod database;
    mod owner;
    mod registry_schema;
    mod tables;
}
mod horizon {
    mod accidents;
    mod durability;
    mod faults;
    mod floor;
    mod home_database;
    mod keeper;
    mod leap_second;
    mod lost_history;
    pub mod max_wait;
    mod overwritten;
    mod replication;
    mod requests;
    mod reset;
    mod restarts;
    mod restored;
    pub mod stakes;
}
mod ids {
    mod backtraces;
    mod copy;
    mod generator_script;
    mod layouts;
    mod memory;
    mod preload;
    mod statistics;
    mod uniqueness;
    mod waiting;
}
mod lockstep;
mod registry {
    mod adding_servers;
    mod another_registry;
    mod durable;
    pub mod forgets;
    mod freeze;
    mod guards;
    mod installing;
    mod leases;
    mod lost_grants;
    mod lost_ranges;
    mod member;
    mod pool;
    mod prepared;
    mod privileges;
    mod release;
    mod requests;
    mod segments;
    mod segments_by_date;
    mod starting;
    mod taker;
    mod two_histories;
    mod vouched_for;
    mod waits;
}
mod second_tries;
mod segments {
    mod accidents;
    mod bad_names;
    mod buffer;
    mod by_date;
    mod locations;
    mod many_names;
    mod noted;
    mod numbers;
    mod places;
    mod privileges;
    mod registries;
    mod rest;
}
mod tables {
    mod adopt;
    mod adopt_layout;
    mod dump;
    mod names;
    mod online_catalogs;
    mod online_faults;
    mod partitions;
    mod partman;
    mod random_schemas;
    mod storms;
    mod uuid_rows;
}
mod versions {
    mod builds;
    mod files;
    mod frozen;
    mod protocols;
    mod relations;
    mod rolling;
    mod since_19;
    mod updates;
}
mod watermark {
    mod accidents;
    mod apply_worker;
    pub mod consumers;
    mod events;
    mod identity;
    pub mod in_order;
    mod parallel;
    mod prepared;
    mod readers;
    mod resets;
    mod standby;
    mod status;
    pub mod writers;
}
