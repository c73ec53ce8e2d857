//! The keeper cannot work, and transactions and sessions that disturb others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::{Run, ids};

use super::{Fault, Place};
use crate::ledger::Kind;
use crate::pages::Section;
use crate::scene::Scene;

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "a session locks the stored horizon",
        "a session holds a lock on `snowflake_workers` or on the stored horizon",
        Place::Server,
        &["SnowflakeIdError", "SnowflakeIdNotReady"],
        a_session_locks_the_horizon,
    ),
    Fault::new(
        "the server's synchronous standby is missing",
        "a synchronous standby does not respond",
        Place::Server,
        &["SnowflakeIdNotReady"],
        |scene| {
            scene.cluster().change("synchronous_standby_names", "gone");
            scene.act("synchronous_standby_names = 'gone'");
            let row = scene.row_of("SnowflakeIdNotReady", "State of a server", "horizon stalled");
            let steps = scene.site().pages.follow(&row, THE_KEEPER);
            the_keeper_waits_for(scene, &steps, "SyncRep");
            let step = steps.step_saying("a synchronous standby is missing");
            scene.follow(&step, "remove it from `synchronous_standby_names`", || {
                scene.cluster().change("synchronous_standby_names", "");
            });
            scene.over();
        },
    ),
    Fault::new(
        "the extension is dropped in the keeper's database",
        "the extension is missing, or dropped, in the keeper's database",
        Place::Server,
        &["SnowflakeIdError"],
        |scene| {
            scene.cluster().connect().run("DROP EXTENSION snowflake_id");
            scene.act("DROP EXTENSION snowflake_id");
            let runbook = scene.alert("SnowflakeIdError");
            let error =
                rows(&mut scene.cluster().connect_to("shop"), "SELECT last_error FROM snowflake_status");
            assert!(error[0][0].contains("extension"), "{error:?}");
            let steps = scene.site().pages.follow(&runbook.step_saying("Otherwise, follow"), THE_KEEPER);
            let step = steps.step_saying("The database or the extension is missing");
            scene.run_with(&step, 1, &[], &mut scene.cluster().connect());
            scene.over();
        },
    ),
    Fault::new(
        "the keeper's database is dropped",
        "the keeper's database is dropped with `DROP DATABASE .. WITH (FORCE)`",
        Place::ServerAlone,
        &["SnowflakeIdKeeperAbsent"],
        the_database_is_dropped,
    ),
    Fault::new(
        "no process is left for the keeper",
        "`max_worker_processes` leaves no room for the keeper",
        Place::ServerAlone,
        &["SnowflakeIdKeeperAbsent"],
        |scene| {
            scene.cluster().configure(&[("max_worker_processes", "0")]);
            scene.cluster().restart("fast");
            scene.act("max_worker_processes = 0, and a restart");
            let steps = the_keeper_is_absent(scene);
            let step = steps.step_saying("No row, and no error");
            scene.follow(&step, "raise `max_worker_processes`, and restart the server", || {
                scene.cluster().configure(&[("max_worker_processes", "8")]);
                scene.cluster().restart("fast");
            });
            scene.over();
        },
    ),
    Fault::new(
        "the exporter loses its privilege",
        "If permission is denied",
        Place::ServerAlone,
        &["SnowflakeIdNotWatched"],
        |scene| {
            let mut client = scene.cluster().connect();
            client.run("REVOKE pg_monitor FROM prometheus");
            scene.act("REVOKE pg_monitor FROM prometheus");
            let runbook = scene.alert("SnowflakeIdNotWatched");
            runbook.step_saying("Read the exporter's log");
            let log = scene.site().dir.join(format!("{}.log", scene.server().name));
            assert!(std::fs::read_to_string(log).unwrap().contains("permission denied"));
            scene.run(&runbook.step_saying("If permission is denied"), &mut client);
            scene.over();
        },
    ),
    Fault::new(
        "an idle transaction",
        "If it is `idle in transaction`",
        Place::ServerAlone,
        &["SnowflakeIdWatermarkHeldBack"],
        an_idle_transaction,
    ),
    Fault::new(
        "a forgotten prepared transaction",
        "If the transaction has a `gid`, it is prepared",
        Place::ServerAlone,
        &["SnowflakeIdWatermarkHeldBack"],
        |scene| {
            let mut client = scene.cluster().connect_to("shop");
            client.run("BEGIN; SELECT snowflake_nextval(); PREPARE TRANSACTION 'forgotten'");
            scene.act("PREPARE TRANSACTION 'forgotten'");
            let runbook = scene.alert("SnowflakeIdWatermarkHeldBack");
            let shown =
                scene.run(&runbook.step_saying("that read rows in ID order wait for it"), &mut client);
            assert!(shown.iter().any(|row| row[2] == "forgotten"), "{shown:?}");
            let step = runbook.step_saying("If the transaction has a `gid`, it is prepared");
            let prepared = scene.run(&step, &mut client);
            assert_eq!(prepared, [["forgotten", "shop"]]);
            let command = format!("{} 'forgotten'", step.command(2, &[]));
            client.run(&command);
            scene.act(format!("{}: {command};", step.name));
            scene.over();
        },
    ),
    Fault::new(
        "a session takes more IDs than the layout has",
        "Find sessions that request many IDs",
        Place::Server,
        &["SnowflakeIdFarAheadOfClock", "SnowflakeIdCallsWaiting"],
        a_greedy_session,
    ),
    Fault::new(
        "too many layouts",
        "calls with any other layout fail",
        Place::ServerAlone,
        &["SnowflakeIdTooManyLayouts"],
        too_many_layouts,
    ),
    Fault::new(
        "a layout that ends soon",
        "until the server is restarted without this layout",
        Place::ServerAlone,
        &["SnowflakeIdLayoutNearEnd"],
        |scene| {
            let mut client = scene.cluster().connect_to("shop");
            // 35 bits of milliseconds are 398 days.
            let epoch = rows(
                &mut client,
                "SELECT to_char(now() AT TIME ZONE 'UTC' - interval '60 days', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
            );
            client.run(&format!(
                "SET snowflake_id.layout = 'time:35 worker:10 sequence:12 epoch={}'; SELECT snowflake_nextval()",
                epoch[0][0]
            ));
            scene.act("a session uses a layout with 35 bits of time");
            let runbook = scene.alert("SnowflakeIdLayoutNearEnd");
            scene.run(&runbook.step_saying("Plan the change to another layout"), &mut client);
            runbook.ends("the server is restarted without this layout");
            scene.cluster().restart("fast");
            scene.act("the server is restarted");
            scene.over();
        },
    ),
];

