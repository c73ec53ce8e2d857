//! The load: clients that insert rows on every server all the time, and a ledger of everything that they were given.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, ids, text};

/// A time without values that is worth a line in the report.
pub const SHORTEST_GAP: f64 = 0.5;

/// How the values of one kind come from one server.
pub struct Flow {
    began: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    last: Instant,
    /// The number of values in each second.
    per_second: Vec<u32>,
    /// Times without values, in seconds since the beginning.
    gaps: Vec<(f64, f64)>,
    /// The last error of a client.
    error: String,
    /// The highest value, and the length of the server's log before the value was requested.
    highest: (i64, u64),
}

impl Flow {
    pub fn new(began: Instant) -> Flow {
        let inner = Inner {
            last: began,
            per_second: Vec::new(),
            gaps: Vec::new(),
            error: String::new(),
            highest: (0, 0),
        };
        Flow { began, inner: Mutex::new(inner) }
    }

    /// Notes the values of a call. If some are lower than expected (`are_lower`), later values are compared with these
    /// instead of the highest value. `log_from` is the length of the server's log before the call.
    fn note(&self, values: &[i64], are_lower: bool, log_from: u64) {
        let Some(&last_value) = values.last() else { return };
        let now = Instant::now();
        let since = |instant: Instant| (instant - self.began).as_secs_f64();
        let mut inner = self.inner.lock().unwrap();
        let (last, at) = (since(inner.last), since(now));
        if at - last > SHORTEST_GAP {
            inner.gaps.push((last, at));
        }
        inner.last = inner.last.max(now);
        let second = at as usize;
        if inner.per_second.len() <= second {
            inner.per_second.resize(second + 1, 0);
        }
        inner.per_second[second] += values.len() as u32;
        if are_lower || last_value > inner.highest.0 {
            inner.highest = (last_value, log_from);
        }
    }

    /// When values last came.
    pub fn last(&self) -> Instant {
        self.inner.lock().unwrap().last
    }

    /// The error of the last call that failed.
    pub fn last_error(&self) -> String {
        self.inner.lock().unwrap().error.clone()
    }

    pub fn per_second(&self) -> Vec<u32> {
        self.inner.lock().unwrap().per_second.clone()
    }

    /// The longest time without values between two instants, in seconds.
    pub fn longest_gap(&self, from: f64, to: f64) -> f64 {
        let inner = self.inner.lock().unwrap();
        let overlaps = inner.gaps.iter().filter(|gap| gap.0 < to && gap.1 > from);
        overlaps.map(|gap| gap.1 - gap.0).fold(0.0, f64::max)
    }
}

/// What one client was given.
pub struct Taken {
    /// The index of its server.
    pub server: usize,
    pub kind: Kind,
    pub values: Vec<i64>,
    pub out_of_order: Vec<OutOfOrder>,
}

/// A value that is not above a value that any client of the same server had when the call began.
pub struct OutOfOrder {
    pub before: i64,
    pub after: i64,
    /// What the server has logged meanwhile, as positions in its log.
    pub log: Range<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The default layout.
    Ids,
    /// Another layout, which has IDs of its own.
    OtherIds,
    Numbers,
}

/// The table that a kind of client fills.
pub const TABLES: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), client int);
    CREATE TABLE bills (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('bills'), client int)";

/// Inserts rows until it is told to stop. It connects again whenever it has lost its connection.
pub fn insert(cluster: &Cluster, server: usize, kind: Kind, flow: &Flow, stop: &AtomicBool) -> Taken {
    let insert = match kind {
        Kind::Numbers => "INSERT INTO bills (client) SELECT generate_series(1, 3) RETURNING id",
        _ => "INSERT INTO orders (client) SELECT generate_series(1, 10) RETURNING id",
    };
    let mut taken = Taken { server, kind, values: Vec::new(), out_of_order: Vec::new() };
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = cluster.try_connect("shop") else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        while !stop.load(Ordering::Relaxed) && !client.is_closed() {
            take(cluster, &mut client, insert, flow, &mut taken);
            thread::sleep(Duration::from_millis(20));
        }
    }
    taken
}

