//! The pages of the installed package, read as an administrator reads them: a link leads to a section, a section has
//! numbered steps, and a step contains words and commands.

use std::fs;
use std::path::PathBuf;

use snowflake_id_cluster_tests::book::rows;

/// The directory with the documentation of the installed package.
pub struct Pages {
    /// The root of the file system in which the package is installed.
    root: PathBuf,
    /// The directory of the package's documentation, as an absolute path below `root`.
    documentation: String,
}

/// A section with steps.
#[derive(Clone)]
pub struct Section {
    pub heading: String,
    steps: Vec<String>,
    text: String,
}

/// A step of a section.
pub struct Step {
    /// For the report: the section and the number of the step.
    pub name: String,
    text: String,
}

impl Pages {
    pub fn new(root: PathBuf, documentation: String) -> Pages {
        Pages { root, documentation }
    }

    /// The path of one of the package's other files, such as a query file of the exporter.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(self.documentation.trim_start_matches('/')).join(name)
    }

    /// The text of a page.
    pub fn page(&self, name: &str) -> String {
        let file = self.file("docs").join(name);
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// The names of all alerts.
    pub fn alerts(&self) -> Vec<String> {
        let rules = fs::read_to_string(self.file("monitoring/alerts.yml")).unwrap();
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ").map(Into::into)).collect()
    }

    /// Follows the link of an alert, such as `file:///usr/share/doc/.../runbooks.md#snowflakeiderror`.
    pub fn open(&self, url: &str) -> Section {
        let (path, anchor) = url.split_once('#').unwrap_or_else(|| panic!("no anchor in {url}"));
        let path = path.strip_prefix("file:///").unwrap_or_else(|| panic!("{url} is not on this host"));
        let page = fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| panic!("{url}: {error}"));
        section(&page, anchor).unwrap_or_else(|| panic!("there is no section for {url}"))
    }

    /// Follows a link from one runbook to another.
    #[track_caller]
    pub fn follow(&self, step: &Step, name: &str) -> Section {
        let anchor = name.to_lowercase();
        step.says(&format!("[{name}](#{anchor})"));
        section(&self.page("run/when-it-fails.md"), &anchor)
            .unwrap_or_else(|| panic!("{name} has no runbook"))
    }
}

/// The section of a page that an anchor names.
pub fn section(page: &str, anchor: &str) -> Option<Section> {
    let anchor_of = |heading: &str| heading.trim().to_lowercase().replace(' ', "-");
    let page = page.replace("\n#### ", "\n## ").replace("\n### ", "\n## ");
    let text = page
        .split("\n## ")
        .skip(1)
        .find(|text| text.split('\n').next().is_some_and(|heading| anchor_of(heading) == anchor))?;
    let (heading, text) = text.split_once('\n')?;
    let mut steps: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with("The alert is resolved") {
            break;
        }
        match line.split_once(". ").map(|(number, rest)| (number.parse::<usize>(), rest)) {
            Some((Ok(number), rest)) if number == steps.len() + 1 => steps.push(format!("{rest}\n")),
            _ => {
                if let Some(step) = steps.last_mut() {
                    step.extend([line, "\n"]);
                }
            }
        }
    }
    Some(Section { heading: heading.into(), steps, text: text.into() })
}

/// A text with single spaces in place of line ends and repeated spaces.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Section {
    /// A step, by its number on the page.
    pub fn step(&self, number: usize) -> Step {
        let name = format!("{}, step {number}", self.heading);
        let text = self.steps.get(number - 1).unwrap_or_else(|| panic!("{name} does not exist"));
        Step { name, text: text.clone() }
    }

    /// Panics unless the section says with these words when its alert is resolved.
    #[track_caller]
    pub fn ends(&self, words: &str) {
        let text = folded(&self.text);
        let end = text.split("The alert is resolved ").nth(1).unwrap_or_default();
        assert!(end.contains(words), "{} does not end \"{words}\": {end}", self.heading);
    }

    /// The cell on the right of a state in a table of the section.
    #[track_caller]
    pub fn row(&self, state: &str) -> Step {
        let name = format!("{}, state \"{state}\"", self.heading);
        let found = rows(&self.text).find(|cells| cells[0].contains(&format!("`{state}`")));
        let cells = found.unwrap_or_else(|| panic!("{name} is not in the table"));
        Step { name, text: cells[1].into() }
    }
}

impl Step {
    /// Panics unless the step contains these words. What the rehearsal then does by hand is what the page says.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Step {
        assert!(folded(&self.text).contains(words), "{} does not say \"{words}\": {}", self.name, self.text);
        self
    }

    /// The commands of the step, in order: its blocks of SQL and the SQL in its text.
    pub fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        for (at, part) in self.text.split("```").enumerate() {
            if at % 2 == 1 {
                commands.push(part.trim_start_matches("sql").trim().trim_end_matches(';').to_owned());
            } else {
                let quoted = part.split('`').skip(1).step_by(2).map(folded);
                commands.extend(
                    quoted.filter(|text| is_sql(text)).map(|text| text.trim_end_matches(';').to_owned()),
                );
            }
        }
        commands
    }

    /// A command of the step. Each `..` in it is replaced by one of `values`, in order.
    #[track_caller]
    pub fn command(&self, at: usize, values: &[&str]) -> String {
        let commands = self.commands();
        let command =
            commands.get(at).unwrap_or_else(|| panic!("{} has no command {at}: {commands:?}", self.name));
        let parts: Vec<&str> = command.split("..").collect();
        assert_eq!(parts.len(), values.len() + 1, "{}: {command}", self.name);
        let values = values.iter().copied().chain([""]);
        parts.iter().zip(values).flat_map(|(part, value)| [*part, value]).collect()
    }
}

fn is_sql(text: &str) -> bool {
    let verbs = ["SELECT", "SHOW", "GRANT", "ALTER", "CREATE", "COMMIT", "ROLLBACK"];
    text.split_once(' ').is_some_and(|(verb, rest)| verbs.contains(&verb) && rest != "PREPARED")
        || text.ends_with(" PREPARED")
}
