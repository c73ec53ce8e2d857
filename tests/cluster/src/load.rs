//! Clients that take IDs during an event, and random numbers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use crate::time::{IS_RANDOM, NoteFailure};
use crate::{Cluster, Run, assert_increasing, eventually, ids, single};

/// Random numbers. A run can be repeated with its seed.
pub struct Random(fastrand::Rng);

impl Random {
    /// Takes the seed from `SNOWFLAKE_ID_SEED`, or chooses one. Prints the seed, which is shown if the test fails.
    pub fn seeded() -> Random {
        let seed = std::env::var("SNOWFLAKE_ID_SEED")
            .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
        println!("SNOWFLAKE_ID_SEED={seed}");
        IS_RANDOM.store(true, Ordering::Relaxed);
        Random(fastrand::Rng::with_seed(seed))
    }

    /// Continues with a seed that another value has drawn, for use in another thread.
    pub fn of(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// A number from 0 to `end` - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// A random duration of less than `end` milliseconds.
    pub fn milliseconds(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    /// Sleeps for less than `end` milliseconds, so that the next event happens at a random moment.
    pub fn pause(&mut self, end: u64) {
        thread::sleep(self.milliseconds(end));
    }
}

/// How many rounds a test of accidents runs: more under "make soak".
pub fn rounds(usual: u32) -> u32 {
    std::env::var(ROUNDS).map_or(usual, |rounds| rounds.parse().unwrap())
}

/// Whether the tests run under "make soak", where no other test runs at the same time.
pub fn is_soak() -> bool {
    std::env::var_os(ROUNDS).is_some()
}

const ROUNDS: &str = "SNOWFLAKE_ID_ROUNDS";

/// Tells clients to stop when it is dropped. Without it, a test that panics would wait for its clients forever.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `event` while clients run, each in its own thread, until they are told to stop. Returns the results of the
/// clients and of `event`.
pub fn beside<R: Send, T>(
    clients: impl IntoIterator<Item = impl FnOnce(&AtomicBool) -> R + Send>,
    event: impl FnOnce() -> T,
) -> (Vec<R>, T) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let threads = clients.into_iter().map(|client| {
            scope.spawn(move || {
                let _note = NoteFailure;
                client(stop)
            })
        });
        let threads: Vec<_> = threads.collect();
        let result = {
            let _end = StopAtEnd(stop);
            event()
        };
        (threads.into_iter().map(|thread| thread.join().unwrap()).collect(), result)
    })
}

/// How long clients wait between queries. Where other tests run at the same time, no client may occupy the whole machine.
pub fn pause_between_queries() -> Duration {
    if is_soak() { Duration::ZERO } else { Duration::from_millis(4) }
}

/// Takes IDs one by one until it is told to stop. Returns the IDs, and the time of the slowest call.
pub fn take_one_by_one(cluster: &Cluster, stop: &AtomicBool) -> (Vec<i64>, Duration) {
    let mut client = cluster.connect();
    let (mut mine, mut slowest) = (Vec::new(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        mine.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        slowest = slowest.max(start.elapsed());
        thread::sleep(pause_between_queries());
    }
    (mine, slowest)
}

/// A client that takes IDs by several queries in turn.
#[derive(Clone)]
pub struct Taker<'a> {
    pub server: &'a Cluster,
    pub database: &'a str,
    /// The statement that it runs first after connecting.
    pub first: String,
    pub queries: Vec<String>,
    /// Whether it reconnects after losing its server. Otherwise it ends.
    pub returns: bool,
    /// How long it waits between queries.
    pub pause: Duration,
}

