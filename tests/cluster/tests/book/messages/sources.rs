//! The messages of the product, read from its sources.
//!
//! Errors, warnings and notices are recognized by the statement that raises them. All other messages, such as those in
//! columns and in DETAIL, are recognized by their form, so that a new message is found without a list of calls: they
//! have several words and begin with a lower-case letter, a quote or a placeholder. Details and hints are sentences: they
//! begin with a capital letter or end with a full stop.

use std::collections::BTreeSet;

use harness::book::{files, read};

use super::tokens::{self, Token, closing, split};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warning,
    /// A notice, or a line of the log that asks for nothing.
    Note,
    /// A message that a column shows, or that is part of another message.
    Part,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub path: String,
    pub level: Level,
    /// `%` stands for a value, here and in the fields below.
    pub text: String,
    /// The names of the conditions in PostgreSQL.
    pub conditions: BTreeSet<String>,
    pub details: BTreeSet<String>,
    pub hints: BTreeSet<String>,
}

impl Message {
    fn new(path: &str, level: Level, text: &str) -> Message {
        let text = text.strip_prefix("snowflake_id: ").unwrap_or(text);
        let text = text.strip_prefix("snowflake_id_registry: ").unwrap_or(text).trim().to_owned();
        let (path, conditions) = (path.to_owned(), BTreeSet::new());
        Message { path, level, text, conditions, details: BTreeSet::new(), hints: BTreeSet::new() }
    }
}

/// The literal with `%` in place of each placeholder. Those of Rust, and of scripts that Rust completes, are in braces.
fn with_values(literal: &str, language: Language) -> String {
    let (is_sql, has_braces) = (language != Language::Rust, language != Language::Sql);
    let (mut text, mut rest) = (String::new(), literal);
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '{' if has_braces && !rest.starts_with('{') => {
                rest = &rest[rest.find('}').expect("an open placeholder") + 1..];
                text.push('%');
            }
            '{' | '}' if has_braces => {
                rest = &rest[1..];
                text.push(character);
            }
            '%' if is_sql => {
                let number = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
                rest = rest[number..].strip_prefix('$').unwrap_or(rest);
                let kind = rest.chars().next().filter(|kind| "sIL".contains(*kind));
                rest = &rest[kind.map_or(0, char::len_utf8)..];
                text.push('%');
            }
            _ => text.push(character),
        }
    }
    text
}

pub fn words(text: &str) -> usize {
    let is_word = |word: &&str| word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word).count()
}

/// A message that is raised can begin with a capital letter.
fn is_message(text: &str, level: Level) -> bool {
    let begins = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "\"%(".contains(c);
    let begins = level != Level::Part || text.starts_with(begins);
    begins && words(text) >= 2 && text.contains(' ') && !text.ends_with('.') && !text.starts_with("bug: ")
}

/// The sentences of an expression for DETAIL or HINT. `%` stands for one that is not in the sources of the expression.
fn sentences(expression: &[Token], file: &File) -> BTreeSet<String> {
    let mut texts = file.literals(expression);
    // Constants, and functions of the file that write the sentence.
    for (at, token) in expression.iter().enumerate() {
        if let Token::Word(name) = token {
            let is_call = expression.get(at + 1).is_some_and(|token| token.is("("));
            texts.extend(file.named(name, is_call).map(|literal| file.text_of(literal)));
        }
    }
    texts.retain(|text| text.contains(' ') && words(text) >= 3);
    // Values have no capital letter.
    let begins = |text: &String| text.starts_with(|c: char| c.is_ascii_uppercase());
    if texts.iter().any(begins) {
        texts.retain(begins);
    }
    if texts.is_empty() && expression.iter().any(|token| *token != Token::Literal(String::new())) {
        texts.push("%".to_owned());
    }
    texts.into_iter().map(|text| text.trim().replace('\n', " ")).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Rust,
    Sql,
    /// SQL with placeholders of Rust.
    Script,
}

struct File {
    path: String,
    language: Language,
    tokens: Vec<Token>,
}

