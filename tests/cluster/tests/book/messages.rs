//! Each message of the product says what to do, or has an entry in docs/reference/errors.md. docs/reference/messages.txt
//! contains all messages. No server is needed.

use std::collections::BTreeMap;
use std::fs;

use harness::book::{anchor, read, root, rows, section};

mod sources;
pub mod tokens;

pub use sources::{Level, Message};

/// Literals of the form of a message that are none: names, states, SQL, parts of hints, contents of files.
const NOT_MESSAGES: &[&str] = &[
    // What add_server() runs and prints, and the beginning of its notes.
    "spare of",
    "the registry has no pool yet, or no worker ID of the pool is left",
    "psql % -c \"SELECT * FROM snowflake_registry.check_server(jsonb_build_object('clock', $(date +%%)000000, 'datacenter', %))\"",
    // States.
    "no keeper",
    "no worker id",
    "worker id refused",
    "worker id too large",
    "datacenter id too large",
    "clock before epoch",
    "layout exhausted",
    "no lease",
    "no registry",
    "clock jumped",
    "clock behind",
    "clock differs",
    "lease ended",
    "horizon stalled",
    "all taken",
    "no such database",
    "login refused",
    "another registry",
    "registry too old",
    "server too old",
    "caller too old",
    "not started",
    "many layouts",
    "older transaction",
    // Names of background workers.
    "snowflake_id keeper",
    "snowflake_id registry",
    "snowflake_id segments",
    // Parts of hints.
    "with a % field",
    "with more % bits",
    "with larger fields",
    // SQL, and values in it.
    "read committed",
    "read uncommitted",
    "pg_catalog, pg_temp",
    "24 hours 1 minute",
    "24 hours 3 minutes",
    "% IS NULL AND % IS NOT NULL",
    // A value of a column of one of PostgreSQL's views.
    "database user",
    // Comments by which an adoption recognizes its progress, and reasons that it does not show.
    "snowflake_adopt_online: 0 of % pages",
    "snowflake_adopt_online: % of % pages",
    "no view",
    "another owner",
    "other grantors",
    "in a schema without the privilege CREATE",
    "rules that form a cycle",
    "part of an extension",
    // Properties that the error shows, and a part of a digest.
    "toast options",
    "rule % of view %: % % % %",
    "rule % of view % calls %",
    "trigger % of view %: % % %",
    "comment on constraint",
    // Comments on objects.
    "part of the generator of snowflake IDs of layout %",
    "the next snowflake ID",
    "the next snowflake IDs, in ascending order",
    "prevents new snowflake IDs with a time before an instant",
    "raises the generator of snowflake IDs to a counter",
    "waits until the clock permits a counter",
    // Parts of messages, and what precedes a message.
    "%: snowflake_id.layout \"%\"",
    "relation \"snowflake_internal.%\"",
    "a server without a name",
    "of datacenter %",
    "(reported by",
    "connection to server",
    "the year %",
    "ahead of",
    // States of the registry, and of a segment.
    "permission denied",
];

/// What a DETAIL contains that says what to do: the values that are allowed, or a step.
const REMEDIES_IN_DETAIL: &[&str] = &[
    "must have",
    "must be",
    "the maximum is",
    "The minimum is",
    "neither name may contain",
    "The value of \"registry\" is",
    "Close this session.",
    "View snowflake_status shows",
];

/// What a message without other fields contains that says what to do.
const REMEDIES: &[&str] = &[
    ": run CREATE EXTENSION",
    "or run there: CREATE EXTENSION",
    "run in the database of the registry: GRANT",
    "install the ",
    "build it with the newer version",
    "restart the server",
    "see the server log",
    "its administrator must call snowflake_registry.",
    "the administrator of the registry must call ",
    "change the owner of the schema",
];

