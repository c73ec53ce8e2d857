//! The servers on which everything is measured.

use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, Settings};

/// The number of servers on which single calls are measured.
pub const SERVERS: usize = 9;

/// The default layout, which these servers have. A million IDs at once move its time ahead by a quarter of a second, so
/// measurements in it take IDs with pauses.
pub const LAYOUT: &str = "standard";

pub const SETTINGS: Settings = &[
    ("shared_preload_libraries", "snowflake_id"),
    ("snowflake_id.worker_id", "1"),
    ("fsync", "on"),
    // Each query runs in one process, without pauses for work that is not measured.
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("autovacuum", "off"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "20GB"),
    ("checkpoint_timeout", "1h"),
];

/// Two sequences, one of them cached to be as fast as possible, and a segment.
///
/// A range of the segment lasts for one second or more, as in a segment whose step is allowed to grow.
const NUMBERS: &str = "
    CREATE SEQUENCE plain;
    CREATE SEQUENCE cached CACHE 1000;
    CREATE EXTENSION snowflake_id_registry;
    SELECT snowflake_registry.create_segment('bench', min_step => 10000000, max_step => 1000000000);
";

/// Servers with the objects to be measured, and a connection to each. They are started on first use.
#[derive(Default)]
pub struct Servers {
    clusters: Vec<Cluster>,
    clients: Vec<Client>,
}

impl Servers {
    /// Returns the server for measurements that use only one.
    pub fn one(&mut self) -> &Cluster {
        self.start(1);
        &self.clusters[0]
    }

    /// Returns a connection to that server.
    pub fn first(&mut self) -> &mut Client {
        self.start(1);
        &mut self.clients[0]
    }

    /// Returns a connection to each server.
    pub fn all(&mut self) -> &mut [Client] {
        self.start(SERVERS);
        &mut self.clients
    }

    fn start(&mut self, count: usize) {
        while self.clusters.len() < count {
            let cluster = Cluster::builder().settings(SETTINGS).start();
            let mut client = cluster.connect();
            client.batch_execute(NUMBERS).unwrap();
            self.clusters.push(cluster);
            self.clients.push(client);
        }
    }
}
