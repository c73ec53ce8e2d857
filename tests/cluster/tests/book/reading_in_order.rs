//! The procedures of docs/tables/reading-in-order.md, run as they are while sessions write. Each block begins with a
//! comment that says where it is run. Afterwards, each committed row was read exactly once, and in order.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

use harness::book::of_test;
use harness::examples::{block_at, blocks, blocks_at, last_row, run_block, statements};
use harness::*;
use postgres::Row;

pub static PAGE: LazyLock<String> = LazyLock::new(|| of_test("reading_in_order"));

pub const INTO_OUTBOX: &str =
    "INSERT INTO outbox (topic) SELECT 'topic ' || (100 * random())::int FROM generate_series(1, 3)";
pub const INTO_EVENTS: &str = "INSERT INTO events (what) SELECT 'x' FROM generate_series(1, 3)";

/// How many rows the sessions write.
pub const SOME_ROWS: i64 = 600;
/// How long a reader waits before it reads again. The page says 100 ms.
const MOMENT: Duration = Duration::from_millis(4);

/// The blocks of the page that are run at a place.
pub fn blocks_of(place: &'static str) -> impl Iterator<Item = &'static str> {
    blocks_at(&PAGE, place)
}

/// The statements of the only block that is run at a place.
pub fn steps(place: &'static str) -> Vec<String> {
    statements(block_at(&PAGE, place)).into_iter().map(|(statement, _)| statement).collect()
}

fn server() -> Cluster {
    let server = Cluster::builder().worker(1).set("max_prepared_transactions", 20).start();
    wait_for_first_id(&mut server.connect());
    server
}

/// A server with the tables of the outbox.
pub fn server_with_outbox() -> Cluster {
    let server = server();
    blocks_of("once").for_each(|block| server.connect().run(block));
    server
}

/// Sessions that insert rows, with pauses, rollbacks, savepoints and prepared transactions, until they are told to stop.
pub fn writers<'a>(
    server: &'a Cluster,
    insert: &'a str,
) -> impl Iterator<Item = impl FnOnce(&AtomicBool) + Send> {
    let mut random = Random::seeded();
    (0..6).map(move |number| {
        let mut random = Random::of(random.below(u64::MAX));
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            let gid = format!("writer {number}");
            while !stop.load(Ordering::Relaxed) {
                client.run("BEGIN");
                client.run(insert);
                random.pause(20);
                match random.below(6) {
                    0 => client.run(&format!("SAVEPOINT s; {insert}; ROLLBACK TO s; {insert}; COMMIT")),
                    1 => client.run("ROLLBACK"),
                    2 => {
                        client.run(&format!("PREPARE TRANSACTION '{gid}'"));
                        random.pause(20);
                        client.run(&format!("COMMIT PREPARED '{gid}'"));
                    }
                    _ => client.run("COMMIT"),
                }
            }
        }
    })
}

/// Runs readers while sessions write to a table. Each reader gets a value that becomes true when nothing is written any
/// more.
pub fn read_beside<R: Send>(
    server: &Cluster,
    table: &str,
    readers: impl IntoIterator<Item = impl FnOnce(&AtomicBool) -> R + Send>,
) -> Vec<R> {
    let insert = if table == "outbox" { INTO_OUTBOX } else { INTO_EVENTS };
    let read = beside(readers, || {
        beside(writers(server, insert), || wait_for_rows(server, table, SOME_ROWS));
    });
    read.0
}

/// The IDs of all committed rows.
fn written(server: &Cluster, table: &str) -> Vec<i64> {
    ids(&mut server.connect(), &format!("SELECT id FROM {table} ORDER BY id"))
}

/// Panics unless a reader has read all committed rows of a table exactly once, in order.
#[track_caller]
pub fn assert_all_read(read: &[i64], server: &Cluster, table: &str) {
    let written = written(server, table);
    let differs = read.iter().zip(&written).position(|(read, written)| read != written);
    let at = differs.unwrap_or_else(|| read.len().min(written.len()));
    assert!(
        read == written,
        "{} rows were read and {} written; the first difference is at {at}: {:?} {:?}",
        read.len(),
        written.len(),
        read.get(at),
        written.get(at)
    );
}

