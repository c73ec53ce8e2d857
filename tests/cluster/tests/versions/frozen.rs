//! scripts/released.sh keeps the scripts of released versions as they are. No server is needed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::book::read;
use harness::successful;

const SCRIPT: &str = "sql/snowflake_id--0.1.0.sql";

/// A directory with the script released.sh, an installation script, and a list of released scripts.
fn project(is_released: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("scripts")).unwrap();
    fs::create_dir(path("sql")).unwrap();
    fs::write(path("scripts/released.sh"), read("scripts/released.sh")).unwrap();
    fs::write(path(SCRIPT), "SELECT 1;\n").unwrap();
    fs::write(path("new"), "SELECT 2;\n").unwrap();
    fs::write(path("same"), "SELECT 1;\n").unwrap();
    // The comments of the list in use tell how to add an entry.
    let list: String =
        read("sql/released.sha256").split_inclusive('\n').filter(|line| line.starts_with('#')).collect();
    fs::write(path("sql/released.sha256"), list).unwrap();
    if is_released {
        let command = read("sql/released.sha256");
        let command = command.lines().find_map(|line| line.strip_prefix("# sha256sum ")).unwrap().to_owned();
        let command = command.replace(" sql/registry/snowflake_id_registry--*.sql", "");
        let append = format!("sha256sum {command} >>sql/released.sha256");
        successful(Command::new("bash").args(["-c", &append]).current_dir(dir.path()));
    }
    dir
}

fn run(dir: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("bash");
    command.arg(dir.join("scripts/released.sh")).args(arguments).env("LC_ALL", "C");
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.success(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

#[test]
fn a_script_that_is_not_released_is_replaced() {
    let dir = project(false);
    assert_eq!(run(dir.path(), &["replace", "new", SCRIPT]), (true, String::new()));
    assert_eq!(fs::read_to_string(dir.path().join(SCRIPT)).unwrap(), "SELECT 2;\n");
    assert_eq!(run(dir.path(), &["check"]), (true, String::new()));
}

#[test]
fn a_released_script_is_not_replaced() {
    let dir = project(true);
    assert_eq!(run(dir.path(), &["check"]), (true, String::new()));
    let (succeeds, said) = run(dir.path(), &["replace", "new", SCRIPT]);
    assert!(!succeeds);
    assert!(said.contains("sql/snowflake_id--0.1.0.sql is released and must not change"), "{said}");
    assert!(
        said.contains("Raise the version with scripts/version.sh") && said.contains("upgrade script"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(dir.path().join(SCRIPT)).unwrap(), "SELECT 1;\n");
    // "make sql" runs again when nothing has changed.
    assert_eq!(run(dir.path(), &["replace", "same", SCRIPT]), (true, String::new()));
    // The script of the next version is not in the list.
    assert_eq!(run(dir.path(), &["replace", "new", "sql/snowflake_id--0.1.1.sql"]), (true, String::new()));
    assert_eq!(run(dir.path(), &["check"]), (true, String::new()));
}

#[test]
fn a_released_script_was_changed_or_removed() {
    for change in ["echo >>", "rm "] {
        let dir = project(true);
        let change = format!("{change}{SCRIPT}");
        successful(Command::new("bash").args(["-c", &change]).current_dir(dir.path()));
        let (succeeds, said) = run(dir.path(), &["check"]);
        assert!(!succeeds, "{said}");
        assert!(said.contains("sql/snowflake_id--0.1.0.sql: FAILED"), "{said}");
        assert!(said.contains("a released script was changed"), "{said}");
    }
}

/// "make lint" and "make sql" use the script.
#[test]
fn the_scripts_of_this_project_are_checked() {
    assert!(read("scripts/lint.sh").contains("\nscripts/released.sh check\n"));
    assert!(read("scripts/sql.sh").contains("scripts/released.sh replace \"$assembled\" \"$script\""));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert_eq!(run(&root, &["check"]), (true, String::new()));
}
