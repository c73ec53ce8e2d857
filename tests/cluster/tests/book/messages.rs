//! docs/reference/errors.md has an entry for each message in the sources. No server is needed.
//!
//! Messages are recognized by their form, so that a new message is found without a list of calls: they have several
//! words and begin with a lower-case letter, a quote or a placeholder. Details and hints are sentences: they begin with
//! a capital letter or end with a full stop, and need no entry. Exceptions are named in [`NOT_MESSAGES`].

use harness::book::{files, read};

/// Literals of the form of a message that are none: names, states, SQL, parts of hints, contents of files.
const NOT_MESSAGES: &[&str] = &[
    // What add_server() runs and prints, and the beginning of its notes.
    "spare of ",
    "psql %s -c \"SELECT * FROM snowflake_registry.check_server(jsonb_build_object('clock', $(date +%%s)000000, 'datacenter', %s))\"",
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
    "caller too old",
    "not started",
    "many layouts",
    "older transaction",
    // Names of background workers.
    "snowflake_id keeper",
    "snowflake_id registry",
    "snowflake_id segments",
    // Parts of hints.
    "with a {} field",
    "with more {} bits",
    "with larger fields",
    // SQL, and values in it.
    "read committed",
    "read uncommitted",
    "pg_catalog, pg_temp",
    "24 hours 1 minute",
    "24 hours 3 minutes",
    "%I IS NULL AND %I IS NOT NULL",
    // A value of a column of one of PostgreSQL's views.
    "database user",
    // Comments by which an adoption recognizes its progress, and reasons that it does not show.
    "snowflake_adopt_online: ",
    "snowflake_adopt_online: 0 of %s pages",
    "snowflake_adopt_online: %s of %s pages",
    "no view",
    "another owner",
    "other grantors",
    "in a schema without the privilege CREATE",
    "rules that form a cycle",
    "part of an extension",
    // Properties that the error shows, and a part of a digest.
    "toast options",
    "rule %s of view %s: %s %s %s %s",
    "rule %s of view %s calls %s",
    "trigger %s of view %s: %s %s %s",
    "comment on constraint",
    // The first words of files.
    "# format 1: the lease of this server's worker ID, written by extension snowflake_id; a copy of this file cannot be used",
    "# format 1: the highest numbers of segments that this server has received, written by extension snowflake_id",
    // Comments on objects.
    "part of the generator of snowflake IDs of layout {layout}",
    "the next snowflake ID",
    "the next snowflake IDs, in ascending order",
    "prevents new snowflake IDs with a time before an instant",
    "raises the generator of snowflake IDs to a counter",
    "waits until the clock permits a counter",
    // Parts of messages.
    "not known",
    "ahead of",
];

/// What follows the quote that opens a literal: its text, and the rest of the source.
fn rust_literal(rest: &str) -> (String, &str) {
    let (mut text, mut characters) = (String::new(), rest.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &rest[at + 1..]),
            '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => text.push(character),
        }
    }
    panic!("an open literal: {rest:.80}");
}

/// The string literals of a Rust source, but for those of C and those in comments.
fn rust_literals(source: &str) -> Vec<String> {
    let (mut literals, mut rest, mut before) = (vec![], source, ' ');
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '/' if rest.starts_with('/') => rest = &rest[rest.find('\n').unwrap_or(rest.len())..],
            '"' => {
                let (literal, after) = rust_literal(rest);
                rest = after;
                if before != 'c' {
                    literals.push(literal);
                }
            }
            // A character; or a lifetime, which no quote ends.
            '\'' if rest.starts_with('\\') => rest = &rest[2..],
            '\'' if rest.starts_with('"') => rest = &rest[1..],
            _ => {}
        }
        before = character;
    }
    literals
}

/// The literals of an SQL source, but for those in comments. Literals that follow one another on lines are one.
fn sql_literals(source: &str) -> Vec<String> {
    let (mut literals, mut rest) = (vec![], source);
    while let Some(at) = rest.find(['\'', '-']) {
        rest = &rest[at..];
        if rest.starts_with("--") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        }
        if rest.starts_with('-') {
            rest = &rest[1..];
            continue;
        }
        let mut literal = String::new();
        loop {
            let end = rest[1..].find('\'').expect("an open literal") + 1;
            literal.push_str(&rest[1..end]);
            rest = &rest[end + 1..];
            let next = rest.trim_start();
            if rest.starts_with('\'') {
                literal.push('\'');
            } else if next.starts_with('\'') && rest[..rest.len() - next.len()].contains('\n') {
                rest = next;
            } else {
                break;
            }
        }
        literals.push(literal);
    }
    literals
}

/// A source without its statements `COMMENT ON`.
fn without_comments_on(source: &str) -> String {
    let is_start = |before: &str| {
        before.trim_end_matches(' ').is_empty() || before.trim_end_matches(' ').ends_with('\n')
    };
    let lines = source.split_inclusive(";\n");
    // A statement may follow lines of comments.
    lines
        .map(|statement| {
            // In a literal, it is not at the start of a line.
            let from = statement.find("COMMENT ON ").filter(|&at| is_start(&statement[..at]));
            from.map_or(statement, |at| &statement[..at])
        })
        .collect()
}

