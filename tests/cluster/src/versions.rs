//! Version 0.1.1 of both extensions, which is made up. It shows that the next version can be installed over this one.
//!
//! | part | difference |
//! | --- | --- |
//! | `snowflake_id` | has the function `snowflake_made_up()` |
//! | `snowflake_id_registry` | knows protocol 2 as well; its answers have one more column; its tables have format 2 |
//! | the library | writes format 2 of file `snowflake_id.segments`, and reads format 1 as well |
//!
//! Version 0.0.9 of the registry, which is made up too, does not know protocol 1 yet.

use std::fs;
use std::path::{Path, PathBuf};

use crate::installation::copied_installation;
use crate::{Builder, Cluster, ask_pg_config};

/// The current version.
pub const CURRENT: &str = env!("CARGO_PKG_VERSION");
/// The next version.
pub const NEXT: &str = "0.1.1";
/// A version of the registry before the first one.
pub const BEFORE: &str = "0.0.9";

/// What the next version adds to extension `snowflake_id`.
const ADDED: &str = "
CREATE FUNCTION @extschema@.snowflake_made_up() RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN 1;
COMMENT ON FUNCTION @extschema@.snowflake_made_up() IS 'a function of the next version';
REVOKE ALL ON FUNCTION @extschema@.snowflake_made_up() FROM PUBLIC;
";

/// What the next version of the registry changes in tables. If a script writes the row of table `settings`, it must sign
/// the row, or the registry takes it for the row of a restored dump. If it alters the table, it must begin with the
/// strongest lock: open_registry() takes a weaker one, and then calls that have read the table and wait for that lock
/// would be a deadlock with ALTER TABLE.
const CHANGED_TABLES: &str = "
LOCK TABLE snowflake_registry.settings IN ACCESS EXCLUSIVE MODE;
SELECT FROM snowflake_registry.open_registry(true);
ALTER TABLE snowflake_registry.settings
    DROP CONSTRAINT these_rows_need_another_version_of_the_registry,
    ADD CONSTRAINT these_rows_need_another_version_of_the_registry CHECK (format OPERATOR(pg_catalog.=) 2) NOT VALID,
    ALTER format SET DEFAULT 2;
UPDATE snowflake_registry.settings SET format = 2;
ALTER TABLE snowflake_registry.settings VALIDATE CONSTRAINT these_rows_need_another_version_of_the_registry;
SELECT snowflake_registry.sign_settings() FROM snowflake_registry.settings;
ALTER TYPE snowflake_registry.answer ADD ATTRIBUTE later pg_catalog.text[];
ALTER TYPE snowflake_registry.taken ADD ATTRIBUTE later pg_catalog.text[];
";

/// A copy of the installation, to which the made-up versions can be added.
pub struct Installation {
    _dir: tempfile::TempDir,
    pub pg_config: PathBuf,
    extensions: PathBuf,
    library: PathBuf,
}

impl Installation {
    /// Copies the installation.
    pub fn copy() -> Installation {
        let (dir, pg_config, extensions) = copied_installation();
        let library = PathBuf::from(ask_pg_config(&pg_config, "--pkglibdir")).join("snowflake_id.so");
        Installation { _dir: dir, pg_config, extensions, library }
    }

    /// A server of this installation.
    pub fn server(&self) -> Builder {
        Cluster::builder().of(&self.pg_config)
    }

    /// Adds version 0.0.9 of the registry, from which the current version can be reached.
    pub fn add_version_before(&self) {
        let older =
            self.script("snowflake_id_registry", CURRENT).replacen("RETURN (1, 1);", "RETURN (0, 0);", 1);
        self.write(&format!("snowflake_id_registry--{BEFORE}.sql"), &older);
        let upgrade = known_protocols(&self.script("snowflake_id_registry", CURRENT));
        self.write(&format!("snowflake_id_registry--{BEFORE}--{CURRENT}.sql"), &upgrade);
    }

    /// Installs the next version, as a package does: its scripts and control files, and a new file of the library. A
    /// running server keeps the library that it has loaded.
    pub fn install_next(&self) {
        let fresh = format!("{}{ADDED}", self.script("snowflake_id", CURRENT));
        self.add_version("snowflake_id", &fresh, ADDED);
        let fresh = self
            .script("snowflake_id_registry", CURRENT)
            .replace("RETURN (1, 1);", "RETURN (1, 2);")
            .replace("    token text\n);", "    token text,\n    later text[]\n);")
            .replace("    near text\n);", "    near text,\n    later text[]\n);")
            .replace("format int NOT NULL DEFAULT 1", "format int NOT NULL DEFAULT 2")
            .replace("CHECK (format = 1)", "CHECK (format = 2)");
        let upgrade = format!("{}{CHANGED_TABLES}", known_protocols(&fresh));
        self.add_version("snowflake_id_registry", &fresh, &upgrade);
        self.install_library_of_next();
    }

