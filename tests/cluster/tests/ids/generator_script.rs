//! The script of `snowflake_generator_sql()` on a server without the library, run by an ordinary role.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::network::unused_port;
use harness::pool::Pool;
use harness::*;
use postgres::{Config, NoTls, SimpleQueryMessage};

const SESSIONS: usize = 16;

/// The script for the default layout.
fn script() -> String {
    scripts([5]).concat()
}

/// The scripts for the default layout and these worker IDs.
fn scripts<const COUNT: usize>(workers: [i32; COUNT]) -> [String; COUNT] {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    workers
        .map(|worker| single(&mut client, &format!("SELECT snowflake_generator_sql('standard', {worker})")))
}

/// A server without the library.
fn without_the_library() -> Builder {
    Cluster::builder().extensions(&[]).set("max_connections", 60)
}

/// Runs the script as an ordinary role, and grants role `app` the right to take IDs. Creates a table for IDs, in which
/// they may be repeated.
fn install(server: &Cluster, script: &str) {
    let mut client = server.connect();
    client
        .run("CREATE ROLE generator; CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO generator");
    client.run("SET SESSION AUTHORIZATION generator; CREATE SCHEMA ids; SET search_path = ids");
    client.run(script);
    client.run(
        "GRANT USAGE ON SCHEMA ids TO app;
         GRANT EXECUTE ON FUNCTION ids.snowflake_nextval(), ids.snowflake_batch(bigint) TO app;
         CREATE TABLE ids.orders (id bigint DEFAULT ids.snowflake_nextval(), note text);
         GRANT SELECT, INSERT ON ids.orders TO app;
         RESET SESSION AUTHORIZATION",
    );
    let libraries: String = single(&mut client, "SHOW shared_preload_libraries");
    let extensions: i64 = single(&mut client, "SELECT count(*) FROM pg_extension WHERE extname <> 'plpgsql'");
    assert_eq!((libraries.as_str(), extensions), ("", 0));
}

/// Connects as role `app`, directly or through a pool.
fn connect_app(server: &Cluster, pool: Option<&Pool>) -> Result<Client, postgres::Error> {
    let mut config = Config::new();
    match pool {
        Some(pool) => config.host("127.0.0.1").port(pool.port()),
        None => config.host_path(server.host()),
    };
    config.user("app").dbname("postgres").connect_timeout(TIMEOUT).connect(NoTls)
}

/// The IDs in the first column of all rows. A pool of transactions permits no prepared statements.
fn simple_ids(client: &mut Client, statements: &str) -> Result<Vec<i64>, postgres::Error> {
    let id = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0)?.parse().unwrap()),
        _ => None,
    };
    Ok(client.simple_query(statements)?.iter().filter_map(id).collect())
}

/// Repeated IDs in the table.
fn repeated(server: &Cluster) -> i64 {
    single(&mut server.connect(), "SELECT count(*) - count(DISTINCT id) FROM ids.orders")
}

/// Statements that insert rows. Some of them do not succeed.
const INSERTS: [&str; 6] = [
    "INSERT INTO ids.orders DEFAULT VALUES RETURNING id",
    "INSERT INTO ids.orders (note) SELECT 'row' FROM generate_series(1, 50) RETURNING id",
    "INSERT INTO ids.orders (id) SELECT ids.snowflake_batch(200) RETURNING id",
    "BEGIN; SET LOCAL statement_timeout = '5ms';
     INSERT INTO ids.orders (note) SELECT 'late' FROM generate_series(1, 2000) RETURNING id; COMMIT",
    "BEGIN; SAVEPOINT a; INSERT INTO ids.orders DEFAULT VALUES; ROLLBACK TO a;
     INSERT INTO ids.orders DEFAULT VALUES RETURNING id; COMMIT",
    "BEGIN; INSERT INTO ids.orders DEFAULT VALUES; SELECT 1 / 0; COMMIT",
];

/// Inserts rows until it is told to stop. Checks that IDs are larger than all IDs that had been committed before.
fn insert_until(
    server: &Cluster,
    pool: Option<&Pool>,
    newest: &AtomicI64,
    count: &AtomicUsize,
    stop: &AtomicBool,
) -> Vec<i64> {
    let mut committed = vec![];
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = connect_app(server, pool) else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        for insert in INSERTS.iter().cycle() {
            if stop.load(Ordering::Relaxed) || client.is_closed() {
                break;
            }
            let before = newest.load(Ordering::SeqCst);
            match simple_ids(&mut client, insert) {
                Ok(ids) => {
                    assert!(ids[0] > before, "{} came after {before} had been committed", ids[0]);
                    assert_increasing(&ids);
                    newest.fetch_max(*ids.last().unwrap(), Ordering::SeqCst);
                    count.fetch_add(ids.len(), Ordering::Relaxed);
                    committed.extend(ids);
                }
                Err(error) => {
                    assert_expected(&error);
                    let _ = client.batch_execute("ROLLBACK");
                }
            }
            thread::sleep(pause_between_queries());
        }
    }
    committed
}

