//! The registry, and the ways to it.

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::faults::cut_power;
use snowflake_id_cluster_tests::{Client, Cluster, Run, single};

use super::{Fault, Place};
use crate::pages::{Section, section};
use crate::scene::Scene;

const FLEET: &str = "reference/registry.md";
const PROMISES: &str = "concepts/promises.md";
const REGISTRY: &str = "run/registry.md";
const RUNBOOKS: &str = "run/when-it-fails.md";

/// The alerts about a server that cannot renew its lease.
pub const NOT_RENEWED: &[&str] =
    &["SnowflakeIdRegistryUnreachable", "SnowflakeIdLeaseHalfExpired", "SnowflakeRegistryLeaseNotRenewed"];

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "the registry is down for longer than a lease",
        ("the registry is unreachable for longer than a lease, under load", PROMISES),
        Place::Registry,
        &[
            "SnowflakeIdRegistryUnreachable",
            "SnowflakeIdSegmentRegistryUnreachable",
            "SnowflakeIdLeaseHalfExpired",
            "SnowflakeIdLeaseEnded",
            "SnowflakeIdNotReady",
        ],
        the_registry_is_down,
    ),
    Fault::silent(
        "the registry crashes and is started again",
        ("the registry's server is restarted", FLEET),
        Place::Registry,
        "servers renew their leases immediately",
        |scene| {
            let registry = scene.site().registry();
            registry.primary.stop_server("immediate");
            registry.primary.bring_up();
            drop(registry);
            scene.act("the registry is stopped (immediate), and started");
            renewed(scene);
        },
    ),
    Fault::silent(
        "the registry fails over to its synchronous standby",
        ("the registry fails over, and no commits were lost", FLEET),
        Place::Registry,
        "servers find the promoted standby before half of their leases has passed",
        |scene| {
            scene.site().fail_over();
            scene.act("kill -9 of the registry, its standby is promoted, and gets a standby of its own");
            renewed(scene);
        },
    ),
    Fault::new(
        "the registry's standby is gone",
        ("the registry's synchronous standby does not respond", PROMISES),
        Place::Registry,
        NOT_RENEWED,
        the_standby_is_gone,
    ),
    Fault::new(
        "commits of the registry do not wait",
        ("commits currently do not wait for a standby", RUNBOOKS),
        Place::Registry,
        &["SnowflakeRegistryNotSynchronous"],
        |scene| {
            let mut client = scene.site().registry_client();
            client.run("ALTER SYSTEM SET synchronous_standby_names = ''");
            client.run("SELECT pg_reload_conf()");
            scene.act("ALTER SYSTEM SET synchronous_standby_names = ''");
            let step = scene.alert("SnowflakeRegistryNotSynchronous").step(1);
            assert_eq!(scene.run(&step, &mut scene.site().registry_client()), [[""]]);
            scene.follow(&step, "Restore the previous value of this setting, and reload", || {
                client.run("ALTER SYSTEM RESET synchronous_standby_names");
                client.run("SELECT pg_reload_conf()");
            });
            scene.over();
        },
    ),
    Fault::new(
        "the registry's settings are changed by hand",
        ("a dump was restored, the settings were changed by hand", REGISTRY),
        Place::Registry,
        &["SnowflakeRegistryQuarantine", "SnowflakeRegistrySegmentClosed", "SnowflakeIdSegmentClosed"],
        |scene| {
            scene.site().registry_client().run("UPDATE snowflake_registry.settings SET lease = lease");
            scene.act("UPDATE snowflake_registry.settings");
            scene.alert("SnowflakeRegistrySegmentClosed").step(1).says("runbook of SnowflakeIdSegmentClosed");
            let quarantine = scene.alert("SnowflakeRegistryQuarantine");
            let mut client = scene.site().registry_client();
            let shown = scene.run(&quarantine.step(1), &mut client);
            assert_eq!(shown[0][0], "quarantine");
            let step = quarantine.step(4);
            step.says("If you are sure that no commits were lost");
            scene.run(&step, &mut client);
            let closed = scene.alert("SnowflakeIdSegmentClosed");
            let shown = scene.run(&closed.step(1), &mut client);
            assert!(!shown.is_empty());
            let step = closed.step(3);
            step.says("If no commits were lost");
            scene.run(&step, &mut client);
            scene.over();
        },
    ),
    Fault {
        needs_real_time: true,
        ..Fault::new(
            "the registry is set back to a backup",
            ("the registry is restored from a dump or a backup", FLEET),
            Place::Registry,
            &["SnowflakeRegistryQuarantine", "SnowflakeRegistrySegmentClosed", "SnowflakeIdSegmentClosed"],
            the_registry_is_set_back,
        )
    },
    Fault::new(
        "the registry is frozen",
        ("the registry is frozen", RUNBOOKS),
        Place::Registry,
        &["SnowflakeRegistrySegmentClosed", "SnowflakeIdSegmentClosed"],
        |scene| {
            let mut client = scene.site().registry_client();
            client.run("SELECT snowflake_registry.freeze('infinity')");
            scene.act("SELECT snowflake_registry.freeze('infinity');");
            scene.alert("SnowflakeRegistrySegmentClosed").step(1).says("runbook of SnowflakeIdSegmentClosed");
            let runbook = scene.alert("SnowflakeIdSegmentClosed");
            let shown = scene.run(&runbook.step(1), &mut client);
            assert!(shown.iter().any(|row| row[1].contains("frozen")), "{shown:?}");
            scene.follow(&runbook.step(2), "The segments are opened again when the move ends", || {
                client.run("SELECT snowflake_registry.unfreeze()");
            });
            scene.over();
        },
    ),
];

