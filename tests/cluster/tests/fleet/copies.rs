//! Copies of servers that lease their worker IDs, made in various ways: each copy issues IDs under a lease of its own,
//! and no ID is repeated.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Instant, UNIX_EPOCH};

use harness::*;
use serde_json::{Value, json};

/// Runs clients on both servers. The second server is started meanwhile. Returns the IDs of both.
fn both_under_load(original: &Cluster, start_copy: impl FnOnce(), copy: &Cluster) -> [HandedOut; 2] {
    let (of_original, of_copy) = under_load(original, || {
        start_copy();
        leased_worker(copy);
        under_load(copy, || while_inserting(copy)).0
    });
    [of_original, of_copy]
}

fn assert_all_distinct(all: &[HandedOut]) {
    assert_distinct(all.iter().flat_map(|some| some.rows.iter().chain(&some.others)));
    assert!(all.iter().all(|some| some.rows.len() > 50 && some.others.len() > 500), "hardly any IDs");
}

/// Checks the rows of both servers for duplicate IDs, which the unique key of one server would have refused.
fn assert_no_duplicate_rows(servers: &[&Cluster]) {
    for server in servers {
        assert!(!server.log().contains("duplicate key"), "{}", server.log());
    }
}

/// Checks that both servers continue, each under an identity of its own.
fn expect_unrecognized(original: &Cluster, copy: &Cluster, all: &[HandedOut]) {
    assert_ne!(leased_worker(original), leased_worker(copy));
    assert_all_distinct(all);
    assert_no_duplicate_rows(&[original, copy]);
}

#[test]
fn a_copy_of_a_stopped_server() {
    let fleet = Fleet::start(LONG_LEASES);
    let original = fleet.server().short_horizon().start();
    create_orders(&original);
    let worker = leased_worker(&original);
    let copy = original.duplicate_in_between();
    let all = both_under_load(&original, || copy.start_server(), &copy);
    expect_unrecognized(&original, &copy, &all);
    assert_eq!(leased_worker(&original), worker);
    assert!(copy.log().contains("is not used: the file is a copy"), "{}", copy.log());
    // A file that was moved away and back is not taken for a copy.
    original.stop_server("fast");
    let elsewhere = original.host().join("data.elsewhere");
    fs::rename(original.data_dir(), &elsewhere).unwrap();
    fs::rename(&elsewhere, original.data_dir()).unwrap();
    original.start_server();
    assert_eq!(leased_worker(&original), worker);
}

#[test]
fn a_base_backup() {
    let fleet = Fleet::start(LONG_LEASES);
    let original = fleet.server().short_horizon().start();
    create_orders(&original);
    leased_worker(&original);
    let mut copy = None;
    let (mut before, ()) = under_load(&original, || {
        while_inserting(&original);
        copy = Some(original.base_backup(&[]));
    });
    let copy = copy.unwrap();
    assert!(lease_path(&copy).exists());
    let all = both_under_load(&original, || copy.start_server(), &copy);
    before.extend(&all[0]);
    let [_, of_copy] = all;
    expect_unrecognized(&original, &copy, &[before, of_copy]);
}

/// The lease file of a rewound server has been replaced by that of the server that it now follows.
#[test]
fn a_rewound_server() {
    let fleet = Fleet::start(LONG_LEASES);
    let old = fleet.server().short_horizon().set("wal_log_hints", "on").set("wal_keep_size", "1GB").start();
    create_orders(&old);
    let mut all = some_ids(&old);
    let new = old.start_standby(&[]);
    all.extend(some_ids(&old));
    new.promote();
    // Both continue: a split brain.
    let parts = both_under_load(&old, || (), &new);
    expect_unrecognized(&old, &new, &parts);
    all.extend(parts.iter().flat_map(HandedOut::all));
    old.stop_server("fast");
    new.connect().run("CHECKPOINT");
    let source = format!("host={} user=test dbname=postgres", new.host().display());
    let configuration = fs::read(old.data_dir().join("postgresql.conf")).unwrap();
    successful(old.program("pg_rewind").arg("--target-pgdata").arg(old.data_dir()).args([
        "--no-sync",
        "--source-server",
        &source,
    ]));
    assert_eq!(original_in(&lease_file(&old)), original_in(&lease_file(&new)));
    fs::write(old.data_dir().join("postgresql.conf"), configuration).unwrap();
    // Started as a primary, it is in a second split brain, which is impossible for a standby.
    old.start_server();
    let parts = both_under_load(&new, || (), &old);
    expect_unrecognized(&new, &old, &parts);
    all.extend(parts.iter().flat_map(HandedOut::all));
    assert_distinct(&all);
    assert!(old.log().contains("is not used: the file is a copy"), "{}", old.log());
}

/// The fields by which a lease file identifies itself as the original.
fn original_in(file: &str) -> [Value; 2] {
    let original = &contents_of(file)["original"];
    ["inode", "born_ns"].map(|key| original[key].clone())
}

/// The contents of a lease file: a description, and a line of a checksum and JSON.
fn contents_of(file: &str) -> Value {
    let line = file.lines().nth(1).unwrap();
    serde_json::from_str::<Value>(&line[9..]).unwrap()[0].clone()
}

