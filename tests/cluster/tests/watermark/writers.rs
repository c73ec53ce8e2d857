//! Transactions of all kinds that insert rows with IDs. They end later than they take their IDs, so their rows become
//! visible in another order.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use harness::*;
use postgres::Error;

/// The tables. Each row of `events` is copied to `parted`, with the same ID. The rows of `small` have another layout.
const TABLES: &str = "
    CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text);
    CREATE TABLE parted (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
    CREATE TABLE small (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());

    CREATE FUNCTION copy_event() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO parted VALUES (NEW.id);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER copy_event AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION copy_event();

    -- An order causes one event at once, and another one when its transaction commits.
    CREATE FUNCTION note_order() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO events (note) VALUES (TG_NAME);
        PERFORM pg_sleep(random() * 0.003);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER at_once AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION note_order();
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION note_order();

    CREATE PROCEDURE insert_and_commit(transactions int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR n IN 1 .. transactions LOOP
            INSERT INTO events (note) VALUES ('procedure'), ('procedure');
            PERFORM pg_sleep(random() * 0.005);
            IF n % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
        END LOOP;
    END
    $$;

    -- Each process of a parallel query reads some of the pages. A page has two rows.
    CREATE TABLE numbers (n int, filler char(3000));
    ALTER TABLE numbers ALTER filler SET STORAGE plain;
    INSERT INTO numbers SELECT n, '' FROM generate_series(1, 60) AS n;
    ALTER TABLE numbers SET (parallel_workers = 2);
    ANALYZE numbers;";

/// The settings of a server with writers. Small queries run in parallel. If `fsync` is on, commits take some milliseconds.
pub const SETTINGS: Settings = &[
    ("commit_delay", "3000"),
    ("commit_siblings", "0"),
    ("max_prepared_transactions", "30"),
    ("max_worker_processes", "30"),
    ("max_parallel_workers", "20"),
    ("parallel_setup_cost", "0"),
    ("parallel_tuple_cost", "0"),
    ("min_parallel_table_scan_size", "0"),
];

/// Returns a server with the tables for [`Writer`]s and consumers. Table `parted` has a partition for each second of the
/// first quarter of a minute.
pub fn server(builder: Builder) -> Cluster {
    let cluster = builder.worker(1).settings(SETTINGS).start();
    let mut client = cluster.connect();
    client.run(TABLES);
    wait_for_first_id(&mut client);
    client.run(
        "DO $$ BEGIN FOR part IN 0 .. 15 LOOP
             EXECUTE format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES FROM (%s) TO (%s)', part,
                 snowflake_min_id(now() + part * interval '1 s'), snowflake_min_id(now() + (part + 1) * interval '1 s'));
         END LOOP; END $$",
    );
    cluster
}

/// The kinds of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Waiting,
    RolledBack,
    Savepoints,
    Prepared,
    PreparedByTrigger,
    Parallel,
    ParallelAfterLeader,
    ParallelBeforeLeader,
    ParallelBesideLeader,
    Copied,
    Procedure,
    Triggers,
    TwoLayouts,
    FourLayouts,
    Batch,
}

pub const KINDS: [Kind; 15] = [
    Kind::Waiting,
    Kind::RolledBack,
    Kind::Savepoints,
    Kind::Prepared,
    Kind::PreparedByTrigger,
    Kind::Parallel,
    Kind::ParallelAfterLeader,
    Kind::ParallelBeforeLeader,
    Kind::ParallelBesideLeader,
    Kind::Copied,
    Kind::Procedure,
    Kind::Triggers,
    Kind::TwoLayouts,
    Kind::FourLayouts,
    Kind::Batch,
];

/// A client that runs transactions of these kinds.
pub struct Writer<'a> {
    pub server: &'a Cluster,
    pub number: usize,
    pub seed: u64,
    pub kinds: &'a [Kind],
    /// The number of transactions that have ended as intended, by their position in `kinds`.
    pub ended: &'a [AtomicU64],
    /// Whether errors are expected, because the server has accidents. Otherwise an error is a failure.
    pub expects_errors: bool,
}

