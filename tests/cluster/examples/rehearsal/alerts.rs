//! The alerts of Prometheus: the rules with their durations, and a thread that watches what fires.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use snowflake_id_cluster_tests::monitoring::Prometheus;

/// How many times shorter the durations in the rules and of leases are than users have them.
#[derive(Clone, Copy)]
pub struct Scale(pub u32);

impl Scale {
    /// A duration of the real world as the rehearsal has it.
    pub fn of(self, seconds: u32) -> Duration {
        Duration::from_secs(seconds.into()) / self.0
    }

    /// Writes the rules with shorter durations. With a scale of 1, the file is the package's own, unchanged.
    pub fn write_rules(self, rules: &Path, to: &Path) {
        let text = fs::read_to_string(rules).unwrap();
        let lines = text.lines().map(|line| {
            let is_rule = line.trim_start().starts_with("for: ") || line.contains('[');
            let line = if is_rule { self.shorten(line) } else { line.into() };
            // The only duration that is a number is that of a transaction.
            match line.split_once("held_back_seconds > ") {
                Some((before, seconds)) => {
                    format!("{before}held_back_seconds > {}", seconds.parse::<u32>().unwrap() / self.0)
                }
                None => line,
            }
        });
        fs::write(to, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    }

    /// Divides the durations in minutes and seconds in a line, such as `5m`, except for those in quotes.
    fn shorten(self, line: &str) -> String {
        let mut shorter = String::new();
        let mut digits = String::new();
        let mut before = ' ';
        for character in line.chars() {
            if character.is_ascii_digit() && (!digits.is_empty() || !before.is_alphanumeric()) {
                digits.push(character);
            } else {
                let unit = match character {
                    'm' => 60_000,
                    's' => 1_000,
                    _ => 0,
                };
                match digits.parse::<u32>() {
                    Ok(number) if unit > 0 => shorter += &format!("{}ms", number * unit / self.0),
                    _ => shorter.extend(digits.chars().chain([character])),
                }
                digits.clear();
            }
            before = character;
        }
        shorter + &digits
    }
}

/// An alert that fires, or has fired.
#[derive(Clone)]
pub struct Alert {
    pub name: String,
    /// The label `instance`: empty for an alert about several servers.
    pub instance: String,
    /// The label `node_name`: the server that an alert of the registry is about; otherwise empty.
    pub node: String,
    /// The link to its runbook.
    pub runbook: String,
    /// When it started and stopped firing, in seconds since the beginning.
    pub from: f64,
    pub to: Option<f64>,
}

impl Alert {
    /// Whether the alert can be about one of these servers. Alerts of the registry need not name a server.
    pub fn is_about(&self, servers: &[String]) -> bool {
        let of_registry = self.name.starts_with("SnowflakeRegistry");
        let server = if of_registry { &self.node } else { &self.instance };
        server.is_empty() || servers.contains(server)
    }

    fn is_same(&self, other: &Alert) -> bool {
        (&self.name, &self.instance, &self.node) == (&other.name, &other.instance, &other.node)
    }
}

/// All alerts that have fired.
pub struct Watch {
    began: Instant,
    alerts: Mutex<Vec<Alert>>,
}

impl Watch {
    pub fn new(began: Instant) -> Watch {
        Watch { began, alerts: Mutex::new(Vec::new()) }
    }

    /// Watches until it is told to stop.
    pub fn run(&self, prometheus: &Prometheus, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if let Some(answer) = prometheus.ask("/api/v1/alerts") {
                self.note(&answer["alerts"]);
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    fn note(&self, answer: &Value) {
        let now = self.began.elapsed().as_secs_f64();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let alerts = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        let firing: Vec<Alert> = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing")
            .map(|alert| {
                let labels = &alert["labels"];
                Alert {
                    name: text(&labels["alertname"]),
                    instance: text(&labels["instance"]),
                    node: text(&labels["node_name"]),
                    runbook: text(&alert["annotations"]["runbook_url"]),
                    from: now,
                    to: None,
                }
            })
            .collect();
        let mut known = self.alerts.lock().unwrap();
        for alert in known.iter_mut().filter(|alert| alert.to.is_none()) {
            if !firing.iter().any(|other| other.is_same(alert)) {
                alert.to = Some(now);
            }
        }
        for alert in firing {
            if !known.iter().any(|other| other.to.is_none() && other.is_same(&alert)) {
                known.push(alert);
            }
        }
    }

    /// All alerts so far.
    pub fn all(&self) -> Vec<Alert> {
        self.alerts.lock().unwrap().clone()
    }

    /// The alerts that fire now.
    pub fn firing(&self) -> Vec<Alert> {
        self.all().into_iter().filter(|alert| alert.to.is_none()).collect()
    }
}
