//! Which modules Python sources import, as far as their text tells.
//!
//! Imports whose names are computed are not seen. Such a module is missing in the interpreter image, and the plugin is built without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;

/// The modules of a plugin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Modules {
    /// The author's: path below the folder of sources -> text.
    pub(super) own: BTreeMap<String, String>,
    /// Names of others, and of things in them that may be modules.
    pub(super) others: BTreeSet<String>,
}

/// What a module and all of the author's modules that it leads to import.
///
/// # Errors
/// If a source cannot be read.
pub(super) fn modules(sources: &Path, first: &str) -> anyhow::Result<Modules> {
    let mut modules = Modules::default();
    let mut rest = vec![first.to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(name) = rest.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        // A package is imported before what is in it.
        if let Some((package, _)) = name.rsplit_once('.') {
            rest.push(package.to_owned());
        }
        let stem = name.replace('.', "/");
        let found = [(format!("{stem}/__init__.py"), true), (format!("{stem}.py"), false)];
        let Some((path, is_package)) = found.into_iter().find(|(path, _)| sources.join(path).is_file()) else {
            modules.others.insert(name);
            continue;
        };
        let text = fs::read_to_string(sources.join(&path)).with_context(|| format!("read {path}"))?;
        let package = if is_package { name.as_str() } else { name.rsplit_once('.').map_or("", |(package, _)| package) };
        rest.extend(imports(&text, package));
        modules.own.insert(path, text);
    }
    // Where the folder of a package has no `__init__.py`, what is in it is the author's all the same.
    let is_folder = |name: &String| sources.join(name.replace('.', "/")).is_dir();
    let own_things = |name: &String| name.rsplit_once('.').is_some_and(|(of, _)| seen_as_own(&modules.own, of));
    let others = modules.others.iter().filter(|name| !is_folder(name) && !own_things(name)).cloned().collect();
    Ok(Modules { others, ..modules })
}

/// Whether a module is among the author's.
fn seen_as_own(own: &BTreeMap<String, String>, name: &str) -> bool {
    let stem = name.replace('.', "/");
    own.contains_key(&format!("{stem}.py")) || own.contains_key(&format!("{stem}/__init__.py"))
}

/// The names that a text imports: modules, and what is taken from them, which may be modules too.
fn imports(text: &str, package: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in logical_lines(text) {
        let line = line.split('#').next().unwrap_or_default();
        for statement in line.split(';') {
            let words = |list: &str| -> Vec<String> {
                let parts = list.split(',').filter_map(|part| part.split_whitespace().next());
                parts.filter(|word| is_name(word)).map(str::to_owned).collect()
            };
            let statement = statement.trim_start();
            if let Some(list) = statement.strip_prefix("import ") {
                names.extend(words(list));
            } else if let Some((from, list)) =
                statement.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
            {
                let Some(from) = absolute(from.trim(), package) else { continue };
                names.extend(words(list).into_iter().map(|word| format!("{from}.{word}")));
                names.insert(from);
            }
        }
    }
    names
}

/// The text's lines, where those within parentheses are one.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        let code = line.split('#').next().unwrap_or_default();
        let (begun, rest) = match open.take() {
            Some(begun) => (Some(begun), code),
            None if code.trim_start().starts_with("from ") && (code.contains(" import") || code.ends_with('\\')) => {
                (Some(String::new()), code)
            }
            None => (None, line),
        };
        let Some(begun) = begun else {
            lines.push(rest.to_owned());
            continue;
        };
        let joined = format!("{begun} {}", rest.trim_end_matches('\\'));
        let is_open = joined.contains('(') && !joined.contains(')') || rest.ends_with('\\');
        if is_open {
            open = Some(joined);
        } else {
            lines.push(joined.replace(['(', ')'], " "));
        }
    }
    lines.extend(open);
    lines
}

/// The name of a module that may be told from the package that it is imported in: `..x`.
fn absolute(from: &str, package: &str) -> Option<String> {
    let name = from.trim_start_matches('.');
    let n_dots = from.len() - name.len();
    if n_dots == 0 {
        return is_name(name).then(|| name.to_owned());
    }
    let mut parts: Vec<&str> = package.split('.').filter(|part| !part.is_empty()).collect();
    parts.truncate(parts.len().checked_sub(n_dots - 1)?);
    parts.extend(Some(name).filter(|name| !name.is_empty()));
    let joined = parts.join(".");
    is_name(&joined).then_some(joined)
}

fn is_name(text: &str) -> bool {
    let is_word = |part: &str| {
        part.chars().all(|letter| letter == '_' || letter.is_alphanumeric())
            && part.chars().next().is_some_and(|first| !first.is_ascii_digit())
    };
    text.split('.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_import_is_seen() {
        let text = "import os, json as j\nfrom a.b import (\n    c,  # why\n    d as e,\n)\nfrom .x import y\nfrom .. import z\n\
                    from . import w; import late\n    import inner\nfrom q \\\n    import r\nprint('import nothing')\n";
        let names: Vec<String> = imports(text, "pkg.sub").into_iter().collect();
        let expected = "a.b a.b.c a.b.d inner json late os pkg pkg.sub pkg.sub.w pkg.sub.x pkg.sub.x.y pkg.z q q.r";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn what_the_authors_modules_lead_to_is_theirs_or_another() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("app.py", "import logging\nfrom pintle import Outcome\nfrom web import parts\nimport web.rules\n"),
            ("web/__init__.py", "NAME = 1\n"),
            ("web/parts.py", "from . import NAME\nfrom .rules import rule\n"),
            ("web/rules.py", "def rule(): pass\n"),
            ("test_app.py", "import unittest\n"),
        ] {
            fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
            fs::write(folder.path().join(path), text).unwrap();
        }
        let found = modules(folder.path(), "app").unwrap();
        assert_eq!(found.own.keys().collect::<Vec<_>>(), ["app.py", "web/__init__.py", "web/parts.py", "web/rules.py"]);
        assert_eq!(found.others.iter().collect::<Vec<_>>(), ["logging", "pintle", "pintle.Outcome"]);
    }
}
