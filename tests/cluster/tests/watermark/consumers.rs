//! Consumers that read the rows of a table in the order of their IDs, each in its own way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::*;
use postgres::{Error, IsolationLevel, Transaction};

/// Objects for the consumers.
const OBJECTS: &str = "
    -- Some rows take so long that the watermark grows between two rows.
    CREATE FUNCTION slow(id bigint) RETURNS boolean LANGUAGE plpgsql STABLE COST 1 AS $$
    BEGIN
        IF hashint8(id) % 16 = 0 THEN PERFORM pg_sleep(0.0005); END IF;
        RETURN true;
    END
    $$;
    CREATE FUNCTION read_events(after bigint, most int) RETURNS SETOF bigint LANGUAGE plpgsql
        SET enable_sort = off SET enable_seqscan = off AS $$
    DECLARE
        event record;
    BEGIN
        FOR event IN SELECT id FROM events WHERE id > after AND id + 0 < snowflake_watermark() ORDER BY id LIMIT most
        LOOP
            RETURN NEXT event.id;
            IF hashint8(event.id) % 64 = 0 THEN PERFORM pg_sleep(0.001); END IF;
        END LOOP;
    END
    $$;
    CREATE TABLE consumed (number bigserial, id bigint PRIMARY KEY, own_id bigint DEFAULT snowflake_nextval());";

/// How a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without the watermark. This consumer loses rows.
    Naive,
    /// The form that the documentation recommends.
    InOneStatement,
    /// The same with another layout, named as argument.
    OfLayout,
    /// In a second statement.
    InSecondStatement,
    /// As a filter that a sequential scan evaluates for each row.
    SequentialScan,
    /// Over partitions.
    Partitions,
    /// A cursor with several FETCHes.
    Cursor,
    /// A portal of the protocol, of which the client fetches some rows at a time.
    Portal,
    /// A loop in PL/pgSQL.
    Plpgsql,
    RepeatableRead,
    Serializable,
    /// In a transaction that writes and takes IDs itself. The rows are recorded in the same transaction.
    Recorded,
}

pub const WAYS: [Way; 11] = [
    Way::InOneStatement,
    Way::OfLayout,
    Way::InSecondStatement,
    Way::SequentialScan,
    Way::Partitions,
    Way::Cursor,
    Way::Portal,
    Way::Plpgsql,
    Way::RepeatableRead,
    Way::Serializable,
    Way::Recorded,
];

/// Creates the objects that consumers need.
pub fn prepare(server: &Cluster) {
    server.connect().run(OBJECTS);
}

/// The rows that a consumer has read, in its order.
pub struct Consumed {
    pub way: Way,
    pub ids: Vec<i64>,
}

impl Way {
    pub fn table(self) -> &'static str {
        match self {
            Way::OfLayout => "small",
            Way::Partitions => "parted",
            _ => "events",
        }
    }

    /// Reads rows until it is told to stop and has read the last row of its table. Counts how often it finds rows.
    pub fn consume(self, server: &Cluster, seed: u64, found: &AtomicU64, stop: &AtomicBool) -> Consumed {
        let mut random = Random::of(seed);
        let mut ids = Vec::new();
        let mut client = None;
        let mut progressed = Instant::now();
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            assert!(
                !is_last || progressed.elapsed() < TIMEOUT,
                "{self:?} does not reach the last row: {}",
                server.log()
            );
            let Some(session) = client.as_mut() else {
                client = server.try_connect("postgres").ok();
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let cursor = ids.last().copied().unwrap_or_default();
            match self.read(session, cursor, &mut random) {
                Ok(read) => {
                    if is_last && read.is_empty() && self.is_at_end(session, cursor) {
                        return Consumed { way: self, ids };
                    }
                    if !is_last || !read.is_empty() {
                        progressed = Instant::now();
                    }
                    found.fetch_add(u64::from(!read.is_empty()), Ordering::Relaxed);
                    ids.extend(read);
                }
                // Serialization failures, or an accident of the server.
                Err(_) => {
                    if session.is_closed() {
                        client = None;
                    }
                    if self == Way::Recorded {
                        // The last transaction may have been committed.
                        ids.extend(recorded_after(server, cursor));
                    }
                }
            }
            random.pause(3);
        }
    }

    fn is_at_end(self, client: &mut Client, cursor: i64) -> bool {
        let query = format!("SELECT coalesce(max(id), 0) FROM {}", self.table());
        client.query_one(&query, &[]).is_ok_and(|row| row.get::<_, i64>(0) <= cursor)
    }

    fn read(self, client: &mut Client, cursor: i64, random: &mut Random) -> Result<Vec<i64>, Error> {
        let table = self.table();
        let recommended = |cursor: i64, watermark: &str| {
            format!(
                "SELECT id FROM {table} WHERE id > {cursor} AND id < (SELECT {watermark}) ORDER BY id LIMIT 200"
            )
        };
        let from = |cursor| recommended(cursor, "snowflake_watermark()");
        // The index gives the order, and the watermark is a filter for each row, whenever it is fetched.
        let in_order = format!(
            "SELECT id FROM events WHERE id > {cursor} AND id + 0 < snowflake_watermark() ORDER BY id"
        );
        const IN_ORDER: &str = "SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off";
        match self {
            Way::Naive => all(client, &format!("SELECT id FROM events WHERE id > {cursor} ORDER BY id")),
            Way::InOneStatement | Way::Partitions => all(client, &from(cursor)),
            Way::OfLayout => all(client, &recommended(cursor, "snowflake_watermark('js53')")),
            Way::InSecondStatement => {
                let watermark: Option<i64> = client.query_one("SELECT snowflake_watermark()", &[])?.get(0);
                random.pause(3);
                let Some(watermark) = watermark else { return Ok(vec![]) };
                all(
                    client,
                    &format!("SELECT id FROM events WHERE id > {cursor} AND id < {watermark} ORDER BY id"),
                )
            }
            Way::SequentialScan => {
                client.batch_execute(
                    "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off",
                )?;
                all(
                    client,
                    &format!(
                        "SELECT id FROM events WHERE id > {cursor} AND slow(id) AND id < snowflake_watermark() ORDER BY id"
                    ),
                )
            }
            Way::Cursor => {
                let mut transaction = client.transaction()?;
                transaction.batch_execute(&format!("{IN_ORDER}; DECLARE c CURSOR FOR {in_order}"))?;
                in_pieces(transaction, random, |transaction| transaction.query("FETCH 50 FROM c", &[]))
            }
            Way::Portal => {
                let mut transaction = client.transaction()?;
                transaction.batch_execute(IN_ORDER)?;
                let portal = transaction.bind(&in_order, &[])?;
                in_pieces(transaction, random, |transaction| transaction.query_portal(&portal, 50))
            }
            Way::Plpgsql => all(client, &format!("SELECT read_events({cursor}, 500)")),
            Way::RepeatableRead => isolated(client, IsolationLevel::RepeatableRead, from, cursor, random),
            Way::Serializable => isolated(client, IsolationLevel::Serializable, from, cursor, random),
            Way::Recorded => {
                let mut transaction = client.transaction()?;
                let read = transaction
                    .query(&format!("INSERT INTO consumed (id) {} RETURNING id", from(cursor)), &[])?;
                random.pause(5);
                transaction.commit()?;
                Ok(read.iter().map(|row| row.get(0)).collect())
            }
        }
    }
}

