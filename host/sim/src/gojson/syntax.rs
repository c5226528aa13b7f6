//! The first syntax error of a text, found as Go's scanner finds it: byte by byte, without building anything.

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    KeyOrEnd,
    Key,
    AfterValue,
    AfterEverything,
    Text,
    Escape,
    /// Hexadecimal digits still to come.
    Hex(u8),
    Minus,
    Integer,
    /// After a leading zero or the end of the integer's digits.
    AfterInteger,
    Dot,
    Fraction,
    Exponent,
    ExponentDigit,
    ExponentDigits,
    /// The rest of `true`, `false` or `null`: the word, and how much of it was read.
    Word(&'static str, usize),
}

/// What the place belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Key,
    ObjectValue,
    Array,
}

/// Nesting beyond this is refused.
const MAX_DEPTH: usize = 10_000;

struct Scanner {
    step: Step,
    stack: Vec<Inside>,
}

/// Go's words for the first thing that is wrong with a JSON text; none when it is well formed.
pub fn syntax_error(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { step: Step::Value, stack: Vec::new() };
    for byte in text {
        if let Err(context) = scanner.read(*byte) {
            return Some(format!("invalid character {} {context}", quoted(*byte)));
        }
    }
    if scanner.step != Step::AfterEverything {
        // A number at the end is complete only when something follows it.
        let _ = scanner.read(b' ');
    }
    (scanner.step != Step::AfterEverything).then(|| "unexpected end of JSON input".to_owned())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

impl Scanner {
    fn read(&mut self, byte: u8) -> Result<(), String> {
        let wrong = |context: &str| Err(context.to_owned());
        match self.step {
            Step::Value | Step::ValueOrEnd | Step::KeyOrEnd | Step::Key if is_space(byte) => Ok(()),
            Step::ValueOrEnd if byte == b']' => self.after_value(byte),
            Step::Value | Step::ValueOrEnd => self.value(byte),
            Step::KeyOrEnd if byte == b'}' => {
                self.replace_top(Inside::ObjectValue);
                self.after_value(byte)
            }
            Step::Key | Step::KeyOrEnd if byte == b'"' => self.go(Step::Text),
            Step::Key | Step::KeyOrEnd => wrong("looking for beginning of object key string"),
            Step::AfterValue | Step::AfterEverything => self.after_value(byte),
            Step::Text => match byte {
                b'"' => self.go(Step::AfterValue),
                b'\\' => self.go(Step::Escape),
                0..0x20 => wrong("in string literal"),
                _ => Ok(()),
            },
            Step::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => self.go(Step::Text),
                b'u' => self.go(Step::Hex(4)),
                _ => wrong("in string escape code"),
            },
            Step::Hex(left) if byte.is_ascii_hexdigit() => {
                self.go(if left == 1 { Step::Text } else { Step::Hex(left - 1) })
            }
            Step::Hex(_) => wrong("in \\u hexadecimal character escape"),
            Step::Minus => match byte {
                b'0' => self.go(Step::AfterInteger),
                b'1'..=b'9' => self.go(Step::Integer),
                _ => wrong("in numeric literal"),
            },
            Step::Integer if byte.is_ascii_digit() => Ok(()),
            Step::Integer | Step::AfterInteger => match byte {
                b'.' => self.go(Step::Dot),
                b'e' | b'E' => self.go(Step::Exponent),
                _ => self.after_value(byte),
            },
            Step::Dot if byte.is_ascii_digit() => self.go(Step::Fraction),
            Step::Dot => wrong("after decimal point in numeric literal"),
            Step::Fraction => match byte {
                b'0'..=b'9' => Ok(()),
                b'e' | b'E' => self.go(Step::Exponent),
                _ => self.after_value(byte),
            },
            Step::Exponent if matches!(byte, b'+' | b'-') => self.go(Step::ExponentDigit),
            Step::Exponent | Step::ExponentDigit if byte.is_ascii_digit() => self.go(Step::ExponentDigits),
            Step::Exponent | Step::ExponentDigit => wrong("in exponent of numeric literal"),
            Step::ExponentDigits if byte.is_ascii_digit() => Ok(()),
            Step::ExponentDigits => self.after_value(byte),
            Step::Word(word, read) => {
                let expected = word.as_bytes()[read];
                if byte != expected {
                    return Err(format!("in literal {word} (expecting '{}')", char::from(expected)));
                }
                self.go(if read + 1 == word.len() { Step::AfterValue } else { Step::Word(word, read + 1) })
            }
        }
    }

    fn go(&mut self, step: Step) -> Result<(), String> {
        self.step = step;
        Ok(())
    }

    fn replace_top(&mut self, inside: Inside) {
        if let Some(top) = self.stack.last_mut() {
            *top = inside;
        }
    }

    fn push(&mut self, inside: Inside, step: Step) -> Result<(), String> {
        self.stack.push(inside);
        if self.stack.len() > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.go(step)
    }

    fn value(&mut self, byte: u8) -> Result<(), String> {
        match byte {
            b'{' => self.push(Inside::Key, Step::KeyOrEnd),
            b'[' => self.push(Inside::Array, Step::ValueOrEnd),
            b'"' => self.go(Step::Text),
            b'-' => self.go(Step::Minus),
            b'0' => self.go(Step::AfterInteger),
            b'1'..=b'9' => self.go(Step::Integer),
            b't' => self.go(Step::Word("true", 1)),
            b'f' => self.go(Step::Word("false", 1)),
            b'n' => self.go(Step::Word("null", 1)),
            _ => Err("looking for beginning of value".to_owned()),
        }
    }

    fn after_value(&mut self, byte: u8) -> Result<(), String> {
        let Some(top) = self.stack.last().copied() else {
            self.step = Step::AfterEverything;
            return if is_space(byte) { Ok(()) } else { Err("after top-level value".to_owned()) };
        };
        self.step = Step::AfterValue;
        match (top, byte) {
            _ if is_space(byte) => Ok(()),
            (Inside::Key, b':') => {
                self.replace_top(Inside::ObjectValue);
                self.go(Step::Value)
            }
            (Inside::Key, _) => Err("after object key".to_owned()),
            (Inside::ObjectValue, b',') => {
                self.replace_top(Inside::Key);
                self.go(Step::Key)
            }
            (Inside::ObjectValue, b'}') | (Inside::Array, b']') => {
                self.stack.pop();
                self.step = if self.stack.is_empty() { Step::AfterEverything } else { Step::AfterValue };
                Ok(())
            }
            (Inside::ObjectValue, _) => Err("after object key:value pair".to_owned()),
            (Inside::Array, b',') => self.go(Step::Value),
            (Inside::Array, _) => Err("after array element".to_owned()),
        }
    }
}

