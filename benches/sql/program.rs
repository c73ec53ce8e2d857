//! IDs that a program generates itself, compared with a query for each ID over a Unix socket.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::thread;
use std::time::SystemTime;

use snowflake_id_client::{Client, Options};
use snowflake_id_cluster_tests::segments::administer;
use snowflake_id_cluster_tests::{Cluster, Registry};
use tokio::runtime::Runtime;

use crate::figures::{Figures, ratio, table};
use crate::measure::{median, seconds};
use crate::servers::Servers;

const REPETITIONS: usize = 15;
/// A layout that does not limit the rate of a loop.
const LAYOUT: &str = "wide";
/// The number of calls in a repetition: in the program, and over the socket.
const CALLS: u64 = 1_000_000;
const QUERIES: u64 = 5_000;

pub fn print(servers: &mut Servers, figures: &Figures) {
    let registry = Registry::of_programs("last_worker => 63").start(Cluster::builder());
    administer(&registry, "create_segment('bench', min_step => 100000000, max_step => 100000000)");
    let runtime = Runtime::new().unwrap();
    let options =
        Options::new(&registry.connection_string("fleet")).layout(LAYOUT.parse().expect("a preset"));
    let program = runtime.block_on(Client::start(options)).unwrap();
    let segment = program.segment("bench");
    runtime.block_on(segment.next_number()).unwrap();
    let session = servers.first();
    let query = session.prepare("SELECT snowflake_nextval()").unwrap();
    let hundred = NonZeroU64::new(100).unwrap();

    type Work<'a> = Box<dyn FnMut() -> f64 + 'a>;
    let in_program = |work: &dyn Fn()| seconds(|| (0..CALLS).for_each(|_| work())) * 1e9 / CALLS as f64;
    let next_id = || {
        black_box(program.next_id().unwrap());
    };
    let mut works: Vec<(&str, Work)> = vec![
        (
            "the clock alone",
            Box::new(|| {
                in_program(&|| {
                    black_box(SystemTime::now());
                })
            }),
        ),
        ("`next_id()`", Box::new(|| in_program(&next_id))),
        (
            "`next_id()` in two threads",
            Box::new(|| {
                thread::scope(|scope| {
                    let threads = [(); 2].map(|()| scope.spawn(|| in_program(&next_id)));
                    let times = threads.map(|thread| thread.join().unwrap());
                    // The threads share the time.
                    (times[0] + times[1]) / 4.0
                })
            }),
        ),
        (
            "`next_ids(100)`, for one ID",
            Box::new(|| {
                let ids = || {
                    program.next_ids(hundred).unwrap().for_each(|id| {
                        black_box(id);
                    })
                };
                seconds(|| (0..CALLS / 100).for_each(|_| ids())) * 1e9 / CALLS as f64
            }),
        ),
        (
            "`numbers_in_memory(1)` of a segment",
            Box::new(|| {
                in_program(&|| {
                    black_box(segment.numbers_in_memory(NonZeroU64::MIN).unwrap());
                })
            }),
        ),
        (
            "`SELECT snowflake_nextval()` over a Unix socket",
            Box::new(|| {
                let ask = |session: &mut postgres::Client| drop(session.query_one(&query, &[]).unwrap());
                seconds(|| (0..QUERIES).for_each(|_| ask(session))) * 1e9 / QUERIES as f64
            }),
        ),
    ];
    let mut times = vec![vec![]; works.len()];
    for _ in 0..REPETITIONS {
        works.iter_mut().zip(&mut times).for_each(|((_, work), times)| times.push(work()));
    }
    let names: Vec<_> = works.iter().map(|(name, _)| *name).collect();
    drop(works);
    let times: Vec<f64> = times.into_iter().map(median).collect();
    println!("\n### IDs that a program generates itself\n");
    let rows: Vec<_> =
        names.iter().zip(&times).map(|(name, ns)| [name.to_string(), format!("{ns:.1}")]).collect();
    figures.write("program", ["call", "ns"], &rows);
    let shown = rows.into_iter().zip(&times).map(|(row, ns)| [&row[..], &[ratio(*ns, times[1])]].concat());
    let table = table(&["one ID or number", "ns", "of `next_id()`"], shown);
    figures.show_in_layout("program", LAYOUT, &table);
    runtime.block_on(program.close());
}