fn all(client: &mut Client, query: &str) -> Result<Vec<i64>, Error> {
    Ok(client.query(query, &[])?.iter().map(|row| row.get(0)).collect())
}

/// Reads rows in pieces until there are no more, with pauses in between.
fn in_pieces(
    mut transaction: Transaction,
    random: &mut Random,
    mut fetch: impl FnMut(&mut Transaction) -> Result<Vec<postgres::Row>, Error>,
) -> Result<Vec<i64>, Error> {
    let mut ids = Vec::new();
    loop {
        let rows = fetch(&mut transaction)?;
        if rows.is_empty() || ids.len() > 500 {
            transaction.commit()?;
            return Ok(ids);
        }
        ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        random.pause(4);
    }
}

/// Reads in a transaction whose snapshot is older than the queries.
fn isolated(
    client: &mut Client,
    level: IsolationLevel,
    query: impl Fn(i64) -> String,
    cursor: i64,
    random: &mut Random,
) -> Result<Vec<i64>, Error> {
    let mut transaction = client.build_transaction().isolation_level(level).start()?;
    transaction.batch_execute("SELECT count(*) FROM numbers")?;
    let mut ids = Vec::new();
    for pause in [20, 3] {
        random.pause(pause);
        let cursor = ids.last().copied().unwrap_or(cursor);
        ids.extend(transaction.query(&query(cursor), &[])?.iter().map(|row| row.get::<_, i64>(0)));
    }
    transaction.commit()?;
    Ok(ids)
}

fn recorded_after(server: &Cluster, cursor: i64) -> Vec<i64> {
    let query = format!("SELECT id FROM consumed WHERE id > {cursor} ORDER BY number");
    eventually("the records", || {
        server.try_connect("postgres").and_then(|mut client| all(&mut client, &query))
    })
}

/// Checks that each consumer with the watermark has read all rows of its table once, in order. Returns how many rows the
/// naive consumers have lost.
pub fn check(server: &Cluster, consumed: &[Consumed]) -> usize {
    let mut client = server.connect();
    let mut lost = 0;
    let mut problems = Vec::new();
    for Consumed { way, ids: read } in consumed {
        let rows = ids(&mut client, &format!("SELECT id FROM {} ORDER BY id", way.table()));
        assert!(!rows.is_empty(), "no rows in {}", way.table());
        let missing: Vec<_> = rows.iter().filter(|id| !read.contains_id(id)).collect();
        println!("{way:?}: {} of {} rows, {} missing", read.len(), rows.len(), missing.len());
        if *way == Way::Naive {
            lost += missing.len();
        } else if *read != rows {
            let first = missing.iter().take(10).collect::<Vec<_>>();
            problems.push(format!("{way:?} has missed {} rows, or read others: {first:?}", missing.len()));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    lost
}

trait ContainsId {
    fn contains_id(&self, id: &i64) -> bool;
}

impl ContainsId for Vec<i64> {
    /// The IDs of a consumer are in order, even if some are missing.
    fn contains_id(&self, id: &i64) -> bool {
        self.binary_search(id).is_ok()
    }
}