impl File {
    fn new(path: &str) -> File {
        let language = match (path.ends_with(".rs"), path.starts_with("sql/")) {
            (true, _) => Language::Rust,
            (false, true) => Language::Sql,
            (false, false) => Language::Script,
        };
        let source = read(path);
        let source = source.split("#[cfg(test)]\nmod ").next().unwrap();
        let tokens = if language == Language::Rust { tokens::rust(source) } else { tokens::sql(source) };
        File { path: path.to_owned(), language, tokens }
    }

    /// The literals of a constant or a function of Rust.
    fn named(&self, name: &str, is_call: bool) -> impl Iterator<Item = &str> {
        let kind = if is_call { "fn" } else { "const" };
        let start = self.tokens.windows(2).position(|pair| pair[0].is(kind) && pair[1].is(name));
        let body = match start.filter(|_| self.language == Language::Rust) {
            None => &[][..],
            Some(start) if self.tokens[start].is("const") => split(&self.tokens[start..], ";")[0],
            Some(start) => {
                let start = start + self.tokens[start..].iter().position(|token| token.is("{")).unwrap() + 1;
                &self.tokens[start..start + closing(&self.tokens[start..])]
            }
        };
        body.iter().filter_map(Token::literal)
    }

    fn text_of(&self, literal: &str) -> String {
        with_values(literal, self.language)
    }

    /// The literals of an expression, as one if it joins them.
    fn literals(&self, expression: &[Token]) -> Vec<String> {
        let literals = expression.iter().filter_map(Token::literal).map(|literal| self.text_of(literal));
        let is_one = expression.iter().any(|token| token.is("concat"));
        if is_one { vec![literals.collect::<Vec<_>>().join("%")] } else { literals.collect() }
    }

    /// The messages of an expression, or none if they come from elsewhere.
    fn raised(&self, level: Level, expression: &[Token]) -> Vec<Message> {
        let literals = self.literals(expression).into_iter();
        let messages = literals.map(|text| Message::new(&self.path, level, &text));
        messages.filter(|message| is_message(&message.text, level)).collect()
    }

    fn messages(&self) -> Vec<Message> {
        let (mut messages, mut at) = (vec![], 0);
        while at < self.tokens.len() {
            let statement = if self.language == Language::Rust { self.call(at) } else { self.raise(at) };
            match statement {
                Some((raised, after)) => {
                    messages.extend(raised);
                    at = after;
                }
                None => {
                    messages.extend(self.raised(Level::Part, &self.tokens[at..=at]));
                    at += 1;
                }
            }
        }
        messages
    }

    /// `RAISE level 'message', values USING option = expression, ..;`, and the place after it. The message can also be one
    /// of the options.
    fn raise(&self, at: usize) -> Option<(Vec<Message>, usize)> {
        let level = match &self.tokens[at..] {
            [verb, Token::Word(level), ..] if verb.is("RAISE") => match level.as_str() {
                "EXCEPTION" => Level::Error,
                "WARNING" => Level::Warning,
                "NOTICE" | "LOG" => Level::Note,
                _ => return None,
            },
            _ => return None,
        };
        let statement = split(&self.tokens[at..], ";")[0];
        let [message, options @ ..] = &split(statement, "USING")[..] else { unreachable!() };
        let options = options.iter().flat_map(|options| split(options, ","));
        let options: Vec<_> = options
            .map(|option| match option {
                [Token::Word(name), _, expression @ ..] => (name.as_str(), expression),
                _ => panic!("{}: {option:?}", self.path),
            })
            .collect();
        let message = match options.iter().find(|(name, _)| *name == "MESSAGE") {
            Some((_, message)) => message,
            None => &message[2..],
        };
        let mut messages = self.raised(level, message);
        // The values of a message are names and numbers, unless all of it is a value.
        if message.first().and_then(Token::literal) != Some("%") {
            messages.truncate(1);
        }
        for (name, expression) in options {
            for message in &mut messages {
                match name {
                    "MESSAGE" => {}
                    "ERRCODE" => message.conditions.extend(expression[0].literal().map(str::to_owned)),
                    "DETAIL" => message.details.extend(sentences(expression, self)),
                    "HINT" => message.hints.extend(sentences(expression, self)),
                    _ => panic!("{}: {name}", self.path),
                }
            }
        }
        Some((messages, at + statement.len()))
    }