/// Repeats a round of a reader, which returns the rows that it has read, until nothing is written any more and a round
/// returns no rows. A round that cannot tell whether it has read all rows returns `None` instead of no rows.
pub fn repeat(is_written: &AtomicBool, mut round: impl FnMut() -> Option<Vec<i64>>) -> Vec<i64> {
    let mut all = Vec::new();
    loop {
        // The order matters: a round that starts after the last commit reads everything.
        let is_last = is_written.load(Ordering::Relaxed);
        match round() {
            Some(rows) if rows.is_empty() && is_last => return all,
            rows => all.extend(rows.unwrap_or_default()),
        }
        thread::sleep(MOMENT);
    }
}

/// Whether a reader has passed all rows of a table.
pub fn is_read(client: &mut Client, table: &str, position: i64) -> bool {
    let last: Option<i64> = single(client, &format!("SELECT max(id) FROM {table}"));
    last.is_none_or(|last| last <= position)
}

/// The first column of all rows.
pub fn first_column(rows: Vec<Row>) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}

/// A round of the consumer's transaction. Returns the position before it, and the rows.
fn consume(client: &mut Client, steps: &[String], name: &str) -> (i64, Vec<i64>) {
    let [begin, lock, read, advance, commit] = steps else { panic!("{steps:?}") };
    client.run(begin);
    let position: i64 = client.query_one(lock, &[&name]).unwrap().get(0);
    let rows = first_column(client.query(read, &[&position]).unwrap());
    if let Some(last) = rows.last() {
        client.execute(advance, &[last, &name]).unwrap();
    }
    client.run(commit);
    (position, rows)
}

/// The example at the beginning. A query is repeated if the watermark is not known yet.
#[test]
fn the_problem_in_two_sessions() {
    let server = server();
    let mut sessions = [server.connect(), server.connect()];
    let mut checked = 0;
    for block in blocks(&PAGE) {
        let Some((number, block)) = block.strip_prefix("-- session ").and_then(|rest| rest.split_once('\n'))
        else {
            continue;
        };
        let client = &mut sessions[number.parse::<usize>().unwrap() - 1];
        for (statement, expected) in statements(block) {
            match expected.is_empty() {
                true => client.run(&statement),
                false => all_arrive(&statement, || last_row(client, &statement) == expected),
            }
            checked += usize::from(!expected.is_empty());
        }
    }
    assert_eq!(checked, 5);
    let view = blocks(&PAGE).find(|block| block.starts_with("SELECT layout, watermark_time")).unwrap();
    run_block(&mut sessions[0], view);
}

/// Two instances of a consumer, and one that does not use the watermark. It skips the rows of a transaction that commits
/// after it has read rows with higher IDs.
#[test]
fn an_outbox() {
    let server = server_with_outbox();
    server.connect().run("INSERT INTO consumer (name) VALUES ('careless')");
    let correct = steps("the consumer");
    let careless: Vec<String> =
        correct.iter().map(|step| step.replace("AND id < (SELECT snowflake_watermark())", "")).collect();
    assert_ne!(careless, correct);
    let consumer = |name: &'static str, steps: Vec<String>| {
        let server = &server;
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            repeat(stop, || {
                let (position, rows) = consume(&mut client, &steps, name);
                (!rows.is_empty() || is_read(&mut client, "outbox", position)).then_some(rows)
            })
        }
    };
    let consumers =
        [consumer("mail", correct.clone()), consumer("mail", correct), consumer("careless", careless)];
    let (read, ()) = beside(consumers, || {
        let (mut slow, mut client) = (server.connect(), server.connect());
        slow.run(&format!("BEGIN; {INTO_OUTBOX}"));
        beside(writers(&server, INTO_OUTBOX), || {
            let last = ids(&mut client, &format!("{INTO_OUTBOX} RETURNING id"))[2];
            let has_read = format!("SELECT position >= {last} FROM consumer WHERE name = 'careless'");
            eventually("the careless consumer", || single::<bool>(&mut client, &has_read));
            slow.run("COMMIT");
            wait_for_rows(&server, "outbox", SOME_ROWS);
        });
    });

    let written = written(&server, "outbox");
    for rows in &read {
        assert_increasing(rows);
    }
    let mut both = [&read[0][..], &read[1][..]].concat();
    both.sort_unstable();
    assert_all_read(&both, &server, "outbox");
    println!(
        "{} rows, of which {} were skipped without the watermark",
        written.len(),
        written.len() - read[2].len()
    );
    assert!(read[2].len() < written.len());

    server.connect().run(blocks_of("now and then").next().unwrap());
    assert_eq!(
        single::<i64>(
            &mut server.connect(),
            "SELECT count(*) FROM outbox WHERE id < (SELECT min(position) FROM consumer)"
        ),
        0
    );
}

