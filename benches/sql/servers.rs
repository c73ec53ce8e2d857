//! The servers that are measured.

use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, Settings};

/// How many a measurement of single calls goes round.
pub const SERVERS: usize = 9;

pub const SETTINGS: Settings = &[
    ("shared_preload_libraries", "snowflake_id"),
    ("snowflake_id.worker_id", "1"),
    ("snowflake_id.layout", "wide"),
    ("fsync", "on"),
    // One process per query, and no pauses for things that are not measured.
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("autovacuum", "off"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "20GB"),
    ("checkpoint_timeout", "1h"),
];

/// Two sequences, one of them as fast as sequences go, and a segment.
///
/// A range of the segment lasts for a second or more, as it does for those who let it grow.
const NUMBERS: &str = "
    CREATE SEQUENCE plain;
    CREATE SEQUENCE cached CACHE 1000;
    CREATE EXTENSION snowflake_id_registry;
    SELECT snowflake_registry.create_segment('bench', min_step => 10000000, max_step => 1000000000);
";

/// Servers, each with what is measured in it and a connection. They are started when they are wanted.
#[derive(Default)]
pub struct Servers {
    clusters: Vec<Cluster>,
    clients: Vec<Client>,
}

impl Servers {
    /// The server for all that is measured on one.
    pub fn one(&mut self) -> &Cluster {
        self.start(1);
        &self.clusters[0]
    }

    /// A connection to it.
    pub fn first(&mut self) -> &mut Client {
        self.start(1);
        &mut self.clients[0]
    }

    /// A connection to each of all servers.
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
