//! Clients that take IDs while something happens to their server, and chance.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use postgres::Client;

use crate::{Cluster, assert_increasing, ids};

/// A small generator of random numbers (splitmix64): a run can be repeated by its seed.
pub struct Random(u64);

impl Random {
    /// Seeded by `SNOWFLAKE_ID_SEED`, or else by the time. The seed is printed, which shows when the test
    /// fails.
    pub fn seeded() -> Random {
        let time = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let seed = std::env::var("SNOWFLAKE_ID_SEED").map_or_else(|_| time(), |seed| seed.parse().unwrap());
        println!("SNOWFLAKE_ID_SEED={seed}");
        Random(seed)
    }

    /// A number from 0 to `end` - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Less than `end` milliseconds.
    pub fn milliseconds(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }
}

/// Tells clients to stop when it goes out of scope: a test that panics would otherwise wait for them for
/// ever.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes IDs in various ways until it is told to stop or the server goes away, and adds them to `all`: every
/// one that was returned, committed or not.
pub fn take_until(cluster: &Cluster, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
    take_in_database_until(cluster, "postgres", stop, all);
}

/// The same in a database.
pub fn take_in_database_until(cluster: &Cluster, database: &str, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
    let queries = [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_batch(50)",
        "SELECT snowflake_nextval() FROM generate_series(1, 20)",
    ];
    let Ok(mut client) = cluster.try_connect(database) else { return };
    let mut mine = Vec::new();
    for query in queries.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match client.query(*query, &[]) {
            Ok(rows) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            Err(_) if client.is_closed() => break,
            // The clock is behind, or the keeper away.
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    assert_increasing(&mine);
    all.lock().unwrap().extend(mine);
}

/// What clients were given.
#[derive(Default)]
pub struct HandedOut {
    /// IDs of rows whose commit was reported.
    pub rows: Vec<i64>,
    /// All others.
    pub others: Vec<i64>,
}

impl HandedOut {
    pub fn all(&self) -> Vec<i64> {
        [self.rows.as_slice(), &self.others].concat()
    }
}

/// Creates the table that [`under_load`] fills.
pub fn create_orders(cluster: &Cluster) {
    let table = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text)";
    cluster.connect().batch_execute(table).unwrap();
}

/// Runs `event` while three clients take IDs from the server and four insert rows into table `orders`. The
/// server may be gone when that is over. Returns also what `event` does.
pub fn under_load<T>(cluster: &Cluster, event: impl FnOnce() -> T) -> (HandedOut, T) {
    let stop = AtomicBool::new(false);
    let (taken, inserted) = (Mutex::default(), Mutex::<HandedOut>::default());
    let result = thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| take_until(cluster, &stop, &taken));
        }
        for _ in 0..4 {
            scope.spawn(|| insert_until(cluster, &stop, &inserted));
        }
        let result = event();
        stop.store(true, Ordering::Relaxed);
        result
    });
    let mut all = inserted.into_inner().unwrap();
    all.others.extend(taken.into_inner().unwrap());
    (all, result)
}

/// Inserts rows until it is told to stop or the server goes away. Every fourth transaction is rolled back.
fn insert_until(cluster: &Cluster, stop: &AtomicBool, all: &Mutex<HandedOut>) {
    let Ok(mut client) = cluster.try_connect("postgres") else { return };
    let mut mine = HandedOut::default();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) || client.is_closed() {
            break;
        }
        if insert(&mut client, 1 + round % 10, round % 4 != 0, &mut mine).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
    }
    let mut all = all.lock().unwrap();
    all.rows.extend(mine.rows);
    all.others.extend(mine.others);
}

fn insert(
    client: &mut Client,
    count: i32,
    commit: bool,
    mine: &mut HandedOut,
) -> Result<(), postgres::Error> {
    let mut transaction = client.transaction()?;
    let insert = "INSERT INTO orders (note) SELECT 'row ' || n FROM generate_series(1, $1) AS n RETURNING id";
    let rows = transaction.query(insert, &[&count])?;
    let ended = if commit { transaction.commit() } else { transaction.rollback() };
    let list = if commit && ended.is_ok() { &mut mine.rows } else { &mut mine.others };
    list.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    ended
}

/// The IDs of table `orders`.
pub fn orders(cluster: &Cluster) -> Vec<i64> {
    ids(&mut cluster.connect(), "SELECT id FROM orders ORDER BY id")
}