impl<'a> Taker<'a> {
    /// Returns a client that takes IDs in various ways in database `postgres`, and ends when the server does.
    pub fn of(server: &'a Cluster) -> Taker<'a> {
        let queries = [
            "SELECT snowflake_nextval()",
            "SELECT snowflake_batch(50)",
            "SELECT snowflake_nextval() FROM generate_series(1, 20)",
        ];
        Taker {
            server,
            database: "postgres",
            first: String::new(),
            queries: queries.map(Into::into).into(),
            returns: false,
            pause: pause_between_queries(),
        }
    }

    /// Takes IDs until it is told to stop. Passes all returned IDs, committed or not, to `note` with the index of the
    /// query.
    pub fn run(&self, stop: &AtomicBool, mut note: impl FnMut(usize, Vec<i64>)) {
        let is_over = || stop.load(Ordering::Relaxed);
        while !is_over() {
            let client = self.server.try_connect(self.database);
            let mut client = match client.and_then(|mut client| {
                client.batch_execute(&self.first)?;
                Ok(client)
            }) {
                Ok(client) => client,
                Err(_) if self.returns => {
                    thread::sleep(Duration::from_millis(50));
                    continue;
                }
                Err(_) => return,
            };
            for (at, query) in self.queries.iter().enumerate().cycle() {
                if is_over() {
                    return;
                }
                match client.query(query, &[]) {
                    Ok(rows) => note(at, rows.iter().map(|row| row.get(0)).collect()),
                    Err(_) if client.is_closed() => break,
                    // The clock is behind, or there is no keeper.
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
                thread::sleep(self.pause);
            }
            if !self.returns {
                return;
            }
        }
    }

    /// Takes IDs until it is told to stop. Returns all of them in order.
    pub fn take(&self, stop: &AtomicBool) -> Vec<i64> {
        let mut all = Vec::new();
        self.run(stop, |_, taken| all.extend(taken));
        all
    }
}

/// Runs `event` while clients take IDs, once they have taken at least this many. Returns the IDs of each client and the
/// result of `event`.
pub fn once_taken<'a, T>(
    least: usize,
    takers: impl IntoIterator<Item = Taker<'a>>,
    event: impl FnOnce() -> T,
) -> (Vec<Vec<i64>>, T) {
    let count = AtomicUsize::new(0);
    let clients = takers.into_iter().map(|taker| {
        let count = &count;
        move |stop: &AtomicBool| {
            let mut all = Vec::new();
            taker.run(stop, |_, taken| {
                count.fetch_add(taken.len(), Ordering::Relaxed);
                all.extend(taken);
            });
            all
        }
    });
    beside(clients, || {
        eventually("clients to take IDs", || count.load(Ordering::Relaxed) >= least);
        event()
    })
}

/// Runs `event` while clients take IDs. The IDs of each client must increase. Returns all IDs and the result of
/// `event`.
pub fn while_taking<'a, T>(
    takers: impl IntoIterator<Item = Taker<'a>>,
    event: impl FnOnce() -> T,
) -> (Vec<i64>, T) {
    let (all, result) = once_taken(0, takers, event);
    all.iter().for_each(|mine| assert_increasing(mine));
    (all.concat(), result)
}

/// Returns `count` clients that take IDs until the server is stopped.
pub fn takers(server: &Cluster, count: usize) -> impl Iterator<Item = Taker<'_>> {
    std::iter::repeat_n(Taker::of(server), count)
}

/// The IDs that clients were given.
#[derive(Default)]
pub struct HandedOut {
    /// IDs of rows whose commits were reported.
    pub rows: Vec<i64>,
    /// All other IDs.
    pub others: Vec<i64>,
}

impl HandedOut {
    pub fn all(&self) -> Vec<i64> {
        [self.rows.as_slice(), &self.others].concat()
    }

    pub fn extend(&mut self, more: &HandedOut) {
        self.rows.extend(&more.rows);
        self.others.extend(&more.others);
    }
}

/// Creates the table that [`under_load`] fills.
pub fn create_orders(cluster: &Cluster) {
    let table = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text)";
    cluster.connect().run(table);
}

/// Runs `event` while three clients take IDs from the server and four insert rows into table `orders`. The server may
/// be down afterwards. Returns the IDs and the result of `event`.
pub fn under_load<T>(cluster: &Cluster, event: impl FnOnce() -> T) -> (HandedOut, T) {
    let inserting = std::iter::repeat_n(|stop: &AtomicBool| insert_until(cluster, stop), 4);
    let (inserted, (taken, result)) = beside(inserting, || while_taking(takers(cluster, 3), event));
    let mut all = HandedOut { rows: vec![], others: taken };
    inserted.iter().for_each(|some| all.extend(some));
    (all, result)
}

/// Lets clients work for a time, and on a busy machine for longer: until the server has issued this many IDs meanwhile.
pub fn while_issuing(server: &Cluster, count: i64, time: Duration) {
    let mut client = server.connect();
    let mut issued = || {
        single::<i64>(&mut client, "SELECT coalesce(sum(ids_issued), 0)::bigint FROM snowflake_layout_status")
    };
    let before = issued();
    thread::sleep(time);
    eventually("IDs to be issued", || issued() - before >= count);
}

/// Lets clients insert rows until this many more are in a table.
pub fn wait_for_rows(server: &Cluster, table: &str, count: i64) {
    let mut client = server.connect();
    let mut rows = || single::<i64>(&mut client, &format!("SELECT count(*) FROM {table}"));
    let before = rows();
    eventually("more rows", || rows() - before >= count);
}

/// Lets the clients of [`under_load`] work until they have inserted 100 more rows and taken many more IDs.
pub fn while_inserting(server: &Cluster) {
    let count = "SELECT count(*) FROM orders";
    let mut client = server.connect();
    let before: i64 = single(&mut client, count);
    while_issuing(server, 2_000, Duration::from_millis(200));
    eventually("more rows", || single::<i64>(&mut client, count) >= before + 100);
}

/// Inserts rows until it is told to stop or the server is stopped. Every fourth transaction is rolled back.
fn insert_until(cluster: &Cluster, stop: &AtomicBool) -> HandedOut {
    let mut mine = HandedOut::default();
    let Ok(mut client) = cluster.try_connect("postgres") else { return mine };
    for round in 0.. {
        if stop.load(Ordering::Relaxed) || client.is_closed() {
            break;
        }
        let inserted = insert(&mut client, 1 + round % 10, round % 4 != 0, &mut mine);
        thread::sleep(if inserted.is_ok() { pause_between_queries() } else { Duration::from_millis(5) });
    }
    mine
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