/// The sources with parts of messages: the source, and the message of which they are parts, or the column beside their
/// hint. Each of these messages has a remedy itself.
const PARTS: &[(&str, Carrier)] = &[
    // Reasons that follow the message.
    ("src/background/connecting.rs", In("could not get a lease from the registry")),
    ("src/background/connection.rs", In("could not get a lease from the registry")),
    ("src/pg/libpq/connection.rs", In("could not get a lease from the registry")),
    ("src/pg/libpq/options.rs", In("could not get a lease from the registry")),
    ("src/pg/random.rs", In("could not get a lease from the registry")),
    ("src/registry/report.rs", In("could not get a lease from the registry")),
    ("core/src/hosts.rs", In("could not get a lease from the registry")),
    ("core/src/lease_answer.rs", In("could not get a lease from the registry")),
    ("core/src/number_round.rs", In("the registry of segments does not answer")),
    // Replies of the registry, in parentheses or in DETAIL.
    ("sql/registry/parts/leases.sql", In("could not get a lease from the registry")),
    ("sql/registry/parts/open_registry.sql", In("could not get a lease from the registry")),
    ("sql/registry/parts/release.sql", In("could not get a lease from the registry")),
    ("sql/registry/parts/requests.sql", In("could not get a lease from the registry")),
    ("sql/registry/parts/take.sql", In("cannot take numbers from segment")),
    ("sql/registry/parts/take_range.sql", In("cannot take numbers from segment")),
    // Reasons of a quarantine.
    ("sql/registry/parts/administer_fleet.sql", In("quarantine: no server gets a new worker ID")),
    ("sql/registry/parts/evidence.sql", In("quarantine: no server gets a new worker ID")),
    ("sql/registry/parts/lost_commits.sql", In("quarantine: no server gets a new worker ID")),
    ("sql/registry/parts/quarantine.sql", In("quarantine: no server gets a new worker ID")),
    ("sql/registry/parts/segment_privileges.sql", In("quarantine: no server gets a new worker ID")),
    ("sql/registry/parts/views.sql", In("quarantine: no server gets a new worker ID")),
    // Files in the data directory.
    ("src/background/file.rs", In("could not read file")),
    ("src/background/own_file.rs", In("could not read file")),
    ("src/segment/range_file.rs", In("could not record which numbers of segments this server has taken")),
    ("src/segment/worker/driver.rs", In("no registry of segments is configured")),
    ("core/src/journal.rs", In("could not read file")),
    ("src/segment/ticket.rs", In("could not store the numbers of segments that are left")),
    ("src/pg/set_returning.rs", In("could not get a lease from the registry")),
    // DETAIL of invalid arguments.
    ("core/src/id_text/mod.rs", In("invalid % text of a snowflake ID")),
    ("core/src/public/prefix.rs", In("invalid prefix of public IDs")),
    ("core/src/public/public_text.rs", In("invalid public ID")),
    ("core/src/public/uuid.rs", In("invalid UUID of a snowflake ID")),
    ("core/src/error.rs", Hinted("Error::Range(problem) => texts(")),
    ("core/src/short_mask.rs", Hinted("Error::Domain(problem) => texts(")),
    ("client/src/connection.rs", Client),
    ("client/src/error.rs", Client),
    ("client/src/hosts.rs", Client),
    ("client/src/leases.rs", Client),
    ("client/src/numbers.rs", Client),
    ("client/src/options.rs", Client),
    ("client/src/ranges.rs", Client),
    ("client/src/shared.rs", Client),
    ("client/src/stream.rs", Client),
    // Steps, and properties that would change.
    ("sql/parts/adopt.sql", In("gave up after % attempts")),
    ("sql/parts/adopt_online_steps.sql", In("gave up after % attempts")),
    ("sql/parts/adopt_compare.sql", In("the statements would change more than types and defaults")),
    // Problems, obstacles and notes.
    ("src/check.rs", Rows),
    ("sql/parts/check.sql", Rows),
    ("sql/registry/parts/check_server.sql", Rows),
    ("sql/parts/adopt_findings.sql", Rows),
    ("sql/parts/adopt_online_findings.sql", In("cannot adopt column")),
    ("sql/parts/adopt_online_obstacles.sql", Rows),
    ("sql/parts/adopt_neighbours.sql", Rows),
];

