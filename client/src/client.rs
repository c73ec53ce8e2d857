//! [`Client`]: the handle of a program.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use snowflake_id_core::{Identity, Stall};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};

use crate::connection::{Connector, connector};
use crate::error::Error;
use crate::leases::Leases;
use crate::numbers::{Ranges, RegistryClock, Segment, Wish};
use crate::options::Options;
use crate::pauses::deadline;
use crate::ranges::Task;
use crate::shared::Shared;
use crate::stream::Stream;

/// The time in which a lease is released.
const TIME_TO_CLOSE: Duration = Duration::from_secs(10);
/// The time for which a call waits if a lease is just being exchanged. The exchange takes microseconds, but
/// its thread may be interrupted.
const TIME_TO_EXCHANGE: Duration = Duration::from_millis(100);
/// The number of wishes for ranges that can wait.
const MOST_WISHES: usize = 1024;

/// The handle of a program. A clone is a handle of the same client.
///
/// All functions may be called from any thread. [`Client::next_id`] needs no runtime.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    numbers: Arc<Mutex<HashMap<String, Arc<Ranges>>>>,
    clock: Arc<RegistryClock>,
    wishes: mpsc::Sender<Wish>,
    end: Arc<End>,
}

/// When the last handle is dropped, the tasks end and release the lease, as after [`Client::close`].
struct End {
    stop: watch::Sender<bool>,
    /// Fails when the thread of the tasks has ended.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

/// The IDs that one call has taken, in increasing order.
pub struct Ids {
    ids: Box<dyn Iterator<Item = i64> + Send>,
}

impl Iterator for Ids {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.ids.next()
    }
}

impl Client {
    /// Starts a client without TLS, and waits for its first lease. Needs a Tokio runtime with time enabled.
    ///
    /// # Errors
    /// Returns [`Error::Options`] if an option is invalid, and [`Error::NoLease`] if there is no lease
    /// within `start_within`.
    pub async fn start(options: Options) -> Result<Client, Error> {
        Client::start_with_tls(options, NoTls).await
    }

    /// Starts a client with a TLS connector, such as `tokio_postgres_rustls::MakeRustlsConnect`. With
    /// `sslmode=prefer`, the default, a server without TLS is accepted: use `sslmode=require`. The connector
    /// checks the certificate. As with libpq, there is no TLS on a Unix-domain socket.
    ///
    /// # Errors
    /// Returns the errors of [`Client::start`].
    pub async fn start_with_tls<T>(options: Options, tls: T) -> Result<Client, Error>
    where
        T: MakeTlsConnect<Stream> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Stream>>::Future: Send,
    {
        let connect = connector(options.check()?, tls).map_err(Error::Options)?;
        let client = Client::spawn(options, connect)?;
        if client.shared.options.leases {
            let deadline = deadline(client.shared.options.start_within);
            let mut rounds = client.shared.rounds.subscribe();
            while client.shared.leased.load().is_none() {
                if !matches!(timeout_at(deadline, rounds.changed()).await, Ok(Ok(()))) {
                    let error = client.shared.no_lease();
                    client.close().await;
                    return Err(error);
                }
            }
        }
        Ok(client)
    }

    /// Starts the thread of the tasks. It has a runtime of its own, so that a program that blocks its
    /// runtime keeps its lease, and a host that makes the thread compute does not stop the program.
    fn spawn(options: Options, connect: Connector) -> Result<Client, Error> {
        let (wishes, received) = mpsc::channel(MOST_WISHES);
        let (stop, mut stopped) = watch::channel(false);
        let (ending, ended) = oneshot::channel();
        let clock = Arc::new(RegistryClock::default());
        let task = Task::new(connect.clone(), options.shown_name(), clock.clone());
        let shared = Arc::new(Shared::new(options));
        let leases = shared.options.leases.then(|| Leases::new(shared.clone(), connect));
        let failed = |error: std::io::Error| Error::Thread(error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let run = move || {
            runtime.block_on(async {
                let leases = leases.map(|leases| tokio::spawn(leases.run(stopped.clone())));
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => {}
                    _ = task.run(received) => {}
                }
                if let Some(leases) = leases {
                    // A panic of the task is a bug, and has been reported by the panic hook.
                    let _ = leases.await;
                }
            });
            // No call may wait any more.
            drop(ending);
        };
        std::thread::Builder::new().name("snowflake-id".into()).spawn(run).map_err(failed)?;
        let end = Arc::new(End { stop, ended: Mutex::new(Some(ended)) });
        Ok(Client { shared, numbers: Arc::default(), clock, wishes, end })
    }

