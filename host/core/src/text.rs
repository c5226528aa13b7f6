//! Text for logs and the terminal: untrusted text that cannot forge lines; tables, sizes and ages in kubectl's format.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// Untrusted text in one line: displays control characters, invisible characters and characters that change the text
/// direction as Rust escapes (`\n`, `\u{1b}`). They could forge log lines, or control a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(f, self.0, |c| !is_printable(c), |f, c| write!(f, "{}", c.escape_default()))
    }
}

/// Untrusted text in one line ([`Printable`]) of at most `max_bytes` before escaping; a longer text ends in `...`.
/// Tokens in it are made unusable ([`without_tokens`]).
pub fn printable(text: &str, max_bytes: usize) -> String {
    let shown = cut(text, max_bytes);
    let ellipsis = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{ellipsis}", Printable(&without_tokens(shown)))
}

/// The longest prefix of at most this many bytes with whole characters.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Replaces the signature of a token; in base64, because token parsers expect it.
const SIGNATURE: &str = "KioqKioqKio";

/// Replaces the signature of each token (JWT) in the text: the subject of the token stays visible, but the token is
/// unusable.
pub fn without_tokens(text: &str) -> Cow<'_, str> {
    /// `{"` in base64: the start of a token's header and claims.
    const OBJECT: &str = "eyJ";
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OBJECT) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let end_of_part = |from: usize| rest[from..].find(|c| !is_part(c)).map_or(rest.len(), |n| from + n);
        let header = end_of_part(at);
        let claims = rest[header..].starts_with(&format!(".{OBJECT}")).then(|| end_of_part(header + 1));
        match claims.filter(|claims| rest[*claims..].starts_with('.')) {
            Some(claims) => {
                masked.push_str(&rest[..=claims]);
                masked.push_str(SIGNATURE);
                rest = &rest[end_of_part(claims + 1)..];
            }
            None => {
                masked.push_str(&rest[..header]);
                rest = &rest[header..];
            }
        }
    }
    if masked.is_empty() {
        return Cow::Borrowed(text);
    }
    masked.push_str(rest);
    Cow::Owned(masked)
}

/// Like [`printable`], but keeps line breaks and tabs.
pub fn printable_lines(text: &str) -> String {
    let is_escaped = |c| !is_printable(c) && !matches!(c, '\n' | '\t');
    escaped(text, is_escaped, |f, c| write!(f, "{}", c.escape_default()))
}

/// JSON text with the same meaning and only printable characters and line breaks.
pub fn printable_json(json: &str) -> String {
    // Only strings contain such characters, and serializers escape line breaks in strings.
    let is_escaped = |c| !is_printable(c) && c != '\n';
    // JSON escapes are UTF-16 code units.
    escaped(json, is_escaped, |f, c| c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(f, "\\u{unit:04x}")))
}

/// Whether a character is visible and has no other effect: no control character, not invisible, no change of text
/// direction.
fn is_printable(c: char) -> bool {
    let is_hidden = matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_hidden
}

fn escaped<W: Fn(&mut String, char) -> fmt::Result>(text: &str, is_escaped: impl Fn(char) -> bool, write: W) -> String {
    let mut escaped = String::with_capacity(text.len());
    // Writing to a String cannot fail.
    let _ = escape(&mut escaped, text, is_escaped, write);
    escaped
}

fn escape<T: fmt::Write>(
    to: &mut T,
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    write: impl Fn(&mut T, char) -> fmt::Result,
) -> fmt::Result {
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
        to.write_str(&rest[..at])?;
        write(to, c)?;
        rest = &rest[at + c.len_utf8()..];
    }
    to.write_str(rest)
}

/// A size in readable and exact form: `2.2 MiB (2,255,012 bytes)`.
pub fn bytes(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    let exact = format!("{} bytes", groups.join(","));
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| n >> bits > 0) {
        // Exact enough for one decimal place.
        Some((unit, bits)) => format!("{:.1} {unit} ({exact})", n as f64 / f64::from(1_u32 << bits)),
        None => exact,
    }
}

/// Columns as wide as their widest cell, separated by three spaces, as in kubectl's tables. Each row is one line: cells
/// are [`Printable`].
pub fn table(rows: &[Vec<String>]) -> String {
    const GAP: usize = 3;
    let printable = |row: &Vec<String>| row.iter().map(|cell| Printable(cell).to_string()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(printable).collect();
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..n_columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<pad$}", pad = width + GAP));
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A duration in kubectl's format for ages: `37s`, `5m`, `3h12m`, `4d`.
pub fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let with = |n: i64, unit: char, rest: i64, rest_unit: char| {
        if rest == 0 { format!("{n}{unit}") } else { format!("{n}{unit}{rest}{rest_unit}") }
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        with(minutes, 'm', seconds % 60, 's')
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        with(hours, 'h', minutes % 60, 'm')
    } else if days < 2 {
        format!("{hours}h")
    } else if days < 8 {
        with(days, 'd', hours % 24, 'h')
    } else {
        format!("{days}d")
    }
}

