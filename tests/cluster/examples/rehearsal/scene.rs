//! One fault from its beginning to its end: what the fault does, which alerts it waits for, and what an administrator
//! then does with the runbook in hand. Each act is noted for the report.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_cluster_tests::examples::rows;
use snowflake_id_cluster_tests::{Client, Cluster, text};

use crate::alerts::{Alert, Scale, Watch};
use crate::faults::{Fault, Place};
use crate::ledger::{Flow, Kind, NO_ROWS, Taken};
use crate::pages::{Section, Step};
use crate::site::{SERVERS, Server, Site};

/// What all scenes share.
pub struct Stage {
    pub site: Site,
    pub scale: Scale,
    pub began: Instant,
    pub watch: Watch,
    /// For each server, how IDs and numbers come.
    pub flows: [[Flow; 2]; SERVERS],
    /// What was taken by others than the clients.
    pub taken: Mutex<Vec<Taken>>,
}

/// The name of a server that joins the fleet.
pub const JOINING: &str = "joining";

pub const IDS: usize = 0;
pub const NUMBERS: usize = 1;

/// What happened, for the report. Times are in seconds since the beginning.
#[derive(Clone, Default)]
pub struct Record {
    pub place: String,
    pub from: f64,
    /// When each alert fired.
    pub alerts: Vec<(String, f64)>,
    /// When the last act was done.
    pub handled: f64,
    /// When all alerts had ended, and IDs came again.
    pub to: f64,
    pub acts: Vec<String>,
    pub failure: Option<String>,
}

pub struct Scene<'a> {
    pub stage: &'a Stage,
    pub fault: &'static Fault,
    /// The index of the server that the fault is about.
    pub at: usize,
    record: Mutex<Record>,
}

