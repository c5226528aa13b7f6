//! The parser, with upstream's errors.

use std::collections::BTreeSet;

use super::valid::key_flaws;
use super::{Operator, Requirement};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[doc(alias = "binaryOperators")]
const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

#[doc(alias = "string2token")]
fn token(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "in" => Token::In,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "notin" => Token::NotIn,
        "(" => Token::Open,
        _ => return None,
    })
}

#[doc(alias = "isSpecialSymbol")]
fn is_special(c: char) -> bool {
    "=!(),><".contains(c)
}

#[doc(alias = "isWhitespace")]
fn is_space(c: char) -> bool {
    " \t\r\n".contains(c)
}

/// All tokens; the last one marks the end.
#[doc(alias = "Lex")]
#[doc(alias = "scanIDOrKeyword")]
#[doc(alias = "skipWhiteSpaces")]
fn scan(text: &str) -> Vec<(Token, String)> {
    let mut tokens = Vec::new();
    // Upstream's lexer treats a zero byte as the end.
    let mut rest = text.split('\0').next().unwrap_or_default();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else { break };
        let end = if is_special(first) {
            special(rest)
        } else {
            let end = rest.find(|c| is_special(c) || is_space(c)).unwrap_or(rest.len());
            tokens.push((token(&rest[..end]).unwrap_or(Token::Identifier), rest[..end].to_owned()));
            rest = &rest[end..];
            continue;
        };
        let literal = &rest[..end];
        tokens.push((token(literal).unwrap_or(Token::Error), literal.to_owned()));
        rest = &rest[end..];
    }
    tokens.push((Token::End, String::new()));
    tokens
}

/// Length of the longest operator at the start. Every special character is an operator.
#[doc(alias = "scanSpecialSymbol")]
fn special(text: &str) -> usize {
    if text.get(..2).and_then(token).is_some() { 2 } else { 1 }
}

struct Parser {
    tokens: Vec<(Token, String)>,
    position: usize,
}

impl Parser {
    fn at(&self, position: usize) -> (Token, &str) {
        let last = self.tokens.len() - 1;
        let (token, literal) = &self.tokens[position.min(last)];
        (*token, literal)
    }

    /// Operators are also valid as keys and values.
    fn as_value((token, literal): (Token, &str)) -> (Token, String) {
        let token = if matches!(token, Token::In | Token::NotIn) { Token::Identifier } else { token };
        (token, literal.to_owned())
    }

    #[doc(alias = "lookahead")]
    fn look(&self) -> (Token, String) {
        Self::as_value(self.at(self.position))
    }

    #[doc(alias = "consume")]
    fn take(&mut self) -> (Token, String) {
        self.position += 1;
        Self::as_value(self.at(self.position - 1))
    }

    #[doc(alias = "parseRequirement")]
    fn requirement(&mut self) -> Result<Requirement, String> {
        let (key, unary) = self.key()?;
        if let Some(unary) = unary {
            return Requirement::new(&key, unary, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.value()?,
        };
        Requirement::new(&key, operator, values.into_iter().collect())
    }

    #[doc(alias = "parseKeyAndInferOperator")]
    fn key(&mut self) -> Result<(String, Option<Operator>), String> {
        let (mut token, mut literal) = self.take();
        let mut unary = None;
        if token == Token::Not {
            unary = Some(Operator::DoesNotExist);
            (token, literal) = self.take();
        }
        if token != Token::Identifier {
            return Err(format!("found '{literal}', expected: identifier"));
        }
        let flaws = key_flaws(&literal);
        if !flaws.is_empty() {
            // Upstream's parser has no path for the key.
            return Err(format!("<nil>: Invalid value: {literal:?}: {}", flaws.join("; ")));
        }
        if matches!(self.look().0, Token::End | Token::Comma) {
            unary = unary.or(Some(Operator::Exists));
        }
        Ok((literal, unary))
    }

    #[doc(alias = "parseOperator")]
    fn operator(&mut self) -> Result<Operator, String> {
        self.position += 1;
        let (token, literal) = self.at(self.position - 1);
        Ok(match token {
            Token::In => Operator::In,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::Greater => Operator::Greater,
            Token::Less => Operator::Less,
            Token::NotIn => Operator::NotIn,
            Token::NotEquals => Operator::NotEquals,
            _ => return Err(format!("found '{literal}', expected: {BINARY}")),
        })
    }

    #[doc(alias = "parseValues")]
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, literal) = self.take();
        if token != Token::Open {
            return Err(format!("found '{literal}' expected: '('"));
        }
        let (token, literal) = self.look();
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.list()?;
                // Upstream's error has the first of the values here.
                if self.take().0 == Token::Close {
                    Ok(values)
                } else {
                    Err(format!("found '{literal}', expected: ')'"))
                }
            }
            Token::Close => {
                self.take();
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    #[doc(alias = "parseIdentifiersList")]
    fn list(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            let (token, literal) = self.take();
            match token {
                Token::Identifier => {
                    values.insert(literal);
                    match self.look() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, literal) => return Err(format!("found '{literal}', expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.look().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{literal}', expected: ',', or identifier")),
            }
        }
    }

    #[doc(alias = "parseExactValue")]
    fn value(&mut self) -> Result<BTreeSet<String>, String> {
        if matches!(self.look().0, Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.take() {
            (Token::Identifier, literal) => Ok(BTreeSet::from([literal])),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }
}

#[doc(alias = "ParseToRequirements")]
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { tokens: scan(text), position: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.look() {
            (Token::Identifier | Token::Not, _) => {
                let requirement = parser.requirement();
                requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
                match parser.take() {
                    (Token::End, _) => return Ok(requirements),
                    (Token::Comma, _) => {
                        let (next, literal) = parser.look();
                        if !matches!(next, Token::Identifier | Token::Not) {
                            return Err(format!("found '{literal}', expected: identifier after ','"));
                        }
                    }
                    (_, literal) => return Err(format!("found '{literal}', expected: ',' or 'end of string'")),
                }
            }
            (Token::End, _) => return Ok(requirements),
            (_, literal) => return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'")),
        }
    }
}
