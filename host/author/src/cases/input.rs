//! The file of a case: two YAML documents, the input of a run and its expected outcome.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::Value;

use super::order;
use super::settle::Settle;
use super::table;

pub(crate) use pintle_inspect::cases::{
    InputCall, InputFailure, InputResource, InputReview, InputSignature, InputSubresource,
};

/// The first document of a case.
pub(crate) type Input = pintle_inspect::cases::Input<Settle>;

/// A case from a file.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) input: Input,
    /// The first document, with resolved merge keys.
    pub(crate) raw: Value,
    /// The second document; null if there is none yet.
    pub(crate) expected: Value,
    /// The third document, for a case that settles; null if there is none yet.
    pub(crate) end: Value,
    /// How outcomes are rendered, if the case is a row of a table.
    pub(super) shown: Option<table::Shown>,
}

/// The JSON Schema of the first document of a case, in the dialect of that of manifests.
pub(crate) fn schema() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<Input>().to_value()
}

/// The cases of a folder whose names contain the filter, by name.
///
/// # Errors
/// There is none, or one does not parse.
pub(crate) fn read_all(folder: &Path, filter: Option<&str>) -> anyhow::Result<Vec<Case>> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).with_context(|| {
        format!("read {shown} (a case is a file NAME.yaml there: the input, a line `---`, the expected outcome)")
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("read {shown}"))?.path();
        ensure!(
            !path.join("input.yaml").exists(),
            "{0} is a folder, but a case is one file: write input.yaml, a line `---` and expected.yaml to {0}.yaml",
            path.display()
        );
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push((name, path));
        }
    }
    files.sort();
    let mut cases = Vec::new();
    for (name, path) in files {
        cases.extend(read(name, path)?);
    }
    cases.retain(|case| filter.is_none_or(|filter| case.name.contains(filter)));
    ensure!(
        !cases.is_empty(),
        "no case in {shown}{}",
        filter.map(|filter| format!(" has {filter:?} in its name")).unwrap_or_default()
    );
    Ok(cases)
}

fn read(name: String, file: PathBuf) -> anyhow::Result<Vec<Case>> {
    let shown = file.display();
    let text = std::fs::read_to_string(&file).with_context(|| format!("read {shown}"))?;
    let mut documents = serde_norway::Deserializer::from_str(&text).map(|document| -> anyhow::Result<Value> {
        let mut value = serde_norway::Value::deserialize(document).with_context(|| format!("{shown} is not YAML"))?;
        value.apply_merge().with_context(|| shown.to_string())?;
        serde_json::to_value(value).with_context(|| format!("{shown}: keys must be text"))
    });
    let raw = documents.next().transpose()?.unwrap_or_default();
    ensure!(
        !raw.is_null(),
        "{shown} is empty: a case begins with the key of the run, `key: {{kind: v1/ConfigMap, name: web}}`"
    );
    if table::is_table(&raw) {
        ensure!(documents.next().is_none(), "{shown} is a table, which is one document");
        return table::read(&name, &file, &raw);
    }
    let input: Input = serde_path_to_error::deserialize(&raw).with_context(|| shown.to_string())?;
    // A missing outcome is not an error: --update writes it.
    let expected = documents.next().transpose()?.unwrap_or_default();
    let end = documents.next().transpose()?.unwrap_or_default();
    ensure!(
        end.is_null() || input.settle.is_some(),
        "{shown} has more than two documents: the input, and the expected outcome. A third one, the end, needs `settle: {{}}` in the input"
    );
    ensure!(
        documents.next().is_none(),
        "{shown} has more than three documents: the input, the expected outcome, and the end of a case that settles"
    );
    Ok(vec![Case { name, file, input, raw, expected, end, shown: None }])
}

impl Case {
    /// Renders an outcome in the form of the case: as a document, or as the lines of a row.
    pub(crate) fn shown(&self, outcome: Value) -> Value {
        match &self.shown {
            Some(shown) => shown.text(&outcome).into(),
            None => order::like(&self.expected, outcome),
        }
    }

