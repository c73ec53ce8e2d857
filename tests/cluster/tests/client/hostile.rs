//! Another program listens in place of the registry, and connections are cut.

use std::thread;
use std::time::Instant;

use harness::network::{Fault, Proxy};
use harness::*;

use super::program::*;
use crate::fleet::hostile_registry::{
    a_row_of_a_gigabyte, hostile, notifications_without_end, rows_without_end,
};

/// An answer has a limit, and the program can be ended.
#[test]
fn answers_without_end() {
    let cases = [hostile(rows_without_end), hostile(a_row_of_a_gigabyte), hostile(notifications_without_end)];
    for (string, _) in cases {
        let began = Instant::now();
        refused(Options::new(&string.replace(" gssencmode=disable", "")), "too long");
        assert_within(SLACK, began.elapsed(), "the refusal");
    }
}

/// Each call may be cut off before or after the registry has executed it. The program gets the same lease, and the
/// second host of the string serves it.
#[test]
fn connections_are_cut() {
    let fleet = registry("lease => '10min', renew_every => '200ms', last_worker => 0");
    let proxy = Proxy::to(&fleet.registry);
    for fault in [Fault::CutAfterQuery, Fault::CutAnswer(10), Fault::Garbage, Fault::GarbageAtOnce] {
        proxy.set_fault(fault);
        let options = Options::new(&proxy.connection_string());
        let made = proxy.made();
        let starting = thread::spawn(move || start(options));
        eventually("another attempt", || proxy.made() > made + 1);
        assert!(!starting.is_finished(), "{fault:?}");
        proxy.set_fault(Fault::None);
        let program = starting.join().unwrap();
        let before = program.next_id().unwrap();
        proxy.set_fault(fault);
        eventually("the problem", || program.problem());
        assert!(program.next_id().unwrap() > before);
        // The release is cut off, too, or is executed. Another program has the only worker ID, or waits for it.
        proxy.set_fault(Fault::None);
        program.close().wait();
    }
    let string = format!("host=/nowhere,{} user=fleet dbname=postgres", fleet.registry.host().display());
    let program = start(Options::new(&string));
    program.next_id().unwrap();
    program.close().wait();
}