/// Waits until all servers that the fault is about have renewed their leases since now, and values come.
pub fn renewed(scene: &Scene) {
    let about: Vec<&Cluster> = match scene.fault.place {
        Place::Registry => scene.site().servers.iter().map(|server| &server.cluster).collect(),
        _ => vec![scene.cluster()],
    };
    for cluster in about {
        let now = rows(&mut cluster.connect_to("shop"), "SELECT clock_timestamp()");
        let is_new = format!("registry_state = 'granted' AND lease_renewed_at > '{}'", now[0][0]);
        scene.wait_for_status(cluster, &is_new);
    }
    scene.values_come();
}

/// Step 1 of the runbook on each server: its registry_state.
pub fn the_state_is(scene: &Scene, runbook: &Section, state: &str) {
    runbook.step(1).says("Read `registry_state` and `last_error`");
    scene.wait_for_status(scene.cluster(), &format!("registry_state = '{state}'"));
    scene.act(format!("{}: registry_state is {state}", runbook.step(1).name));
}

fn the_registry_is_down(scene: &Scene) {
    cut_power(&scene.site().registry().primary);
    scene.act("kill -9 of the registry");
    scene
        .alert("SnowflakeIdSegmentRegistryUnreachable")
        .step(3)
        .says("step 2 of [SnowflakeIdLeaseHalfExpired]");
    scene.alert("SnowflakeIdRegistryUnreachable").step(1).says("SnowflakeIdLeaseHalfExpired");
    let runbook = scene.alert("SnowflakeIdLeaseHalfExpired");
    the_state_is(scene, &runbook, "unreachable");
    let ended = scene.alert("SnowflakeIdLeaseEnded");
    ended.step(1).says("Restore the connection to the registry");
    scene.alert("SnowflakeIdNotReady").row("lease ended").says("SnowflakeIdLeaseEnded");
    scene.follow(&runbook.step(2), "check that the registry is running", || {
        scene.site().registry().primary.bring_up();
    });
    // Servers without a lease wait, unless the registry is told that it has lost nothing.
    let step = runbook.step(5);
    step.says("If the state is `quarantine`, and you are sure that the registry has lost no commits");
    let mut client = scene.site().registry_client();
    if single::<String>(&mut client, "SELECT state FROM snowflake_registry.status") == "quarantine" {
        scene.run(&step, &mut client);
    }
    scene.over();
}

