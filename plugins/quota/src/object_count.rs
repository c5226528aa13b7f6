//! Numbers of objects of any kind: `count/RESOURCE.GROUP`, and the older names of four kinds.
//!
//! *Source*: `objectCountEvaluator` of `generic/evaluator.go`, `legacyObjectCountAliases` of
//! `evaluator/core/registry.go`, `ignoredResources` of `pkg/quota/v1/install`.

use serde::de::IgnoredAny;

use crate::evaluator::Evaluator;
use crate::resource_list::{ONE, ResourceList};

/// Resources of the core group whose plural is another name of their count.
#[doc(alias = "legacyObjectCountAliases")]
const ALIASES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Counts the objects of one kind.
pub struct ObjectCount {
    names: Vec<String>,
}

impl ObjectCount {
    /// The count of a resource; `None` if quotas do not count it.
    #[doc(alias = "NewObjectCountEvaluator")]
    pub fn new(group: &str, plural: &str) -> Option<Self> {
        if is_ignored(group, plural) {
            return None;
        }
        let mut names = vec![name(group, plural)];
        if group.is_empty() && ALIASES.contains(&plural) {
            names.push(plural.to_owned());
        }
        Some(Self { names })
    }

    /// The group and the plural of the resource that this name counts; `None` if quotas do not count it.
    pub fn counted(name: &str) -> Option<(&str, &str)> {
        let resource = match name.strip_prefix("count/") {
            Some(resource) => resource,
            None => ALIASES.contains(&name).then_some(name)?,
        };
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        (!is_ignored(group, plural)).then_some((group, plural))
    }
}

/// Events are created and deleted too often. Upstream's other ignored resources are virtual and cannot be listed.
#[doc(alias = "DefaultIgnoredResources")]
fn is_ignored(group: &str, plural: &str) -> bool {
    plural == "events" && matches!(group, "" | "events.k8s.io")
}

/// The name of the count of a resource.
#[doc(alias = "ObjectCountQuotaResourceNameFor")]
pub(crate) fn name(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

impl Evaluator for ObjectCount {
    type Object = IgnoredAny;

    fn measures(&self, resource: &str) -> bool {
        self.names.iter().any(|name| name == resource)
    }

    fn usage(&self, _: &IgnoredAny) -> ResourceList {
        self.names.iter().map(|name| (name.clone(), ONE)).collect()
    }

    fn handles_update(&self, _: &str, _: &IgnoredAny, _: &IgnoredAny) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_counts_are_those_of_upstream() {
        for (name, counted) in [
            ("count/pods", Some(("", "pods"))),
            ("count/deployments.apps", Some(("apps", "deployments"))),
            ("count/widgets.stable.example.com", Some(("stable.example.com", "widgets"))),
            ("secrets", Some(("", "secrets"))),
            ("pods", None),
            ("count/events", None),
            ("count/events.events.k8s.io", None),
        ] {
            assert_eq!(ObjectCount::counted(name), counted, "{name}");
        }
        let secrets = ObjectCount::new("", "secrets").unwrap();
        assert!(secrets.measures("secrets") && secrets.measures("count/secrets") && !secrets.measures("configmaps"));
        assert!(!ObjectCount::new("example.com", "secrets").unwrap().measures("secrets"));
        assert!(ObjectCount::new("events.k8s.io", "events").is_none());
    }
}