impl Writer<'_> {
    /// Runs transactions until it is told to stop. Reconnects after losing its server.
    pub fn run(self, stop: &AtomicBool) {
        let mut random = Random::of(self.seed);
        let mut sessions = None;
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) {
            let Some((client, other)) = &mut sessions else {
                sessions = self.connect();
                continue;
            };
            let at = random.below(self.kinds.len() as u64) as usize;
            round += 1;
            match self.transact(client, other, self.kinds[at], round, &mut random) {
                Ok(()) => {
                    self.ended[at].fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    assert!(self.expects_errors, "{:?}: {}", self.kinds[at], text(&error));
                    let _ = client.batch_execute("ROLLBACK; RESET ALL");
                    thread::sleep(Duration::from_millis(5));
                    if client.is_closed() || other.is_closed() {
                        sessions = None;
                    }
                }
            }
        }
    }

    fn connect(&self) -> Option<(Client, Client)> {
        match self
            .server
            .try_connect("postgres")
            .and_then(|client| Ok((client, self.server.try_connect("postgres")?)))
        {
            Ok(sessions) => Some(sessions),
            Err(error) => {
                assert!(self.expects_errors, "{error}");
                thread::sleep(Duration::from_millis(20));
                None
            }
        }
    }

    /// Runs one transaction. Prepared transactions are finished by the other session.
    fn transact(
        &self,
        client: &mut Client,
        other: &mut Client,
        kind: Kind,
        round: u64,
        random: &mut Random,
    ) -> Result<(), Error> {
        const INSERT: &str = "INSERT INTO events (note) SELECT 'row' FROM generate_series(1, 3)";
        let number = self.number;
        let wait = random.milliseconds(15).as_secs_f64();
        let sleep = format!("SELECT pg_sleep({wait})");
        let end = ["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"][random.below(4) as usize];
        match kind {
            Kind::Waiting => client.batch_execute(&format!("BEGIN; {INSERT}; {sleep}; {INSERT}; COMMIT")),
            Kind::RolledBack => client.batch_execute(&format!("BEGIN; {INSERT}; {sleep}; ROLLBACK")),
            Kind::Savepoints => client.batch_execute(&format!(
                "BEGIN; SAVEPOINT a; {INSERT}; ROLLBACK TO a; {sleep}; {INSERT}; SAVEPOINT b; {INSERT}; RELEASE b; {end}"
            )),
            Kind::Prepared | Kind::PreparedByTrigger => {
                let insert = if kind == Kind::Prepared { INSERT } else { "INSERT INTO orders DEFAULT VALUES" };
                client.batch_execute(&format!(
                    "BEGIN; {insert}; PREPARE TRANSACTION 'writer {number} {round}'"
                ))?;
                random.pause(15);
                other.batch_execute(&format!("{end} PREPARED 'writer {number} {round}'"))
            }
            Kind::Parallel
            | Kind::ParallelAfterLeader
            | Kind::ParallelBeforeLeader
            | Kind::ParallelBesideLeader => {
                let leader_if = |wanted: Kind| if kind == wanted { INSERT } else { "" };
                let (before, after) =
                    (leader_if(Kind::ParallelAfterLeader), leader_if(Kind::ParallelBeforeLeader));
                let participates = kind == Kind::ParallelBesideLeader;
                client.batch_execute(&format!(
                    "BEGIN; SET LOCAL parallel_leader_participation = {participates}; {before};
                     CREATE TABLE made_by_{number} AS
                         SELECT n, snowflake_nextval() AS id, pg_sleep(0.0002) IS NULL AS slept FROM numbers;
                     {after}; {sleep};
                     INSERT INTO events (id) SELECT id FROM made_by_{number}; DROP TABLE made_by_{number}; {end}"
                ))
            }
            Kind::Copied => {
                let mut copy = client.copy_in("COPY events (note) FROM STDIN")?;
                for row in 0..30 {
                    // An error is reported at the end.
                    let _ = writeln!(copy, "copied {row}");
                    if row % 10 == 9 {
                        let _ = copy.flush();
                        random.pause(5);
                    }
                }
                copy.finish().map(drop)
            }
            Kind::Procedure => client.batch_execute("CALL insert_and_commit(6)"),
            Kind::Triggers => {
                client.batch_execute(&format!("BEGIN; INSERT INTO orders DEFAULT VALUES; {sleep}; {end}"))
            }
            Kind::TwoLayouts => client.batch_execute(&format!(
                "BEGIN; {INSERT}; SET LOCAL snowflake_id.layout = 'js53'; INSERT INTO small DEFAULT VALUES; {sleep};
                 SET LOCAL snowflake_id.layout = 'standard'; {INSERT}; SET LOCAL snowflake_id.layout = 'js53';
                 INSERT INTO small DEFAULT VALUES; {end}"
            )),
            Kind::FourLayouts => {
                let others = ["wide", "discord", "instagram"]
                    .map(|layout| format!("SET LOCAL snowflake_id.layout = '{layout}'; SELECT snowflake_nextval();"))
                    .concat();
                client.batch_execute(&format!(
                    "BEGIN; {others} SET LOCAL snowflake_id.layout = 'standard'; {INSERT};
                     SET LOCAL snowflake_id.layout = 'js53'; INSERT INTO small DEFAULT VALUES; {sleep}; {end}"
                ))
            }
            Kind::Batch => client.batch_execute(&format!(
                "BEGIN; CREATE TEMP TABLE batch ON COMMIT DROP AS SELECT snowflake_batch(20) AS id; {sleep};
                 INSERT INTO events (id) SELECT id FROM batch ORDER BY id DESC; {end}"
            )),
        }
    }
}

/// Finishes prepared transactions that were left over. The server may still be about to restart after an accident.
pub fn finish_prepared(server: &Cluster) {
    eventually("prepared transactions", || -> Result<(), Error> {
        let mut client = server.try_connect("postgres")?;
        let left = client.query("SELECT gid FROM pg_prepared_xacts ORDER BY gid", &[])?;
        for (at, row) in left.iter().enumerate() {
            let end = if at % 3 == 0 { "ROLLBACK" } else { "COMMIT" };
            // Its writer may have finished it meanwhile.
            let _ = client.batch_execute(&format!("{end} PREPARED '{}'", row.get::<_, &str>(0)));
        }
        client.batch_execute("SELECT 1")
    });
}
