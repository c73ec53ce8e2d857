//! Output of figures to files, in addition to the screen.

use std::path::{Path, PathBuf};
use std::{fs, thread};

use postgres::Client;
use snowflake_id_cluster_tests::single;

/// CSV files, if they were requested.
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

    /// Prints text. If files were requested, the text also goes into the page `concepts/performance.md` beside
    /// their directory, where it replaces the text between `<!-- table: NAME -->` and `<!-- end -->`.
    pub fn show(&self, name: &str, text: &str) {
        println!("{text}");
        let Some(page) = self.directory.as_ref().and_then(|directory| directory.parent()) else { return };
        let page = page.join("concepts/performance.md");
        if page.exists() {
            replace(&page, name, text);
        }
    }

    /// Shows a table below a line that names its layout.
    pub fn show_in_layout(&self, name: &str, layout: &str, table: &str) {
        self.show(name, &format!("In layout `{layout}`:\n\n{table}"));
    }

    /// Writes the costs of calls to a file.
    pub fn write_calls(&self, name: &str, calls: &[(&str, f64)]) {
        let rows: Vec<_> = calls.iter().map(|(call, ns)| [call.to_string(), format!("{ns:.2}")]).collect();
        self.write(name, ["call", "ns"], &rows);
    }

    pub fn print_machine(&self, client: &mut Client) {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let model = model.trim_start_matches([' ', '\t', ':']);
        let count = thread::available_parallelism().map_or(0, |count| count.get());
        let version: String = single(client, "SELECT split_part(version(), ' on ', 1)");
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default();
        println!("The load is {load} at the start.\n");
        let server = version.split(" (").next().unwrap_or_default();
        self.show(
            "machine",
            &format!(
                "Measured on {server}, {count} cores ({model}). All figures of a table are from one run.\n"
            ),
        );
        self.write(
            "machine",
            ["server", "cores", "processor"],
            &[[version, count.to_string(), model.into()]],
        );
    }
}

fn replace(page: &Path, name: &str, text: &str) {
    let old = fs::read_to_string(page).unwrap();
    let mark = format!("<!-- table: {name} -->\n\n");
    let place =
        old.split_once(&mark).and_then(|(before, rest)| Some((before, rest.split_once("\n<!-- end -->")?.1)));
    let (before, after) = place.unwrap_or_else(|| panic!("{} has no place for {name}", page.display()));
    fs::write(page, [before, &mark, text, "\n<!-- end -->", after].concat()).unwrap();
}

/// Returns a table of the costs of calls, compared with that of the call at position `base`.
pub fn table_of_calls(calls: &[(&str, f64)], base: usize) -> String {
    let head = ["one call, net of the query around it", "ns", &format!("of {}", calls[base].0)];
    let rows =
        calls.iter().map(|(call, ns)| vec![call.to_string(), format!("{ns:.1}"), ratio(*ns, calls[base].1)]);
    table(&head, rows)
}

/// Returns a table in Markdown. The first column contains words, the others figures.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n| ---{} |\n", head.join(" | "), " | ---:".repeat(head.len() - 1));
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}

pub fn ratio(value: f64, base: f64) -> String {
    format!("{:.2} x", value / base)
}

/// Formats a time for people.
pub fn time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        _ => format!("{:.1} ms", value / 1e6),
    }
}
