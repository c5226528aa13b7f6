//! Writes that the API server refused to a subject.
//!
//! ```text
//! audit log -> refusals of the subject, by scenario -> not in the set of the other subject: a difference
//! ```
//!
//! A write that is refused to Pintle in a scenario in which the same write is not refused to kube-controller-manager is a difference.
//! The same write is one of the same identity, verb, resource, subresource, code and reason; how often it was refused is left to chance.
//! The other way round is no difference: not to send a write that is refused is no loss.
//!
//! Refusals that show only that a cache lags behind or that the server is slow, which is chance, are ordinary and not compared:
//!
//! | code | reason |
//! | --- | --- |
//! | 404 | `NotFound`: the object, or its namespace, has gone meanwhile |
//! | 409 | `Conflict`, `AlreadyExists`: another client was faster |
//! | 429 | `TooManyRequests`: the server is busy |
//! | 504 | `Timeout`: the server, or what it asks, has not answered in time |
//! | 403 | `Forbidden`: the namespace is being deleted (the test `namespaces` shows that nobody repeats that) |

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::controlplane::{AuditEntry, SUBJECT};
use crate::workspace_dir;

/// The field of an outcome with the refused writes.
pub(super) const FIELD: &str = "refused";

const ORDINARY: [(u16, &str); 5] =
    [(404, "NotFound"), (409, "Conflict"), (409, "AlreadyExists"), (429, "TooManyRequests"), (504, "Timeout")];

/// Namespace -> refused writes, as text. Those of objects without a namespace are under the empty name.
///
/// # Errors
/// A manifest of a built-in plugin cannot be read.
pub(super) fn by_namespace(log: &[AuditEntry]) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let identities = Identities::read()?;
    let mut refused: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in log.iter().filter(|entry| entry.user.username == SUBJECT && is_refused(entry)) {
        let line = line(identities.of(&entry.user_agent), entry);
        refused.entry(entry.object_ref.namespace.clone()).or_default().insert(line);
    }
    Ok(refused)
}

/// Every refused write of the subject in a namespace, with those that are ordinary.
pub(super) fn all_of(log: &[AuditEntry], ns: &str) -> Vec<String> {
    let is_own = |entry: &&AuditEntry| entry.user.username == SUBJECT && entry.object_ref.namespace == ns;
    let refused = log.iter().filter(is_own).filter(|entry| entry.response_status.code >= 400);
    refused.map(|entry| format!("{} {}", line(&entry.user_agent, entry), entry.response_status.message)).collect()
}

fn line(client: &str, entry: &AuditEntry) -> String {
    let (object, status) = (&entry.object_ref, &entry.response_status);
    let part = if object.subresource.is_empty() { "" } else { "/" };
    let (verb, resource, subresource) = (&entry.verb, &object.resource, &object.subresource);
    format!("{client}: {verb} {resource}{part}{subresource}: {} {}", status.code, status.reason)
}

fn is_refused(entry: &AuditEntry) -> bool {
    let status = &entry.response_status;
    status.code >= 400
        && !ORDINARY.contains(&(status.code, status.reason.as_str()))
        && !(status.code == 403 && status.message.ends_with("because it is being terminated"))
}

/// Adds what was refused in the namespaces of a scenario, its own and those whose names begin with that, to the outcome.
pub(super) fn add(outcome: &mut Value, ns: &str, refused: &mut BTreeMap<String, BTreeSet<String>>) {
    let prefix = format!("{ns}-");
    let own = refused.extract_if(.., |namespace, _| namespace == ns || namespace.starts_with(&prefix));
    let lines: BTreeSet<String> = own.flat_map(|(_, lines)| lines).collect();
    outcome[FIELD] = json!(lines);
}

/// Takes the refused writes out of an outcome.
pub(super) fn take(outcome: &mut Value) -> BTreeSet<String> {
    let field = outcome.as_object_mut().and_then(|fields| fields.shift_remove(FIELD));
    let lines = field.as_ref().and_then(Value::as_array).into_iter().flatten();
    lines.filter_map(|line| line.as_str().map(str::to_owned)).collect()
}

/// Plugin -> the service account of the same controller in kube-controller-manager, which is the name of its client there.
struct Identities(BTreeMap<String, String>);

impl Identities {
    fn read() -> Result<Identities> {
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(workspace_dir().join("plugins"))? {
            let file = entry?.path().join("manifest.yaml");
            if file.is_file() {
                let manifest: Value = serde_norway::from_str(&std::fs::read_to_string(&file)?)?;
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let name = text(&manifest["name"]).with_context(|| file.display().to_string())?;
                let account = text(&manifest["builtIn"]["serviceAccount"]).unwrap_or_else(|| name.clone());
                all.insert(name, account);
            }
        }
        ensure!(!all.is_empty(), "no manifests below plugins");
        Ok(Identities(all))
    }

    /// `kube-controller-manager/v1.37.2 (linux/amd64) kubernetes/abc/NAME`, or `pintle/0.1.0 NAME`.
    fn of<'a>(&'a self, user_agent: &'a str) -> &'a str {
        let name = user_agent.rsplit(['/', ' ']).next().unwrap_or_default();
        self.0.get(name).map_or(name, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controlplane::{AuditObject, AuditStatus, AuditUser};

    fn entry(user: &str, agent: &str, namespace: &str, code: u16, reason: &str) -> AuditEntry {
        AuditEntry {
            verb: "deletecollection".into(),
            user_agent: agent.into(),
            user: AuditUser { username: user.into() },
            object_ref: AuditObject { resource: "pods".into(), namespace: namespace.into(), ..AuditObject::default() },
            response_status: AuditStatus { code, reason: reason.into(), ..AuditStatus::default() },
        }
    }

    #[test]
    fn both_subjects_are_named_alike_and_ordinary_refusals_left_out() -> Result<()> {
        let (ours, theirs) =
            ("pintle/0.1.0 serviceaccount-controller", "kcm/v1 (linux) kubernetes/abc/service-account-controller");
        let mut late = entry(SUBJECT, ours, "scenario-1", 403, "Forbidden");
        late.verb = "create".into();
        late.response_status.message =
            "pods is forbidden: unable to create new content in namespace scenario-1 because it is being terminated"
                .into();
        let log = [
            late,
            entry(SUBJECT, ours, "scenario-1", 406, "NotAcceptable"),
            entry(SUBJECT, theirs, "scenario-1-x", 403, "Forbidden"),
            entry(SUBJECT, ours, "scenario-10", 403, "Forbidden"),
            entry(SUBJECT, ours, "scenario-1", 409, "Conflict"),
            entry(SUBJECT, ours, "scenario-1", 504, "Timeout"),
            entry(SUBJECT, ours, "scenario-1", 200, ""),
            entry("admin", ours, "scenario-1", 403, "Forbidden"),
        ];
        let mut refused = by_namespace(&log)?;
        let mut outcome = json!({});
        add(&mut outcome, "scenario-1", &mut refused);
        assert_eq!(
            outcome[FIELD],
            json!([
                "service-account-controller: deletecollection pods: 403 Forbidden",
                "service-account-controller: deletecollection pods: 406 NotAcceptable",
            ])
        );
        assert_eq!(refused.keys().collect::<Vec<_>>(), ["scenario-10"]);
        assert_eq!((take(&mut outcome).len(), outcome), (2, json!({})));
        Ok(())
    }
}
