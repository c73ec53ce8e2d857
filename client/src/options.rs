//! [`Options`]: what a program chooses.

use std::sync::Arc;
use std::time::Duration;

use snowflake_id_core::layout::presets;
use snowflake_id_core::{Field, Identity, Layout};

use crate::error::Error;

/// The maximum of `max_ahead`, as for servers.
const MOST_AHEAD: Duration = Duration::from_secs(60 * 60);

/// A clock, in microseconds of Unix time.
pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What a program chooses. Only the registry is required.
#[derive(Clone)]
pub struct Options {
    pub(crate) registry: String,
    pub(crate) layout: Layout,
    pub(crate) datacenter: u32,
    pub(crate) name: String,
    pub(crate) leases: bool,
    pub(crate) max_ahead: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) start_within: Duration,
    pub(crate) sequence_spread: u32,
    pub(crate) clock: Option<Clock>,
}

impl Options {
    /// Returns the default options for a registry. `registry` is a connection string in one of the forms that
    /// [`tokio_postgres::Config`] accepts. Use a login role for each program.
    ///
    /// Name all servers of the registry, so that the client finds the primary after a failover. The client tries the
    /// hosts in their order, or with `load_balance_hosts=random` in random order, and all addresses of each host.
    /// With several hosts or addresses, it skips standbys. `target_session_attrs=read-write` also skips a standby
    /// that is the only host.
    ///
    /// `connect_timeout` limits the time for each address. The default is 5 s, also for 0. A lookup of a name fails
    /// after 10 s, or after `connect_timeout` if this is longer. A host whose lookup takes longer than the time for
    /// an address is tried last the next time. `hostaddr` alone needs no lookup. `keepalives`, its three times in
    /// seconds, and `tcp_user_timeout` are set on each TCP connection.
    ///
    /// `sslmode=require`, `sslnegotiation=direct` and `channel_binding=require` need
    /// [`Client::start_with_tls`](crate::Client::start_with_tls). A parameter that the client cannot honor is an
    /// [`Error::Options`]: those of libpq alone, such as `passfile`, `service` and `sslrootcert`,
    /// `target_session_attrs=read-only`, and options of TCP that the system lacks.
    pub fn new(registry: &str) -> Options {
        Options {
            registry: registry.into(),
            // A test of the core parses every preset.
            layout: presets::find("standard").expect("bug: there is no such preset").layout(),
            datacenter: 0,
            name: String::new(),
            leases: true,
            max_ahead: Duration::from_secs(1),
            max_wait: Duration::from_secs(2),
            start_within: Duration::from_secs(20),
            sequence_spread: 0,
            clock: None,
        }
    }

    /// Sets the layout of the IDs. It must be the layout of the servers. The default is the preset `standard`.
    pub fn layout(self, layout: Layout) -> Options {
        Options { layout, ..self }
    }

    /// Sets the datacenter ID. The default is 0.
    pub fn datacenter(self, datacenter: u32) -> Options {
        Options { datacenter, ..self }
    }

    /// Sets the name that the registry shows in view `fleet`, and in column `taken_by` of view `segments`.
    /// A client whose name held a free worker ID before gets this worker ID again.
    pub fn name(self, name: &str) -> Options {
        Options { name: name.into(), ..self }
    }

    /// Leases no worker ID, for programs that take only numbers of segments. Each call of
    /// [`Client::next_id`](crate::Client::next_id) fails.
    pub fn numbers_only(self) -> Options {
        Options { leases: false, ..self }
    }

    /// Sets the maximum time by which IDs may be ahead of the clock, at most 1 hour. The default is 1 s.
    /// Within this limit, bursts and small backward steps of the clock do not make calls fail.
    pub fn max_ahead(self, max_ahead: Duration) -> Options {
        Options { max_ahead, ..self }
    }

    /// Sets the maximum time that a waiting call waits. The default is 2 s.
    pub fn max_wait(self, max_wait: Duration) -> Options {
        Options { max_wait, ..self }
    }

    /// Sets the time in which [`Client::start`](crate::Client::start) has to get the first lease. The
    /// default is 20 s. After a start of the registry's server, new leases have to wait for 2.5 times
    /// `renew_every`, or for the length of a lease and two minutes if no program or server holds a lease.
    pub fn start_within(self, start_within: Duration) -> Options {
        Options { start_within, ..self }
    }

    /// Sets the maximum start value of the sequence in a tick. The start value depends on the tick, so that IDs
    /// taken at a low rate are spread over shards chosen by hash or modulo. The default is 0: no spread.
    pub fn sequence_spread(self, sequence_spread: u32) -> Options {
        Options { sequence_spread, ..self }
    }

    /// Sets the clock, in microseconds of Unix time. The default is the clock of the system. A wrong clock can
    /// prevent IDs, but cannot cause a repeated ID. Tests use this option.
    pub fn clock(self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Options {
        Options { clock: Some(Arc::new(clock)), ..self }
    }

    /// Checks the options, and returns the connection string in its parsed form.
    pub(crate) fn check(&self) -> Result<tokio_postgres::Config, Error> {
        let invalid = |problem: String| Error::Options(problem);
        if self.max_ahead > MOST_AHEAD {
            return Err(invalid(format!("max_ahead is more than {MOST_AHEAD:?}")));
        }
        let identity = Identity { datacenter: self.datacenter, worker: 0 };
        let fits = self.layout.check_identity(identity);
        fits.map_err(|problem| invalid(self.layout.explain_misfit(&problem)))?;
        // The reason is in the source of the error.
        self.registry
            .parse()
            .map_err(|error: tokio_postgres::Error| invalid(crate::connection::text_of(&error)))
    }

    /// The lowest worker ID that does not fit the layout. A worker ID has at most 31 bits.
    pub(crate) fn worker_limit(&self) -> u32 {
        1 << self.layout.bits(Field::Worker)
    }

    /// The name as the registry shows it: in printable ASCII, which its database can store in any encoding.
    pub(crate) fn shown_name(&self) -> String {
        self.name.replace(|character: char| !character.is_ascii() || character.is_control(), "?")
    }

    /// The clock, in microseconds of Unix time.
    #[inline]
    pub(crate) fn now_us(&self) -> i64 {
        match &self.clock {
            None => system_us(),
            Some(clock) => clock(),
        }
    }
}

/// The clock of the system, in microseconds of Unix time.
#[inline]
fn system_us() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    }
}
