//! A table of manifests, and how the real kube-apiserver answers each.
//!
//! ```text
//! ### apps/v1/deployments                      a resource, then the manifest that the rows change
//! {metadata: {name: d}, spec: ...}
//! - spec.replicas = -1                         a creation with this change; several are parted by ` ; `
//!     422 Invalid FieldValueInvalid spec.replicas      the answer: code and reason, then reason and field of each cause
//! ~ spec.selector = {matchLabels: {a: c}}      an update of the object
//!     422 Invalid FieldValueInvalid spec.selector
//! ```
//!
//! A change names fields and indexes; `null` removes. `<a*64>` is a text of 64 letters. Every request is a dry run.
//! `MANIFESTS=record` in the environment writes the answers of the real server into the table.
//!
//! Not here: the words of a refusal, of which the script of API requests compares examples.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::api::ApiClient;

/// One row of the table.
#[derive(Debug, Clone)]
struct Row {
    line: String,
    expected: String,
}

/// The rows of one resource.
#[derive(Debug, Clone)]
struct Section {
    resource: String,
    base: String,
    rows: Vec<Row>,
}

/// The table: a comment, then sections.
#[derive(Debug, Clone)]
pub struct Table {
    head: String,
    sections: Vec<Section>,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/behaviour/manifests.txt")
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// It cannot be read, or a line fits nowhere.
    pub fn read() -> Result<Table> {
        let text = std::fs::read_to_string(path()).context("read the table of manifests")?;
        let mut table = Table { head: String::new(), sections: Vec::new() };
        for line in text.lines() {
            let section = table.sections.last_mut();
            match (line.strip_prefix("### "), section) {
                (Some(resource), _) => {
                    table.sections.push(Section {
                        resource: resource.to_owned(),
                        base: String::new(),
                        rows: Vec::new(),
                    });
                }
                (None, None) => table.head.push_str(&format!("{line}\n")),
                (None, Some(_)) if line.is_empty() => {}
                (None, Some(section)) if line.starts_with("- ") || line.starts_with("~ ") => {
                    section.rows.push(Row { line: line.to_owned(), expected: String::new() });
                }
                (None, Some(section)) => match section.rows.last_mut() {
                    None => section.base.push_str(&format!("{line}\n")),
                    Some(row) if row.expected.is_empty() && line.starts_with("    ") => {
                        line.trim().clone_into(&mut row.expected);
                    }
                    Some(row) => bail!("this line fits nowhere, after {:?}: {line}", row.line),
                },
            }
        }
        Ok(table)
    }

    /// How many manifests there are.
    pub fn n_rows(&self) -> usize {
        self.sections.iter().map(|section| section.rows.len()).sum()
    }

    fn text(&self) -> String {
        let mut text = self.head.clone();
        for Section { resource, base, rows } in &self.sections {
            text.push_str(&format!("### {resource}\n{base}"));
            rows.iter().for_each(|row| text.push_str(&format!("{}\n    {}\n", row.line, row.expected)));
            text.push('\n');
        }
        format!("{}\n", text.trim_end())
    }

    /// Sends every manifest, in a namespace of its own, and returns the rows that are answered otherwise.
    ///
    /// # Errors
    /// A row makes no sense, or there is no answer.
    pub async fn play(&self, client: &ApiClient) -> Result<Vec<String>> {
        let played = self.played(client).await?;
        let rows = |table: &Table| {
            table
                .sections
                .clone()
                .into_iter()
                .flat_map(|s| {
                    let resource = s.resource;
                    s.rows.into_iter().map(move |row| (resource.clone(), row))
                })
                .collect::<Vec<_>>()
        };
        let differ = |((resource, wanted), (_, got)): ((String, Row), (String, Row))| {
            (wanted.expected != got.expected)
                .then(|| format!("{resource} {}\n    {}\n got {}", wanted.line, wanted.expected, got.expected))
        };
        Ok(rows(self).into_iter().zip(rows(&played)).filter_map(differ).collect())
    }

