//! The log of requests that kube-apiserver has answered.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Which requests are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// All.
    Requests,
    /// Those that may change something.
    Writes,
}

/// One request with its answer, as `audit.k8s.io/v1` has it. Absent fields are empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditEntry {
    /// `create`, `deletecollection`, ...
    pub verb: String,
    /// The client.
    pub user_agent: String,
    /// Who sent it.
    pub user: AuditUser,
    /// What it is about. A path that is no resource has none.
    pub object_ref: AuditObject,
    /// The answer.
    pub response_status: AuditStatus,
}

/// A request with its times.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimedEntry {
    /// The request and its answer.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// When kube-apiserver received it.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Timestamp,
    /// When it was answered.
    #[serde(rename = "stageTimestamp")]
    pub answered: Timestamp,
}

/// Who sent a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AuditUser {
    /// The name.
    pub username: String,
}

/// What a request is about. The namespace of a Namespace is its own name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "the API's own names")]
pub struct AuditObject {
    pub api_group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AuditStatus {
    /// The HTTP status code.
    pub code: u16,
    /// The reason of the Status, for failures.
    pub reason: String,
    /// The message of the Status, for failures.
    pub message: String,
}

impl AuditEntry {
    /// Whether it was carried out.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }
}

impl Audit {
    /// Writes the policy into a folder; returns the flags that have kube-apiserver log there.
    pub(super) fn flags(self, folder: &Path) -> Result<Vec<String>> {
        let mut rules = vec![json!({"level": "Metadata"})];
        if self == Audit::Writes {
            rules.insert(0, json!({"level": "None", "verbs": ["get", "list", "watch"]}));
        }
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules,
        });
        let file = folder.join("audit-policy.yaml");
        fs::write(&file, policy.to_string()).context("write the audit policy")?;
        Ok(vec![
            format!("--audit-policy-file={}", file.display()),
            format!("--audit-log-path={}", log(folder).display()),
            // One file for all: by default, what is beyond 100 MB goes on in another one.
            format!("--audit-log-maxsize={}", u16::MAX),
        ])
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("audit.log")
}

pub(super) fn read<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>> {
    let text = fs::read_to_string(log(folder)).context("read the audit log")?;
    // The last line may be half written.
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    // The server goes on where it was after a [`clear`]; what is before that is read as zeros.
    let lines = complete.lines().map(|line| line.trim_start_matches('\0'));
    lines.map(|line| serde_json::from_str(line).with_context(|| format!("parse {line}"))).collect()
}

pub(super) fn clear(folder: &Path) -> Result<()> {
    fs::write(log(folder), "").context("clear the audit log")
}
