//! Finds a shorter story: actions are removed from a schedule while it still fails in the same way (delta debugging).

use crate::action::Action;
use crate::mutation::Broken;
use crate::setup::Setup;
use crate::world::run;

/// Returns a shorter schedule that violates the same property, found in at most so many runs.
pub fn shrink(setup: &Setup, broken: Broken, what: &str, mut most_runs: usize) -> Vec<Action> {
    let mut schedule = setup.schedule.clone();
    let mut fails = |candidate: &[Action]| {
        most_runs = most_runs.saturating_sub(1);
        most_runs > 0
            && run(setup, candidate, broken, false).failure.is_some_and(|failure| failure.what == what)
    };
    let mut chunk = schedule.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        let before = schedule.len();
        while at < schedule.len() {
            let end = (at + chunk).min(schedule.len());
            let mut candidate = schedule.clone();
            // First try without the time of the removed actions, then let that time pass.
            let passed_us: i64 = candidate.drain(at..end).map(|action| action.after_us).sum();
            if fails(&candidate) {
                schedule = candidate;
                continue;
            }
            if let Some(next) = candidate.get_mut(at).filter(|_| passed_us > 0) {
                next.after_us += passed_us;
                if fails(&candidate) {
                    schedule = candidate;
                    continue;
                }
            }
            at = end;
        }
        if chunk > 1 || schedule.len() == before {
            chunk /= 2;
        }
    }
    schedule
}