/// The texts between placeholders, without spaces around them. Those of Rust are in braces; those of SQL begin with
/// `%`.
fn pieces(message: &str, is_sql: bool) -> Vec<String> {
    let (mut pieces, mut rest) = (vec![String::new()], message);
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '{' if !is_sql => {
                rest = &rest[rest.find('}').expect("an open placeholder") + 1..];
                pieces.push(String::new());
            }
            '%' if is_sql => {
                rest = rest.strip_prefix("1$").unwrap_or(rest);
                let kind = rest.chars().next().filter(|kind| "sIL".contains(*kind));
                rest = &rest[kind.map_or(0, char::len_utf8)..];
                pieces.push(String::new());
            }
            _ => pieces.last_mut().unwrap().push(character),
        }
    }
    pieces.into_iter().map(|piece| piece.trim().to_owned()).filter(|piece| !piece.is_empty()).collect()
}

fn is_message(literal: &str, is_sql: bool) -> bool {
    // In SQL, a brace begins an array.
    let starts = if is_sql { "\"%(" } else { "\"{%(" };
    let begins =
        literal.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || starts.contains(c));
    let is_word = |word: &&str| word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let text = pieces(literal, is_sql).join(" ");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word).count();
    begins && words >= 2 && literal.contains(' ') && !literal.ends_with('.') && !literal.starts_with("bug: ")
}

/// Whether the pieces are there in their order, with no more between two of them than a value.
fn is_in(line: &str, pieces: &[String]) -> bool {
    const LONGEST_VALUE: usize = 120;
    let [first, others @ ..] = pieces else { return true };
    line.match_indices(first.as_str()).any(|(at, _)| {
        let rest = &line[at + first.len()..];
        let Some(next) = others.first() else { return true };
        rest.find(next.as_str()).is_some_and(|gap| gap <= LONGEST_VALUE) && is_in(rest, others)
    })
}

/// The sources whose literals are messages: the extension, and the part of the core that reads the registry's answers.
fn rust_sources() -> Vec<String> {
    [files("src", ".rs"), vec!["core/src/lease_answer.rs".into()]].concat()
}

/// The parts of the extensions, and the scripts for servers without the library.
fn sql_sources() -> Vec<String> {
    [files("sql/parts", ".sql"), files("sql/registry/parts", ".sql"), files("core/src", ".sql")].concat()
}

/// All messages of the sources: file, text, and its pieces.
fn messages() -> Vec<(String, String, Vec<String>)> {
    let mut messages = vec![];
    let mut add = |path: &str, literal: String, is_sql: bool| {
        let pieces = pieces(literal.strip_prefix("snowflake_id: ").unwrap_or(&literal), is_sql);
        messages.push((path.to_owned(), literal, pieces));
    };
    for path in rust_sources() {
        for literal in rust_literals(&read(&path)) {
            if is_message(&literal, false) && !NOT_MESSAGES.contains(&literal.as_str()) {
                add(&path, literal, false);
            }
        }
    }
    // The core and the client word details and reasons: what is written by Display.
    for path in [files("core/src", ".rs"), files("client/src", ".rs")].concat() {
        for written in read(&path).split("write!(").skip(1) {
            let Some(argument) = written.trim_start().strip_prefix("f,").map(str::trim_start) else {
                continue;
            };
            let Some(literal) = argument.strip_prefix('"').map(|rest| rust_literal(rest).0) else { continue };
            if literal.contains(' ') && pieces(&literal, false).concat().len() >= 12 {
                add(&path, literal, false);
            }
        }
    }
    for path in sql_sources() {
        for literal in sql_literals(&without_comments_on(&read(&path))) {
            if is_message(&literal, true) && !NOT_MESSAGES.contains(&literal.as_str()) {
                add(&path, literal, true);
            }
        }
    }
    messages
}

#[test]
fn every_message_has_an_entry() {
    let page = read("docs/reference/errors.md").replace('`', "");
    let messages = messages();
    assert!(messages.len() > 250, "only {} messages were found", messages.len());
    let missing: Vec<_> = messages
        .iter()
        .filter(|(_, _, pieces)| !page.lines().any(|line| is_in(line, pieces)))
        .map(|(path, literal, _)| format!("{path}: {literal}"))
        .collect();
    assert!(missing.is_empty(), "docs/reference/errors.md has no entry for\n{}", missing.join("\n"));
}

/// The exceptions are needed: a message that is no longer there leaves the list.
#[test]
fn every_exception_is_a_literal_of_the_sources() {
    let mut literals: Vec<String> =
        rust_sources().iter().flat_map(|path| rust_literals(&read(path))).collect();
    for path in sql_sources() {
        literals.extend(sql_literals(&read(&path)));
    }
    for exception in NOT_MESSAGES {
        assert!(literals.iter().any(|literal| literal == exception), "{exception:?} is not in the sources");
    }
}
