//! The files in which a server stores its lease and its numbers are changed while it is stopped: bytes, lines, and JSON
//! with a valid checksum. The server starts, crashes nowhere, and repeats neither an ID nor a number.

use std::fs;
use std::path::Path;

use harness::fuzz::Rounds;
use harness::segments::preloaded;
use harness::*;

/// Changes a file of two or more lines: a description, and lines of a checksum and JSON.
fn changed(random: &mut Random, text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    match random.below(6) {
        0 => return text[..random.below(text.len() as u64 + 1) as usize].to_vec(),
        1 => {
            let mut text = text.to_vec();
            let at = random.below(text.len() as u64) as usize;
            text[at] = random.below(256) as u8;
            return text;
        }
        2 => {
            let at = random.below(lines.len() as u64) as usize;
            lines.remove(at);
        }
        _ => {
            let at = random.below(lines.len() as u64) as usize;
            let json =
                lines[at].get(9..).and_then(|json| serde_json::from_slice::<serde_json::Value>(json).ok());
            if let Some(json) = json {
                let json = random.change_json(&json);
                lines[at] = format!("{:08x} {json}", crc32fast::hash(json.as_bytes())).into();
            }
        }
    }
    lines.join(&b'\n')
}

/// Changes a file in place, so that it stays the same file.
fn change_file(rounds: &mut Rounds, path: &Path) {
    if let Some(text) = fs::read(path).ok().filter(|text| !text.is_empty()) {
        fs::write(path, changed(&mut rounds.random, &text)).unwrap();
    }
}

#[test]
fn changed_files() {
    let registry = Registry::of_both("lease => '1min', renew_every => '200ms'").start(Cluster::builder());
    registry.connect().run(
        "SELECT snowflake_registry.end_quarantine();
         SELECT snowflake_registry.create_segment('orders', min_step => 1000, max_step => 1000);",
    );
    let server = preloaded()
        .short_horizon()
        .set("snowflake_id.registry", registry.connection_string("fleet"))
        .set("snowflake_id.max_wait", "1s")
        .start();
    let files = ["snowflake_id.lease", "snowflake_id.segments"].map(|name| server.data_dir().join(name));
    let mut rounds = Rounds::new();
    let (mut taken, mut numbers) = (vec![], vec![]);
    while rounds.go_on() {
        let mut client = server.connect();
        let before = numbers.len();
        // A file that says that the lease is another registry's is believed, and then there are no IDs.
        for (query, all) in [
            ("SELECT snowflake_batch(1000)", &mut taken),
            ("SELECT snowflake_segment_batch('orders', 10)", &mut numbers),
        ] {
            let rows = rounds.query(&mut client, query, &["55"]);
            all.extend(rows.iter().map(|row| row.get(0).unwrap().parse::<i64>().unwrap()));
        }
        let mode = rounds.random.one_of(&["fast", "immediate"]);
        server.stop_server(mode);
        if numbers.len() == before {
            // The database has the marks, too. An administrator may therefore remove a damaged file.
            let _ = fs::remove_file(&files[1]);
        }
        let path = rounds.random.one_of(&files);
        change_file(&mut rounds, path);
        server.start_server();
    }
    // Without its files, the server is a new one.
    server.stop_server("fast");
    files.iter().for_each(|file| drop(fs::remove_file(file)));
    server.start_server();
    taken.extend(some_ids(&server));
    assert_distinct(&taken);
    assert_distinct(&numbers);
    println!("{} IDs, {} numbers", taken.len(), numbers.len());
    rounds.finish(&[&server, &registry]);
}
