//! Faults of a server with a fixed worker ID. In a fleet, the registry prevents most of them.

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::faults::SmallDisk;
use snowflake_id_cluster_tests::{
    Builder, Client, Cluster, Run, assert_increasing, ids, single, wait_for_first_id,
};

use super::{Fault, Place};
use crate::ledger::Kind;
use crate::scene::Scene;

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "a clone with the same worker ID",
        "Two primaries have the same worker ID",
        Place::Single,
        &["SnowflakeIdDuplicateWorkerId"],
        |scene| {
            let server = Watched::start(scene, "single", worker(1000).start());
            let clone = Watched::start(scene, "clone", server.cluster.base_backup(&[]));
            scene.act("a base backup of a server with a fixed worker ID is started");
            let step =
                scene.alert("SnowflakeIdDuplicateWorkerId").step_saying("If one of them is an old primary");
            scene.follow(&step, "or a clone, stop it", || {
                clone.cluster.stop_server("fast");
                drop(clone);
            });
            scene.over();
        },
    ),
    Fault::new(
        "a paused virtual machine",
        "for example after a virtual machine was paused",
        Place::Single,
        &["SnowflakeIdClockJumped"],
        |scene| {
            let server = Watched::start(scene, "single", worker(1000).start());
            server.cluster.set_clock(7200.0);
            scene.act("the clock jumps ahead by two hours, and is right");
            let runbook = scene.alert("SnowflakeIdClockJumped");
            let steps =
                scene.site().pages.follow(&runbook.step_saying("*critical*"), "The clock jumped ahead");
            let step =
                steps.step_saying("If the clock is right, for example after a virtual machine was paused");
            scene.run(&step, &mut server.cluster.connect());
            runbook.ends("`clock_jump` is NULL");
            scene.wait_for_status(&server.cluster, "clock_jump IS NULL AND state = 'ready'");
            scene.over();
        },
    ),
    Fault::new(
        "the worker ID does not fit the layout",
        "the worker ID does not fit the layout",
        Place::Single,
        &["SnowflakeIdError", "SnowflakeIdNotReady"],
        |scene| {
            let server = Watched::start(scene, "single", worker(1000).start());
            let mut client = server.cluster.connect();
            set_worker(&mut client, 5000);
            scene.act("snowflake_id.worker_id = 5000");
            scene.alert("SnowflakeIdError").step_saying("If `last_error` is about the worker ID");
            let row = scene.row_of("SnowflakeIdNotReady", "State of a server", "worker id too large");
            let shown = rows(&mut client, "SELECT state, last_error FROM snowflake_status");
            assert!(shown[0][0] == "worker id too large" && shown[0][1].contains("1023"), "{shown:?}");
            scene.follow(&row, "set a smaller fresh worker ID", || set_worker(&mut client, 1001));
            scene.over();
        },
    ),
    Fault::new(
        "a server without a worker ID",
        "without a worker ID, calls fail",
        Place::Single,
        &["SnowflakeIdNotReady"],
        |scene| {
            let server = Watched::start(scene, "single", worker(1000).start());
            let mut client = server.cluster.connect();
            set_worker(&mut client, -1);
            scene.act("snowflake_id.worker_id = -1");
            let row = scene.row_of("SnowflakeIdNotReady", "State of a server", "no worker id");
            scene.wait_for_status(&server.cluster, "state = 'no worker id'");
            scene.follow(&row, "otherwise, set a fresh worker ID", || set_worker(&mut client, 1000));
            scene.over();
        },
    ),
    Fault::new(
        "the keeper's database belongs to another role",
        "Any other owner can prevent the whole server from issuing IDs",
        Place::Single,
        &["SnowflakeIdWarning"],
        |scene| {
            let server = Watched::start(scene, "single", worker(1000).start());
            let mut client = server.cluster.connect();
            client.run("CREATE ROLE app; ALTER DATABASE postgres OWNER TO app");
            scene.act("ALTER DATABASE postgres OWNER TO app;");
            let runbook = scene.alert("SnowflakeIdWarning");
            let warning: String = single(&mut client, "SELECT warning FROM snowflake_status");
            scene.act(format!("{}: {warning}", runbook.heading));
            let step = runbook.step_saying("If an owner is not a superuser");
            scene.follow(&step, "make a superuser the owner", || {
                client.run("ALTER DATABASE postgres OWNER TO CURRENT_USER");
            });
            scene.over();
        },
    ),
    Fault::new(
        "the clock is set back again and again",
        "the clock is set back and forth until all values are exhausted",
        Place::Single,
        &["SnowflakeIdClockSequenceNearlyExhausted", "SnowflakeIdClockSetBack"],
        the_clock_is_set_back_repeatedly,
    ),
    Fault::silent(
        "the disk of pg_wal is full",
        "the disk of `pg_wal` is full",
        Place::Single,
        "PostgreSQL itself is down, which the metric pg_up of the exporter shows",
        the_disk_is_full,
    ),
];

