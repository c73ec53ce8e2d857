//! The tokens of sources in Rust and in SQL, as far as messages need them: literals, words and punctuation.

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// The string that the literal stands for.
    Literal(String),
    Word(String),
    Other(char),
}

impl Token {
    pub fn is(&self, expected: &str) -> bool {
        match self {
            Token::Word(word) => word == expected,
            Token::Other(character) => expected.chars().eq([*character]),
            Token::Literal(_) => false,
        }
    }

    pub fn literal(&self) -> Option<&str> {
        if let Token::Literal(text) = self { Some(text) } else { None }
    }
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Removes the word at the beginning of the rest.
fn word(rest: &mut &str) -> Token {
    let (word, after) = rest.split_at(rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()));
    *rest = after;
    Token::Word(word.to_owned())
}

fn skip_line(rest: &mut &str) {
    *rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
}

/// Removes a literal of Rust, after its opening quote.
fn rust_literal(rest: &mut &str) -> String {
    let (mut text, mut characters) = (String::new(), rest.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                *rest = &rest[at + 1..];
                return text;
            }
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => text.push('\n'),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            _ => text.push(character),
        }
    }
    panic!("an open literal: {rest:.80}");
}

/// The tokens of a Rust source, without comments, characters, lifetimes, and literals of C.
pub fn rust(source: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (vec![], source);
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        if is_of_word(character) {
            tokens.push(word(&mut rest));
        } else if rest.starts_with("//") {
            skip_line(&mut rest);
        } else if character == '"' {
            rest = after;
            let literal = rust_literal(&mut rest);
            match tokens.last() {
                Some(Token::Word(prefix)) if prefix == "c" || prefix == "b" => _ = tokens.pop(),
                _ => tokens.push(Token::Literal(literal)),
            }
        } else if let Some(quoted) = rest.strip_prefix("'\\") {
            rest = quoted[1..].split_once('\'').expect("a character").1;
        } else if character == '\'' && after.chars().nth(1) == Some('\'') {
            rest = after.split_at(after.chars().next().map_or(0, char::len_utf8) + 1).1;
        } else {
            if !character.is_whitespace() {
                tokens.push(Token::Other(character));
            }
            rest = after;
        }
    }
    tokens
}

/// Removes a literal of SQL. Literals that follow one another on lines are one.
fn sql_literal(rest: &mut &str) -> String {
    let mut literal = String::new();
    loop {
        let end = rest[1..].find('\'').expect("an open literal") + 1;
        literal.push_str(&rest[1..end]);
        *rest = &rest[end + 1..];
        let next = rest.trim_start();
        if rest.starts_with('\'') {
            literal.push('\'');
        } else if next.starts_with('\'') && rest[..rest.len() - next.len()].contains('\n') {
            *rest = next;
        } else {
            return literal;
        }
    }
}

/// The tokens of an SQL source, without comments and without its statements `COMMENT ON`.
pub fn sql(source: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (vec![], source);
    // Where the statement begins that is left out.
    let mut comment = None;
    while let Some(character) = rest.chars().next() {
        if is_of_word(character) {
            tokens.push(word(&mut rest));
            if let [.., verb, on] = &tokens[..]
                && verb.is("COMMENT")
                && on.is("ON")
            {
                comment = Some(tokens.len() - 2);
            }
        } else if rest.starts_with("--") {
            skip_line(&mut rest);
        } else if character == '\'' {
            let literal = sql_literal(&mut rest);
            tokens.push(Token::Literal(literal));
        } else {
            if character == ';'
                && let Some(start) = comment.take()
            {
                tokens.truncate(start);
            }
            if !character.is_whitespace() {
                tokens.push(Token::Other(character));
            }
            rest = &rest[character.len_utf8()..];
        }
    }
    tokens
}

/// The number of tokens before the bracket that closes the one before these tokens.
pub fn closing(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        if let Token::Other(character) = token {
            match character {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' if depth == 0 => return at,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
        }
    }
    tokens.len()
}

/// Splits the tokens at this one, except in brackets.
pub fn split<'a>(tokens: &'a [Token], at: &str) -> Vec<&'a [Token]> {
    let (mut parts, mut depth, mut start) = (vec![], 0, 0);
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(' | '[' | '{') => depth += 1,
            Token::Other(')' | ']' | '}') => depth -= 1,
            _ if depth == 0 && token.is(at) => {
                parts.push(&tokens[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[start..]);
    parts
}
