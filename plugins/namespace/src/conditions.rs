//! Conditions of a namespace that is being deleted.
//!
//! *Invariants*
//! 1. All five conditions are set after the first pass; those without a failure are `False`.
//! 2. `lastTransitionTime` changes only with the status; the order of the conditions does not change.
//!
//! *Source*: deletion/status_condition_utils.go.

use std::collections::BTreeMap;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Type, and reason and message without a failure.
#[doc(alias = "conditionTypes", alias = "okReasons", alias = "okMessages")]
const CONDITIONS: [(&str, &str, &str); 5] = [
    (DISCOVERY_FAILURE, "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (CONTENT_FAILURE, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (CONTENT_REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS_REMAINING, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
#[doc(alias = "NamespaceDeletionDiscoveryFailure")]
const DISCOVERY_FAILURE: &str = "NamespaceDeletionDiscoveryFailure";
#[doc(alias = "NamespaceDeletionContentFailure")]
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
#[doc(alias = "NamespaceContentRemaining")]
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
#[doc(alias = "NamespaceFinalizersRemaining")]
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

/// Results of a pass.
#[doc(alias = "namespaceConditionUpdater", alias = "allGVRDeletionMetadata")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Message about API groups whose discovery failed.
    pub(crate) undiscovered: Option<String>,
    /// Error messages.
    pub(crate) errors: Vec<String>,
    /// Remaining objects by resource (`plural.group`).
    pub(crate) remaining: BTreeMap<String, usize>,
    /// Objects that wait for a finalizer, by finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

impl Findings {
    /// Reason and message of a condition that is `True`.
    #[doc(alias = "ProcessDiscoverResourcesErr", alias = "ProcessContentTotals", alias = "makeDeleteContentCondition")]
    fn trouble(&self, kind: &str) -> Option<(&'static str, String)> {
        match kind {
            DISCOVERY_FAILURE => Some(("DiscoveryFailed", self.undiscovered.clone()?)),
            CONTENT_FAILURE if !self.errors.is_empty() => {
                let mut errors = self.errors.clone();
                errors.sort();
                let message =
                    format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", "));
                Some(("ContentDeletionFailed", message))
            }
            CONTENT_REMAINING if !self.remaining.is_empty() => {
                let parts = sorted(&self.remaining, "has");
                Some(("SomeResourcesRemain", format!("Some resources are remaining: {parts}")))
            }
            FINALIZERS_REMAINING if !self.finalizers.is_empty() => {
                let parts = sorted(&self.finalizers, "in");
                let message = format!("Some content in the namespace has finalizers remaining: {parts}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }

    /// Updates the conditions.
    #[doc(alias = "Update", alias = "updateConditions", alias = "newSuccessfulCondition")]
    pub(crate) fn write(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        for (kind, ok_reason, ok_message) in CONDITIONS {
            let (status, (reason, message)) = match self.trouble(kind) {
                Some(trouble) => ("True", trouble),
                None => ("False", (ok_reason, ok_message.to_owned())),
            };
            let place = conditions.iter().position(|condition| condition.type_ == kind).unwrap_or_else(|| {
                conditions.push(Condition { type_: kind.into(), ..Condition::default() });
                conditions.len() - 1
            });
            let condition = &mut conditions[place];
            if condition.status != status {
                condition.last_transition_time = Some(now.truncate());
            }
            condition.status = status.into();
            condition.reason = reason.into();
            condition.message = message;
        }
    }
}

fn sorted(counts: &BTreeMap<String, usize>, verb: &str) -> String {
    let mut parts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name} {verb} {count} resource instances")).collect();
    parts.sort();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(conditions: &[Condition]) -> Vec<String> {
        let line = |c: &Condition| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message);
        conditions.iter().map(line).collect()
    }

    #[test]
    fn every_condition_is_there_and_changes_its_time_with_its_status() {
        let (early, late) = (Timestamp::from_micros(0), Timestamp::from_micros(60_000_000));
        let mut conditions = Vec::new();
        Findings::default().write(&mut conditions, early);
        assert_eq!(conditions.len(), 5);
        let ok = conditions.clone();
        Findings::default().write(&mut conditions, late);
        assert_eq!(conditions, ok, "nothing new");

        let findings = Findings {
            undiscovered: Some("some".into()),
            errors: vec!["b".into(), "a".into()],
            remaining: BTreeMap::from([("pods.".into(), 2), ("deployments.apps".into(), 1)]),
            finalizers: BTreeMap::from([("x/y".into(), 3)]),
        };
        findings.write(&mut conditions, late);
        let lines = summary(&conditions);
        assert_eq!(
            lines,
            [
                "NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: some",
                "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
                "NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a, b",
                "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x/y in 3 resource instances",
            ]
        );
        let times: Vec<_> = conditions.iter().map(|c| c.last_transition_time).collect();
        assert_eq!(times, [Some(late), Some(early), Some(late), Some(late), Some(late)]);
    }
}