fn the_standby_is_gone(scene: &Scene) {
    let registry = scene.site().registry();
    registry.standby.as_ref().expect("a standby").stop_server("immediate");
    drop(registry);
    scene.act("the registry's standby is stopped");
    scene.alert("SnowflakeIdRegistryUnreachable").step(1).says("SnowflakeIdLeaseHalfExpired");
    scene.alert("SnowflakeRegistryLeaseNotRenewed").step(2).says("SnowflakeIdLeaseHalfExpired");
    let runbook = scene.alert("SnowflakeIdLeaseHalfExpired");
    the_state_is(scene, &runbook, "unreachable");
    let step = runbook.step(2);
    let shown = scene.run_with(&step, 1, &[], &mut scene.site().registry_client());
    assert!(shown.iter().flatten().any(|event| event == "SyncRep"), "{shown:?}");
    scene.follow(&step, "start the standby", || {
        scene.site().registry().standby.as_ref().expect("a standby").start_server();
    });
    scene.over();
}

/// A base backup replaces the registry, which has granted leases and numbers since.
fn the_registry_is_set_back(scene: &Scene) {
    let copy = scene.site().registry().primary.base_backup(&[]);
    let granted = "SELECT next_value::bigint FROM snowflake_registry.segments WHERE name = 'bills'";
    let mut client = scene.site().registry_client();
    let before: i64 = single(&mut client, granted);
    scene.wait_until("more numbers are granted", || single::<i64>(&mut client, granted) > before);
    drop(client);
    {
        let registry = scene.site().registry();
        cut_power(&registry.primary);
        cut_power(registry.standby.as_ref().expect("a standby"));
    }
    copy.start_server();
    scene.act("the registry and its standby are lost, and replaced by an older backup");
    let page = scene.site().pages.page(REGISTRY);
    let steps = section(&page, "before-you-set-a-registry-back").expect("the steps of the page");
    steps.step(1).says("Make sure that servers and programs cannot reach the restored registry");
    scene.site().replace_registry(copy, |copy| {
        let quarantine = "SELECT snowflake_registry.quarantine();";
        scene.follow(&steps.step(3), &format!("Start a quarantine: {quarantine}"), || {
            copy.connect().run(quarantine);
        });
    });
    let mut client = scene.site().registry_client();
    scene.alert("SnowflakeRegistrySegmentClosed").step(1).says("runbook of SnowflakeIdSegmentClosed");
    let closed = scene.alert("SnowflakeIdSegmentClosed");
    let shown = scene.run(&closed.step(1), &mut client);
    closed.step(5).says("find the highest number of this segment in your tables, on all servers");
    for row in &shown {
        let next = next_value(scene, &mut client, &row[0]).to_string();
        scene.act(format!("{}: the highest number, and those that servers hold", closed.step(5).name));
        scene.run_with(&closed.step(6), 0, &[&row[0], &next], &mut client);
    }
    let quarantine = scene.alert("SnowflakeRegistryQuarantine");
    let shown = scene.run(&quarantine.step(1), &mut client);
    assert_eq!(shown[0][0], "quarantine");
    scene.follow(&quarantine.step(3), "wait for the end of the quarantine", || ());
    scene.over();
}

/// Step 5: the highest number in all tables, and `2 * max_step * increment` for each server.
fn next_value(scene: &Scene, registry: &mut Client, segment: &str) -> i64 {
    let step: i64 = single(
        registry,
        &format!(
            "SELECT (2 * max_step * increment)::bigint FROM snowflake_registry.segment WHERE name = '{segment}'"
        ),
    );
    let servers = &scene.site().servers;
    let highest = servers.iter().map(|server| {
        let query = "SELECT coalesce(max(id), 0) FROM bills";
        single::<i64>(&mut server.cluster.connect_to("shop"), query)
    });
    highest.max().unwrap_or(0) + servers.len() as i64 * step + 1
}