    /// Writes the answers of a server into the table.
    ///
    /// # Errors
    /// As [`Table::play`], or the file cannot be written.
    pub async fn record(&self, client: &ApiClient) -> Result<()> {
        std::fs::write(path(), self.played(client).await?.text()).context("write the table of manifests")
    }

    async fn played(&self, client: &ApiClient) -> Result<Table> {
        let ns = "manifests";
        client.create_namespace(ns).await?;
        let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
        client.create(&format!("/api/v1/namespaces/{ns}/serviceaccounts"), &account).await?;
        let mut table = self.clone();
        for section in &mut table.sections {
            let base: Value = serde_norway::from_str(&section.base).with_context(|| section.base.clone())?;
            let (group_version, plural) = section.resource.rsplit_once('/').context("a resource has a version")?;
            let root = if group_version.contains('/') { "apis" } else { "api" };
            let namespaced = !matches!(plural, "namespaces" | "persistentvolumes" | "clusterroles" | "priorityclasses");
            let inner = if namespaced { format!("namespaces/{ns}/") } else { String::new() };
            let collection = format!("/{root}/{group_version}/{inner}{plural}");
            let mut stored = None;
            for row in &mut section.rows {
                let creates = row.line.starts_with('-');
                let object = if creates {
                    &base
                } else {
                    if stored.is_none() {
                        stored = Some(client.create(&collection, &base).await.context("create the object to update")?);
                    }
                    stored.as_ref().context("it is stored")?
                };
                let mut object = object.clone();
                change(&mut object, &row.line[2..]).with_context(|| row.line.clone())?;
                let (method, name) = if creates {
                    ("POST", String::new())
                } else {
                    ("PUT", format!("/{}", base["metadata"]["name"].as_str().unwrap_or_default()))
                };
                let body = Some(serde_json::to_vec(&object)?);
                let answer = client.request(method, &format!("{collection}{name}?dryRun=All"), &[], body).await?;
                row.expected = shown(answer.status, &answer.json().unwrap_or_default());
            }
        }
        Ok(table)
    }
}

/// Code and reason, and reason and field of each cause.
fn shown(code: u16, answer: &Value) -> String {
    if code < 300 {
        return code.to_string();
    }
    let causes = answer["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut causes: Vec<String> =
        causes.iter().map(|cause| format!("{} {}", text(&cause["reason"]), text(&cause["field"]))).collect();
    causes.sort();
    causes.dedup();
    format!("{code} {} {}", text(&answer["reason"]), causes.join(", ")).trim().to_owned()
}

/// Applies the changes of a row.
fn change(object: &mut Value, changes: &str) -> Result<()> {
    for change in changes.split(" ; ") {
        let (path, value) = change.split_once(" = ").context("a change is written as `field = value`")?;
        let mut value: Value = serde_norway::from_str(value).context("the value is not YAML")?;
        expand(&mut value)?;
        let mut place = &mut *object;
        for name in path.split('.') {
            place = match name.parse::<usize>() {
                Ok(index) => {
                    if !place.is_array() {
                        *place = json!([]);
                    }
                    let items = place.as_array_mut().context("a list")?;
                    while items.len() <= index {
                        items.push(json!({}));
                    }
                    &mut items[index]
                }
                Err(_) => &mut place[name],
            };
        }
        *place = value;
    }
    Ok(())
}

/// Replaces `<a*64>` in texts and names.
fn expand(value: &mut Value) -> Result<()> {
    let repeat = |text: &str| -> Result<String> {
        let Some((before, rest)) = text.split_once('<').filter(|(_, rest)| rest.contains('*') && rest.contains('>'))
        else {
            return Ok(text.to_owned());
        };
        let (inner, after) = rest.split_once('>').context("`<` has no `>`")?;
        let (letter, count) = inner.split_once('*').context("`<` has no `*`")?;
        Ok(format!("{before}{}{after}", letter.repeat(count.parse()?)))
    };
    match value {
        Value::String(text) => *text = repeat(text)?,
        Value::Array(items) => items.iter_mut().try_for_each(expand)?,
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                expand(&mut value)?;
                fields.insert(repeat(&name)?, value);
            }
        }
        _ => {}
    }
    Ok(())
}
