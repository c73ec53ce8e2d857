//! The table of faults.

mod clocks;
mod keeper;
mod leases;
mod registry;
mod segments;
mod servers;
mod single;

use crate::pages::Pages;
use crate::scene::Scene;
use snowflake_id_cluster_tests::book::folded;

/// Where a fault happens. Two faults with the same place never overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On one of the three servers, while the registry is well.
    Server,
    /// On one of the three servers, whatever happens to the registry.
    ServerAlone,
    /// At the registry, so that it concerns all servers.
    Registry,
    /// On a server outside of the fleet, with a fixed worker ID.
    Single,
}

pub struct Fault {
    pub name: &'static str,
    /// The words with which the book names the fault.
    pub book: &'static str,
    pub place: Place,
    /// The alerts that it must raise.
    pub alerts: &'static [&'static str],
    /// If it raises no alert by design: the reason.
    pub silent: &'static str,
    /// Whether it happens only if the durations are real, because it lasts for many minutes in any case.
    pub needs_real_time: bool,
    pub run: fn(&Scene),
}

impl Fault {
    /// A fault that raises alerts.
    pub const fn new(
        name: &'static str,
        book: &'static str,
        place: Place,
        alerts: &'static [&'static str],
        run: fn(&Scene),
    ) -> Fault {
        Fault { name, book, place, alerts, silent: "", needs_real_time: false, run }
    }

    /// A fault that raises no alert by design.
    pub const fn silent(
        name: &'static str,
        book: &'static str,
        place: Place,
        why: &'static str,
        run: fn(&Scene),
    ) -> Fault {
        Fault { name, book, place, alerts: &[], silent: why, needs_real_time: false, run }
    }
}

/// All faults.
pub fn all() -> Vec<&'static Fault> {
    [
        servers::FAULTS,
        clocks::FAULTS,
        keeper::FAULTS,
        leases::FAULTS,
        registry::FAULTS,
        segments::FAULTS,
        single::FAULTS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Panics unless the book names each fault in the words of the table, and a fault raises each alert of the rules.
pub fn check_table(pages: &Pages) {
    let book = folded(&pages.all()).to_lowercase();
    for fault in all() {
        assert!(book.contains(&fault.book.to_lowercase()), "the book does not name \"{}\"", fault.book);
        assert_eq!(fault.alerts.is_empty(), !fault.silent.is_empty(), "{}", fault.name);
    }
    for alert in pages.alerts() {
        assert!(all().iter().any(|fault| fault.alerts.contains(&alert.as_str())), "no fault raises {alert}");
    }
}