    /// Replaces the expected outcome in the file, and the end if the case settles. The rest of the file stays
    /// unchanged.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn write_expected(&self, expected: Option<&Value>, end: Option<&Value>) -> anyhow::Result<()> {
        let shown = self.file.display();
        let text = std::fs::read_to_string(&self.file).with_context(|| format!("read {shown}"))?;
        if let (Some(row), Some(lines)) = (&self.shown, expected.and_then(Value::as_str)) {
            let new = table::rewrite(&text, row, lines).with_context(|| shown.to_string())?;
            return std::fs::write(&self.file, new).with_context(|| format!("write {shown}"));
        }
        let parts: Vec<&str> = text.split("\n---\n").collect();
        let n_there = 1 + usize::from(!self.expected.is_null()) + usize::from(!self.end.is_null());
        if parts.len() < n_there {
            bail!("{shown}: separate the documents by a line that is `---` and nothing else");
        }
        let mut documents = vec![parts[0].trim_end().trim_end_matches("\n---").to_owned()];
        for (at, new) in [(1, expected), (2, end)] {
            let old = parts.get(at).filter(|old| !old.trim().is_empty()).map(|old| old.trim_end().to_owned());
            let new = new.map(serde_norway::to_string).transpose().context("write YAML")?;
            documents.extend(new.map(|text| text.trim_end().to_owned()).or(old));
        }
        let text = format!("{}\n", documents.join("\n---\n"));
        std::fs::write(&self.file, text).with_context(|| format!("write {shown}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn why(files: &[(&str, &str)], filter: Option<&str>) -> String {
        let folder = folder(files);
        let why = format!("{:#}", read_all(folder.path(), filter).unwrap_err());
        why.replace(&folder.path().display().to_string(), "DIR")
    }

    const INPUT: &str = "# A Pod.\ndefine: {pod: &pod {kind: Pod, apiVersion: v1}}\nkey: {kind: v1/Pod, name: x}\n\
                         objects: [{<<: *pod, metadata: {name: x}}]\n";

    #[test]
    fn cases_come_by_name_with_their_anchors_resolved() {
        let whole = format!("{INPUT}---\nsteps: []\n");
        let folder = folder(&[("b.yaml", INPUT), ("a.b.yaml", &whole), ("notes.txt", "")]);
        let cases = read_all(folder.path(), None).unwrap();
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a.b", "b"]);
        assert_eq!(cases[0].input.objects[0]["kind"], "Pod");
        assert_eq!((cases[0].expected.is_null(), cases[1].expected.is_null()), (false, true));
        assert_eq!(cases[0].input.now, "2026-01-01T00:00:00Z");
    }

    #[test]
    fn what_is_expected_is_replaced_and_the_input_stays() {
        for old in ["", "---\n", "---\nsteps: [1]\n"] {
            let folder = folder(&[("a.yaml", &format!("{INPUT}{old}"))]);
            let case = || read_all(folder.path(), None).unwrap().remove(0);
            case().write_expected(Some(&serde_json::json!({"steps": []})), None).unwrap();
            let text = std::fs::read_to_string(folder.path().join("a.yaml")).unwrap();
            assert_eq!(text, format!("{INPUT}---\nsteps: []\n"), "{old:?}");
            assert_eq!(case().expected, serde_json::json!({"steps": []}));
        }
        let folder = folder(&[("a.yaml", &format!("{INPUT}--- # expected\nsteps: []\n"))]);
        let case = read_all(folder.path(), None).unwrap().remove(0);
        assert!(
            case.write_expected(Some(&Value::Null), None).unwrap_err().to_string().contains("a line that is `---`")
        );
    }

    #[test]
    fn mistakes_name_the_file_and_the_field() {
        let cases = [
            (why(&[], None), "no case in DIR"),
            (why(&[("a.yaml", "key: {kind: v1/Pod, name: x}")], Some("zzz")), "has \"zzz\" in its name"),
            (why(&[("a.yaml", "")], None), "DIR/a.yaml is empty"),
            (why(&[("a.yaml", "key: {kind: v1/Pod, name: x")], None), "DIR/a.yaml is not YAML"),
            (why(&[("a.yaml", "key: {kind: Pod, name: x}")], None), "DIR/a.yaml: key.kind: \"Pod\" is not a kind"),
            (why(&[("a.yaml", "key: {kind: v1/Pod, name: x}\nobject: []")], None), "unknown field `object`"),
            (why(&[("a.yaml", &format!("{INPUT}---\na: 1\n---\nb: 2\n"))], None), "more than two documents"),
            (
                why(&[("a.yaml", "# later\n")], None),
                "DIR/a.yaml is empty: a case begins with the key of the run, `key: {kind: v1/ConfigMap, name: web}`",
            ),
            (
                why(&[("a/input.yaml", INPUT), ("a/expected.yaml", "")], None),
                "DIR/a is a folder, but a case is one file: write input.yaml, a line `---` and expected.yaml to DIR/a.yaml",
            ),
        ];
        for (why, expected) in cases {
            assert!(why.contains(expected), "{why}");
        }
    }
}