/// The section about the keeper.
const THE_KEEPER: &str = "The keeper cannot work";

/// Waits for the alert, and follows its link to the section about the keeper.
fn the_keeper_is_absent(scene: &Scene) -> Section {
    let step = scene.alert("SnowflakeIdKeeperAbsent").step_saying("*critical*");
    scene.site().pages.follow(&step, THE_KEEPER)
}

/// Runs the query of the section, and checks what the keeper waits for. Returns the row.
fn the_keeper_waits_for(scene: &Scene, steps: &Section, event: &str) -> Vec<String> {
    let step = steps.step_saying("Read `last_error`");
    step.says("what the keeper waits for");
    // Between two attempts, the keeper waits for nothing.
    let row = scene.wait("what the keeper waits for", || {
        let shown = rows(&mut scene.cluster().connect_to("shop"), &step.commands()[0]);
        let found = shown.iter().find(|row| row.iter().any(|cell| cell == event));
        found.cloned().ok_or_else(|| format!("{shown:?}"))
    });
    scene.act(format!("{}: the keeper waits for {event}", step.name));
    row
}

fn the_database_is_dropped(scene: &Scene) {
    let mut client = scene.cluster().connect_to("shop");
    client.run("DROP DATABASE postgres WITH (FORCE)");
    scene.act("DROP DATABASE postgres WITH (FORCE)");
    let steps = the_keeper_is_absent(scene);
    assert!(scene.cluster().log().contains("database \"postgres\" does not exist"));
    let step = steps.step_saying("The database or the extension is missing");
    let shown = scene.run(&step, &mut client);
    let database = &shown[0][0];
    scene.follow(&step, "create the database that", || client.run(&format!("CREATE DATABASE {database}")));
    scene.run_with(&step, 1, &[], &mut scene.cluster().connect_to(database));
    scene.over();
}

