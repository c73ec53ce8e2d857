//! The registry, and the ways to it.

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::faults::cut_power;
use snowflake_id_cluster_tests::{Client, Cluster, Run, single};

use super::{Fault, Place};
use crate::pages::{Section, Step, section};
use crate::scene::Scene;

const REGISTRY: &str = "run/registry.md";

/// The alerts about a server that cannot renew its lease.
pub const NOT_RENEWED: &[&str] =
    &["SnowflakeIdRegistryUnreachable", "SnowflakeIdLeaseHalfExpired", "SnowflakeRegistryLeaseNotRenewed"];

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "the registry is down for longer than a lease",
        "the registry is unreachable for longer than a lease, under load",
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
        "After a restart of the registry",
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
        "the registry is promoted",
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
        "the registry's synchronous standby does not respond",
        Place::Registry,
        NOT_RENEWED,
        the_standby_is_gone,
    ),
    Fault::new(
        "commits of the registry do not wait",
        "A failover could lose commits unnoticed",
        Place::Registry,
        &["SnowflakeRegistryNotSynchronous"],
        |scene| {
            let mut client = scene.site().registry_client();
            client.run("ALTER SYSTEM SET synchronous_standby_names = ''");
            client.run("SELECT pg_reload_conf()");
            scene.act("ALTER SYSTEM SET synchronous_standby_names = ''");
            let step =
                scene.alert("SnowflakeRegistryNotSynchronous").step_saying("Restore the previous value");
            assert_eq!(scene.run(&step, &mut scene.site().registry_client()), [[""]]);
            scene.follow(&step, "Restore the previous value, and reload", || {
                client.run("ALTER SYSTEM RESET synchronous_standby_names");
                client.run("SELECT pg_reload_conf()");
            });
            scene.over();
        },
    ),
    Fault::new(
        "the registry's settings are changed by hand",
        "changed by hand",
        Place::Registry,
        &["SnowflakeRegistryQuarantine", "SnowflakeRegistrySegmentClosed", "SnowflakeIdSegmentClosed"],
        |scene| {
            scene.site().registry_client().run("UPDATE snowflake_registry.settings SET lease = lease");
            scene.act("UPDATE snowflake_registry.settings");
            let mut client = scene.site().registry_client();
            let quarantine = the_registry_is_in_quarantine(scene, &mut client);
            scene.run(&quarantine.step_saying("If you are sure that no commits were lost"), &mut client);
            let closed = a_segment_is_closed(scene);
            let shown = scene.run(&closed.step_saying("list the closed segments"), &mut client);
            assert!(!shown.is_empty());
            scene.run(&closed.step_saying("If no commits were lost"), &mut client);
            scene.over();
        },
    ),
    Fault {
        needs_real_time: true,
        ..Fault::new(
            "the registry is set back to a backup",
            "or set back",
            Place::Registry,
            &["SnowflakeRegistryQuarantine", "SnowflakeRegistrySegmentClosed", "SnowflakeIdSegmentClosed"],
            the_registry_is_set_back,
        )
    },
    Fault::new(
        "the registry is frozen",
        "the registry is frozen",
        Place::Registry,
        &["SnowflakeRegistrySegmentClosed", "SnowflakeIdSegmentClosed"],
        |scene| {
            let mut client = scene.site().registry_client();
            client.run("SELECT snowflake_registry.freeze('infinity')");
            scene.act("SELECT snowflake_registry.freeze('infinity');");
            let closed = a_segment_is_closed(scene);
            let shown = scene.run(&closed.step_saying("list the closed segments"), &mut client);
            assert!(shown.iter().any(|row| row[1].contains("frozen")), "{shown:?}");
            let step = closed.step_saying("If `closed_reason` says that the registry is frozen");
            scene.follow(&step, "wait for the end of the [move]", || {
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

/// Waits for the alerts about leases that are not renewed. All of them lead to the table of states, in which the row of this
/// state says what to do.
pub fn state_of_the_registry(scene: &Scene, state: &str) -> Step {
    const STATES: &str = "State of the registry";
    let pages = &scene.site().pages;
    let unreachable = scene.alert("SnowflakeIdRegistryUnreachable");
    pages.follow(&unreachable.step_saying("If `registry_state` is not `unreachable`"), STATES);
    // Without a registry, no exporter can watch it.
    if scene.fault.alerts == NOT_RENEWED {
        let not_renewed = scene.alert("SnowflakeRegistryLeaseNotRenewed");
        pages.follow(&not_renewed.step_saying("on that server"), "SnowflakeIdLeaseHalfExpired");
    }
    let half_expired = scene.alert("SnowflakeIdLeaseHalfExpired");
    let states = pages.follow(&half_expired.step_saying("Follow [State of the registry]"), STATES);
    let row = states.row(state);
    scene.wait_for_status(scene.cluster(), &format!("registry_state = '{state}'"));
    scene.act(format!("{}: registry_state is {state}", states.heading));
    row
}

/// The section that the row of state `unreachable` leads to.
pub fn the_registry_is_unreachable(scene: &Scene) -> Section {
    let row = state_of_the_registry(scene, "unreachable");
    scene.site().pages.follow(&row, "SnowflakeIdRegistryUnreachable")
}

/// Waits for the alerts about closed segments. Returns the section with the steps.
fn a_segment_is_closed(scene: &Scene) -> Section {
    let step = scene.alert("SnowflakeRegistrySegmentClosed").step_saying("*critical*");
    scene.site().pages.follow(&step, "SnowflakeIdSegmentClosed");
    scene.alert("SnowflakeIdSegmentClosed")
}

/// Waits for the alert, and runs the query of its section.
fn the_registry_is_in_quarantine(scene: &Scene, client: &mut Client) -> Section {
    let quarantine = scene.alert("SnowflakeRegistryQuarantine");
    let shown = scene.run(&quarantine.step_saying("*warning*"), client);
    assert_eq!(shown[0][0], "quarantine");
    quarantine
}

fn the_registry_is_down(scene: &Scene) {
    cut_power(&scene.site().registry().primary);
    scene.act("kill -9 of the registry");
    let pages = &scene.site().pages;
    let of_segments = scene.alert("SnowflakeIdSegmentRegistryUnreachable");
    pages.follow(&of_segments.step_saying("*warning*"), "SnowflakeIdSegmentStopped");
    let unreachable = the_registry_is_unreachable(scene);
    let ended = scene.alert("SnowflakeIdLeaseEnded");
    pages.follow(&ended.step_saying("*critical*"), "SnowflakeIdLeaseHalfExpired");
    let row = scene.row_of("SnowflakeIdNotReady", "State of a server", "lease ended");
    let states = pages.follow(&row, "State of the registry");
    let step = unreachable.step_saying("Check that the registry is running");
    scene.follow(&step, "Check that the registry is running", || {
        scene.site().registry().primary.bring_up();
    });
    // Servers without a lease wait, unless the registry is told that it has lost nothing.
    let quarantine = pages.follow(&states.row("quarantine"), "SnowflakeRegistryQuarantine");
    let step = quarantine.step_saying("If you are sure that no commits were lost");
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
    let step = the_registry_is_unreachable(scene).step_saying("If you can connect");
    let shown = scene.run(&step, &mut scene.site().registry_client());
    assert!(shown.iter().flatten().any(|event| event == "SyncRep"), "{shown:?}");
    scene.follow(&step, "start the standby, attach another one", || {
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
    let steps = section(&page, "restoring-a-registry").expect("the steps of the page");
    steps.step_saying("Make sure that servers and programs cannot reach the restored registry");
    scene.site().replace_registry(copy, |copy| {
        let quarantine = "SELECT snowflake_registry.quarantine();";
        let step = steps.step_saying("Start a quarantine:");
        scene.follow(&step, quarantine, || {
            copy.connect().run(quarantine);
        });
    });
    let mut client = scene.site().registry_client();
    let closed = a_segment_is_closed(scene);
    let shown = scene.run(&closed.step_saying("list the closed segments"), &mut client);
    let highest = closed.step_saying("find the highest number in your tables on all servers");
    let resume = closed.step_saying("with the result");
    for row in &shown {
        let next = next_value(scene, &mut client, &row[0]).to_string();
        scene.act(format!("{}: the highest number, and those that servers hold", highest.name));
        scene.run_with(&resume, 0, &[&row[0], &next], &mut client);
    }
    let quarantine = the_registry_is_in_quarantine(scene, &mut client);
    scene.follow(&quarantine.step_saying("commits were lost. In this case"), "wait", || ());
    scene.over();
}

/// The highest number in all tables, and `2 * max_step * increment` for each server.
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