fn worker(id: i32) -> Builder {
    Cluster::builder().worker(id).clock()
}

fn set_worker(client: &mut Client, id: i32) {
    client.run(&format!("ALTER SYSTEM SET snowflake_id.worker_id = {id}"));
    client.run("SELECT pg_reload_conf()");
}

fn the_clock_is_set_back_repeatedly(scene: &Scene) {
    // The server needs a history, because it never uses times before its first start.
    let server = worker(100).set("snowflake_id.layout", "rollback3").stopped();
    server.set_clock(-600.0);
    server.start_server();
    server.connect().run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut server.connect());
    server.stop_server("fast");
    server.set_clock(0.0);
    server.start_server();
    let server = Watched::start(scene, "single", server);
    let mut client = server.cluster.connect();
    for step in 1..=5 {
        server.cluster.set_clock(-60.0 * f64::from(step));
        // The server continues with the next value of the clock sequence.
        let expected = format!("snowflake_clock_seq(snowflake_nextval()) = {step}");
        scene.wait_for_status(&server.cluster, &expected);
    }
    scene.act("the clock is set back by a minute five times");
    let runbook = scene.alert("SnowflakeIdClockSequenceNearlyExhausted");
    let step = runbook.step_saying("To find out when values become available");
    let shown = scene.run(&step, &mut client);
    assert!(shown.len() >= 5, "{shown:?}");
    scene.site().pages.follow(&step, "SnowflakeIdClockSetBack");
    let step = scene.alert("SnowflakeIdClockSetBack").step_saying("Let NTP slew the clock");
    scene.follow(&step, "Let NTP slew the clock instead of stepping it", || server.cluster.set_clock(0.0));
    scene.over();
}

/// The server stops by itself. With more space, it continues above its IDs.
fn the_disk_is_full(scene: &Scene) {
    let disk = match SmallDisk::mount(40) {
        Ok(disk) => disk,
        Err(why) => return scene.act(format!("left out, because no disk can be mounted: {why}")),
    };
    let server = worker(1002).set("restart_after_crash", "off").stopped();
    server.move_wal(disk.path());
    server.start_server();
    let mut client = server.connect();
    client.run("CREATE EXTENSION snowflake_id; CREATE TABLE rows (id bigint, text text)");
    let mut all = vec![wait_for_first_id(&mut client)];
    let insert = "INSERT INTO rows SELECT snowflake_nextval(), repeat('x', 1000) FROM generate_series(1, 100)
                  RETURNING id";
    while let Ok(rows) = client.query(insert, &[]) {
        all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    scene.wait_until("the server to be down", || !server.data_dir().join("postmaster.pid").exists());
    assert!(server.log().contains("No space left on device"), "{}", server.log());
    scene.act("the disk of pg_wal is full, and the server is down");
    disk.grow(400);
    server.start_server();
    scene.act("the disk has more space, and the server is started");
    let mut client = server.connect();
    all.push(wait_for_first_id(&mut client));
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
    scene.keep(Kind::Ids, all);
}

/// A server that is watched while the value exists.
pub struct Watched<'a> {
    pub cluster: Cluster,
    scene: &'a Scene<'a>,
    name: &'static str,
}

impl<'a> Watched<'a> {
    /// Starts the server if it is not running, and waits for an ID.
    fn start(scene: &'a Scene<'a>, name: &'static str, cluster: Cluster) -> Watched<'a> {
        match cluster.try_run("SELECT 1") {
            // A copy has the role already.
            false => cluster.start_server(),
            true => cluster.connect().run("CREATE ROLE prometheus LOGIN IN ROLE pg_monitor"),
        }
        wait_for_first_id(&mut cluster.connect());
        Watched::unready(scene, name, cluster)
    }

    /// Watches a server that need not issue IDs.
    pub fn unready(scene: &'a Scene<'a>, name: &'static str, cluster: Cluster) -> Watched<'a> {
        scene.site().watch(name, &cluster, "postgres", "postgres_exporter.yml");
        // A counter that has increased before the first sample has not increased for Prometheus.
        // An earlier server may have had this name.
        let server = cluster.host().display();
        let sample = format!("snowflake_id_in_recovery{{instance=\"{name}\",server=\"{server}:5432\"}}");
        scene.wait_until("a sample", || {
            scene.site().prometheus.query(&sample).is_some_and(|samples| !samples.is_empty())
        });
        Watched { cluster, scene, name }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.scene.site().unwatch(self.name);
    }
}