impl<'a> Scene<'a> {
    pub fn new(stage: &'a Stage, fault: &'static Fault, at: usize) -> Scene<'a> {
        let place = match fault.place {
            Place::Server | Place::ServerAlone => stage.site.servers[at].name.clone(),
            Place::Registry => "registry".into(),
            Place::Single => "single".into(),
        };
        let record = Record { place, from: stage.began.elapsed().as_secs_f64(), ..Record::default() };
        Scene { stage, fault, at, record: Mutex::new(record) }
    }

    /// Notes the end. `outcome` is the error if the scene has failed.
    pub fn into_record(self, outcome: Result<(), String>) -> Record {
        let mut record = self.record.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        record.to = self.stage.began.elapsed().as_secs_f64();
        record.failure = outcome.err();
        record
    }

    pub fn place(&self) -> String {
        self.record.lock().unwrap().place.clone()
    }

    pub fn site(&self) -> &'a Site {
        &self.stage.site
    }

    pub fn server(&self) -> &'a Server {
        &self.stage.site.servers[self.at]
    }

    pub fn cluster(&self) -> &'a Cluster {
        &self.server().cluster
    }

    /// Notes what is done by hand.
    pub fn act(&self, what: impl Into<String>) {
        let mut record = self.record.lock().unwrap();
        record.acts.push(what.into());
        record.handled = self.stage.began.elapsed().as_secs_f64();
    }

    /// Does what a step says in words: the step must contain them.
    #[track_caller]
    pub fn follow(&self, step: &Step, words: &str, act: impl FnOnce()) {
        step.says(words);
        act();
        self.act(format!("{}: {words}", step.name));
    }

    /// Runs a command of a step, which has only one. Returns the rows.
    #[track_caller]
    pub fn run(&self, step: &Step, client: &mut Client) -> Vec<Vec<String>> {
        self.run_with(step, 0, &[], client)
    }

    /// Runs one of the commands of a step, with values in place of each `..`. Returns the rows.
    #[track_caller]
    pub fn run_with(&self, step: &Step, at: usize, values: &[&str], client: &mut Client) -> Vec<Vec<String>> {
        let command = step.command(at, values);
        let rows = rows(client, &command);
        self.act(format!("{}: {command};", step.name));
        rows
    }

    /// Waits for an alert of this fault, and follows the link of its section to a table of states. Returns the cell that says
    /// what to do in a state.
    #[track_caller]
    pub fn row_of(&self, alert: &str, table: &str, state: &str) -> Step {
        let step = self.alert(alert).step_saying(&format!("[{table}]"));
        self.site().pages.follow(&step, table).row(state)
    }

    /// Waits for an alert of this fault, and opens its runbook.
    #[track_caller]
    pub fn alert(&self, name: &str) -> Section {
        assert!(self.fault.alerts.contains(&name), "{name} is not in the table");
        let alert = self.wait(&format!("alert {name}"), || {
            let others =
                || self.stage.watch.firing().into_iter().map(|alert| alert.name + " " + &alert.instance);
            self.fires(name).ok_or_else(|| format!("firing: {:?}", others().collect::<Vec<_>>()))
        });
        let mut record = self.record.lock().unwrap();
        record.alerts.push((name.into(), alert.from));
        self.site().pages.open(&alert.runbook)
    }

    /// Whether the fault can be seen: none of its alerts fires yet, and IDs come from its server.
    pub fn can_begin(&self) -> bool {
        let is_well = match self.fault.place {
            Place::Server | Place::ServerAlone => {
                let [ids, numbers] = &self.stage.flows[self.at];
                ids.last().min(numbers.last()).elapsed() < Duration::from_secs(3)
            }
            Place::Registry | Place::Single => true,
        };
        is_well && self.fault.alerts.iter().all(|name| self.fires(name).is_none())
    }

    /// Returns the alert if it fires for the servers that the fault is about.
    pub fn fires(&self, name: &str) -> Option<Alert> {
        let about = self.servers();
        self.stage.watch.firing().into_iter().find(|alert| alert.name == name && alert.is_about(&about))
    }

    /// The servers that the fault is about, as alerts name them.
    fn servers(&self) -> Vec<String> {
        match self.fault.place {
            Place::Server | Place::ServerAlone => vec![self.server().name.clone()],
            Place::Registry => {
                let servers = self.site().servers.iter().map(|server| server.name.clone());
                servers.chain([JOINING.into()]).collect()
            }
            Place::Single => vec!["single".into(), "clone".into()],
        }
    }

    /// Waits until all alerts of this fault have ended, and IDs and numbers come from the servers again.
    #[track_caller]
    pub fn over(&self) {
        let fired = self.record.lock().unwrap().alerts.clone();
        for name in self.fault.alerts {
            assert!(fired.iter().any(|(fired, _)| fired == name), "alert {name} was not waited for");
            self.wait_until(&format!("the end of {name}"), || self.fires(name).is_none());
        }
        self.values_come();
    }

    /// Waits until IDs and numbers come from the servers that the fault is about.
    #[track_caller]
    pub fn values_come(&self) {
        let now = Instant::now();
        let about = match self.fault.place {
            Place::Server | Place::ServerAlone => self.at..self.at + 1,
            Place::Registry => 0..SERVERS,
            Place::Single => 0..0,
        };
        for (server, kind) in about.flat_map(|server| [(server, IDS), (server, NUMBERS)]) {
            let flow = &self.stage.flows[server][kind];
            let what = format!("{} of {}", ["IDs", "numbers"][kind], self.site().servers[server].name);
            self.wait(&what, || if flow.last() > now { Ok(()) } else { Err(flow.last_error()) });
        }
    }

    /// Ends the fault after its runbook has failed to, so that the faults that follow are rehearsed all the same.
    pub fn repair(&self) {
        // The report already says that something has failed. A second failure adds nothing.
        match self.fault.place {
            Place::Server | Place::ServerAlone => {
                let cluster = self.cluster();
                cluster.set_clock(0.0);
                cluster.configure(&[
                    ("synchronous_standby_names", ""),
                    ("max_worker_processes", "8"),
                    ("snowflake_id.max_segments", "4096"),
                ]);
                cluster.try_to_stop("immediate");
                let _ = cluster.try_to_start();
                let watched = |mut client: Client| client.batch_execute("GRANT pg_monitor TO prometheus");
                let _ = cluster.try_connect("postgres").and_then(watched);
            }
            Place::Registry => {
                let registry = self.site().registry();
                registry.primary.set_clock(0.0);
                let _ = registry.primary.try_to_start();
                let _ = registry.standby.as_ref().map(Cluster::try_to_start);
            }
            Place::Single => {}
        }
    }

    /// The longest time that the scene waits for a condition: the longest duration of a rule, another fault at the
    /// same time, and a busy machine.
    fn limit(&self) -> Duration {
        self.stage.scale.of(25 * 60) + Duration::from_secs(120)
    }

    /// Checks repeatedly until there is a value, and fails with the last error when it has waited for too long.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
        let deadline = Instant::now() + self.limit();
        loop {
            match ask() {
                Ok(value) => return value,
                Err(error) => assert!(Instant::now() < deadline, "gave up waiting for: {what}\n{error}"),
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Checks repeatedly until a condition holds.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        self.wait(what, || holds().then_some(()).ok_or_else(String::new));
    }

    /// Waits until an expression over the columns of `snowflake_status` is true.
    #[track_caller]
    pub fn wait_for_status(&self, cluster: &Cluster, condition: &str) {
        let query = format!("SELECT coalesce({condition}, false) FROM snowflake_status");
        self.wait(condition, || {
            let shown = cluster.try_connect("shop").or_else(|_| cluster.try_connect("postgres"));
            let row =
                shown.and_then(|mut client| client.query_one(&query, &[])).map_err(|error| text(&error))?;
            row.get::<_, bool>(0).then_some(()).ok_or_else(|| "not yet".into())
        });
    }

    /// Keeps IDs that were taken without a row, to be compared at the end.
    pub fn keep(&self, kind: Kind, values: Vec<i64>) {
        let taken = Taken { server: NO_ROWS, kind, values, out_of_order: Vec::new() };
        self.stage.taken.lock().unwrap().push(taken);
    }
}