    /// Returns the next ID. Never waits, and takes no lock: one reading of the clock, and one exchange of a
    /// word.
    ///
    /// # Errors
    /// Returns the reason why there is no ID now.
    #[inline]
    pub fn next_id(&self) -> Result<i64, Error> {
        let leased = self.shared.leased.load();
        let Some(leased) = leased.as_ref() else { return Err(self.shared.no_lease()) };
        match leased.reserve(&self.shared.options, NonZeroU64::MIN) {
            Ok(reservation) => Ok(leased.generator().first_id(reservation)),
            Err(stall) => self.again(stall, NonZeroU64::MIN)?.next().ok_or(Error::Closed),
        }
    }

    /// Returns up to `n` IDs, at least one, in one exchange: as many as are allowed now.
    ///
    /// # Errors
    /// Returns the reason why there is no ID now.
    pub fn next_ids(&self, n: NonZeroU64) -> Result<Ids, Error> {
        let leased = self.shared.leased.load();
        let Some(leased) = leased.as_ref() else { return Err(self.shared.no_lease()) };
        match leased.reserve(&self.shared.options, n) {
            Ok(reservation) => Ok(Ids { ids: Box::new(leased.generator().ids(reservation)) }),
            Err(stall) => self.again(stall, n),
        }
    }

    /// A call found the gate closed. If there is another lease by now, the call takes its IDs from that.
    #[cold]
    fn again(&self, mut stall: Stall, n: NonZeroU64) -> Result<Ids, Error> {
        let started = std::time::Instant::now();
        while matches!(stall, Stall::Identity(_)) && started.elapsed() < TIME_TO_EXCHANGE {
            let leased = self.shared.leased.load();
            let Some(leased) = leased.as_ref() else { return Err(self.shared.no_lease()) };
            stall = match leased.reserve(&self.shared.options, n) {
                Ok(reservation) => return Ok(Ids { ids: Box::new(leased.generator().ids(reservation)) }),
                // The task stores the next lease right after it has closed the gate of this one.
                Err(Stall::Identity(_)) => {
                    std::thread::yield_now();
                    continue;
                }
                Err(stall) => stall,
            };
        }
        Err(self.shared.explain(stall))
    }

    /// Returns the next ID. Waits for at most `max_wait` if there is none now.
    ///
    /// # Errors
    /// Returns the reason why there was no ID at the end of the wait.
    pub async fn next_id_or_wait(&self) -> Result<i64, Error> {
        let deadline = deadline(self.shared.options.max_wait);
        let mut rounds = self.shared.rounds.subscribe();
        loop {
            let error = match self.next_id() {
                Err(error) if error.is_temporary() => error,
                result => return result,
            };
            let is_over = match &error {
                Error::Ahead { wait } if *wait > deadline.saturating_duration_since(Instant::now()) => true,
                Error::Ahead { wait } => {
                    sleep(*wait).await;
                    false
                }
                _ => !matches!(timeout_at(deadline, rounds.changed()).await, Ok(Ok(()))),
            };
            if is_over {
                return Err(error);
            }
        }
    }

    /// Returns the identity under which IDs are generated now, if there is a lease.
    pub fn identity(&self) -> Option<Identity> {
        self.shared.leased.load().as_ref().map(|leased| leased.generator().identity())
    }

    /// Returns why the last attempt to renew or to acquire a lease failed, if it failed. The client may
    /// still have a lease. Show this text in the monitoring of the program.
    pub fn problem(&self) -> Option<String> {
        self.shared.problem()
    }

    /// Returns a handle for the numbers of a segment. The client keeps the name until it is dropped, so do not
    /// take names from untrusted input without a check.
    pub fn segment(&self, name: &str) -> Segment {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = numbers.entry(name.into()).or_insert_with(|| {
            Arc::new(Ranges { name: name.into(), segment: Default::default(), clock: self.clock.clone() })
        });
        Segment {
            ranges: ranges.clone(),
            wishes: self.wishes.clone(),
            max_wait: self.shared.options.max_wait,
        }
    }

    /// Ends the client: takes no more IDs, and hands the worker ID back. Waits for at most 10 s. If the
    /// registry does not answer, the worker ID stays taken until the lease ends.
    pub async fn close(&self) {
        self.end.stop.send_replace(true);
        let ended = self.end.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            // A thread that takes longer continues in the background.
            let _ = timeout(TIME_TO_CLOSE, ended).await;
        }
    }
}
