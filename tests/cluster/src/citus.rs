//! Citus: a coordinator that has the registry, and workers. They are set up by the commands of docs/run/platforms.md.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use postgres::Client;

use crate::book::{self, of_make};
use crate::examples::{blocks, run_block};
use crate::{Builder, Cluster, ask_pg_config, leased_worker, pg_config};

static PAGE: LazyLock<String> = LazyLock::new(|| of_make("citus"));
/// The sections of the page that set up the nodes and their tables.
const SECTIONS: [&str; 2] = ["Setting up the nodes", "Tables"];
/// The node that the page adds last.
const NEW_NODE: usize = 3;

/// The coordinator is node 0. On the page, node n has address 10.0.0.(n + 1).
pub struct Citus {
    pub nodes: Vec<Cluster>,
    addresses: Vec<String>,
}

/// Whether the installation has Citus.
pub fn is_installed() -> Result<(), String> {
    let library = format!("{}/citus.so", ask_pg_config(&pg_config(), "--pkglibdir"));
    let found = std::fs::metadata(&library).map_err(|error| format!("{library}: {error}"));
    found.map(|_| ())
}

impl Citus {
    /// Starts a coordinator and two workers. Returns them after each has a worker ID.
    pub fn start() -> Citus {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let first = 80 + 8 * STARTED.fetch_add(1, Ordering::Relaxed);
        let address = |n| format!("127.{}.{}.{}", first + n, process % 250, process / 250 % 250);
        let mut citus = Citus { nodes: vec![], addresses: (0..8).map(address).collect() };
        for _ in 0..NEW_NODE {
            citus.start_node();
        }
        for block in blocks(section(SECTIONS[0])) {
            citus.run(block);
        }
        citus.nodes.iter().for_each(|node| _ = leased_worker(node));
        citus
    }

    /// Starts another node, which does not belong to the cluster yet.
    pub fn start_node(&mut self) {
        let node = self.new_node(self.nodes.len());
        self.nodes.push(node.extensions(&[]).start());
        self.nodes[self.nodes.len() - 1].trust_hosts("127.0.0.0/8");
        self.nodes[self.nodes.len() - 1].reload();
    }

    /// A node with the settings of the page, and with its own role.
    fn new_node(&self, node: usize) -> Builder {
        let (_, lines) = section(SECTIONS[0]).split_once("```text\n").unwrap();
        let (lines, _) = lines.split_once("```").unwrap();
        let settings = lines.lines().filter_map(|line| line.trim_start().split_once(" = "));
        let server = settings.fold(Cluster::builder(), |server, (name, value)| {
            let value = value.trim_matches('\'').replace("user=node1", &format!("user=node{}", node + 1));
            server.set(name, self.at_home(&value))
        });
        // For connections of a node to itself, instead of localhost.
        let server = server.set("listen_addresses", &self.addresses[node]);
        let server = server.set("citus.local_hostname", &self.addresses[node]);
        // So many that the clients of all nodes can be connected to all nodes.
        server.set("max_connections", 200)
    }

    /// Starts a standby of a node. It gets the address after that of the new node.
    pub fn start_standby(&self, node: usize) -> Cluster {
        self.nodes[node].start_standby(&[
            ("listen_addresses", &self.addresses[NEW_NODE + 1]),
            ("citus.local_hostname", &self.addresses[NEW_NODE + 1]),
        ])
    }

    /// Text of the page with the addresses of these nodes.
    fn at_home(&self, text: &str) -> String {
        (0..8).fold(text.to_owned(), |text, n| text.replace(&format!("10.0.0.{}", n + 1), &self.addresses[n]))
    }

    /// Runs a block of the page on the nodes that its first line names. Returns how many results were compared.
    pub fn run(&self, block: &str) -> usize {
        let (place, block) = block.split_once('\n').unwrap();
        let block = self.at_home(block);
        let mut clients: Vec<Client> = match place {
            "-- on the coordinator" => vec![self.nodes[0].connect()],
            "-- on the coordinator, in database registry" => vec![self.nodes[0].connect_to("registry")],
            "-- on each node" => self.nodes.iter().map(Cluster::connect).collect(),
            "-- on the new node" => vec![self.nodes[NEW_NODE].connect()],
            "-- on a worker" => vec![self.nodes[1].connect()],
            _ => panic!("where is this run? {place}"),
        };
        clients.iter_mut().map(|client| run_block(client, &block)).sum()
    }

    /// Creates the tables of the page.
    pub fn create_tables(&self) -> usize {
        blocks(section(SECTIONS[1])).map(|block| self.run(block)).sum()
    }
}

/// The part of the page from a heading to the next heading.
pub fn section(heading: &str) -> &'static str {
    book::section(&PAGE, heading)
}
