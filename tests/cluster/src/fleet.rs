//! A fleet: servers that lease their worker IDs from a registry.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use postgres::Client;

use crate::{Cluster, Settings, ids, poll, single};

/// A registry, and servers that ask it.
pub struct Fleet {
    pub registry: Cluster,
}

/// What shortens leases, so that a test sees their ends: 6 s, renewed every half second.
pub const SHORT_LEASES: &str = "lease => '6s', renew_every => '500ms'";

impl Fleet {
    /// A fleet without servers. `configuration` are arguments of `snowflake_registry.configure()`.
    pub fn start(configuration: &str) -> Fleet {
        Fleet::start_on(Cluster::stopped(&[("max_connections", "100")]), configuration)
    }

    /// The same with a registry on this server, which is not running.
    pub fn start_on(registry: Cluster, configuration: &str) -> Fleet {
        registry.start_server().unwrap_or_else(|log| panic!("the registry did not start:\n{log}"));
        Fleet::make_on(registry, configuration)
    }

    /// The same on a server that is running.
    pub fn make_on(registry: Cluster, configuration: &str) -> Fleet {
        registry
            .connect()
            .batch_execute(&format!(
                "CREATE EXTENSION snowflake_id_registry;
                 SELECT snowflake_registry.start_fleet();
                 SELECT snowflake_registry.configure({configuration});
                 CREATE ROLE fleet LOGIN;
                 GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
                 GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO fleet;"
            ))
            .unwrap();
        Fleet { registry }
    }

    /// How its servers connect to the registry.
    pub fn connection_string(&self) -> String {
        format!("host={} user=fleet dbname=postgres", self.registry.host().display())
    }

    /// A server of the fleet that has not been started.
    pub fn stopped_server(&self, settings: Settings) -> Cluster {
        let server = Cluster::stopped(&[("shared_preload_libraries", "snowflake_id")]);
        server.configure(&[("snowflake_id.registry", &self.connection_string())]);
        server.configure(settings);
        server
    }

    /// A server of the fleet, with the extension in it.
    pub fn server(&self, settings: Settings) -> Cluster {
        let server = self.stopped_server(settings);
        server.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
        server
    }

    /// Stops the registry, as if its host had lost its power.
    pub fn lose_registry(&self) {
        self.registry.stop_server("immediate");
    }
}

/// The worker ID of a new ID, as soon as there is one.
#[track_caller]
pub fn leased_worker(server: &Cluster) -> i32 {
    poll("an ID", || {
        let row = server.try_connect("postgres").ok()?.query_one(NEW_WORKER, &[]).ok()?;
        Some(row.get(0))
    })
}

const NEW_WORKER: &str = "SELECT snowflake_worker(snowflake_nextval())";

/// A column of `snowflake_status`, as text.
pub fn status(client: &mut Client, column: &str) -> Option<String> {
    single(client, &format!("SELECT {column}::text FROM snowflake_status LIMIT 1"))
}

/// Waits until a server's registry is in a state.
pub fn wait_for_registry_state(server: &Cluster, state: &str) {
    let mut client = server.connect();
    poll(state, || (status(&mut client, "registry_state").as_deref() == Some(state)).then_some(()));
}

/// How long the lease of a server still lasts.
pub fn lease_left(client: &mut Client) -> Duration {
    let seconds: f64 = single(
        client,
        "SELECT greatest(extract(epoch FROM lease_until - clock_timestamp()), 0)::float8 FROM snowflake_status LIMIT 1",
    );
    Duration::from_secs_f64(seconds)
}

/// The file in which a server keeps its lease.
pub fn lease_file(server: &Cluster) -> String {
    fs::read_to_string(lease_path(server)).unwrap()
}

/// Where that file is.
pub fn lease_path(server: &Cluster) -> PathBuf {
    server.data_dir().join("snowflake_id.lease")
}

/// Waits for an ID, and takes some more.
#[track_caller]
pub fn some_ids(server: &Cluster) -> Vec<i64> {
    leased_worker(server);
    ids(&mut server.connect(), "SELECT snowflake_batch(10000)")
}

/// The process ID of the registry worker, if there is one.
pub fn registry_worker_pid(server: &Cluster) -> Option<i32> {
    let query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_id registry'";
    Some(server.try_connect("postgres").ok()?.query_opt(query, &[]).ok()??.get(0))
}