/// A round of one of the consumers that share the rows, with a watermark, or with the present one. Returns the new position
/// and the rows, or `None` if the watermark is not known.
fn consume_part(
    client: &mut Client,
    steps: &[String],
    number: i64,
    fixed: Option<i64>,
) -> Option<(i64, Vec<i64>)> {
    let [begin, lock, ask, read, advance, commit] = steps else { panic!("{steps:?}") };
    let name = format!("search {number}");
    client.run(begin);
    let position: i64 = client.query_one(lock, &[&name]).unwrap().get(0);
    let watermark: Option<i64> = fixed.or_else(|| client.query_one(ask, &[]).unwrap().get(0));
    let read = watermark.map(|watermark| {
        let rows = first_column(client.query(read, &[&position, &watermark, &number]).unwrap());
        let advanced = if rows.len() == 1000 { rows[999] } else { watermark - 1 };
        client.execute(advance, &[&advanced, &name]).unwrap();
        (advanced, rows)
    });
    client.run(commit);
    read
}

/// Four consumers share the rows by a hash. Then there are eight.
#[test]
fn consumers_that_share_the_rows() {
    let server = server_with_outbox();
    let four = steps("each of four consumers");
    let eight: Vec<String> = four.iter().map(|step| step.replace("& 3 =", "& 7 =")).collect();
    assert_ne!(eight, four);
    let consumers = |steps: &'static [String], numbers: std::ops::Range<i64>| {
        let server = &server;
        let consumers = numbers.map(move |number| {
            move |stop: &AtomicBool| {
                let mut client = server.connect();
                repeat(stop, || {
                    let (position, rows) = consume_part(&mut client, steps, number, None)?;
                    (!rows.is_empty() || is_read(&mut client, "outbox", position)).then_some(rows)
                })
            }
        });
        read_beside(server, "outbox", consumers)
    };
    let (four, eight): (&[String], &[String]) = (four.leak(), eight.leak());
    let mut all = consumers(four, 0..4);
    assert!(all.iter().all(|rows| !rows.is_empty()));

    // One of the consumers has stopped at a watermark that was 50 ms higher.
    let mut client = server.connect();
    client.run("UPDATE consumer SET position = position + (50::bigint << 22) WHERE name = 'search 2'");
    let ask = &steps("until there is a result")[0];
    let watermark: i64 = eventually("the watermark", || {
        client.run("SELECT snowflake_nextval()");
        client.query_opt(ask, &[]).unwrap().map(|row| row.get(0))
    });
    for number in 0..4 {
        let (position, rows) = consume_part(&mut client, four, number, Some(watermark)).unwrap();
        assert_eq!(position, watermark - 1);
        all.push(rows);
    }
    client.run(blocks_of("more consumers").next().unwrap());
    let positions = "SELECT count(*) FROM consumer WHERE name LIKE 'search %'
                     GROUP BY position HAVING position = $1";
    assert_eq!(client.query_one(positions, &[&(watermark - 1)]).unwrap().get::<_, i64>(0), 8);

    client.run(INTO_OUTBOX);
    let rest = consumers(eight, 0..8);
    assert!(rest.concat().len() >= 3);
    all.extend(rest);
    for rows in &all {
        assert_increasing(rows);
    }
    let mut all = all.concat();
    all.sort_unstable();
    assert_all_read(&all, &server, "outbox");
}