#[derive(Clone, Copy)]
enum Carrier {
    /// Begins so.
    Message(&'static str),
    /// Each row has a hint of its own.
    Rows,
    /// Errors to which src/error.rs adds the HINT here.
    Hinted(&'static str),
    /// Errors of the client crate, whose documentation describes them.
    Client,
}
use Carrier::{Client, Hinted, Message as In, Rows};

/// The messages, without literals that are none.
pub fn messages() -> Vec<Message> {
    let mut messages = sources::all();
    messages.retain(|message| !NOT_MESSAGES.contains(&message.text.as_str()));
    messages
}

/// The longest value of a placeholder.
const LONGEST_VALUE: usize = 120;

/// Whether this is the message with values, or, if `is_start`, how a message with values begins. At least two fifths of it
/// are no values.
pub fn is_instance(text: &str, message: &str, is_start: bool) -> bool {
    let pieces: Vec<_> = message.split('%').collect();
    fits(text, pieces[0], &pieces[1..], is_start, 0).is_some_and(|literal| literal * 5 >= text.len() * 2)
}

/// How many bytes of the text are not values.
fn fits(text: &str, piece: &str, others: &[&str], is_start: bool, before: usize) -> Option<usize> {
    if is_start && piece.starts_with(text) {
        return Some(before + text.len());
    }
    let rest = text.strip_prefix(piece)?;
    let before = before + piece.len();
    match others {
        [] => rest.is_empty().then_some(before),
        [next, others @ ..] => {
            let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            let mut ends = ends.take_while(|&end| end <= LONGEST_VALUE);
            ends.find_map(|end| fits(&rest[end..], next, others, is_start, before))
        }
    }
}

/// The headings of the page that are messages. Two dots at the end stand for the rest of the message.
fn entries() -> Vec<String> {
    let page = read("docs/reference/errors.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    headings.map(str::to_owned).collect()
}

fn is_entry_of(entry: &str, message: &Message) -> bool {
    match entry.strip_suffix("..") {
        Some(start) => is_instance(start.trim_end(), &message.text, true),
        None => is_instance(entry, &message.text, false),
    }
}

fn says_what_to_do(message: &Message) -> bool {
    let contains = |text: &str, remedies: &[&str]| remedies.iter().any(|remedy| text.contains(remedy));
    message.level == Level::Note
        || !message.hints.is_empty()
        || message.details.iter().any(|detail| contains(detail, REMEDIES_IN_DETAIL))
        || contains(&message.text, REMEDIES)
}

#[test]
fn every_message_has_a_remedy() {
    let (messages, entries) = (messages(), entries());
    assert!(messages.len() > 400, "only {} messages were found", messages.len());
    let has_remedy = |message: &Message| {
        says_what_to_do(message) || entries.iter().any(|entry| is_entry_of(entry, message))
    };
    let is_part = |message: &Message| {
        message.level == Level::Part && PARTS.iter().any(|(path, _)| message.path == *path)
    };
    let missing: Vec<_> = messages
        .iter()
        .filter(|message| !is_part(message) && !has_remedy(message))
        .map(|message| format!("{} ({:?}): {}", message.path, message.level, message.text))
        .collect();
    assert!(missing.is_empty(), "these have neither a hint nor an entry:\n{}", missing.join("\n"));

    for (path, carrier) in PARTS {
        assert!(
            messages.iter().any(|message| message.path == *path && is_part(message)),
            "{path} has no part"
        );
        match carrier {
            In(start) => assert!(
                messages.iter().any(|message| message.text.starts_with(start) && has_remedy(message)),
                "no message with a remedy begins with {start}"
            ),
            Rows => {
                let source = read(path);
                assert!(
                    ["hint", "remed"].iter().any(|column| source.contains(column)),
                    "{path} has no hints"
                );
            }
            Hinted(case) => {
                let cases = read("src/error.rs");
                assert!(cases.contains(case), "src/error.rs has no {case}");
            }
            Client => assert!(path.starts_with("client/"), "{path}"),
        }
    }
}

/// The pages and sections that hints name.
#[test]
fn the_pages_of_hints_exist() {
    let sources: String = sources::paths().iter().map(|path| read(path)).collect();
    let lines: Vec<_> = sources.lines().filter(|line| line.contains(" of the manual")).collect();
    assert!(!lines.is_empty(), "no hint names a page");
    for line in lines {
        let (before, _) = line.split_once(" of the manual").unwrap();
        let (before, name) = before.rsplit_once("age ").unwrap_or_else(|| panic!("no page: {line}"));
        let page = read(&format!("docs/{name}.md"));
        if let Some((_, heading)) = before.split_once("section \"") {
            section(&page, heading.split('"').next().unwrap());
        }
    }
}

#[test]
fn every_entry_is_a_message() {
    let (messages, entries) = (messages(), entries());
    assert!((60..=80).contains(&entries.len()), "{} entries", entries.len());
    for (number, entry) in entries.iter().enumerate() {
        assert!(messages.iter().any(|message| is_entry_of(entry, message)), "no such message: {entry}");
        assert!(!entries[..number].contains(entry), "two entries: {entry}");
    }
}

/// The exceptions are needed: a literal that is no longer there leaves the list.
#[test]
fn every_exception_is_a_literal_of_the_sources() {
    let messages = sources::all();
    let is_needed = |exception: &&&str| messages.iter().any(|message| message.text == **exception);
    let others: Vec<_> = NOT_MESSAGES.iter().filter(|exception| !is_needed(exception)).collect();
    assert!(others.is_empty(), "no literals of the sources: {others:#?}");
}

const LIST: &str = "docs/reference/messages.txt";

/// The contents of the list. A message that several statements raise is there once, with the fields of all of them.
fn list() -> String {
    let (page, entries) = (read("docs/reference/errors.md"), entries());
    let codes: BTreeMap<_, _> = rows(&page)
        .filter_map(|cells| cells[0].split_once(' '))
        .map(|(code, name)| (name.trim_matches('`').to_owned(), code.to_owned()))
        .collect();
    let mut by_text = BTreeMap::<String, Message>::new();
    // Two words are too little for a search.
    let is_whole = |message: &Message| message.level != Level::Part || sources::words(&message.text) > 2;
    for message in messages().into_iter().filter(is_whole) {
        let known = by_text.entry(message.text.clone()).or_insert_with(|| message.clone());
        known.conditions.extend(message.conditions);
        known.details.extend(message.details);
        known.hints.extend(message.hints);
    }
    let mut list = String::from(
        "# The messages of snowflake_id, each with its SQLSTATE, DETAIL and HINT. % stands for a value.\n\
         # errors.md explains some of them. \"make messages\" writes this file.\n",
    );
    for message in by_text.values() {
        list.push_str(&format!("\n{}\n", message.text));
        let mut add = |field: &str, text: &str| list.push_str(&format!("    {field}: {text}\n"));
        message.conditions.iter().for_each(|name| add("SQLSTATE", codes.get(name).unwrap_or(name)));
        message.details.iter().filter(|detail| *detail != "%").for_each(|detail| add("DETAIL", detail));
        message.hints.iter().filter(|hint| *hint != "%").for_each(|hint| add("HINT", hint));
        if let Some(entry) = entries.iter().find(|entry| is_entry_of(entry, message)) {
            add("SEE", &format!("errors.md#{}", anchor(entry)));
        }
    }
    list
}

/// "make messages" writes the list.
#[test]
fn the_list_of_messages_is_current() {
    let list = list();
    if std::env::var_os("SNOWFLAKE_ID_WRITE_MESSAGES").is_some() {
        fs::write(root().join(LIST), &list).expect("writing the list");
    }
    assert!(read(LIST) == list, "{LIST} is not current: run \"make messages\"");
}
