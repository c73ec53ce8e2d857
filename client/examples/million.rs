//! A service that generates IDs in its own process, beside the servers of a fleet:
//!
//!     cargo run --release -p snowflake-id-client --example million -- "host=registry dbname=postgres user=billing" 10
//!
//! It has two threads, prints once a second how many IDs they have taken, and hands its worker ID back at
//! the end or at Ctrl-C.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use snowflake_id_client::{Client, Error, Options};

/// The number of threads that take IDs.
const THREADS: usize = 2;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let registry = arguments.next().ok_or_else(|| Error::Options("no connection string".into()))?;
    let seconds = arguments.next().map_or(u64::MAX, |text| text.parse().unwrap_or(10));

    let client = Client::start(Options::new(&registry).name("million")).await?;
    println!("This program has {:?}.", client.identity());

    static TAKEN: AtomicU64 = AtomicU64::new(0);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                while !IS_OVER.load(Ordering::Relaxed) {
                    match client.next_id() {
                        Ok(_id) => drop(TAKEN.fetch_add(1, Ordering::Relaxed)),
                        // The layout allows no more IDs in this tick, the clock was set back, or the lease
                        // has ended.
                        Err(Error::Ahead { wait }) => std::thread::sleep(wait),
                        Err(error) if error.is_temporary() => std::thread::sleep(Duration::from_millis(100)),
                        Err(error) => return eprintln!("{error}"),
                    }
                }
            })
        })
        .collect();

    let mut before = 0;
    for _ in 0..seconds {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => break,
            _ = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let taken = TAKEN.load(Ordering::Relaxed);
        println!("{} IDs in a second", taken - before);
        before = taken;
    }
    IS_OVER.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    client.close().await;
    Ok(())
}