/// Runs a query for values, and notes them or the error.
fn take(cluster: &Cluster, client: &mut Client, query: &str, flow: &Flow, taken: &mut Taken) {
    let log_from = cluster.log_length();
    let (mut before, log_of_highest) = flow.inner.lock().unwrap().highest;
    match client.query(query, &[]) {
        Ok(rows) => {
            let values: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            let known = taken.out_of_order.len();
            for &after in &values {
                if after <= before {
                    let log = log_of_highest..cluster.log_length();
                    taken.out_of_order.push(OutOfOrder { before, after, log });
                }
                before = after;
            }
            flow.note(&values, taken.out_of_order.len() > known, log_from);
            taken.values.extend(values);
        }
        Err(error) => flow.inner.lock().unwrap().error = text(&error),
    }
}

/// The result of comparing everything.
#[derive(Default)]
pub struct Comparison {
    pub ids: usize,
    pub numbers: usize,
    pub repeats: usize,
    pub out_of_order: usize,
    /// IDs that were lower than an earlier ID of the server, because the server has reset its horizon.
    pub after_reset: usize,
    /// Values that a client was given, and whose committed row is not in the table of its server.
    pub lost_rows: usize,
}

/// The index of a server whose rows are not compared, because it is a copy, or because there are none.
pub const NO_ROWS: usize = usize::MAX;

/// Returns whether the server has reset its horizon between two IDs. It then has another worker ID, and its log says so. If
/// the reset was interrupted, the log says only that it has begun.
fn is_after_reset(server: &Cluster, pair: &OutOfOrder) -> bool {
    let worker = |id: i64| (id >> 12) & 1023;
    let log = server.log_between(&pair.log);
    let messages = ["the horizon was reset to the current time", "resetting the horizon to the current time"];
    worker(pair.before) != worker(pair.after) && messages.iter().any(|message| log.contains(message))
}

/// Compares what all clients were given, and the rows of all servers.
pub fn compare(taken: &[Taken], servers: &[&Cluster]) -> Comparison {
    let mut result = Comparison::default();
    for (kind, table) in [(Kind::Ids, Some("orders")), (Kind::Numbers, Some("bills")), (Kind::OtherIds, None)]
    {
        let of_kind = || taken.iter().filter(|taken| taken.kind == kind);
        let mut told: Vec<i64> = of_kind().flat_map(|taken| taken.values.iter().copied()).collect();
        told.sort_unstable();
        result.repeats += repeats(&told);
        match kind {
            Kind::Numbers => result.numbers += told.len(),
            _ => result.ids += told.len(),
        }
        for taken in of_kind() {
            for pair in &taken.out_of_order {
                let server = servers[taken.server];
                if kind == Kind::Ids && is_after_reset(server, pair) {
                    result.after_reset += 1;
                    continue;
                }
                result.out_of_order += 1;
                println!(
                    "out of order: {kind:?} of server {}: {} came after {}; meanwhile, the server logged:\n{}",
                    taken.server + 1,
                    pair.after,
                    pair.before,
                    server.log_between(&pair.log)
                );
            }
        }
        let Some(table) = table else { continue };
        let rows: Vec<Vec<i64>> = servers.iter().map(|server| rows_of(server, table)).collect();
        let mut all = rows.concat();
        all.sort_unstable();
        result.repeats += repeats(&all);
        for taken in of_kind() {
            let is_there =
                |id: &i64| rows.get(taken.server).is_none_or(|rows| rows.binary_search(id).is_ok());
            result.lost_rows += taken.values.iter().filter(|id| !is_there(id)).count();
            // A value that was given without a row must not be the key of a row.
            if taken.server == NO_ROWS {
                result.repeats += taken.values.iter().filter(|id| all.binary_search(id).is_ok()).count();
            }
        }
    }
    result
}

fn repeats(sorted: &[i64]) -> usize {
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

fn rows_of(server: &Cluster, table: &str) -> Vec<i64> {
    ids(&mut server.connect_to("shop"), &format!("SELECT id FROM {table} ORDER BY id"))
}