/// Panics if a statement failed for a reason that no accident explains.
fn assert_expected(error: &postgres::Error) {
    const EXPECTED: [&str; 8] = ["22012", "57014", "55P03", "57P01", "57P02", "57P03", "08P01", "25P02"];
    if let Some(error) = error.as_db_error() {
        assert!(EXPECTED.contains(&error.code().code()), "{error}");
    }
}

/// The processes that work for role `app`.
const BACKENDS: &str =
    "SELECT pid FROM pg_stat_activity WHERE usename = 'app' AND state = 'active' ORDER BY random()";

fn backends(server: &Cluster, count: usize) -> Vec<i32> {
    let rows = server.connect().query(BACKENDS, &[]).unwrap();
    rows.iter().take(count).map(|row| row.get(0)).collect()
}

/// Cancels and terminates statements until it is told to stop.
fn cancel_until(server: &Cluster, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let cancel = format!("SELECT pg_cancel_backend(pid) FROM ({BACKENDS} LIMIT 3) AS b");
        let terminate = format!("SELECT pg_terminate_backend(pid) FROM ({BACKENDS} LIMIT 1) AS b");
        for round in 0..20 {
            server.try_run(if round == 0 { &terminate } else { &cancel });
            thread::sleep(Duration::from_millis(7));
        }
    }
}

/// Sixteen sessions, four of them through PgBouncer, insert rows during cancels, timeouts, steps of the clock, pauses,
/// crashes and restarts.
#[test]
fn accidents() {
    let server = without_the_library().clock().start();
    install(&server, &script());
    let pool = Pool::start_at(&server, "app", unused_port());
    let newest = AtomicI64::new(0);
    let counts: [AtomicUsize; SESSIONS] = Default::default();
    let mut random = Random::seeded();
    let client = |session: usize| {
        let (server, newest, count) = (&server, &newest, &counts[session]);
        let pool = pool.as_ref().filter(|_| session < 4);
        move |stop: &AtomicBool| insert_until(server, pool, newest, count, stop)
    };
    let cancelling = [|stop: &AtomicBool| cancel_until(&server, stop)];
    let (_, (committed, shift)) = beside(cancelling, || {
        beside((0..SESSIONS).map(client), || {
            let mut shift = 0.0;
            for _ in 0..rounds(8) {
                thread::sleep(Duration::from_millis(300));
                match random.below(8) {
                    0..3 => {
                        shift += (random.below(4_000) as f64 - 1_500.0) / 1e3;
                        server.set_clock(shift);
                    }
                    3..5 => {
                        let paused = Paused::new(backends(&server, 5));
                        thread::sleep(Duration::from_millis(200));
                        drop(paused);
                    }
                    5 => server.crash_a_backend(),
                    6 => server.restart("immediate"),
                    _ => {
                        let mut client = server.connect();
                        let postmaster = parent_of(single(&mut client, "SELECT pg_backend_pid()"));
                        kill("KILL", postmaster);
                        eventually("the end", || !server.try_run("SELECT 1"));
                        server.bring_up();
                    }
                }
            }
            eventually("each session to commit rows", || {
                counts.iter().all(|count| count.load(Ordering::Relaxed) > 100)
            });
            shift
        })
    });
    println!("{} rows were committed; the clock was shifted by {shift} s", committed.concat().len());

    let rows = ids(&mut server.connect(), "SELECT id FROM ids.orders");
    assert_distinct(&rows);
    let rows: HashSet<i64> = rows.into_iter().collect();
    assert!(committed.concat().iter().all(|id| rows.contains(id)), "a committed row is missing");
    let other_workers = "SELECT count(*) FROM ids.orders WHERE ids.snowflake_worker(id) <> 5";
    assert_eq!(single::<i64>(&mut server.connect(), other_workers), 0);
}

/// The process that started a process.
fn parent_of(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

/// Sixteen sessions that insert `count` rows each.
fn fill(server: &Cluster, count: u32) {
    let insert =
        format!("INSERT INTO ids.orders SELECT ids.snowflake_nextval() FROM generate_series(1, {count})");
    thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| server.connect().run(&insert));
        }
    });
}

