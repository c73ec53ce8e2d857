//! Checks the protocols that keep IDs from being repeated and rows from being skipped, and that the checker finds the
//! errors in broken ones. See README.md.

mod forgetting;
mod keeper;
mod lease;
mod run;
mod watermark;

use std::process::ExitCode;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let known = [keeper::names(), lease::names(), forgetting::names(), watermark::names()].concat();
    if let Some(wrong) = asked.iter().find(|asked| !known.contains(&asked.as_str())) {
        eprintln!("unknown name: {wrong}; known names: {}", known.join(" "));
        return ExitCode::FAILURE;
    }
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let is_well = [
        keeper::is_well(is_asked),
        lease::is_well(is_asked),
        forgetting::is_well(is_asked),
        watermark::is_well(is_asked),
    ];
    if is_well == [true; 4] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
