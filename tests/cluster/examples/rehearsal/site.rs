//! The servers of the rehearsal, set up as the pages say: a registry with a synchronous standby, three servers that
//! lease their worker IDs from it, an exporter for each, and Prometheus.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use snowflake_id_cluster_tests::examples::{blocks, blocks_at, run_block};
use snowflake_id_cluster_tests::faults::cut_power;
use snowflake_id_cluster_tests::monitoring::{Program, Prometheus, free_address, start_exporter};
use snowflake_id_cluster_tests::network::Proxy;
use snowflake_id_cluster_tests::{Client, Cluster, Run, eventually, leased_worker, single};

use crate::alerts::Scale;
use crate::ledger::TABLES;
use crate::pages::Pages;

pub const SERVERS: usize = 3;

pub struct Site {
    pub pages: Pages,
    pub servers: Vec<Server>,
    registry: Mutex<Registry>,
    pub prometheus: Prometheus,
    exporters: Mutex<BTreeMap<String, (Program, String)>>,
    /// The files of the exporters and of Prometheus.
    pub dir: PathBuf,
}

/// A server of the fleet.
pub struct Server {
    pub name: String,
    pub cluster: Cluster,
    /// Its ways to the two servers of the registry.
    pub ways: [Proxy; 2],
}

/// The registry. Its two servers change their roles when it fails over.
pub struct Registry {
    pub primary: Cluster,
    pub standby: Option<Cluster>,
    /// Which of the two servers is the primary: 0 or 1.
    pub at: usize,
}

/// The blocks of SQL on page fleet.md that set up a registry, in order.
const EXTENSION: usize = 0;
const SETTINGS: usize = 1;
const START: usize = 2;
const SERVER: usize = 3;
const SYNCHRONOUS: usize = 4;

impl Site {
    /// Sets up everything, and waits until each server has issued an ID.
    pub fn set_up(pages: Pages, scale: Scale, dir: &Path) -> Site {
        let primary = Cluster::builder().set("max_connections", 100).extensions(&[]).clock().start();
        let page = pages.page("run/fleet.md");
        let to_do: Vec<&str> = blocks_at(&page, "on the registry").collect();
        let mut client = primary.connect();
        run_block(&mut client, to_do[EXTENSION]);
        run_block(&mut client, to_do[SETTINGS]);
        run_block(&mut client, to_do[START]);
        for number in 1..=SERVERS {
            run_block(&mut client, &to_do[SERVER].replace("shard1", &format!("shard{number}")));
        }
        let standby = primary.start_standby(&[("synchronous_standby_names", "standby")]);
        primary.replicate_synchronously();
        run_block(&mut client, to_do[SYNCHRONOUS]);
        if scale.0 > 1 {
            // The settings of the page, and shorter.
            let (lease, renew_every) = (scale.of(600).as_secs(), scale.of(60).as_secs());
            client.run(&format!(
                "SELECT snowflake_registry.configure(lease => '{lease} s', renew_every => '{renew_every} s')"
            ));
        }
        // The ranges are so small that servers notice soon when the registry grants none.
        client.run("SELECT snowflake_registry.create_segment('bills', min_step => 500, max_step => 1000)");

        let servers: Vec<Server> =
            (1..=SERVERS).map(|number| server(&format!("shard{number}"), &primary, &standby)).collect();
        // The role and the alerts, as monitoring.md says.
        let page = pages.page("run/monitoring.md");
        let role = blocks(&page).find(|block| block.starts_with("CREATE ROLE prometheus")).expect("a role");
        [&primary].into_iter().chain(servers.iter().map(|server| &server.cluster)).for_each(|cluster| {
            run_block(&mut cluster.connect(), role);
        });
        let alerts = dir.join("snowflake_id_alerts.yml");
        scale.write_rules(&pages.file("monitoring/alerts.yml"), &alerts);
        let prometheus = Prometheus::start(&alerts, if scale.0 > 1 { 3 } else { 5 }, dir);

        let site = Site {
            pages,
            servers,
            registry: Mutex::new(Registry { primary, standby: Some(standby), at: 0 }),
            prometheus,
            exporters: Mutex::default(),
            dir: dir.into(),
        };
        for server in &site.servers {
            site.watch(&server.name, &server.cluster, "shop", "postgres_exporter.yml");
        }
        let registry = site.registry();
        site.watch_registry(&registry, 0);
        site.watch_registry(&registry, 1);
        drop(registry);
        for server in &site.servers {
            leased_worker(&server.cluster);
        }
        // An alert about metrics that no longer come needs metrics that came.
        eventually("the metrics of all servers", || {
            ["snowflake_id_ready", "pg_up"].map(|name| Some(site.prometheus.query(name)?.len()))
                == [Some(SERVERS), Some(SERVERS + 2)]
        });
        site
    }

