//! Processes that end, and copies of servers.

use std::thread;
use std::time::Duration;

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::faults::{Paused, background_pid, cut_power, processes, signal_one};
use snowflake_id_cluster_tests::segments::some_at_last;
use snowflake_id_cluster_tests::{Random, Run, ids, kill, leased_worker, single};

use super::{Fault, Place};
use crate::ledger::Kind;
use crate::scene::Scene;
use crate::site::lease;

const KILLED: &str = "a backend, the keeper or the postmaster is killed";
const HEALS: &str = "the server recovers within seconds, and each rule waits for a minute";

pub const FAULTS: &[Fault] = &[
    Fault::silent("kill -9 of a backend", KILLED, Place::ServerAlone, HEALS, |scene| {
        signal_one(scene.cluster(), "KILL", "datname = 'shop'", &mut Random::of(scene.at as u64));
        scene.act("kill -9 of a session");
        scene.values_come();
    }),
    Fault::silent("kill -9 of the keeper", KILLED, Place::ServerAlone, HEALS, |scene| {
        kill_worker(scene, "snowflake_id keeper", "KILL");
    }),
    Fault::silent("kill -9 of the postmaster", KILLED, Place::ServerAlone, HEALS, |scene| {
        cut_power(scene.cluster());
        scene.act("kill -9 of the postmaster");
        scene.cluster().bring_up();
        scene.act("the server is started");
        scene.values_come();
    }),
    Fault::silent(
        "immediate stop and restart",
        "restarted or stopped with `pg_ctl stop -m immediate`",
        Place::ServerAlone,
        HEALS,
        |scene| {
            scene.cluster().stop_server("immediate");
            scene.cluster().bring_up();
            scene.act("pg_ctl stop -m immediate, and a start");
            scene.values_come();
        },
    ),
    Fault::silent(
        "the keeper is terminated",
        "the keeper is terminated with `pg_terminate_backend()`",
        Place::ServerAlone,
        HEALS,
        |scene| kill_worker(scene, "snowflake_id keeper", "TERM"),
    ),
    Fault::silent(
        "the registry worker is terminated",
        "the registry worker is terminated",
        Place::ServerAlone,
        "another registry worker is started within seconds, and the lease goes on",
        |scene| kill_worker(scene, "snowflake_id registry", "TERM"),
    ),
    Fault::silent(
        "the segments worker is killed",
        "a backend, a worker, the keeper, the postmaster or the registry is killed under load",
        Place::ServerAlone,
        HEALS,
        |scene| kill_worker(scene, "snowflake_id segments", "KILL"),
    ),
    Fault::silent(
        "a copy of the server is started",
        "copied or restored",
        Place::Server,
        "the copy detects that it is one, and gets a worker ID of its own",
        a_copy_is_started,
    ),
    Fault::new(
        "a server is paused for longer than its lease",
        "a server is paused for longer than its lease",
        Place::Server,
        &["SnowflakeRegistryLeaseNotRenewed"],
        |scene| {
            let lease = lease(&mut scene.site().registry_client());
            let name = scene.server().name.clone();
            let paused = Paused::at_most(lease * 2, processes(scene.cluster()));
            scene.act("all processes of the server are stopped (SIGSTOP)");
            let runbook = scene.alert("SnowflakeRegistryLeaseNotRenewed");
            let still_held = format!(
                "SELECT count(*) FROM snowflake_registry.fleet WHERE state = 'held' AND node_name = '{name}'"
            );
            let mut registry = scene.site().registry_client();
            scene.wait_until("the end of the lease", || single::<i64>(&mut registry, &still_held) == 0);
            scene.follow(&runbook.step_saying("If it does not answer"), "resume or restart its host", || {
                drop(paused);
            });
            scene.over();
        },
    ),
    Fault::silent(
        "sessions are stopped in the middle of calls",
        "sessions are stopped in the middle of calls (SIGSTOP)",
        Place::ServerAlone,
        "other sessions go on",
        |scene| {
            let query = "SELECT pid FROM pg_stat_activity WHERE datname = 'shop' AND query LIKE 'INSERT%'";
            let pids = rows(&mut scene.cluster().connect(), query);
            let pids = pids.iter().map(|row| row[0].parse().unwrap()).collect();
            let paused = Paused::new(pids);
            scene.act("the sessions of the clients are stopped (SIGSTOP)");
            thread::sleep(Duration::from_secs(3));
            drop(paused);
            scene.values_come();
        },
    ),
    Fault::silent(
        "the stored horizon is rewritten",
        "`VACUUM FULL`, or `REPACK` of PostgreSQL 19, rewrites the stored horizon and records under load",
        Place::ServerAlone,
        "the keeper writes on",
        |scene| {
            let mut client = scene.cluster().connect();
            client.run("VACUUM FULL snowflake_internal.horizon, snowflake_internal.used_identity");
            client.run("REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA");
            scene.act("VACUUM FULL, and REFRESH MATERIALIZED VIEW .. WITH NO DATA");
            scene.cluster().restart("immediate");
            scene.act("pg_ctl stop -m immediate, and a start");
            scene.values_come();
        },
    ),
    Fault::silent(
        "the keeper's database is read-only",
        "The keeper's database, or the server, is set to `default_transaction_read_only`",
        Place::ServerAlone,
        "no effect",
        |scene| {
            let mut client = scene.cluster().connect();
            client.run("ALTER DATABASE postgres SET default_transaction_read_only = on");
            kill_worker(scene, "snowflake_id keeper", "TERM");
            client.run(
                "SET default_transaction_read_only = off;
                 ALTER DATABASE postgres RESET default_transaction_read_only",
            );
        },
    ),
];

fn kill_worker(scene: &Scene, kind: &str, signal: &str) {
    let pid = scene.wait(kind, || background_pid(scene.cluster(), kind).ok_or_else(String::new));
    kill(signal, pid);
    scene.act(format!("SIG{signal} to {kind}"));
    scene.wait_until("the next process", || {
        background_pid(scene.cluster(), kind).is_some_and(|new| new != pid)
    });
    scene.values_come();
}

/// The copy takes IDs beside the original, which goes on as well.
fn a_copy_is_started(scene: &Scene) {
    let copy = scene.cluster().base_backup(&[("cluster_name", "copy")]);
    copy.start_server();
    scene.act("a base backup of the server is started");
    let worker = leased_worker(&copy);
    let mut client = copy.connect_to("shop");
    for _ in 0..20 {
        scene.keep(Kind::Ids, ids(&mut client, "SELECT snowflake_batch(1000)"));
    }
    let numbers = some_at_last(&copy, "bills", 100);
    scene.keep(Kind::Numbers, numbers);
    copy.stop_server("fast");
    scene.act(format!("the copy got worker ID {worker}, issued 20000 IDs and 100 numbers, and is stopped"));
    scene.values_come();
}