/// A byte as Go quotes it: the character with that number, escaped where it cannot be seen.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        // The no-break space and the soft hyphen count as unprintable.
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_told_as_go_tells_it() {
        for (text, wanted) in [
            (&b""[..], "unexpected end of JSON input"),
            (b"{\"a\":", "unexpected end of JSON input"),
            (b"{\"a\" 1}", "invalid character '1' after object key"),
            (b"{\"a\": 1 2}", "invalid character '2' after object key:value pair"),
            (b"{a: 1}", "invalid character 'a' looking for beginning of object key string"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"{} x", "invalid character 'x' after top-level value"),
            (b"nonsense", "invalid character 'o' in literal null (expecting 'u')"),
            (b"\x9e\x89", "invalid character '\\u009e' looking for beginning of value"),
            (b"[01]", "invalid character '1' after array element"),
            (b"-x", "invalid character 'x' in numeric literal"),
            (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
            (b"1e", "unexpected end of JSON input"),
            (b"\"\\q\"", "invalid character 'q' in string escape code"),
            (b"\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            (b"\"a\nb\"", "invalid character '\\n' in string literal"),
        ] {
            assert_eq!(syntax_error(text).as_deref(), Some(wanted), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_well_formed_has_no_error() {
        for text in [
            "{}",
            " [ ] ",
            "12",
            "-0.5e+3",
            "0",
            "true",
            "null",
            "\"a\\u00e9\\n\"",
            "{\"a\": [1, {\"b\": {}}], \"c\": 2}",
        ] {
            assert_eq!(syntax_error(text.as_bytes()), None, "{text}");
        }
    }
}
