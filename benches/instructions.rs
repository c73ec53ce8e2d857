//! Counts the instructions of one ID with Valgrind, and compares the counts with `benches/instructions.txt`:
//! those of a step of the core, and those of calls of `snowflake_nextval()` and `snowflake_segment_nextval()` in a server.
//! Unlike times, the counts are the same in each run.
//!
//!     instructions            fails if a count is higher than in the file
//!     instructions --record   writes the file
//!     instructions steps IDS CLOCK_STEP_US        takes IDs from the core alone, to be counted

use std::fs;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use snowflake_id_cluster_tests::faults::{Paused, keeper_pid};
use snowflake_id_cluster_tests::{Cluster, Run, eventually, single, successful};
use snowflake_id_core::{Gate, Generator, Identity, Slot};

const IDS: i64 = 100;
/// The length of a tick of layout "wide", in microseconds.
const TICK_US: i64 = 1_000;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["steps", ids, step_us] => take_steps(ids.parse().unwrap(), step_us.parse().unwrap()),
        ["--record"] => fs::write(file(), count()).unwrap(),
        [] => return compare(&fs::read_to_string(file()).unwrap(), &count()),
        _ => panic!("usage: instructions [--record]"),
    }
    ExitCode::SUCCESS
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.txt")
}

/// Takes IDs, with a clock that moves by `step_us` microseconds before each ID.
fn take_steps(ids: i64, step_us: i64) {
    const ME: Identity = Identity { datacenter: 0, worker: 1 };
    let (gate, slot) = (Gate::default(), Slot::new(0, u64::MAX));
    let generator = Generator::new("wide".parse().unwrap(), ME, 1_000_000, 0).unwrap();
    gate.open(ME);
    let mut now_us = generator.layout().epoch_us();
    let (gate, slot, generator) = black_box((&gate, &slot, &generator));
    for _ in 0..ids {
        now_us += step_us;
        let reservation = slot.reserve(gate, generator, || black_box(now_us), NonZeroU64::MIN);
        black_box(generator.first_id(reservation.expect("bug: the horizon is out of reach")));
    }
}

/// Counts the instructions, and returns the contents of the file.
fn count() -> String {
    let steps = |step_us| of_one(count_steps(2 * IDS, step_us) - count_steps(IDS, step_us));
    let [call_in_same_tick, call_in_new_tick, segment_call] = count_calls();
    let rustc = String::from_utf8(successful(Command::new("rustc").arg("-vV")).stdout).unwrap();
    let mut lines = rustc.lines();
    let (compiler, host) =
        (lines.next().unwrap(), lines.find_map(|line| line.strip_prefix("host: ")).unwrap());
    format!(
        "# The instructions of one ID in layout \"wide\", without those of the clock. \"make instructions RECORD=1\" writes this file.\n\
         # A step of the core, and a call of snowflake_nextval(); within the tick of the ID before it, and in a new tick.\n\
         # A call of snowflake_segment_nextval() takes a number that the server holds.\n\
         # Compiled by {compiler} for {host}, with the release profile.\n\
         step_in_same_tick {}\nstep_in_new_tick {}\ncall_in_same_tick {call_in_same_tick}\ncall_in_new_tick {call_in_new_tick}\n\
         segment_call {segment_call}\n",
        steps(0),
        steps(TICK_US)
    )
}

/// Returns the instructions of one ID, given those of all IDs.
fn of_one(instructions: i64) -> i64 {
    assert_eq!(instructions % IDS, 0, "{instructions} instructions for {IDS} IDs: they took different paths");
    instructions / IDS
}

/// Returns the instructions of this program when it takes `ids` IDs. Its startup and exit take the same
/// number of instructions for any number of IDs.
fn count_steps(ids: i64, step_us: i64) -> i64 {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap());
    let output = successful(valgrind.arg("steps").args([ids, step_us].map(|number| number.to_string())));
    let said = String::from_utf8(output.stderr).unwrap();
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    collected.expect("a count").1.trim().parse().unwrap()
}

