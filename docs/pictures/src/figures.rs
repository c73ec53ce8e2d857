//! The figures that are drawn.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A row of `calls.csv`.
#[derive(Deserialize)]
pub struct Call {
    pub call: String,
    pub ns: f64,
}

/// A row of `throughput.csv`.
#[derive(Deserialize)]
pub struct Throughput {
    pub call: String,
    pub sessions: u32,
    pub numbers_per_second: f64,
}

/// A row of `horizon.csv`. Times are seconds since the run began.
#[derive(Deserialize)]
pub struct HorizonRow {
    pub seconds: f64,
    pub event: String,
    pub clock: f64,
    pub horizon: Option<f64>,
    pub id: Option<f64>,
}

/// A row of `lease.csv`. Times are seconds since the run began.
#[derive(Deserialize)]
pub struct LeaseRow {
    pub seconds: f64,
    pub what: String,
    pub server: String,
    pub worker: Option<u32>,
    pub time: Option<f64>,
    pub until: Option<f64>,
}

/// All rows of a table.
pub fn read<Row: DeserializeOwned>(table: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../figures").join(table).with_extension("csv");
    let fail = |error: csv::Error| -> ! { panic!("{}: {error}", path.display()) };
    let mut reader = csv::Reader::from_path(&path).unwrap_or_else(|error| fail(error));
    reader.deserialize().map(|row| row.unwrap_or_else(|error| fail(error))).collect()
}
