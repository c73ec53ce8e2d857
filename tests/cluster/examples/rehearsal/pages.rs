//! The pages of the installed package, read as an administrator reads them: a link leads to a section, a section has
//! steps, which are found by their words, and a step contains commands.

use std::fs;
use std::path::PathBuf;

use snowflake_id_cluster_tests::book::{anchor, folded, read_file, rows, sections};

/// The directory with the documentation of the installed package.
pub struct Pages {
    /// The root of the file system in which the package is installed.
    root: PathBuf,
    /// The directory of the package's documentation, as an absolute path below `root`.
    documentation: String,
}

/// The page with a section for each alert and for each state.
pub const FAILS: &str = "run/when-it-fails.md";

/// The address of the book in the links of the alerts, before it is set.
const BOOK: &str = "https://BOOK/";

/// A section with steps.
#[derive(Clone)]
pub struct Section {
    pub heading: String,
    steps: Vec<String>,
    text: String,
}

/// A step of a section: an item of a list, or a paragraph, with the block of code that follows it.
pub struct Step {
    /// For the report: the section, and the words by which the step was found.
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
        read_file(&self.file("docs").join(name))
    }

    /// The text of all pages.
    pub fn all(&self) -> String {
        let mut left = vec![self.file("docs")];
        let mut text = String::new();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|end| end == "md") {
                text += &read_file(&path);
            }
        }
        text
    }

    /// The names of all alerts.
    pub fn alerts(&self) -> Vec<String> {
        let rules = fs::read_to_string(self.file("monitoring/alerts.yml")).unwrap();
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ").map(Into::into)).collect()
    }

    /// Follows the link of an alert, such as `https://BOOK/run/when-it-fails.html#snowflakeiderror`.
    pub fn open(&self, url: &str) -> Section {
        let (page, anchor) = url.split_once(".html#").unwrap_or_else(|| panic!("no anchor in {url}"));
        let page = page.strip_prefix(BOOK).unwrap_or_else(|| panic!("{url} is not in the book"));
        let page = self.page(&format!("{page}.md"));
        section(&page, anchor).unwrap_or_else(|| panic!("there is no section for {url}"))
    }

    /// Follows a link from a step to another section of its page.
    #[track_caller]
    pub fn follow(&self, step: &Step, heading: &str) -> Section {
        let anchor = anchor(heading);
        step.says(&format!("[{heading}](#{anchor})"));
        section(&self.page(FAILS), &anchor).unwrap_or_else(|| panic!("there is no section \"{heading}\""))
    }
}

/// The section of a page that an anchor names, without the sections in it.
pub fn section(page: &str, of: &str) -> Option<Section> {
    let (heading, text) = sections(page).find(|(heading, _)| anchor(heading) == of)?;
    let text = text.split("\n### ").next()?;
    let mut steps: Vec<String> = Vec::new();
    let (mut is_code, mut is_new) = (false, true);
    for line in text.lines() {
        let is_item =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(number, _)| is_number(number));
        let is_fence = line.starts_with("```");
        let is_paragraph = is_new && !is_fence && !line.is_empty() && !line.starts_with(' ');
        if !is_code && (is_item || is_paragraph) {
            steps.push(String::new());
        }
        if let Some(step) = steps.last_mut() {
            step.extend([line, "\n"]);
        }
        is_code ^= is_fence;
        is_new = !is_code && (line.is_empty() || is_fence);
    }
    Some(Section { heading: heading.into(), steps, text: text.into() })
}

fn is_number(text: &str) -> bool {
    text.parse::<u32>().is_ok()
}

impl Section {
    /// The first step that contains these words.
    #[track_caller]
    pub fn step_saying(&self, words: &str) -> Step {
        let name = format!("{}: {words}", self.heading);
        let found = self.steps.iter().find(|text| folded(text).contains(words));
        let text = found.unwrap_or_else(|| panic!("no step says this: {name}")).clone();
        Step { name, text }
    }

    /// Panics unless the section says with these words until when its alert fires.
    #[track_caller]
    pub fn ends(&self, words: &str) {
        let text = folded(&self.text);
        let end = text.split("* until ").nth(1).unwrap_or_default();
        assert!(end.starts_with(words), "{} does not end \"{words}\": {end}", self.heading);
    }

    /// What to do in a state: the last cell of its row in a table of the section.
    #[track_caller]
    pub fn row(&self, state: &str) -> Step {
        let name = format!("{}, state \"{state}\"", self.heading);
        let found = rows(&self.text).find(|cells| cells[0].contains(&format!("`{state}`")));
        let cells = found.unwrap_or_else(|| panic!("{name} is not in the table"));
        Step { name, text: cells.last().unwrap().to_string() }
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
