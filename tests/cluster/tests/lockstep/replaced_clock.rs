//! The registry's script with clocks that a test sets. Everything that the script reads from outside is replaced in its text:
//! the clock, the start of the server, the timeline, and the names of requests. At each lock, the clock moves by a step. The
//! registry also knows more protocols, which differ only in their numbers.

use std::fs;
use std::ops::RangeInclusive;

use harness::Run;
use postgres::Client;

/// The protocols of the registry whose script has replaced clocks.
pub const PROTOCOLS: RangeInclusive<u32> = 1..=3;

/// What is replaced, how often it occurs in the script, and the replacement. If the script reads a clock at another place,
/// the stand-in has to read its clock there as well.
const REPLACED: [(&str, usize, &str); 9] = [
    // Before PostgreSQL 17, a call whose session has pruned pages of catalogs gets no token.
    ("coalesce(durable >= seen, true)", 1, "true"),
    // It only tells a clock that stands still.
    ("timeofday()", 2, "gen_random_uuid()::text"),
    ("clock_timestamp()", 34, "lockstep.clock()"),
    ("statement_timestamp()", 10, "lockstep.begun()"),
    ("pg_postmaster_start_time()", 8, "lockstep.started()"),
    (
        "('x' || left(pg_walfile_name(snowflake_registry.wal_position()), 8))::bit(32)::int",
        1,
        "current_setting('lockstep.timeline')::int",
    ),
    ("left(gen_random_uuid()::text, 8)", 1, "current_setting('lockstep.request')"),
    ("RETURN (1, 1);", 1, "RETURN (1, 3);"),
    (
        "LOCK TABLE snowflake_registry.settings IN",
        4,
        "PERFORM lockstep.wait(); LOCK TABLE snowflake_registry.settings IN",
    ),
];

/// Other functions that read a clock. The script must not contain them.
const OTHER_CLOCKS: [&str; 8] = [
    "now()",
    "'now'",
    "current_time",
    "localtime",
    "_timestamp()",
    "current_date",
    "timeofday(",
    "pg_conf_load_time(",
];

/// What the replacements call. `begun` is the time at which the call was sent.
const CLOCKS: &str = "
    CREATE SCHEMA lockstep;
    CREATE FUNCTION lockstep.instant(us bigint) RETURNS timestamptz IMMUTABLE LANGUAGE sql
    RETURN timestamptz '1970-01-01 00:00:00+00' + us * interval '1 microsecond';
    CREATE FUNCTION lockstep.clock() RETURNS timestamptz VOLATILE LANGUAGE sql
    RETURN lockstep.instant(current_setting('lockstep.clock')::bigint);
    CREATE FUNCTION lockstep.begun() RETURNS timestamptz STABLE LANGUAGE sql
    RETURN lockstep.instant(current_setting('lockstep.begun')::bigint);
    CREATE FUNCTION lockstep.started() RETURNS timestamptz STABLE LANGUAGE sql
    RETURN lockstep.instant(current_setting('lockstep.started')::bigint);
    CREATE FUNCTION lockstep.wait() RETURNS void VOLATILE LANGUAGE plpgsql SET search_path = pg_catalog AS $$
    BEGIN
        PERFORM set_config('lockstep.clock', (current_setting('lockstep.clock')::bigint
                                              + current_setting('lockstep.step')::bigint)::text, false),
                set_config('lockstep.step', '0', false);
    END
    $$;
    SET lockstep.clock = '0';
    SET lockstep.begun = '0';
    SET lockstep.started = '0';
    SET lockstep.timeline = '1';
    SET lockstep.step = '0';
    SET lockstep.request = '';";

/// The registry's script of the present version.
pub fn script() -> String {
    let path = format!(
        "{}/../../sql/registry/snowflake_id_registry--{}.sql",
        env!("CARGO_MANIFEST_DIR"),
        env!("CARGO_PKG_VERSION")
    );
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The script with replaced clocks.
pub fn with_replaced_clocks(script: &str) -> String {
    let mut replaced = script.to_owned();
    for (text, count, by) in REPLACED {
        let found = replaced.matches(text).count();
        assert_eq!(
            found, count,
            "{text} in the registry's script: change the stand-in as well, then this number"
        );
        replaced = replaced.replace(text, by);
    }
    let lower = replaced.to_lowercase();
    for clock in OTHER_CLOCKS {
        assert!(!lower.contains(clock), "the registry's script calls {clock}");
    }
    replaced
}

/// Creates the registry in an empty database.
pub fn install(client: &mut Client, script: &str) {
    client.run(CLOCKS);
    client.run(&with_replaced_clocks(script));
}

/// Each call of a clock is one that the lockstep test replaces.
#[test]
fn all_clocks_are_replaced() {
    with_replaced_clocks(&script());
}
