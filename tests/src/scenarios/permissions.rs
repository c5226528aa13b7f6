//! What a host needs of the API server during the scenarios, compared with the roles that are shipped for it.
//!
//! ```text
//! host/deploy/.../roles.yaml -> bound to the subject, which may do nothing else -> audit log -> refused requests, rules without use
//! ```

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::audited::in_force;
use crate::controlplane::{AuditEntry, SUBJECT};
use crate::{ApiClient, ControlPlane, deploy, kubectl};

/// Permissions without use in any scenario: group, resource, verb, and the reason for them.
const UNUSED: [(&str, &str, &str, &str); 11] = [
    ("custom.metrics.k8s.io", "*", "list", PATHS),
    ("metrics.k8s.io", "*", "get", PATHS),
    ("external.metrics.k8s.io", "*", "get", PATHS),
    (
        "rbac.authorization.k8s.io",
        "clusterroles",
        "escalate",
        "asked for by the API server itself when a ClusterRole is written: the scenarios are refused without it",
    ),
    ("apps", "controllerrevisions", "get", "hashes of DaemonSet templates that collide: the plugin's cases have them"),
    ("certificates.k8s.io", "signers", "approve", SIGNERS),
    ("certificates.k8s.io", "signers", "sign", SIGNERS),
    ("certificates.k8s.io", "signers", "attest", SIGNERS),
    ("certificates.k8s.io", "certificatesigningrequests", "delete", OLD),
    ("certificates.k8s.io", "podcertificaterequests", "delete", OLD),
    ("", "secrets", "patch", OLD),
];
const SIGNERS: &str = "asked for by the API server itself: the scenarios are refused without it";
const OLD: &str = "nothing is old enough in a scenario: the plugins' cases have them";
const PATHS: &str = "the API server derives the verb from the path: these metrics are never read by the other one";

/// One permission of a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Permission {
    /// Empty for the whole cluster.
    namespace: String,
    group: String,
    resource: String,
    verb: String,
    /// Empty for all.
    names: Vec<String>,
}

impl Permission {
    /// Whether no scenario needs it, as one of these.
    fn excuse(&self, all: &BTreeSet<Permission>) -> Excuse {
        let is_listed = |(group, resource, verb, _): &(&str, &str, &str, &str)| {
            (*group, *resource, *verb) == (&*self.group, &*self.resource, &*self.verb)
        };
        match &*self.verb {
            // Whether a list is streamed, as a watch, depends on how busy the server is, and older servers stream none.
            "list" if all.contains(&Permission { verb: "watch".to_owned(), ..self.clone() }) => Excuse::Sometimes,
            // Owner references that block a deletion, with the admission plugin OwnerReferencesPermissionEnforcement.
            "update" if self.resource.ends_with("/finalizers") => Excuse::Always,
            _ if UNUSED.iter().any(is_listed) => Excuse::Always,
            _ => Excuse::None,
        }
    }

    /// As the RBAC authorizer decides.
    fn allows(&self, entry: &AuditEntry) -> bool {
        let object = &entry.object_ref;
        let any = |ours: &str, asked: &str| ours == "*" || ours == asked;
        let of_resource = match (object.subresource.as_str(), self.resource.split_once('/')) {
            ("", _) => any(&self.resource, &object.resource),
            (part, Some((resource, own))) => own == part && any(resource, &object.resource),
            (_, None) => self.resource == "*",
        };
        any(&self.verb, &entry.verb)
            && any(&self.group, &object.api_group)
            && of_resource
            && (self.namespace.is_empty() || self.namespace == object.namespace)
            && (self.names.is_empty() || self.names.contains(&object.name))
    }
}

/// Whether a permission has a use in scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excuse {
    /// It must have one.
    None,
    /// In some runs.
    Sometimes,
    /// It has none.
    Always,
}

/// The roles for the user that hosts under test are.
#[derive(Debug)]
pub struct Roles {
    objects: Vec<Value>,
    permissions: BTreeSet<Permission>,
}

/// What differs between the roles and what a host did.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Requests that were refused, each once.
    pub refused: BTreeSet<String>,
    /// Permissions that no request needed, and that are not known to be without use.
    pub unused: Vec<String>,
    /// Permissions that are known to be without use, and were used.
    pub wrongly_excused: Vec<String>,
    /// How many permissions there are.
    pub n_permissions: usize,
}

