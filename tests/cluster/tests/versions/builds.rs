//! The version of a build, which release_version in scripts/packages.sh prints. No server is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::book::read;
use harness::successful;

/// A clone, a copy or an archive of a project with a version and the scripts.
struct Tree(PathBuf);

impl Tree {
    fn run(&self, command: &str) -> String {
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", command])
            .current_dir(&self.0)
            .env_remove("SNOWFLAKE_ID_VERSION");
        for (name, value) in [("NAME", "Tester"), ("EMAIL", "tester@example.com")] {
            bash.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
        }
        String::from_utf8(successful(&mut bash).stdout).unwrap().trim().to_owned()
    }

    fn version(&self) -> String {
        self.run(". scripts/packages.sh; release_version")
    }

    fn commit(&self, file: &str, contents: &str) -> String {
        fs::write(self.0.join(file), contents).unwrap();
        self.run(&format!(
            "git add {file}; git commit --quiet --message 'Change {file}'; git rev-parse HEAD | cut -c -10"
        ))
    }

    /// Another tree, made by a command that finds the name of its directory in `$to`.
    fn copied(&self, dir: &Path, to: &str, command: &str) -> Tree {
        let path = dir.join(to);
        self.run(&format!("to={}; {command}", path.display()));
        Tree(path)
    }
}

#[test]
fn a_build_of_another_commit_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree(dir.path().join("origin"));
    for name in ["scripts", "packaging"] {
        fs::create_dir_all(tree.0.join(name)).unwrap();
    }
    tree.run("git init --quiet");
    for file in ["scripts/packages.sh", "scripts/dist.sh", "packaging/archived-version", ".gitattributes"] {
        tree.commit(file, &read(file));
    }
    tree.commit("Cargo.toml", "[workspace.package]\nversion = \"1.2.0-rc.3\"\n");
    assert_eq!(tree.version(), "1.2.0-rc.3");
    fs::write(tree.0.join("untracked"), "").unwrap();
    assert_eq!(tree.version(), "1.2.0-rc.3");
    fs::write(tree.0.join("Cargo.toml"), "[workspace.package]\nversion = \"1.2.0-rc.4\"\n").unwrap();
    assert_eq!(tree.version(), "1.2.0-rc.4+dirty");
    tree.run("git checkout --quiet Cargo.toml");

    // A change of another line of the file is another commit.
    let first =
        tree.commit("Cargo.toml", "[workspace.package]\nversion = \"1.2.0-rc.3\"\nedition = \"2024\"\n");
    let second = tree.commit("README.md", "A project\n");
    assert_ne!(first, second);
    let later = format!("1.2.0-rc.3+2.g{second}");
    assert_eq!(tree.version(), later);
    fs::write(tree.0.join("README.md"), "").unwrap();
    assert_eq!(tree.version(), format!("{later}.dirty"));
    tree.run("git checkout --quiet README.md");
    assert_eq!(tree.run("SNOWFLAKE_ID_VERSION=7; . scripts/packages.sh; release_version"), "7");

    let copied = |to, command| tree.copied(dir.path(), to, command).version();
    assert_eq!(copied("clone", "git clone --quiet . $to"), later);
    let shallow = "git clone --quiet --depth 1 file://$PWD $to";
    assert_eq!(copied("shallow", shallow), format!("1.2.0-rc.3+g{second}"));
    assert_eq!(
        copied("archive", "mkdir $to; git archive HEAD | tar --extract --directory $to"),
        format!("1.2.0-rc.3+g{second}")
    );
    // Nothing tells whether the files were changed.
    assert_eq!(copied("files", "cp -R . $to; rm -rf $to/.git"), "1.2.0-rc.3");

    tree.commit("Cargo.toml", "[workspace.package]\nversion = \"1.2.0\"\nedition = \"2024\"\n");
    assert_eq!(tree.version(), "1.2.0");
    fs::write(tree.0.join("README.md"), "not in the archive").unwrap();
    let zip = "python3 -m zipfile -e $(bash scripts/dist.sh) $to.zip; mv $to.zip/snowflake_id-1.2.0 $to";
    assert_eq!(copied("zip", zip), "1.2.0");
}
