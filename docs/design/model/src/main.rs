//! Checks the protocols that keep IDs from being repeated, and that the check finds what is wrong with broken
//! ones. See README.md.

mod clock_sequence;
mod forgetting;
mod horizon;
mod lease;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let known = [horizon::names(), clock_sequence::names(), lease::names(), forgetting::names()].concat();
    if let Some(wrong) = asked.iter().find(|asked| !known.contains(&asked.as_str())) {
        eprintln!("unknown: {wrong}; known: {}", known.join(" "));
        return ExitCode::FAILURE;
    }
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let is_well = [
        horizon::is_well(is_asked),
        clock_sequence::is_well(is_asked),
        lease::is_well(is_asked),
        forgetting::is_well(is_asked),
    ];
    if is_well == [true; 4] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
