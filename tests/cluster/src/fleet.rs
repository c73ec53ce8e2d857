//! A fleet: servers that lease their worker IDs from a registry.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postgres::Client;

use crate::time::wait_for;
use crate::{Builder, Cluster, Registry, all_arrive, eventually, ids, single, too_slow};

/// A registry, for servers that lease their worker IDs from it.
pub struct Fleet {
    pub registry: Cluster,
}

/// Options for leases that are renewed often, and that outlast a test on any machine. [`set_clocks`] ends them.
pub const LASTING_LEASES: &str = "lease => '10min', renew_every => '300ms'";
/// The shift of all clocks, in seconds, after which [`LASTING_LEASES`] end soon.
pub const LATE_IN_A_LEASE: f64 = 5.5 * 60.0;
/// The shift of all clocks, in seconds, after which [`LASTING_LEASES`] have ended.
pub const AFTER_THE_LEASE: f64 = 11.0 * 60.0;
/// Options for leases that outlast a test and are not renewed during it.
pub const LONG_LEASES: &str = "lease => '10min', renew_every => '5min'";

impl Fleet {
    /// Starts a fleet without servers. `configuration` holds arguments of `snowflake_registry.configure()`.
    pub fn start(configuration: &str) -> Fleet {
        Fleet::of(Cluster::builder().set("max_connections", 100).clock(), configuration)
    }

    /// Like [`Fleet::start`], with a registry on the given server.
    pub fn of(registry: Builder, configuration: &str) -> Fleet {
        Fleet { registry: Registry::of_leases(configuration).start(registry) }
    }

    /// Like [`Fleet::start`], with a registry on a server that is already running.
    pub fn on(registry: Cluster, configuration: &str) -> Fleet {
        Registry::of_leases(configuration).make_on(&registry);
        Fleet { registry }
    }

    /// The connection string with which servers reach the registry.
    pub fn connection_string(&self) -> String {
        self.registry.connection_string("fleet")
    }

    /// A server of the fleet.
    pub fn server(&self) -> Builder {
        self.server_by(self.connection_string())
    }

    /// A server of the fleet that follows [`set_clocks`].
    pub fn server_with_clock(&self) -> Builder {
        self.server().following_clock()
    }

    /// A server that uses this connection string for its registry.
    pub fn server_by(&self, connection: impl ToString) -> Builder {
        Cluster::builder().preload().set("snowflake_id.registry", connection)
    }

    /// Revokes the lease of a worker ID in the registry.
    pub fn revoke_lease(&self, worker: i32) {
        self.registry.connect().execute("SELECT snowflake_registry.revoke_lease($1)", &[&worker]).unwrap();
    }

    /// Stops servers as a power failure would. Waits until the registry has dealt with the requests that they have sent.
    pub fn lose_servers<'a>(&self, servers: impl IntoIterator<Item = &'a Cluster>) {
        servers.into_iter().for_each(|server| server.stop_server("immediate"));
        let mut client = self.registry.connect();
        let now: String = single(&mut client, "SELECT clock_timestamp()::text");
        let earlier = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'fleet' AND backend_start < '{now}'"
        );
        eventually("the end of earlier requests", || single::<i64>(&mut client, &earlier) == 0);
    }

    /// Stops the registry as a power failure would.
    pub fn lose_registry(&self) {
        self.registry.stop_server("immediate");
    }
}

/// Waits for an ID. Returns its worker ID. A failure shows the log of the server.
#[track_caller]
pub fn leased_worker(server: &Cluster) -> i32 {
    let query = "SELECT snowflake_worker(snowflake_nextval())";
    let mut session = server.session();
    wait_for(|| session.ask(query))
        .unwrap_or_else(|error| too_slow(format!("gave up waiting for: an ID\n{error}\n{}", server.log())))
}

/// Sets the clocks of servers and of their registries, in seconds from the real time. Time passes for them, but not for
/// the test.
pub fn set_clocks<'a>(servers: impl IntoIterator<Item = &'a Cluster>, seconds: f64) {
    servers.into_iter().for_each(|server| server.set_clock(seconds));
}

/// A column of `snowflake_status`, as text.
#[track_caller]
pub fn shown(client: &mut Client, column: &str) -> Option<String> {
    crate::status(client, &format!("{column}::text"))
}

