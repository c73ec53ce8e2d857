//! Segments of numbers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::segments::{some, some_at_last};
use snowflake_id_cluster_tests::{Client, Run, StopAtEnd};

use super::{Fault, Place};
use crate::pages::Step;
use crate::scene::Scene;

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "a segment is exhausted",
        "More than four fifths of the numbers are used",
        Place::Server,
        &["SnowflakeIdSegmentNearEnd", "SnowflakeRegistrySegmentNearEnd", "SnowflakeIdSegmentStopped"],
        a_segment_is_exhausted,
    ),
    Fault::new(
        "a segment was not created",
        "If the segment was not created yet",
        Place::Server,
        &["SnowflakeIdSegmentUnknown"],
        |scene| {
            let name = new_name(scene, "unknown");
            while_asking(scene, &name, |scene| {
                let runbook = scene.alert("SnowflakeIdSegmentUnknown");
                state_is(scene, &runbook.step_saying("*warning*").commands()[0], &name, "unknown");
                let step = runbook.step_saying("If the segment was not created yet");
                scene.run_with(&step, 0, &[&name], &mut scene.site().registry_client());
            });
            scene.over();
        },
    ),
    Fault::new(
        "a segment is dropped",
        "the segment was dropped",
        Place::Server,
        &["SnowflakeIdSegmentStopped"],
        |scene| {
            let name = new_segment(scene, "dropped", "min_step => 50, max_step => 50");
            let mut client = scene.cluster().connect_to("shop");
            some(&mut client, &name, 10);
            let mut registry = scene.site().registry_client();
            registry.run(&format!("SELECT snowflake_registry.drop_segment('{name}')"));
            scene.act("SELECT snowflake_registry.drop_segment(..);");
            while_asking(scene, &name, |scene| {
                let row = the_segment_stopped(scene, &name, "dropped");
                scene.run_with(&row, 0, &[&name], &mut registry);
                some_at_last(scene.cluster(), &name, 10);
            });
            scene.over();
        },
    ),
    Fault::new(
        "too many segments are in use",
        "At the maximum, calls for other segments fail",
        Place::Server,
        &["SnowflakeIdManySegments", "SnowflakeIdWarning"],
        too_many_segments_are_in_use,
    ),
    Fault::new(
        "the fleet may not take numbers",
        "the server's role lacks a privilege",
        Place::Registry,
        &["SnowflakeIdSegmentRegistryUnreachable"],
        the_fleet_may_not_take_numbers,
    ),
];

/// Each server shows the statement that grants the privilege to its own role.
fn the_fleet_may_not_take_numbers(scene: &Scene) {
    let servers = &scene.site().servers;
    let roles: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let revoke = format!("REVOKE EXECUTE ON FUNCTION snowflake_registry.take FROM {}", roles.join(", "));
    let mut registry = scene.site().registry_client();
    registry.run(&revoke);
    scene.act(revoke);
    let pages = &scene.site().pages;
    let step = scene.alert("SnowflakeIdSegmentRegistryUnreachable").step_saying("*warning*");
    let runbook = pages.follow(&step, "SnowflakeIdSegmentStopped");
    let query = runbook.step_saying("Look up `state`");
    let row = pages.follow(&query, "State of a segment").row("permission denied");
    row.says("run the statements in `last_error` in the registry");
    for server in servers {
        let problem = scene.wait(&format!("a problem of {}", server.name), || {
            let shown = rows(&mut server.cluster.connect_to("shop"), &query.commands()[0]);
            let denied = shown.iter().find(|row| row[1] == "permission denied");
            denied.map(|row| row[3].clone()).ok_or_else(|| format!("{shown:?}"))
        });
        let statements = problem.find("GRANT").unwrap_or_else(|| panic!("no GRANT in {problem}"));
        registry.run(&problem[statements..]);
        scene.act(format!("{}: {}", row.name, &problem[statements..]));
    }
    scene.over();
}