/// A connector reads a view with the queries of Kafka Connect's incrementing mode, and another reads the table.
#[test]
fn programs_that_poll_a_table() {
    let server = server_with_outbox();
    let mut client = server.connect();
    client.run(blocks_of("once, for a connector").next().unwrap());
    client.run("CREATE ROLE connector LOGIN; GRANT SELECT ON outbox_to_poll, outbox TO connector");
    let query = &steps("the connector")[0];
    let careless = query.replace("_to_poll", "");
    let offsets = [AtomicI64::new(-1), AtomicI64::new(-1)];
    let connector = |query: String, at: usize| {
        let last = &offsets[at];
        let server = &server;
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            client.run("SET ROLE connector");
            repeat(stop, || {
                let offset = last.load(Ordering::Relaxed);
                let rows = first_column(client.query(&query, &[&offset]).unwrap());
                let offset = rows.last().copied().unwrap_or(offset);
                last.store(offset, Ordering::Relaxed);
                (!rows.is_empty() || is_read(&mut client, "outbox", offset)).then_some(rows)
            })
        }
    };
    let (read, ()) = beside([connector(query.clone(), 0), connector(careless, 1)], || {
        let (mut slow, mut client) = (server.connect(), server.connect());
        slow.run(&format!("BEGIN; {INTO_OUTBOX}"));
        beside(writers(&server, INTO_OUTBOX), || {
            let last = ids(&mut client, &format!("{INTO_OUTBOX} RETURNING id"))[2];
            eventually("the careless connector", || offsets[1].load(Ordering::Relaxed) >= last);
            slow.run("COMMIT");
            wait_for_rows(&server, "outbox", SOME_ROWS);
        });
    });
    assert_all_read(&read[0], &server, "outbox");
    assert!(read[1].len() < written(&server, "outbox").len(), "nothing was skipped without the view");
    // As psql shows the plan: the watermark is computed once, and the index is used.
    client.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    let plan = format!("EXPLAIN (COSTS OFF) {}", query.replace("$1", "5"));
    let plan: Vec<String> = client.query(&plan, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains("Index Cond") && line.contains("id > ")), "{plan:#?}");
}