/// The valid name that is closest to a wrong one.
pub fn like<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let distance = |name: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &wrong.to_lowercase());
    let near = names.min_by_key(|name| distance(name))?;
    (distance(near) <= (wrong.len() / 3).max(1)).then_some(near)
}

/// Maximum errors listed; an operator's input may have many more.
const MAX_ERRORS: usize = 16;

/// Several errors in one line, with their number.
pub fn several(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        all if all.len() <= MAX_ERRORS => format!("{} errors: {}", all.len(), all.join("; ")),
        all => format!("{} errors: {}; ...", all.len(), all[..MAX_ERRORS].join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_cut_between_characters_and_stays_in_its_line() {
        assert_eq!(printable("grün", 3), "gr...");
        assert_eq!(printable("grün", 5), "grün");
        assert_eq!(printable("", 0), "");
        assert_eq!(printable("a\nb\r\tc\u{1b}[31m\u{9b}m", 100), r"a\nb\r\tc\u{1b}[31m\u{9b}m");
        assert_eq!(
            printable("\u{202e}z\u{200b}\u{2028}\u{e0041}\u{1f600}", 100),
            "\\u{202e}z\\u{200b}\\u{2028}\\u{e0041}\u{1f600}"
        );
        assert_eq!(Printable("a\n").to_string(), r"a\n");
    }

    #[test]
    fn several_errors_are_counted_and_the_first_are_listed() {
        let errors: Vec<String> = (1..=17).map(|n| format!("e{n}")).collect();
        assert_eq!(several(&errors[..1]), "e1");
        assert_eq!(several(&errors[..2]), "2 errors: e1; e2");
        assert!(several(&errors[..16]).ends_with("; e15; e16"));
        assert!(several(&errors).starts_with("17 errors: e1; ") && several(&errors).ends_with("; e16; ..."));
    }

    #[test]
    fn tokens_are_of_no_use() {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2ln-bmF0_dXJl";
        let masked = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.KioqKioqKio";
        let text = format!("Bearer {token}, \"{token}\" and eyJ.eyJ is {token}");
        assert_eq!(printable(&text, 1_000), format!("Bearer {masked}, \"{masked}\" and eyJ.eyJ is {masked}"));
        // A truncated token is not a token.
        assert_eq!(printable(token, 45), format!("{masked}..."));
        for other in ["eyJhbGciOiJSUzI1NiJ9", "a.b.c", "eyJ.b.c", "ey\u{e9}J.eyJ."] {
            assert!(matches!(without_tokens(other), Cow::Borrowed(_)) || without_tokens(other) == other, "{other}");
        }
    }

    #[test]
    fn untrusted_lines_keep_their_breaks_and_cannot_control_a_terminal() {
        assert_eq!(
            printable_lines("a\tb\n\u{1b}[2J\u{9b}31m\r\u{202e}gr\u{fc}n"),
            "a\tb\n\\u{1b}[2J\\u{9b}31m\\r\\u{202e}gr\u{fc}n"
        );
    }

    #[test]
    fn printable_json_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}\u{1b}\n\u{202e}\u{e0041}\u{1f600}", "b": [1]});
        let text = printable_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| is_printable(c) || c == '\n'), "{text:?}");
        assert!(text.contains(r"\u009b\u001b\n\u202e\udb40\udc41") && text.contains('\u{1f600}'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn a_row_of_a_table_is_one_line() {
        let rows = [["NAME", "ERROR"], ["a\nb", "no\nb   none"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "NAME   ERROR\na\\nb   no\\nb   none");
    }

    #[test]
    fn sizes_are_read_at_a_glance_and_exact() {
        for (n, expected) in [
            (0, "0 bytes"),
            (1_023, "1,023 bytes"),
            (1_024, "1.0 KiB (1,024 bytes)"),
            (2_255_012, "2.2 MiB (2,255,012 bytes)"),
            (5 << 30, "5.0 GiB (5,368,709,120 bytes)"),
        ] {
            assert_eq!(bytes(n), expected);
        }
    }

    #[test]
    fn ages_are_kubectls() {
        for (seconds, expected) in [
            (-3, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (601, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (100_000, "27h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (700_000, "8d"),
        ] {
            assert_eq!(age(seconds), expected, "{seconds}");
        }
    }
}