    /// Starts an exporter for a server, in place of the one that had this name. Prometheus watches it as an instance
    /// of this name.
    pub fn watch(&self, name: &str, cluster: &Cluster, database: &str, queries: &str) {
        let queries = self.pages.file("monitoring").join(queries);
        let mut exporters = self.exporters.lock().unwrap();
        exporters.remove(name);
        let address = free_address();
        let exporter = start_exporter(cluster, database, &queries, &address, &self.dir, name);
        exporters.insert(name.into(), (exporter, address));
        self.tell_prometheus(&exporters);
    }

    /// Stops the exporter of a server that is gone for good.
    pub fn unwatch(&self, name: &str) {
        let mut exporters = self.exporters.lock().unwrap();
        exporters.remove(name);
        self.tell_prometheus(&exporters);
    }

    fn tell_prometheus(&self, exporters: &BTreeMap<String, (Program, String)>) {
        let targets: Vec<_> =
            exporters.iter().map(|(name, (_, address))| (name.as_str(), address.as_str())).collect();
        self.prometheus.watch(&targets);
    }

    fn watch_registry(&self, registry: &Registry, at: usize) {
        let cluster = match &registry.standby {
            _ if at == registry.at => &registry.primary,
            Some(standby) => standby,
            None => return,
        };
        self.watch(&format!("registry{}", at + 1), cluster, "postgres", "postgres_exporter_registry.yml");
    }

    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        // A fault that failed may have panicked while it used the registry.
        self.registry.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A connection to the registry's primary.
    #[track_caller]
    pub fn registry_client(&self) -> Client {
        self.registry().primary.connect()
    }

    /// Kills the registry's primary, promotes its standby, and gives it a new standby in the place of the old primary.
    pub fn fail_over(&self) {
        let mut registry = self.registry();
        cut_power(&registry.primary);
        let promoted = registry.standby.take().expect("a standby");
        promoted.promote();
        registry.primary = promoted;
        registry.at = 1 - registry.at;
        self.replace_standby(&mut registry);
    }

    /// Gives the registry's primary a new standby. Until it has one, its commits wait.
    pub fn replace_standby(&self, registry: &mut Registry) {
        let standby = registry.primary.start_standby(&[]);
        let at = 1 - registry.at;
        self.servers.iter().for_each(|server| server.ways[at].lead_to(&standby));
        registry.standby = Some(standby);
        self.watch_registry(registry, at);
    }

    /// Replaces the registry and its standby by a copy of an earlier state, which is running. The copy has a standby of
    /// its own before anything else happens, because its commits wait for one. Runs `prepare` before servers can reach
    /// the copy.
    pub fn replace_registry(&self, copy: Cluster, prepare: impl FnOnce(&Cluster)) {
        let mut registry = self.registry();
        registry.standby = None;
        let standby = copy.start_standby(&[]);
        prepare(&copy);
        let at = registry.at;
        for server in &self.servers {
            server.ways[at].lead_to(&copy);
            server.ways[1 - at].lead_to(&standby);
        }
        registry.primary = copy;
        registry.standby = Some(standby);
        self.watch_registry(&registry, at);
        self.watch_registry(&registry, 1 - at);
    }
}

/// A server of the fleet, set up as fleet.md says.
fn server(name: &str, primary: &Cluster, standby: &Cluster) -> Server {
    let ways = [Proxy::to(primary), Proxy::to(standby)];
    let [one, other] = [&ways[0], &ways[1]].map(Proxy::port);
    let registry = format!(
        "host=127.0.0.1,127.0.0.1 port={one},{other} dbname=postgres user={name} \
         target_session_attrs=read-write connect_timeout=3"
    );
    let cluster = Cluster::builder()
        .preload()
        .set("snowflake_id.registry", registry)
        .set("cluster_name", name)
        .set("max_connections", 60)
        .set("max_prepared_transactions", 5)
        .set("statement_timeout", 0)
        .clock()
        .start();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE shop");
    let mut shop = cluster.connect_to("shop");
    shop.run(&format!("CREATE EXTENSION snowflake_id; {TABLES}"));
    Server { name: name.into(), cluster, ways }
}

/// How long the registry's leases last.
pub fn lease(client: &mut Client) -> Duration {
    let lease = "SELECT extract(epoch FROM lease)::float8 FROM snowflake_registry.status";
    Duration::from_secs_f64(single(client, lease))
}