/// Returns a function that runs the script of the incremental export with psql, and returns the IDs in the file. The
/// function returns `None` if the script has written no file.
pub fn exporter(server: &Cluster) -> impl FnMut() -> Option<Vec<i64>> {
    let script = server.host().join("export.sql");
    fs::write(&script, blocks_of("export.sql").next().unwrap()).unwrap();
    server.own(&script);
    let mut number = 0;
    move || {
        number += 1;
        let file = server.host().join(format!("{number}.tsv"));
        let mut psql = server.client_program("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-v"]);
        psql.arg(format!("file={}", file.display())).arg("-f").arg(&script);
        let output = psql.output().unwrap();
        assert_eq!(output.status.success(), file.exists(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(file).ok()?;
        Some(text.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect())
    }
}

/// The files together contain each row once, in order. A file that is written again is the same.
#[test]
fn an_incremental_export() {
    let server = server_with_outbox();
    let mut export = exporter(&server);
    let mut all = Vec::new();
    beside(writers(&server, INTO_OUTBOX), || {
        for _ in 0..10 {
            all.extend(export().unwrap_or_default());
            wait_for_rows(&server, "outbox", SOME_ROWS / 10);
        }
    });
    let mut client = server.connect();
    all_arrive("all rows", || {
        all.extend(export().unwrap_or_default());
        is_read(&mut client, "outbox", all.last().copied().unwrap_or(0))
    });
    assert_all_read(&all, &server, "outbox");
    eventually("the last watermark", || export().is_none());
    let query =
        "SELECT o.id FROM export AS e JOIN outbox AS o ON o.id >= e.from_id AND o.id < e.below_id ORDER BY 1";
    assert_all_read(&ids(&mut client, query), &server, "outbox");
}

/// A user loads all older pages and the newer rows in turn.
#[test]
fn a_feed() {
    let server = server_with_outbox();
    let [first] = &steps("the first page")[..] else { panic!() };
    let [older] = &steps("each older page")[..] else { panic!() };
    let [newer] = &steps("newer rows")[..] else { panic!() };
    let (begun, begins) = mpsc::channel();
    let user = |stop: &AtomicBool| {
        let mut client = server.connect();
        wait_for_rows(&server, "outbox", SOME_ROWS);
        let mut rows = eventually("the first page", || {
            let rows = first_column(client.query(first, &[]).unwrap());
            (!rows.is_empty()).then_some(rows)
        });
        rows.reverse();
        begun.send(()).unwrap();
        let newest = repeat(stop, || {
            let page = first_column(client.query(older, &[&rows[0]]).unwrap());
            page.into_iter().for_each(|id| rows.insert(0, id));
            let highest = rows[rows.len() - 1];
            let page = first_column(client.query(newer, &[&highest]).unwrap());
            rows.extend(&page);
            (!page.is_empty() || is_read(&mut client, "outbox", highest)).then_some(page)
        });
        assert!(newest.len() > 100);
        rows
    };
    let (read, ()) = beside([user], || {
        beside(writers(&server, INTO_OUTBOX), || {
            begins.recv().unwrap();
            wait_for_rows(&server, "outbox", SOME_ROWS);
        });
    });
    assert_all_read(&read[0], &server, "outbox");
}

/// The transcript of the trigger, which also accepts rows of the default.
#[test]
fn rows_with_ids_of_another_transaction_are_refused() {
    let server = server_with_outbox();
    let transcript = ["INSERT INTO outbox (id, topic) SELECT id, 'orders' FROM snowflake_batch(3) AS id;"];
    assert!(PAGE.contains(transcript[0]));
    let mut client = server.connect();
    client.run(transcript[0]);
    client.run("INSERT INTO outbox (topic) VALUES ('orders')");
    let id: i64 = single(&mut client, "SELECT snowflake_nextval() AS id");
    let (state, message) =
        failure(&mut client, &format!("INSERT INTO outbox (id, topic) VALUES ({id}, 'orders')"));
    assert_eq!(state, "23514");
    assert!(message.contains(&format!("ID {id} was not taken by this transaction")), "{message}");

    // A data-only dump is restored only without the trigger.
    let file = server.host().join("outbox.dump");
    let dump = |program: &str, options: &[&str]| {
        let mut command = server.client_program(program);
        command.args(["-d", "postgres", "--data-only", "-t", "outbox"]).args(options);
        command.output().unwrap().status.success()
    };
    assert!(dump("pg_dump", &["-Fc", "-f", file.to_str().unwrap()]));
    client.run("TRUNCATE outbox");
    assert!(!dump("pg_restore", &["--exit-on-error", file.to_str().unwrap()]));
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM outbox"), 0);
    assert!(dump("pg_restore", &["--exit-on-error", "--disable-triggers", file.to_str().unwrap()]));
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM outbox"), 4);
    assert_eq!(failure(&mut client, "INSERT INTO outbox (id, topic) VALUES (7, 'orders')").0, "23514");
}

/// The clock was a year ahead at the start. After the reset, a consumer that has read the rows reads the new ones.
#[test]
fn after_a_reset() {
    let server = Cluster::builder().worker(1).clock().start();
    blocks_of("once").for_each(|block| server.connect().run(block));
    server.stop_server("fast");
    server.set_clock(365.0 * 24.0 * 3_600.0);
    server.start_server();
    let consumer = steps("the consumer");
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    client.run(INTO_OUTBOX);
    let mut rows = Vec::new();
    all_arrive("the rows", || {
        rows.extend(consume(&mut client, &consumer, "mail").1);
        rows.len() == 3
    });

    server.set_clock(0.0);
    client.run("SELECT snowflake_reset_horizon(9)");
    server.change_for(&mut client, "snowflake_id.worker_id", "9");
    wait_for_first_id(&mut client);
    client.run(INTO_OUTBOX);
    assert!(consume(&mut client, &consumer, "mail").1.is_empty());
    client.run(blocks_of("after a reset").next().unwrap());
    let mut after = Vec::new();
    all_arrive("the new rows", || {
        after.extend(consume(&mut client, &consumer, "mail").1);
        after.len() == 3
    });
    assert_all_read(&[after, rows].concat(), &server, "outbox");

    // After another start, the time of the reset is not known, and no position changes.
    server.restart("fast");
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    assert_eq!(failure(&mut client, blocks_of("after a reset").next().unwrap()).0, "23502");
}
