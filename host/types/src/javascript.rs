//! Types in JavaScript: JSDoc that TypeScript and editors check, and the kinds as constants.

use std::fmt::Write as _;

use crate::docs::{in_block, lines, of_field, quoted};
use crate::model::{Model, Type};
use crate::typescript::{Names, TYPES, about, header, is_identifier, member, metadata, note, type_of_field};

pub(crate) fn print(model: &Model) -> String {
    let names = Names::of(model, TYPES);
    let mut out = header(model);
    out += "// @ts-check\n";
    let has_meta = !model.kinds.is_empty() || model.uses(|ty| matches!(ty, Type::ObjectMeta));
    let imports = [("Condition", model.uses(|ty| matches!(ty, Type::Condition))), ("ObjectMeta", has_meta)];
    for (name, _) in imports.iter().filter(|(_, is_used)| *is_used) {
        let _ = writeln!(out, "\n/** @typedef {{import(\"pintle\").{name}}} {name} */");
    }
    if !model.kinds.is_empty() {
        out.push('\n');
        for (kind, name) in model.kinds.iter().zip(&names.kinds) {
            let _ = writeln!(out, "export const {name} = {};", quoted(&kind.text()));
        }
    }
    for (id, found) in model.structs.iter().enumerate() {
        let name = &names.structs[id];
        out += "\n/**\n";
        for line in lines(&about(model, found), 120) {
            let _ = writeln!(out, "{}", format!(" * {}", tame(&line)).trim_end());
        }
        let mut members = Vec::new();
        if let Some(kind) = found.kind.map(|kind| &model.kinds[kind]) {
            members.push(("apiVersion".to_owned(), true, quoted(&kind.api_version()), String::new()));
            members.push(("kind".to_owned(), true, quoted(&kind.name), String::new()));
            members.push(("metadata".to_owned(), true, metadata(kind), String::new()));
        }
        for field in &found.fields {
            let doc: Vec<String> = lines(&of_field(field, note), usize::MAX).iter().map(|line| tame(line)).collect();
            let doc = doc.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            members.push((field.json.clone(), field.is_required, type_of_field(&names, field), doc));
        }
        if found.is_open || members.iter().any(|(json, ..)| !is_identifier(json)) || members.is_empty() {
            literal(&mut out, name, &members, found.is_open);
        } else {
            let _ = writeln!(out, " * @typedef {{object}} {name}");
            for (json, is_required, ty, doc) in members {
                let json = if is_required { json } else { format!("[{json}]") };
                let _ = writeln!(out, "{}", format!(" * @property {{{ty}}} {json} {doc}").trim_end());
            }
        }
        out += " */\n";
    }
    for (found, name) in model.enums.iter().zip(&names.enums) {
        let values: Vec<String> = found.values.iter().map(|value| in_string(&quoted(value))).collect();
        let _ = writeln!(out, "\n/** @typedef {{{}}} {name} */", values.join(" | "));
    }
    out
}

/// A type with members that `@property` cannot name.
fn literal(out: &mut String, name: &str, members: &[(String, bool, String, String)], is_open: bool) {
    for (json, _, _, doc) in members.iter().filter(|(.., doc)| !doc.is_empty()) {
        let _ = writeln!(out, " * - `{}`: {doc}", tame(&member(json)));
    }
    *out += " * @typedef {{\n";
    for (json, is_required, ty, _) in members {
        let optional = if *is_required { "" } else { "?" };
        let _ = writeln!(out, " *   {}{optional}: {ty},", in_string(&member(json)));
    }
    if is_open {
        *out += " *   [name: string]: any,\n";
    }
    let _ = writeln!(out, " * }}}} {name}");
}

/// A description in which nothing is a tag, and nothing ends the comment.
fn tame(line: &str) -> String {
    let line = in_block(line).replace("{@", "{ @");
    if line.starts_with('@') { format!("\\{line}") } else { line }
}

/// A string inside of a comment. The escape is that of a slash.
fn in_string(text: &str) -> String {
    text.replace("*/", "*\\/")
}
