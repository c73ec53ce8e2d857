//! The worker remembers where the marks of its names are stored. It reads no marks of other names, and never writes a
//! mark to a location that has become another one.

use harness::segments::*;
use harness::*;

const VIEW: &str = "snowflake_internal.segment_taken";

fn name(number: usize) -> String {
    format!("segment number {number}")
}

/// A server with three segments, of which it gets 50 numbers at a time.
fn server_with_three() -> Cluster {
    let server = single_server().start();
    for number in 1..=3 {
        administer(&server, &format!("create_segment('{}', min_step => 50, max_step => 50)", name(number)));
    }
    server
}

/// Takes numbers of a segment, from more than two further ranges.
fn take(client: &mut Client, number: usize, last: &mut i64) {
    let call = format!("SELECT snowflake_segment_nextval('{}')", name(number));
    for _ in 0..120 {
        // A range whose mark cannot be stored is lost.
        let row = eventually("a number", || client.query_one(&call, &[]));
        let next = row.get(0);
        assert!(next > *last, "segment {number}: {next} after {last}");
        *last = next;
    }
}

/// Takes numbers of one segment after the other. The view always has one row for each segment that had numbers, with
/// the highest number or a higher one.
fn take_and_check(client: &mut Client, last: &mut [i64; 3]) {
    for number in 1..=3 {
        take(client, number, &mut last[number - 1]);
        for (number, last) in (1..).zip(*last).filter(|(_, last)| *last > 0) {
            let marks =
                format!("SELECT until_value FROM {VIEW} WHERE name = convert_to('{}', 'UTF8')", name(number));
            let marks = ids(client, &marks);
            assert!(marks.len() == 1 && marks[0] >= last, "segment {number}: {marks:?} after {last}");
        }
    }
}

fn unexpected_rows(server: &Cluster) -> usize {
    server.log().matches("has an unexpected format").count()
}

#[test]
fn a_grant_reads_no_marks_of_other_names() {
    const NAMES: usize = 100;
    let server = single_server().start();
    create_numbered(&server, NAMES as u32);
    let mut client = server.connect();
    for number in 1..=NAMES {
        next(&mut client, &name(number));
    }
    let of_view = "FROM pg_stat_all_tables WHERE relname = 'segment_taken'";
    let stored = format!("SELECT n_tup_ins = {NAMES} {of_view}");
    eventually("the rows", || single::<bool>(&mut client, &stored));
    assert_eq!(single::<i64>(&mut client, &format!("SELECT seq_tup_read {of_view}")), 0);
}

#[test]
fn commands_move_the_rows() {
    let server = server_with_three();
    let (mut client, mut last) = (server.connect(), [0; 3]);
    take_and_check(&mut client, &mut last);
    client.run("SET allow_in_place_tablespaces = on");
    client.run("CREATE TABLESPACE elsewhere LOCATION ''");
    for command in [
        // Rows change places with each other.
        format!(
            "CREATE INDEX backwards ON {VIEW} (name DESC);
             CLUSTER {VIEW} USING backwards;
             DROP INDEX snowflake_internal.backwards"
        ),
        format!("VACUUM (FULL) {VIEW}"),
        format!("ALTER MATERIALIZED VIEW {VIEW} SET TABLESPACE elsewhere"),
    ] {
        client.run(&command);
        take_and_check(&mut client, &mut last);
    }
    // After this command, SQL cannot read the view.
    client.run(&format!("REFRESH MATERIALIZED VIEW {VIEW} WITH NO DATA"));
    take(&mut client, 1, &mut last[0]);
    server.restart("immediate");
    take(&mut server.connect(), 2, &mut last[1]);
    assert_eq!(unexpected_rows(&server), 0);
}

/// A superuser updates or deletes the rows in their file. The worker writes no mark to a row that is gone.
#[test]
fn rows_are_changed_in_their_file() {
    let server = server_with_three();
    let (mut client, mut last) = (server.connect(), [0; 3]);
    client.run("SET allow_system_table_mods = on");
    for (round, change) in
        [format!("UPDATE {VIEW} SET until_value = until_value"), format!("DELETE FROM {VIEW}")]
            .iter()
            .enumerate()
    {
        take_and_check(&mut client, &mut last);
        let of_view = format!("WHERE oid = '{VIEW}'::regclass");
        client.run(&format!(
            "UPDATE pg_class SET relkind = 'r', relhasrules = false {of_view};
             {change};
             UPDATE pg_class SET relkind = 'm', relhasrules = true {of_view};"
        ));
        assert_eq!(unexpected_rows(&server) > 0, round > 0);
    }
    take_and_check(&mut client, &mut last);
    assert!(unexpected_rows(&server) > 1);
}

/// A worker may have been stopped after it wrote a row, and before a commit flushed it. The next worker finds the row, so
/// its first commit has to flush something.
#[test]
fn a_new_worker_writes_a_row_that_has_not_changed() {
    let server = server_with_three();
    let mut client = server.connect();
    next(&mut client, &name(1));
    let start: String = single(&mut client, "SELECT pg_current_wal_insert_lsn()::text");
    let path: String = single(&mut client, &format!("SELECT pg_relation_filepath('{VIEW}')"));
    let file = path.rsplit('/').next().unwrap().to_owned();
    let database: u32 = single(&mut client, "SELECT oid FROM pg_database WHERE datname = current_database()");
    kill("TERM", worker_pid(&server));
    eventually("the record", || {
        let mut waldump = server.program("pg_waldump");
        let dumped = waldump
            .arg("--path")
            .arg(server.data_dir().join("pg_wal"))
            .args(["--start", &start, "--rmgr", "Generic", "--relation", &format!("1663/{database}/{file}")])
            .output()
            .unwrap();
        String::from_utf8_lossy(&dumped.stdout).contains("Generic")
    });
}