fn a_session_locks_the_horizon(scene: &Scene) {
    let mut locker = scene.cluster().connect();
    let lock = "ALTER MATERIALIZED VIEW snowflake_internal.horizon OWNER TO CURRENT_USER";
    locker.run(&format!("BEGIN; {lock}"));
    scene.act(format!("BEGIN; {lock};"));
    let runbook = scene.alert("SnowflakeIdError");
    let steps = scene.site().pages.follow(&runbook.step_saying("Otherwise, follow"), THE_KEEPER);
    // The third column is an array with the process.
    let row = the_keeper_waits_for(scene, &steps, "Lock");
    let pid = row[2].trim_matches(['{', '}']);
    scene.row_of("SnowflakeIdNotReady", "State of a server", "horizon stalled").says(THE_KEEPER);
    let step = steps.step_saying("end the transaction of the blocking process");
    scene.run_with(&step, 0, &[pid], &mut scene.cluster().connect_to("shop"));
    scene.over();
}

fn an_idle_transaction(scene: &Scene) {
    let mut client = scene.cluster().connect_to("shop");
    client.run("BEGIN");
    scene.keep(Kind::Ids, ids(&mut client, "SELECT snowflake_nextval()"));
    scene.act("BEGIN; SELECT snowflake_nextval();");
    let runbook = scene.alert("SnowflakeIdWatermarkHeldBack");
    let mut admin = scene.cluster().connect_to("shop");
    let shown = scene.run(&runbook.step_saying("that read rows in ID order wait for it"), &mut admin);
    let row = shown.iter().find(|row| row[6] == "idle in transaction");
    let pid = &row.unwrap_or_else(|| panic!("no idle transaction: {shown:?}"))[3];
    scene.run_with(&runbook.step_saying("If it is `idle in transaction`"), 0, &[pid], &mut admin);
    scene.over();
}

/// A layout with 400 IDs per second.
const NARROW: &str = "SET snowflake_id.layout = 'time:39 worker:10 sequence:2 unit=10ms'";

fn a_greedy_session(scene: &Scene) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let greedy = || {
            let mut all = Vec::new();
            let mut client = scene.cluster().connect_to("shop");
            client.run(NARROW);
            client.run("SET application_name = 'greedy'");
            while !stop.load(Ordering::Relaxed) {
                match client.query("SELECT snowflake_batch(100)", &[]) {
                    Ok(rows) => all.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
                    Err(_) if client.is_closed() => break,
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
            }
            all
        };
        let greedy = [scope.spawn(greedy), scope.spawn(greedy)];
        scene.act("two sessions call snowflake_batch(100) in a layout with 400 IDs per second");
        let end = snowflake_id_cluster_tests::StopAtEnd(&stop);
        let runbook = scene.alert("SnowflakeIdFarAheadOfClock");
        scene.alert("SnowflakeIdCallsWaiting").step_saying("Follow [SnowflakeIdFarAheadOfClock]");
        let step = runbook.step_saying("Find sessions that request many IDs");
        scene.wait("the greedy sessions", || {
            let shown = rows(&mut scene.cluster().connect_to("shop"), &step.command(0, &[]));
            shown.iter().any(|row| row[1] == "greedy").then_some(()).ok_or_else(|| format!("{shown:?}"))
        });
        scene.follow(&step, "more than they need", || drop(end));
        for greedy in greedy {
            scene.keep(Kind::OtherIds, greedy.join().unwrap());
        }
    });
    scene.over();
}

fn too_many_layouts(scene: &Scene) {
    let mut client = scene.cluster().connect_to("shop");
    client.run("CREATE ROLE reporter; ALTER ROLE reporter SET snowflake_id.layout = 'wide'");
    // With 12 bits, it would be the layout of the server. Earlier faults may have used other layouts.
    for bits in (1..=11).chain(13..=16) {
        if rows(&mut client, "SELECT layout FROM snowflake_layout_status").len() < 15 {
            client.run(&format!(
                "SET snowflake_id.layout = 'time:37 worker:10 sequence:{bits}'; SELECT snowflake_nextval()"
            ));
        }
    }
    client.run("RESET snowflake_id.layout");
    scene.act("a session uses layouts until there are 15");
    let runbook = scene.alert("SnowflakeIdTooManyLayouts");
    let shown = scene.run(&runbook.step_saying("Find layouts that should not be in use"), &mut client);
    assert!(shown.len() >= 15, "{shown:?}");
    let step = runbook.step_saying("Remove their settings");
    scene.run_with(&step, 1, &["reporter"], &mut client);
    scene.follow(&runbook.step_saying("Restart the server"), "Restart the server", || {
        scene.cluster().restart("fast")
    });
    scene.cluster().connect().run("DROP ROLE reporter");
    scene.over();
}