/// Waits until `registry_state` of a server has this value.
#[track_caller]
pub fn wait_for_registry_state(server: &Cluster, state: &str) {
    let mut client = server.connect();
    eventually(state, || shown(&mut client, "registry_state").as_deref() == Some(state));
}

/// The time left of a server's lease.
pub fn lease_left(client: &mut Client) -> Duration {
    let left = "greatest(extract(epoch FROM lease_until - clock_timestamp()), 0)::float8";
    Duration::from_secs_f64(crate::status(client, left))
}

/// Waits until the lease of a server has ended by the server's clock. IDs are issued until the end of that millisecond.
#[track_caller]
pub fn wait_for_end_of_lease(client: &mut Client) {
    let ended = "coalesce(lease_until + interval '1 ms' < clock_timestamp(), true)";
    eventually("the end of the lease", || crate::status::<bool>(client, ended));
}

/// The content of the file in which a server stores its lease.
pub fn lease_file(server: &Cluster) -> String {
    fs::read_to_string(lease_path(server)).unwrap()
}

/// The path of the lease file.
pub fn lease_path(server: &Cluster) -> PathBuf {
    server.data_dir().join("snowflake_id.lease")
}

/// Waits for an ID, and takes some more.
#[track_caller]
pub fn some_ids(server: &Cluster) -> Vec<i64> {
    leased_worker(server);
    ids(&mut server.connect(), "SELECT snowflake_batch(10000)")
}

/// Takes IDs from servers, each of which has a lease.
#[track_caller]
pub fn take_from(servers: &[Cluster]) -> Vec<i64> {
    servers.iter().flat_map(some_ids).collect()
}

/// How often the registry has granted a worker ID.
#[track_caller]
pub fn grants(fleet: &Fleet) -> i64 {
    single(
        &mut fleet.registry.connect(),
        "SELECT coalesce(sum(grant_count), 0)::bigint FROM snowflake_registry.lease",
    )
}

/// The number of connections from servers of the fleet to the registry.
#[track_caller]
pub fn fleet_connections(registry: &mut Client) -> i64 {
    single(registry, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'fleet'")
}

/// The IDs of the registry's processes that wait for its standby on behalf of servers.
#[track_caller]
pub fn waiting_commits(registry: &mut Client) -> Vec<i32> {
    let query = "SELECT pid FROM pg_stat_activity WHERE usename = 'fleet' AND wait_event = 'SyncRep'";
    registry.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[track_caller]
pub fn waiting_commit(registry: &mut Client) -> i32 {
    eventually("a commit that waits for the standby", || waiting_commits(registry).first().copied())
}

/// Waits until the lease of a server is renewed once more.
#[track_caller]
pub fn assert_renewed(server: &Cluster) {
    assert_renewed_by(server, || ());
}

/// Like [`assert_renewed`], after a step that makes the server ask its registry.
#[track_caller]
pub fn assert_renewed_by(server: &Cluster, ask: impl FnOnce()) {
    let mut client = server.connect();
    let before = shown(&mut client, "lease_renewed_at");
    ask();
    eventually("a renewal", || {
        let is_new = shown(&mut client, "lease_renewed_at") > before;
        is_new && shown(&mut client, "registry_state").as_deref() == Some("granted")
    });
}

/// Waits until the last error of a server contains one of these texts, which are separated by bars. Returns the error.
#[track_caller]
pub fn wait_for_error(server: &Cluster, said: &str) -> String {
    let mut client = server.connect();
    all_arrive(said, || {
        let error = shown(&mut client, "last_error").unwrap_or_default();
        let is_it = said.split('|').any(|said| error.contains(said));
        if is_it { Ok(error) } else { Err(std::io::Error::other(format!("{error:?}\n{}", server.log()))) }
    })
}

/// Makes a server ask the registry at once, however long it was told to wait, by changing the `application_name` in its
/// connection string.
#[track_caller]
pub fn ask_now(server: &Cluster, string: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = COUNT.fetch_add(1, Ordering::Relaxed);
    let string = format!("{string} application_name=turn{name}");
    server.change("snowflake_id.registry", &string);
}
