//! Leases that are not renewed, or not granted, and the ways to the registry.

use std::thread;
use std::time::Duration;

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::network::Fault as Line;
use snowflake_id_cluster_tests::{Run, leased_worker};

use super::registry::{NOT_RENEWED, renewed, state_of_the_registry, the_registry_is_unreachable};
use super::single::Watched;
use super::{Fault, Place};
use crate::scene::{JOINING, Scene};

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "a server is cut off from the registry",
        "packets to the registry are silently lost",
        Place::Server,
        NOT_RENEWED,
        a_server_is_cut_off,
    ),
    Fault::new(
        "servers lose a privilege in the registry",
        "the role lacks a privilege in the registry",
        Place::Registry,
        NOT_RENEWED,
        |scene| {
            let names: Vec<_> = scene.site().servers.iter().map(|server| server.name.clone()).collect();
            let revoke =
                format!("REVOKE EXECUTE ON FUNCTION snowflake_registry.renew FROM {}", names.join(", "));
            scene.site().registry_client().run(&revoke);
            scene.act(revoke);
            let row = state_of_the_registry(scene, "permission denied");
            row.says("repeat [`add_server()`](fleet.md#roles)");
            let page = scene.site().pages.page("run/fleet.md");
            let add =
                page.lines().find(|line| line.contains("add_server('shard1')")).expect("a call on the page");
            for name in names {
                let add = add.replace("shard1", &name);
                scene.site().registry_client().run(&add);
                scene.act(format!("{}: {add}", row.name));
            }
            scene.over();
        },
    ),
    Fault::new(
        "all worker IDs are taken",
        "a fleet has more servers than worker IDs",
        Place::Registry,
        &["SnowflakeIdLeaseEnded", "SnowflakeRegistryFewWorkerIds"],
        all_worker_ids_are_taken,
    ),
    Fault::silent(
        "the lease of a server is revoked",
        "the worker ID of a server is revoked under load",
        Place::Server,
        "the server exchanges its worker ID without an error",
        |scene| {
            let worker = leased_worker(scene.cluster());
            let revoke = format!("SELECT snowflake_registry.revoke_lease({worker})");
            scene.site().registry_client().run(&revoke);
            scene.act(format!("{revoke};"));
            scene.wait_for_status(scene.cluster(), &format!("worker_id <> {worker}"));
            scene.values_come();
        },
    ),
    Fault::silent(
        "the registry is slow",
        "answers are lost or invalid",
        Place::Server,
        "the lease is renewed, only later",
        |scene| bad_line(scene, Line::Delay(Duration::from_secs(1)), "each reply takes a second longer"),
    ),
    Fault::silent(
        "replies of the registry are garbage",
        "answers are lost or invalid",
        Place::Server,
        "it ends before half of the lease has passed",
        |scene| bad_line(scene, Line::Garbage, "replies are random bytes"),
    ),
];

fn a_server_is_cut_off(scene: &Scene) {
    let end = Mended(scene);
    scene.server().ways.iter().for_each(|way| way.set_fault(Line::Silence));
    scene.act("packets to the registry are lost");
    let step = the_registry_is_unreachable(scene).step_saying("Check that the registry is running");
    step.says("On this host, as the server's operating system user, run `psql`");
    let string = rows(&mut scene.cluster().connect_to("shop"), &step.command(0, &[]));
    let mut psql = scene.cluster().program("psql");
    let output = psql.args(["-X", "-c", "SELECT 1", &string[0][0]]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("timeout expired"), "{said}");
    scene.act(format!("{}: psql says: timeout expired", step.name));
    drop(end);
    scene.act("the network is repaired");
    scene.over();
}

/// A server joins while the only worker ID in the range of the registry is taken.
fn all_worker_ids_are_taken(scene: &Scene) {
    let mut client = scene.site().registry_client();
    let (first, last): (i32, i32) = {
        let row = client.query_one("SELECT first_worker, last_worker FROM snowflake_registry.status", &[]);
        row.map(|row| (row.get(0), row.get(1))).unwrap()
    };
    let worker = leased_worker(scene.cluster());
    client.run(&format!(
        "SELECT snowflake_registry.configure(first_worker => {worker}, last_worker => {worker})"
    ));
    let copy = scene.cluster().base_backup(&[("cluster_name", JOINING)]);
    copy.start_server();
    let joining = Watched::unready(scene, JOINING, copy);
    scene.act("the range of worker IDs ends at one that is taken, and a server joins");
    let few = scene.alert("SnowflakeRegistryFewWorkerIds");
    let shown = scene.run(&few.step_saying("List the holders"), &mut client);
    assert!(shown.iter().any(|row| row[0] == worker.to_string() && row[1] == "held"), "{shown:?}");
    let ended = scene.alert("SnowflakeIdLeaseEnded");
    scene.wait_for_status(&joining.cluster, "registry_state = 'all taken'");
    let half_expired =
        scene.site().pages.follow(&ended.step_saying("*critical*"), "SnowflakeIdLeaseHalfExpired");
    let step = half_expired.step_saying("Follow [State of the registry]");
    let states = scene.site().pages.follow(&step, "State of the registry");
    scene.site().pages.follow(&states.row("all taken"), "SnowflakeRegistryFewWorkerIds");
    let step = few.step_saying("extend the pool");
    scene.run_with(&step, 0, &[&last.to_string()], &mut client);
    leased_worker(&joining.cluster);
    scene.act("the server has a worker ID, and is stopped");
    client
        .run(&format!("SELECT snowflake_registry.configure(first_worker => {first}, none_by_hand => true)"));
    drop(joining);
    scene.over();
}

/// A fault of a server's ways to the registry that lasts for two renewals.
fn bad_line(scene: &Scene, line: Line, what: &str) {
    let end = Mended(scene);
    scene.server().ways.iter().for_each(|way| way.set_fault(line));
    scene.act(what);
    thread::sleep(scene.stage.scale.of(120));
    drop(end);
    renewed(scene);
}

/// Ends the faults of a server's ways to the registry, even after a panic.
struct Mended<'a>(&'a Scene<'a>);

impl Drop for Mended<'_> {
    fn drop(&mut self) {
        self.0.server().ways.iter().for_each(|way| way.set_fault(Line::None));
    }
}