    /// A call of a function or a macro that raises a message, and the place after it.
    fn call(&self, at: usize) -> Option<(Vec<Message>, usize)> {
        let (name, start) = match &self.tokens[at..] {
            [word, bracket, ..] if word.is("texts") && bracket.is("(") && !self.tokens[at - 1].is("fn") => {
                ("texts", at + 2)
            }
            [Token::Word(name), mark, bracket, ..] if mark.is("!") && bracket.is("(") => {
                (name.as_str(), at + 3)
            }
            _ => return None,
        };
        let arguments = &self.tokens[start..start + closing(&self.tokens[start..])];
        let after = start + arguments.len();
        let arguments = split(arguments, ",");
        let messages = match (name, &arguments[..]) {
            ("warning", [message, ..]) => self.raised(Level::Warning, message),
            ("notice" | "log", [message, ..]) => self.raised(Level::Note, message),
            ("error", [message, ..]) => self.raised(Level::Error, message),
            ("ereport", [level, codes, message, detail @ ..]) => {
                let level =
                    if level.iter().any(|token| token.is("ERROR")) { Level::Error } else { Level::Warning };
                let mut messages = self.raised(level, message);
                for message in &mut messages {
                    message.conditions = conditions(codes);
                    message.details = detail.iter().flat_map(|detail| sentences(detail, self)).collect();
                }
                messages
            }
            ("texts", [codes, message, detail, hint, ..]) => {
                let mut messages = self.raised(Level::Error, message);
                for message in &mut messages {
                    message.conditions = conditions(codes);
                    message.details = sentences(detail, self);
                    message.hints = sentences(hint, self);
                }
                messages
            }
            _ => return None,
        };
        Some((messages, after))
    }
}

/// PL/pgSQL names the conditions of external routines without a prefix.
fn conditions(codes: &[Token]) -> BTreeSet<String> {
    let words =
        codes.iter().filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None });
    let names = words.filter_map(|word| word.strip_prefix("ERRCODE_"));
    names
        .map(|name| name.trim_start_matches("E_R_I_E_").to_lowercase())
        .filter(|name| name != "warning")
        .collect()
}

/// What the core writes by Display: details, and reasons.
fn displayed(path: &str) -> Vec<Message> {
    let tokens = tokens::rust(&read(path));
    let written = tokens.windows(6).filter(|call| call[0].is("write") && call[1].is("!") && call[3].is("f"));
    let literals =
        written.filter_map(|call| call[5].literal()).map(|literal| with_values(literal, Language::Rust));
    let long = literals.filter(|text| text.contains(' ') && text.replace('%', "").trim().len() >= 12);
    long.map(|text| Message::new(path, Level::Part, &text)).collect()
}

/// The sources whose literals are messages: the extension, the client, and the parts of the core that word reasons.
fn rust_sources() -> Vec<String> {
    const CORE: &[&str] =
        &["hosts", "layout/mod", "lease_answer", "message", "number_round", "protocol", "reply", "signed"];
    let core = CORE.iter().map(|name| format!("core/src/{name}.rs"));
    let sources = files("src", ".rs").into_iter().chain(files("client/src", ".rs")).chain(core);
    sources.filter(|path| !path.ends_with("/tests.rs")).collect()
}

/// The parts of the extensions, and the scripts for servers without the library.
fn sql_sources() -> Vec<String> {
    [files("sql/parts", ".sql"), files("sql/registry/parts", ".sql"), files("core/src", ".sql")].concat()
}

/// The messages of one source.
fn of_file(path: &str) -> Vec<Message> {
    File::new(path).messages()
}

/// The paths of the sources of the extension and of the registry that contain messages.
pub fn paths() -> Vec<String> {
    [rust_sources(), sql_sources()].concat()
}

/// All messages, including literals of their form that are none.
pub fn all() -> Vec<Message> {
    let mut messages: Vec<_> = paths().iter().flat_map(|path| of_file(path)).collect();
    for path in files("core/src", ".rs") {
        messages.extend(displayed(&path));
    }
    messages
}
