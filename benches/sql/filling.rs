//! The cost of a million rows.

use snowflake_id_cluster_tests::single;

use crate::figures::{Figures, ratio, table};
use crate::measure::{ROWS, median, seconds};
use crate::servers::{LAYOUT, Servers};

const REPETITIONS: usize = 5;
const KEYS: [(&str, &str); 4] = [
    ("`bigserial`", "bigserial"),
    ("`bigint DEFAULT snowflake_nextval()`", "bigint DEFAULT snowflake_nextval()"),
    ("`bigint DEFAULT snowflake_segment_nextval(..)`", "bigint DEFAULT snowflake_segment_nextval('bench')"),
    ("`uuid DEFAULT gen_random_uuid()`", "uuid DEFAULT gen_random_uuid()"),
];

pub fn print(servers: &mut Servers, figures: &Figures) {
    let file = servers.one().host().join("rows");
    let file = file.to_str().unwrap();
    let client = servers.first();
    client.batch_execute(&format!("COPY (SELECT generate_series(1, {ROWS})) TO '{file}'")).unwrap();
    let fills = [
        format!("INSERT INTO filled (payload) SELECT generate_series(1, {ROWS})"),
        format!("COPY filled (payload) FROM '{file}'"),
    ];
    let mut times = vec![[Vec::new(), Vec::new()]; KEYS.len()];
    let mut sizes = vec![0; KEYS.len()];
    for _ in 0..REPETITIONS {
        for (at, (_, key)) in KEYS.iter().enumerate() {
            for (fill, times) in fills.iter().zip(&mut times[at]) {
                client
                    .batch_execute(&format!(
                        "DROP TABLE IF EXISTS filled;
                         CREATE TABLE filled (id {key} PRIMARY KEY, payload int);
                         CHECKPOINT"
                    ))
                    .unwrap();
                times.push(seconds(|| client.batch_execute(fill).unwrap()));
                sizes[at] = single::<i64>(client, "SELECT pg_relation_size('filled_pkey')");
            }
        }
    }
    client.batch_execute("DROP TABLE filled").unwrap();
    let medians: Vec<_> = times.into_iter().map(|times| times.map(median)).collect();
    println!("\n### Filling a table with {ROWS} rows, median of {REPETITIONS}\n");
    let head =
        ["key", "`INSERT .. SELECT`, s", "of bigserial", "`COPY`, s", "of bigserial", "primary key, MB"];
    let mut shown = Vec::new();
    let mut rows = Vec::new();
    for (at, (name, _)) in KEYS.iter().enumerate() {
        let [insert, copy] = medians[at];
        let megabytes = sizes[at] as f64 / 1e6;
        shown.push(vec![
            name.to_string(),
            format!("{insert:.2}"),
            ratio(insert, medians[0][0]),
            format!("{copy:.2}"),
            ratio(copy, medians[0][1]),
            format!("{megabytes:.1}"),
        ]);
        rows.push([
            name.to_string(),
            format!("{insert:.3}"),
            format!("{copy:.3}"),
            format!("{megabytes:.1}"),
        ]);
    }
    figures.show_in_layout("filling", LAYOUT, &table(&head, shown));
    figures.write("filling", ["key", "insert_seconds", "copy_seconds", "primary_key_megabytes"], &rows);
}
