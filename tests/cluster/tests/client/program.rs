//! Programs with the client crate.

use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::*;
pub use snowflake_id_client::{Client as Program, Error, Layout, Options};
use tokio::runtime::Runtime;

/// Leases that outlast a test, and are renewed often.
pub const LEASES: &str = "lease => '10min', renew_every => '200ms'";

/// A registry for programs, with a clock of its own.
pub fn registry(configuration: &str) -> Fleet {
    let server = Cluster::builder().set("max_connections", 100).clock();
    Fleet { registry: Registry::of_programs(configuration).start(server) }
}

/// The runtime of all programs. Tests block on it, because they also use blocking clients.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Waits for the result of a future.
pub trait Wait: Future + Sized {
    fn wait(self) -> Self::Output {
        RUNTIME.block_on(self)
    }
}

impl<F: Future> Wait for F {}

pub fn options(fleet: &Fleet) -> Options {
    Options::new(&fleet.connection_string())
}

/// Starts a program, which must get a lease.
pub fn start(options: Options) -> Program {
    Program::start(options.start_within(TIMEOUT)).wait().unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a program, which must not get a lease. Returns the error.
pub fn refusal(options: Options) -> Error {
    Program::start(options.start_within(Duration::from_millis(500))).wait().err().expect("an error")
}

/// Starts a program, which must be refused a lease with an error that contains this text.
#[track_caller]
pub fn refused(options: Options, said: &str) {
    all_arrive(said, || {
        let error = refusal(options.clone());
        if error.to_string().contains(said) { Ok(()) } else { Err(error) }
    });
}

/// A clock that a test can set.
#[derive(Clone, Default)]
pub struct SetClock(Arc<AtomicI64>);

impl SetClock {
    /// Sets the difference to the real clock, in milliseconds.
    pub fn set(&self, milliseconds: i64) {
        self.0.store(milliseconds * 1_000, Ordering::Relaxed);
    }

    pub fn give_to(&self, options: Options) -> Options {
        let shift = self.0.clone();
        options.clock(move || real_us() + shift.load(Ordering::Relaxed))
    }
}

pub fn real_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64
}

/// A column of view `fleet`, for a worker ID.
pub fn fleet_column(fleet: &Fleet, worker: u32, column: &str) -> String {
    let query = format!("SELECT {column}::text FROM snowflake_registry.fleet WHERE worker_id = {worker}");
    single(&mut fleet.registry.connect(), &query)
}