impl Roles {
    /// Reads the roles that are shipped.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read() -> Result<Roles> {
        let file = deploy::path(deploy::ROLES);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let mut objects = deploy::documents(&text)?;
        objects.retain(|object| object["kind"] != "ServiceAccount");
        for object in &mut objects {
            if !object["roleRef"].is_null() {
                object["subjects"] =
                    json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SUBJECT}]);
            }
        }
        Ok(Roles { permissions: objects.iter().flat_map(permissions).collect(), objects })
    }

    /// Gives the roles to the subject of the control plane.
    ///
    /// # Errors
    /// They cannot be applied.
    pub async fn bind(&self, plane: &ControlPlane) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.objects}).to_string();
        let file = plane.folder().join("roles.json");
        std::fs::write(&file, list).context("write the roles")?;
        kubectl(&plane.kubeconfig(), &["apply", "-f", &file.display().to_string()]).await?;
        let definition = deploy::path("kustomize/base/controllerplugins.yaml").display().to_string();
        kubectl(&plane.kubeconfig(), &["apply", "-f", &definition]).await?;
        in_force(&plane.client(), &self.objects).await
    }

    /// Compares them with the log. `all`: every scenario has run, so rules without use count.
    pub fn judge(&self, log: &[AuditEntry], all: bool) -> Judgement {
        let own: Vec<&AuditEntry> = log
            .iter()
            .filter(|entry| entry.user.username == SUBJECT && !entry.object_ref.resource.is_empty())
            .collect();
        let refused = own.iter().filter(|entry| entry.response_status.code == 403 && is_of_rbac(entry)).map(|entry| {
            let object = &entry.object_ref;
            let (group, name, part) = (&object.api_group, &object.resource, &object.subresource);
            format!("{} {group}/{name}/{part}: {}", entry.verb, entry.response_status.message)
        });
        let mut judgement =
            Judgement { refused: refused.collect(), n_permissions: self.permissions.len(), ..Judgement::default() };
        let mut by_verb: BTreeMap<&str, Vec<&AuditEntry>> = BTreeMap::new();
        for entry in own {
            by_verb.entry(&entry.verb).or_default().push(entry);
        }
        for permission in &self.permissions {
            let entries = by_verb.get(permission.verb.as_str()).into_iter().flatten();
            match (entries.into_iter().any(|entry| permission.allows(entry)), permission.excuse(&self.permissions)) {
                (false, Excuse::None) if all => judgement.unused.push(format!("{permission:?}")),
                (true, Excuse::Always) => judgement.wrongly_excused.push(format!("{permission:?}")),
                _ => {}
            }
        }
        judgement
    }
}

/// Admission refuses with the same code, for example in a namespace that terminates.
fn is_of_rbac(entry: &AuditEntry) -> bool {
    entry.response_status.message.contains("cannot")
}

fn permissions(object: &Value) -> Vec<Permission> {
    let all = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let mut found = Vec::new();
    for rule in object["rules"].as_array().into_iter().flatten() {
        for group in all(&rule["apiGroups"]) {
            for resource in all(&rule["resources"]) {
                for verb in all(&rule["verbs"]) {
                    found.push(Permission {
                        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
                        group: group.clone(),
                        resource: resource.clone(),
                        verb,
                        names: all(&rule["resourceNames"]),
                    });
                }
            }
        }
    }
    found
}

/// Requests for metrics, for which the host asks who sends them and whether that user may read them.
///
/// # Errors
/// An answer is another than this one.
pub(super) async fn read_metrics(client: &ApiClient, wanted: u16) -> Result<()> {
    let answer = client.request("GET", "/metrics", &[], None).await?;
    anyhow::ensure!(answer.status == wanted, "/metrics answers {}: {}", answer.status, answer.text());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controlplane::AuditObject;

    #[test]
    fn a_list_has_an_excuse_beside_a_watch_alone() {
        let permission = |resource: &str, verb: &str| Permission {
            namespace: String::new(),
            group: "apps".into(),
            resource: resource.into(),
            verb: verb.into(),
            names: Vec::new(),
        };
        let all = BTreeSet::from([permission("a", "list"), permission("a", "watch"), permission("b", "list")]);
        assert_eq!(permission("a", "list").excuse(&all), Excuse::Sometimes);
        assert_eq!(permission("b", "list").excuse(&all), Excuse::None);
        assert_eq!(permission("a", "watch").excuse(&all), Excuse::None);
        assert_eq!(permission("a/finalizers", "update").excuse(&all), Excuse::Always);
    }

    #[test]
    fn a_permission_allows_what_the_authorizer_would() {
        let allows = |resource: &str, asked: &str, part: &str| {
            let permission = Permission {
                namespace: String::new(),
                group: "*".into(),
                resource: resource.into(),
                verb: "get".into(),
                names: Vec::new(),
            };
            let object_ref = AuditObject {
                api_group: "apps".into(),
                resource: asked.into(),
                subresource: part.into(),
                ..AuditObject::default()
            };
            permission.allows(&AuditEntry { verb: "get".into(), object_ref, ..AuditEntry::default() })
        };
        assert!(allows("deployments", "deployments", "") && !allows("deployments", "deployments", "scale"));
        assert!(allows("deployments/scale", "deployments", "scale") && !allows("deployments/scale", "deployments", ""));
        assert!(allows("*/scale", "deployments", "scale") && allows("*/scale", "replicasets", "scale"));
        assert!(!allows("*/scale", "deployments", "status") && !allows("*/scale", "deployments", ""));
        assert!(allows("*", "deployments", "") && allows("*", "deployments", "scale"));
    }
}