/// Returns the instructions of a call within the tick of the previous ID, of a call in a new tick, and of a call that takes
/// a number of a segment.
fn count_calls() -> [i64; 3] {
    let server = Cluster::builder()
        .worker(1)
        .set("snowflake_id.layout", "wide")
        .set("snowflake_id.prefetch_segments", "bench")
        .clock()
        .start();
    server.connect().run("CREATE EXTENSION snowflake_id_registry");
    server.connect().run("SELECT snowflake_registry.create_segment('bench', min_step => 1000000)");
    // Everything is slow under Valgrind, so the server is prepared without it.
    server.stop_server("fast");
    let profiles = server.host().join("callgrind");
    // Counts within these functions, and resets the count at each call of pg_backend_pid().
    let mut valgrind = server.spawn_under(&[
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        &format!("--callgrind-out-file={}.%p", profiles.display()),
        "--toggle-collect=snowflake_nextval",
        "--toggle-collect=snowflake_segment_nextval",
        "--zero-before=pg_backend_pid",
    ]);
    server.wait_until_up();
    eventually("a number", || server.try_run("SELECT snowflake_segment_nextval('bench')"));
    // The first ID may be ahead of the clock.
    let begin = "SELECT pg_sleep_until(snowflake_timestamp(snowflake_nextval()))";
    eventually("an ID", || server.try_run(begin));
    // A call that finds a new horizon executes more instructions, so the keeper must not move the horizon.
    let keeper = keeper_pid(&mut server.connect());
    let counts = {
        // Two sessions under Valgrind may take longer than the time for which other tests pause processes.
        let _paused = Paused::at_most(Duration::from_secs(600), vec![keeper]);
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
        let ids = [(0, 1), (TICK_US, IDS)].map(|(step_us, ticks)| {
            server.hold_clock(now_us, step_us);
            // The number of ticks shows which path the calls took.
            let query = "SELECT count(DISTINCT snowflake_timestamp(snowflake_nextval()))";
            count_call(&server, &profiles, "snowflake_nextval()", query, ticks)
        });
        let call = "snowflake_segment_nextval('bench')";
        let numbers = count_call(&server, &profiles, call, &format!("SELECT count(DISTINCT {call})"), IDS);
        [ids[0], ids[1], numbers]
    };
    server.stop_server("immediate");
    valgrind.wait().unwrap();
    counts
}

/// Returns the instructions of a call, without those of the clock, which is replaced by that of the test
/// harness. The query takes one number for each row, and has to return `expected`.
fn count_call(server: &Cluster, profiles: &Path, call: &str, query: &str, expected: i64) -> i64 {
    let mut client = server.connect();
    // The first calls set up the session.
    single::<i64>(&mut client, &format!("SELECT count({call}) FROM generate_series(1, 10)"));
    let statement = client.prepare(&format!("{query} FROM generate_series(1, {IDS})")).unwrap();
    let mut transaction = client.transaction().unwrap();
    // The first ID of a transaction takes more instructions.
    transaction.query_one(&format!("SELECT {call}"), &[]).unwrap();
    let pid: i32 = transaction.query_one("SELECT pg_backend_pid()", &[]).unwrap().get(0);
    let found: i64 = transaction.query_one(&statement, &[]).unwrap().get(0);
    assert_eq!(found, expected, "{query}");
    transaction.commit().unwrap();
    drop(client);
    let profile = profiles.with_extension(pid.to_string());
    // Valgrind writes the profile when the process ends.
    eventually("the profile", || fs::read_to_string(&profile).is_ok_and(|text| text.contains("totals:")));
    let mut annotate = Command::new("callgrind_annotate");
    let output = successful(annotate.args(["--threshold=100", "--auto=no"]).arg(profile)).stdout;
    let lines = String::from_utf8(output).unwrap().replace(',', "");
    let count = |line: &str| line.split_whitespace().next().unwrap().parse::<i64>().unwrap();
    let of_lines = |says: &str| lines.lines().filter(|line| line.contains(says)).map(count).sum::<i64>();
    of_one(of_lines("PROGRAM TOTALS") - of_lines("/clock.so]"))
}

/// Compares the recorded counts with the new ones.
fn compare(recorded: &str, counted: &str) -> ExitCode {
    let (mut is_more, mut is_less) = (false, false);
    let file = file().display().to_string();
    assert_eq!(recorded.lines().count(), counted.lines().count(), "{file}: it has other counts");
    for (before, now) in recorded.lines().zip(counted.lines()) {
        let (Some((name, count)), Some((name_before, count_before))) =
            (now.rsplit_once(' '), before.rsplit_once(' '))
        else {
            continue;
        };
        if name.starts_with('#') {
            assert_eq!(before, now, "{file}: its counts cannot be compared");
            continue;
        }
        assert_eq!(name_before, name, "{file}: it has other counts");
        let [count, count_before] = [count, count_before].map(|number| number.parse::<u64>().unwrap());
        println!("{name:20}{count:5}   recorded:{count_before:5}");
        is_more |= count > count_before;
        is_less |= count < count_before;
    }
    if is_less {
        println!("There are fewer instructions than recorded. To record that: make instructions RECORD=1");
    }
    if is_more {
        println!(
            "There are more instructions than recorded. If that is worth it: make instructions RECORD=1"
        );
    }
    ExitCode::from(u8::from(is_more))
}
