//! Descriptions as comments. A description is untrusted text: it must neither end a comment nor hide code.

use crate::model::{Field, Type};

/// The lines of a comment with at most this many characters, unless a word is longer. Characters that must not be in
/// sources are replaced: control characters, and those that are invisible or change the text direction, which compilers
/// reject.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\t', "  ");
    let clean: String = text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect();
    let mut lines = Vec::new();
    for line in clean.trim().split('\n') {
        // Indented text would be code in Markdown, and in a Rust comment a test.
        wrap(line.trim(), width, &mut lines);
    }
    // A paragraph ends with one empty line.
    lines.dedup_by(|a, b| a.is_empty() && b.is_empty());
    lines.retain({
        let mut is_first = true;
        move |line| !std::mem::take(&mut is_first) || !line.is_empty()
    });
    lines
}

fn is_harmful(c: char) -> bool {
    c != '\n' && c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn wrap(line: &str, width: usize, lines: &mut Vec<String>) {
    let mut current = String::new();
    let mut n_chars = 0;
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        let n = word.chars().count();
        if n_chars > 0 && n_chars + 1 + n > width {
            lines.push(std::mem::take(&mut current));
            n_chars = 0;
        }
        if n_chars > 0 {
            current.push(' ');
            n_chars += 1;
        }
        current.push_str(word);
        n_chars += n;
    }
    lines.push(current);
}

/// The comment of a field: its description, the format of its value if the type does not show it, and its default.
pub(crate) fn of_field(field: &Field, of_type: impl Fn(&Type) -> Option<&'static str>) -> String {
    let mut parts = vec![field.doc.trim().to_owned()];
    parts.extend(innermost(&field.ty, &of_type).map(str::to_owned));
    parts.extend(field.default.as_ref().map(|default| format!("Default: {default}.")));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn innermost(ty: &Type, of_type: &impl Fn(&Type) -> Option<&'static str>) -> Option<&'static str> {
    match ty {
        Type::List(inner) | Type::Map(inner) | Type::Nullable(inner) => innermost(inner, of_type),
        _ => of_type(ty),
    }
}

/// The inside of a comment between `/*` and `*/`.
pub(crate) fn in_block(line: &str) -> String {
    line.replace("*/", "* /").replace("/*", "/ *")
}

/// A string in double quotes with the escapes common to JSON, Go, JavaScript and Python. All non-ASCII characters are
/// escaped, so that they are visible.
pub(crate) fn quoted(text: &str) -> String {
    escaped(text, |c, out| {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            *out += &format!("\\u{unit:04x}");
        }
    })
}

/// As [`quoted`], with `\U0001f600` beyond the first plane, as Go and Python require.
pub(crate) fn quoted_wide(text: &str) -> String {
    escaped(text, |c, out| {
        let code = u32::from(c);
        *out += &if code > 0xffff { format!("\\U{code:08x}") } else { format!("\\u{code:04x}") };
    })
}

fn escaped(text: &str, other: impl Fn(char, &mut String)) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            ' '..='~' => out.push(c),
            _ => other(c, &mut out),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_becomes_lines_without_what_harms() {
        let text = "  First.\r\n\n\n\n    code here\n\tlast \u{202e}x\u{0} ";
        assert_eq!(lines(text, 80), ["First.", "", "code here", "last \u{fffd}x\u{fffd}"]);
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("", 80), Vec::<String>::new());
        assert_eq!(in_block("a */ b /* c **/"), "a * / b / * c ** /");
    }

    #[test]
    fn strings_are_escaped_for_each_language() {
        assert_eq!(quoted("a\"\\\n\u{1}é😀"), r#""a\"\\\n\u0001\u00e9\ud83d\ude00""#);
        assert_eq!(quoted_wide("é😀"), r#""\u00e9\U0001f600""#);
    }
}