/// The worker ID is changed, which gives the sequences new files, and the server is killed. The clock is set back.
#[test]
fn the_worker_id_is_changed() {
    let server = without_the_library().clock().start();
    let [script, next] = scripts([5, 6]);
    install(&server, &script);
    let (mut client, mut other) = (server.connect(), server.connect());
    let mut all = ids(&mut client, "SELECT ids.snowflake_batch(5)");
    client.run("SET SESSION AUTHORIZATION generator; SET search_path = ids");
    // A transaction that has taken an ID stops the script.
    other.run("BEGIN; SELECT ids.snowflake_nextval()");
    let error = client.batch_execute(&format!("BEGIN; {next}")).unwrap_err();
    assert_eq!(error.code().unwrap().code(), "55P03", "{error}");
    client.run("ROLLBACK");
    other.run("COMMIT");
    client.run(&format!("BEGIN; {next}"));
    assert_eq!(single::<String>(&mut client, "SHOW lock_timeout"), "0");
    client.run("COMMIT");
    all.extend(ids(&mut other, "INSERT INTO ids.orders SELECT FROM generate_series(1, 10) RETURNING id"));
    kill_server(&server);
    server.set_clock(-3.0);
    server.start_server();
    all.extend(ids(&mut server.connect(), "SELECT ids.snowflake_batch(10)"));
    assert_increasing(&all);
}

/// Without its lock, the script repeats IDs. So the tests can fail.
#[test]
fn ids_are_repeated_without_the_lock() {
    const LOCK: &str = "    LOCK TABLE %1$s.snowflake_generator_lock IN EXCLUSIVE MODE;\n";
    let script = script();
    assert!(script.contains(LOCK));
    let server = without_the_library().start();
    install(&server, &script.replace(LOCK, ""));
    let repeated = eventually("repeated IDs", || {
        fill(&server, 2_000);
        Some(repeated(&server)).filter(|&repeated| repeated > 0)
    });
    println!("{repeated} IDs were repeated");
}

#[test]
fn ids_of_sixteen_sessions() {
    let server = without_the_library().start();
    install(&server, &script());
    fill(&server, 5_000);
    assert_eq!(repeated(&server), 0);
}

/// While another session holds the lock, calls that have to raise the base fail within two seconds. Nothing is held
/// after errors, and calls work again afterwards.
#[test]
fn a_held_lock() {
    let server = without_the_library().start();
    install(&server, &script());
    let mut app = connect_app(&server, None).unwrap();
    let mut owner = server.connect();
    owner.run("SET SESSION AUTHORIZATION generator; BEGIN; LOCK TABLE ids.snowflake_generator_lock");
    let start = Instant::now();
    let (code, text) =
        failure_at_once(&mut app, "SELECT ids.snowflake_nextval() FROM generate_series(1, 1000000)");
    assert!(start.elapsed() > Duration::from_secs(1));
    assert_eq!(code, "55P03");
    assert!(text.starts_with("could not lock the generator of snowflake IDs within 1 second"), "{text}");
    owner.run("COMMIT");

    // In a transaction, no lock is held after a call, and a prepared transaction holds none either.
    app.run("BEGIN; SELECT ids.snowflake_nextval()");
    let held = "SELECT count(*) FROM pg_locks WHERE relation = 'ids.snowflake_generator_lock'::regclass";
    assert_eq!(single::<i64>(&mut owner, held), 0);
    let first: i64 = single(&mut app, "SELECT ids.snowflake_nextval()");
    let others: Vec<i64> = ids(&mut connect_app(&server, None).unwrap(), "SELECT ids.snowflake_batch(1000)");
    assert!(others[0] > first);
    assert_increasing(&others);
}

/// The clock is set back by more than calls wait, while the server runs and while it is down. Calls are refused until
/// the clock has caught up, and then continue above.
#[test]
fn a_clock_that_is_set_back() {
    let server = without_the_library().clock().start();
    install(&server, &script());
    let take = |server: &Cluster| ids(&mut server.connect(), "SELECT ids.snowflake_batch(10)");
    let mut all = take(&server);
    let refused = |server: &Cluster| {
        let (code, text) = failure(&mut server.connect(), "SELECT ids.snowflake_nextval()");
        assert_eq!(code, "55P03");
        assert!(text.starts_with("waiting for snowflake IDs would take longer than 5 seconds"), "{text}");
    };
    server.set_clock(-3_600.0);
    refused(&server);
    server.restart("immediate");
    refused(&server);
    // A call waits for two of three seconds.
    server.set_clock(0.0);
    all.extend(take(&server));
    server.set_clock(-3.0);
    all.extend(take(&server));
    let ahead = "SELECT extract(epoch FROM max(ids.snowflake_timestamp(id)) - clock_timestamp())::float8
                 FROM ids.snowflake_batch(1) AS id";
    assert!(single::<f64>(&mut server.connect(), ahead) < 1.1);
    // A step ahead is followed at once.
    server.set_clock(86_400.0);
    all.extend(take(&server));
    let ahead: f64 = single(&mut server.connect(), ahead);
    assert!((-60.0..1.0).contains(&ahead), "{ahead}");
    assert_increasing(&all);
}