    /// Installs the library of the next version without its scripts.
    pub fn install_library_of_next(&self) {
        let library = current_library();
        self.replace_library(&with_bytes(&library, b"# format 1: the highest", b"# format 2: the highest"));
    }

    /// Puts the library of the current version back. The scripts stay.
    pub fn roll_back_library(&self) {
        self.replace_library(&current_library());
    }

    fn add_version(&self, extension: &str, fresh: &str, upgrade: &str) {
        self.write(&format!("{extension}--{NEXT}.sql"), fresh);
        self.write(&format!("{extension}--{CURRENT}--{NEXT}.sql"), upgrade);
        let control = format!("{extension}.control");
        let text = fs::read_to_string(self.extensions.join(&control)).unwrap();
        let (known, next) = (format!("default_version = '{CURRENT}'"), format!("default_version = '{NEXT}'"));
        assert!(text.contains(&known), "{text}");
        self.write(&control, &text.replace(&known, &next));
    }

    /// The path of a script or of a control file.
    pub fn extension_file(&self, name: &str) -> PathBuf {
        self.extensions.join(name)
    }

    fn script(&self, extension: &str, version: &str) -> String {
        fs::read_to_string(self.extension_file(&format!("{extension}--{version}.sql"))).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.extensions.join(name), text).unwrap();
    }

    /// Processes have the old file mapped, so it must not be overwritten.
    fn replace_library(&self, contents: &[u8]) {
        let new = self.library.with_extension("new");
        fs::write(&new, contents).unwrap();
        fs::rename(new, &self.library).unwrap();
    }
}

/// The library of the installation in use, which no test changes.
fn current_library() -> Vec<u8> {
    let directory = ask_pg_config(&crate::pg_config(), "--pkglibdir");
    fs::read(Path::new(&directory).join("snowflake_id.so")).unwrap()
}

/// Makes a stopped server use another installation.
pub fn run_by(server: &mut Cluster, installation: &Installation) {
    server.bin_dir = ask_pg_config(&installation.pg_config, "--bindir").into();
}

/// The statement that replaces the function of a registry that knows the protocols.
fn known_protocols(script: &str) -> String {
    let from = script.find("CREATE FUNCTION snowflake_registry.protocols").unwrap();
    let length = script[from..].find(");\n").unwrap() + ");\n".len();
    script[from..from + length].replacen("CREATE", "CREATE OR REPLACE", 1)
}

/// Replaces the only occurrence of some bytes by as many others.
fn with_bytes(library: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let found: Vec<_> = library.windows(from.len()).enumerate().filter(|(_, bytes)| *bytes == from).collect();
    assert_eq!((found.len(), from.len()), (1, to.len()), "{}", String::from_utf8_lossy(from));
    let mut library = library.to_vec();
    library[found[0].0..][..to.len()].copy_from_slice(to);
    library
}

/// Changes the number of the format in all rows of a relation of schema `snowflake_internal`, in the file of the
/// relation on a stopped server, as a newer version would do. `path` is the path of the file in the data directory.
pub fn set_format(server: &Cluster, path: &str, format: i32) {
    const PAGE: usize = 8192;
    let path = server.data_dir().join(path);
    let mut file = fs::read(&path).unwrap();
    let number = |bytes: &[u8], at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
    let mut count = 0;
    for page in file.chunks_mut(PAGE) {
        // A line pointer has four bytes. The lowest 15 bits are the offset of the row.
        for line in (24..number(page, 12)).step_by(4) {
            let row = number(page, line) & 0x7fff;
            let values = row + usize::from(page[row + 22]);
            page[values..values + 4].copy_from_slice(&format.to_ne_bytes());
            count += 1;
        }
    }
    assert!(count > 0, "{path:?} has no rows");
    fs::write(&path, file).unwrap();
}

/// The numbers of the formats in the rows of a relation.
pub fn formats(client: &mut crate::Client, relation: &str) -> Vec<i32> {
    let query = format!("SELECT format FROM snowflake_internal.{relation}");
    client.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// The text of a file in a server's data directory.
pub fn file(server: &Cluster, name: &str) -> String {
    fs::read_to_string(server.data_dir().join(name)).unwrap()
}

/// Replaces a text in a file of a server, in place, so that it stays the same file.
pub fn change_file(server: &Cluster, name: &str, from: &str, to: &str) {
    let path: &Path = &server.data_dir().join(name);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}