#[test]
fn a_server_restored_from_an_archive() {
    let fleet = Fleet::start(LONG_LEASES);
    let original = fleet
        .server()
        .short_horizon()
        .set("archive_mode", "on")
        .set("archive_command", "mkdir -p ../archive && cp %p ../archive/%f")
        .start();
    create_orders(&original);
    leased_worker(&original);
    let restore_command = format!("cp {}/archive/%f %p", original.host().display());
    let mut copy = None;
    let (mut before, ()) = under_load(&original, || {
        copy = Some(original.base_backup(&[("archive_mode", "off"), ("restore_command", &restore_command)]));
        while_inserting(&original);
        let mut client = original.connect();
        let target: String = single(&mut client, "SELECT pg_current_wal_lsn()::text");
        copy.as_ref().unwrap().configure(&[("recovery_target_lsn", &target)]);
        while_inserting(&original);
        original.archive_all();
    });
    let copy = copy.unwrap();
    copy.recover_to_target();
    copy.promote();
    let all = both_under_load(&original, || (), &copy);
    before.extend(&all[0]);
    let [_, of_copy] = all;
    expect_unrecognized(&original, &copy, &[before, of_copy]);
}

/// The old primary continues under load in one case and is gone in the other. The first ID is available soon.
#[test]
fn a_promoted_standby() {
    for is_killed in [false, true] {
        let fleet = Fleet::start(LONG_LEASES);
        let primary = fleet.server().short_horizon().start();
        create_orders(&primary);
        leased_worker(&primary);
        let standby = primary.start_standby(&[]);
        let (before, (after, took)) = under_load(&primary, || {
            while_inserting(&primary);
            if is_killed {
                kill_server(&primary);
            }
            let start = Instant::now();
            standby.promote();
            leased_worker(&standby);
            let took = start.elapsed();
            (under_load(&standby, || while_inserting(&standby)).0, took)
        });
        println!("primary killed {is_killed}: first ID {took:?} after promotion");
        // Up to snowflake_id.horizon_margin of this is the wait for the clock to reach the horizon of the primary.
        assert_within(2 * SLACK, took, "the first ID");
        assert_all_distinct(&[before, after]);
        assert_no_duplicate_rows(&[&primary, &standby]);
        if is_killed {
            primary.start_server();
        }
        assert_ne!(leased_worker(&primary), leased_worker(&standby));
    }
}

/// Changes the lease file of a copy so that it claims to be the original.
fn forge(copy: &Cluster) {
    let path = lease_path(copy);
    let metadata = fs::metadata(&path).unwrap();
    let born = metadata.created().unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let text = fs::read_to_string(&path).unwrap();
    let mut contents = contents_of(&text);
    let facts = [
        ("inode", json!(metadata.ino())),
        ("born_ns", json!(born as u64)),
        ("device", json!(metadata.dev())),
    ];
    facts.into_iter().for_each(|(key, fact)| contents["original"][key] = fact);
    let json = json!([contents]).to_string();
    let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let text = format!("{}\n{line}", text.lines().next().unwrap());
    fs::write(&path, text).unwrap(); // Written in place, so it is still the same file.
}

/// A twin, which cannot be told from the original by its file. The registry detects it at the second renewal.
#[test]
fn a_twin() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1s'");
    // Let the twin start without waiting for the clock.
    let soon = [("snowflake_id.horizon_margin", "200ms"), ("snowflake_id.max_ahead", "100ms")];
    let original = fleet.server().settings(&soon).start();
    create_orders(&original);
    let worker = leased_worker(&original);
    let twin = original.base_backup(&[]);
    let found = |server: &Cluster| server.log().contains("another server has the same lease");
    let start_of_twin = Instant::now();
    let (of_original, of_twin) = under_load(&original, || {
        // Keep the state of this moment, not that of the backup.
        eventually("a state that holds during the copy", || {
            let text = fs::read_to_string(lease_path(&original)).ok()?;
            fs::write(lease_path(&twin), &text).ok()?;
            forge(&twin);
            twin.start_server();
            Some(())
        });
        under_load(&twin, || {
            eventually("the discovery", || found(&original) || found(&twin));
            println!("found out {:?} after the start of the twin", start_of_twin.elapsed());
            eventually("two identities", || leased_worker(&original) != leased_worker(&twin));
        })
        .0
    });
    let (before_original, before_twin) = (of_original.all(), of_twin.all());
    assert_distinct(&before_original);
    assert_distinct(&before_twin);
    let mut known: std::collections::HashSet<i64> = before_original.iter().copied().collect();
    let repeats = before_twin.iter().filter(|id| known.contains(id)).count();
    println!(
        "until then {} IDs by the original, {} by the twin, {repeats} of them the same",
        before_original.len(),
        before_twin.len()
    );
    assert!(found(&original) != found(&twin), "one of the two goes on");
    known.extend(&before_twin);
    // From here on, no ID is repeated.
    let all = both_under_load(&original, || (), &twin);
    assert!([&original, &twin].iter().filter(|server| leased_worker(server) == worker).count() <= 1);
    assert_all_distinct(&all);
    let again = all.iter().flat_map(HandedOut::all).filter(|id| known.contains(id));
    assert_eq!(again.count(), 0);
}

/// A server that learns of its twin issues no ID under the lease any more, even if its keeper cannot run.
#[test]
fn a_twin_while_the_keeper_is_paused() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1s'");
    let server = fleet.server().start();
    let worker = leased_worker(&server);
    let mut client = server.connect();
    client.run("SET statement_timeout = '500ms'");
    let paused = Paused::new(vec![keeper_pid(&mut client)]);
    // The registry knows this nonce from the renewal of the twin.
    let renewal = "UPDATE snowflake_registry.lease SET nonce = gen_random_uuid() WHERE lease_id IS NOT NULL";
    fleet.registry.connect().run(renewal);
    eventually("the discovery", || server.log().contains("another server has the same lease"));
    let issued = client.query_one("SELECT snowflake_nextval()", &[]);
    assert!(issued.is_err(), "{issued:?}");
    drop(paused);
    assert_ne!(leased_worker(&server), worker);
}
