//! The grammar of label selectors: tokens, then requirements.
//!
//! *Source*: the lexer and parser of apimachinery's `labels/selector.go`, whose sentences are those of a 400.

use crate::names;

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelTerm {
    pub(super) key: String,
    pub(super) is: Operator,
}

/// What a requirement demands of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    /// Also true for objects without the label.
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Identifier,
    Symbol(&'static str),
}

/// All that stands between identifiers, longest first. `in` and `notin` are also fine as keys and values.
const SYMBOLS: [&str; 9] = ["==", "!=", ")", ",", "!", "=", ">", "<", "("];
const WORDS: [&str; 2] = ["in", "notin"];
const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

fn is_symbol(byte: u8) -> bool {
    matches!(byte, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn tokens(text: &str) -> Vec<(Token, String)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        let Some(first) = bytes.get(at) else {
            found.push((Token::End, String::new()));
            return found;
        };
        if is_symbol(*first) {
            let symbol = SYMBOLS.iter().find(|symbol| text[at..].starts_with(**symbol));
            match symbol {
                Some(symbol) => {
                    found.push((Token::Symbol(symbol), (*symbol).to_owned()));
                    at += symbol.len();
                }
                // Every symbol's first byte is a symbol by itself, so this does not happen.
                None => {
                    found.push((Token::Error, String::new()));
                    at += 1;
                }
            }
            continue;
        }
        let length =
            bytes[at..].iter().position(|byte| is_symbol(*byte) || is_space(*byte)).unwrap_or(bytes.len() - at);
        let literal = &text[at..at + length];
        let token = WORDS.iter().find(|word| **word == literal).map_or(Token::Identifier, |word| Token::Symbol(word));
        found.push((token, literal.to_owned()));
        at += length;
    }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

/// Parses a selector; the error is upstream's sentence.
pub(super) fn parse_labels(text: &str) -> Result<Vec<LabelTerm>, String> {
    let mut parser = Parser { tokens: tokens(text), at: 0 };
    let mut terms = Vec::new();
    loop {
        match parser.peek() {
            (Token::Identifier | Token::Symbol("!"), _) => {
                let term = parser.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
                terms.push(term);
                match parser.take() {
                    (Token::End, _) => return Ok(terms),
                    (Token::Symbol(","), _) => {
                        let (token, literal) = parser.peek();
                        if !matches!(token, Token::Identifier | Token::Symbol("!")) {
                            return Err(format!("found '{literal}', expected: identifier after ','"));
                        }
                    }
                    (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
                }
            }
            (Token::End, _) => return Ok(terms),
            (_, literal) => return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'")),
        }
    }
}

impl Parser {
    /// The next token where a key or value is meant, for which `in` and `notin` will do.
    fn peek(&self) -> (Token, String) {
        let (token, literal) = self.raw();
        let token = if matches!(token, Token::Symbol("in" | "notin")) { Token::Identifier } else { token };
        (token, literal)
    }

    fn raw(&self) -> (Token, String) {
        self.tokens.get(self.at).cloned().unwrap_or((Token::End, String::new()))
    }

    fn take(&mut self) -> (Token, String) {
        let next = self.peek();
        self.at += 1;
        next
    }

    fn requirement(&mut self) -> Result<LabelTerm, String> {
        let (mut token, mut key) = self.take();
        let negated = token == Token::Symbol("!");
        if negated {
            (token, key) = self.take();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let wrong = names::label_key(&key);
        if !wrong.is_empty() {
            // Upstream gives no path here, and prints that.
            return Err(format!("<nil>: Invalid value: {key:?}: {}", wrong.join("; ")));
        }
        let last = matches!(self.peek().0, Token::End | Token::Symbol(","));
        if negated || last {
            let is = if negated { Operator::Absent } else { Operator::Exists };
            return Ok(LabelTerm { key, is });
        }
        let (token, literal) = self.raw();
        self.at += 1;
        let operator = match token {
            Token::Symbol(symbol @ ("in" | "notin" | "=" | "==" | "!=" | ">" | "<")) => symbol,
            _ => return Err(format!("found '{literal}', expected: {BINARY}")),
        };
        let values = if matches!(operator, "in" | "notin") { self.values()? } else { vec![self.exact_value()?] };
        let is = match operator {
            "in" | "=" | "==" => Operator::In(values.clone()),
            "notin" | "!=" => Operator::NotIn(values.clone()),
            _ => {
                let bound: Result<i64, _> = values[0].parse();
                let bound = bound.map_err(|_| {
                    format!(
                        "values[0]: Invalid value: {:?}: for 'Gt', 'Lt' operators, the value must be an integer",
                        values[0]
                    )
                })?;
                if operator == ">" { Operator::Greater(bound) } else { Operator::Less(bound) }
            }
        };
        let wrong: Vec<String> = values
            .iter()
            .enumerate()
            .filter_map(|(n, value)| {
                let errors = names::label_value(value);
                (!errors.is_empty())
                    .then(|| format!("values[{n}][{key}]: Invalid value: {value:?}: {}", errors.join("; ")))
            })
            .collect();
        match wrong.as_slice() {
            [] => Ok(LabelTerm { key, is }),
            [only] => Err(only.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// `(a, b)`, in order, each once.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let (token, literal) = self.take();
        if token != Token::Symbol("(") {
            return Err(format!("found '{literal}' expected: '('"));
        }
        let (token, first) = self.peek();
        match token {
            Token::Identifier | Token::Symbol(",") => {
                let mut values = self.identifiers()?;
                if self.take().0 != Token::Symbol(")") {
                    return Err(format!("found '{first}', expected: ')'"));
                }
                values.sort();
                values.dedup();
                Ok(values)
            }
            Token::Symbol(")") => {
                self.at += 1;
                Ok(vec![String::new()])
            }
            _ => Err(format!("found '{first}', expected: ',', ')' or identifier")),
        }
    }

    fn identifiers(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            let (token, literal) = self.take();
            match token {
                Token::Identifier => {
                    values.push(literal);
                    match self.peek() {
                        (Token::Symbol(","), _) => {}
                        (Token::Symbol(")"), _) => return Ok(values),
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek().0 {
                        Token::Symbol(")") => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Symbol(",") => values.push(String::new()),
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        let (token, literal) = self.peek();
        match token {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Identifier => {
                self.at += 1;
                Ok(literal)
            }
            _ => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_parse_is_told_as_upstream_tells_it() {
        for (text, wanted) in [
            ("x in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("x in a", "unable to parse requirement: found 'a' expected: '('"),
            ("x in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x y", "unable to parse requirement: found 'y', expected: in, notin, =, ==, !=, gt, lt"),
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("x,", "found '', expected: identifier after ','"),
            ("x=a b", "found 'b', expected: ',' or 'end of string'"),
            (
                "x>a",
                "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("x=(", "unable to parse requirement: found '(', expected: identifier"),
        ] {
            assert_eq!(parse_labels(text), Err(wanted.to_owned()), "{text}");
        }
        let error = parse_labels("-x=y").unwrap_err();
        assert!(
            error.starts_with("unable to parse requirement: <nil>: Invalid value: \"-x\": name part must"),
            "{error}"
        );
    }

    #[test]
    fn keywords_are_keys_and_values_too() {
        let term = |key: &str, is: Operator| LabelTerm { key: key.into(), is };
        assert_eq!(
            parse_labels("in in (in, notin), !a, b=, c notin ()").unwrap(),
            [
                term("in", Operator::In(vec!["in".into(), "notin".into()])),
                term("a", Operator::Absent),
                term("b", Operator::In(vec![String::new()])),
                term("c", Operator::NotIn(vec![String::new()])),
            ]
        );
    }
}