/// The maximum is small, so that a few segments reach it. Dropping some of them ends the alert.
fn too_many_segments_are_in_use(scene: &Scene) {
    const MAX: usize = 16;
    let set_maximum = |max: usize| {
        scene.cluster().configure(&[("snowflake_id.max_segments", &max.to_string())]);
        scene.cluster().restart("fast");
    };
    set_maximum(MAX);
    let names: Vec<String> = (0..MAX)
        .map(|at| new_segment(scene, &format!("many {at}"), "min_step => 10, max_step => 10"))
        .collect();
    let mut client = scene.cluster().connect_to("shop");
    let query = "SELECT snowflake_segment_nextval($1)";
    // The clients use a segment as well.
    let taken = names.iter().take_while(|name| client.query_one(query, &[name]).is_ok()).count();
    assert!((MAX - 4..MAX).contains(&taken), "{taken}");
    scene.act(format!("the server uses {taken} other segments, and snowflake_id.max_segments is {MAX}"));

    let runbook = scene.alert("SnowflakeIdManySegments");
    scene.alert("SnowflakeIdWarning");
    let shown = scene.run(&runbook.step_saying("At the maximum, calls for other segments fail"), &mut client);
    assert_eq!(shown, [[MAX.to_string(), MAX.to_string()]]);
    let mut registry = scene.site().registry_client();
    for name in &names {
        scene.run_with(&runbook.step_saying("drop segments"), 0, &[name], &mut registry);
    }
    scene.over();
    set_maximum(4096);
}

/// A name that no earlier fault has used.
fn new_name(scene: &Scene, what: &str) -> String {
    format!("{what} {}", scene.stage.began.elapsed().as_millis())
}

fn new_segment(scene: &Scene, what: &str, options: &str) -> String {
    let name = new_name(scene, what);
    let create = format!("SELECT snowflake_registry.create_segment('{name}', {options})");
    scene.site().registry_client().run(&create);
    name
}

/// Runs `event` while a session on the server keeps asking for numbers of a segment. It takes 50 ms between two calls.
fn while_asking(scene: &Scene, name: &str, event: impl FnOnce(&Scene)) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let query = format!("SELECT snowflake_segment_nextval('{name}')");
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut client) = scene.cluster().try_connect("shop") else { continue };
                let _ = client.execute(&query, &[]);
                thread::sleep(Duration::from_millis(50));
            }
        });
        let _end = StopAtEnd(&stop);
        scene.act("a session asks for numbers of the segment again and again");
        event(scene);
    });
}

/// Waits for the alert, and follows its link to the table of states. Returns the cell that says what to do in this state.
fn the_segment_stopped(scene: &Scene, name: &str, state: &str) -> Step {
    let step = scene.alert("SnowflakeIdSegmentStopped").step_saying("Look up `state`");
    state_is(scene, &step.commands()[0], name, state);
    scene.site().pages.follow(&step, "State of a segment").row(state)
}

fn state_is(scene: &Scene, query: &str, name: &str, state: &str) {
    scene.wait(state, || {
        let shown = rows(&mut scene.cluster().connect_to("shop"), query);
        let found = shown.iter().any(|row| row[0] == name && row[1] == state);
        found.then_some(()).ok_or_else(|| format!("{shown:?}"))
    });
}

fn a_segment_is_exhausted(scene: &Scene) {
    let name = new_segment(scene, "few", "max_value => 1000, min_step => 10, max_step => 10");
    let mut client = scene.cluster().connect_to("shop");
    let mut all = some(&mut client, &name, 900);
    scene.act("900 of 1000 numbers are taken");
    let near_end = scene.alert("SnowflakeIdSegmentNearEnd");
    let at_registry = scene.alert("SnowflakeRegistrySegmentNearEnd");
    scene.site().pages.follow(&at_registry.step_saying("*warning*"), "SnowflakeIdSegmentNearEnd");
    all.extend(take_all(&mut client, &name));
    scene.act(format!("nobody acts, until {} numbers are taken", all.len()));
    let row = the_segment_stopped(scene, &name, "exhausted");
    scene.site().pages.follow(&row, "SnowflakeIdSegmentNearEnd");
    near_end.step_saying("If `max_value` is the end of an `int` column");
    let step = near_end.step_saying("In the registry, run");
    scene.run_with(&step, 0, &[&name, "100000"], &mut scene.site().registry_client());
    all.extend(some_at_last(scene.cluster(), &name, 10));
    assert!(all.len() == 1010 && all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    scene.over();
}

/// Takes numbers until there are none.
fn take_all(client: &mut Client, name: &str) -> Vec<i64> {
    let mut all = Vec::new();
    let query = format!("SELECT snowflake_segment_nextval('{name}')");
    while let Ok(row) = client.query_one(&query, &[]) {
        all.push(row.get(0));
    }
    all
}
