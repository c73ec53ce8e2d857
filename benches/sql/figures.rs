//! Where the figures go besides the screen.

use std::path::PathBuf;
use std::{fs, thread};

use postgres::Client;
use snowflake_id_cluster_tests::single;

/// CSV files, if they are wanted.
pub struct Figures {
    directory: Option<PathBuf>,
}

impl Figures {
    pub fn from_environment() -> Figures {
        let directory = std::env::var_os("FIGURES").filter(|path| !path.is_empty()).map(PathBuf::from);
        if let Some(directory) = &directory {
            fs::create_dir_all(directory).unwrap();
        }
        Figures { directory }
    }

    /// Writes a file with these columns and rows.
    pub fn write<const COLUMNS: usize>(
        &self,
        name: &str,
        columns: [&str; COLUMNS],
        rows: &[[String; COLUMNS]],
    ) {
        let Some(directory) = &self.directory else { return };
        let mut text = columns.join(",") + "\n";
        for row in rows {
            let fields = row.each_ref().map(|field| field.replace('`', ""));
            let fields = fields.map(|field| if field.contains(',') { format!("\"{field}\"") } else { field });
            text += &(fields.join(",") + "\n");
        }
        fs::write(directory.join(name).with_extension("csv"), text).unwrap();
    }

    pub fn print_machine(&self, client: &mut Client) {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let model = model.trim_start_matches([' ', '\t', ':']);
        let count = thread::available_parallelism().map_or(0, |count| count.get());
        let version: String = single(client, "SELECT split_part(version(), ' on ', 1)");
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default();
        println!("{version}; {count} x {model}; load {load} at the start.");
        self.write(
            "machine",
            ["server", "cores", "processor"],
            &[[version, count.to_string(), model.into()]],
        );
    }
}

/// A time as people read it.
pub fn time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        _ => format!("{:.1} ms", value / 1e6),
    }
}
