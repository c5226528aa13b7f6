//! Revisions: the new ReplicaSet, its number and history, and the annotations that it shares with the Deployment.
//!
//! *Flow*: ReplicaSets of one Deployment in, oldest first; numbers and changed annotations out.
//!
//! *Invariants*
//! 1. Of several ReplicaSets with the Deployment's template, the oldest is the new one.
//! 2. A revision never decreases.
//! 3. Annotations of a ReplicaSet are added and changed, never removed.
//!
//! *Source*: deployment_util.go.

use std::collections::BTreeMap;

use crate::replicas::{DESIRED_REPLICAS, MAX_REPLICAS};
use crate::template::equal_ignore_hash;
use crate::types::{Deployment, ReplicaSet};

/// Annotation: revision number.
#[doc(alias = "RevisionAnnotation")]
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation: earlier revision numbers of the ReplicaSet, separated by commas.
#[doc(alias = "RevisionHistoryAnnotation")]
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation of a Deployment: roll back to this revision.
#[doc(alias = "DeprecatedRollbackTo")]
pub(crate) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// Annotation of `kubectl apply`: the last applied object.
#[doc(alias = "LastAppliedConfigAnnotation")]
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Longest history, in bytes: about 100 revisions. The oldest are dropped first.
#[doc(alias = "maxRevHistoryLengthInChars")]
const HISTORY_BYTES: usize = 2000;

/// Annotations that a Deployment and its ReplicaSets do not share.
#[doc(alias = "annotationsToSkip")]
const OWN: &[&str] = &[LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO];

/// Whether a Deployment and its ReplicaSets share this annotation.
#[doc(alias = "skipCopyAnnotation")]
pub(crate) fn is_shared(annotation: &str) -> bool {
    !OWN.contains(&annotation)
}

/// Index of the new ReplicaSet among those of a Deployment, which are ordered oldest first.
#[doc(alias = "FindNewReplicaSet")]
pub(crate) fn find_new(d: &Deployment, sets: &[ReplicaSet]) -> Option<usize> {
    sets.iter().position(|set| equal_ignore_hash(&set.spec.template, &d.spec.template))
}

/// A ReplicaSet's revision: 0 if it has none, `None` if it is not a number.
#[doc(alias = "Revision")]
pub(crate) fn revision(set: &ReplicaSet) -> Option<i64> {
    set.metadata.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision, 0 without any.
#[doc(alias = "MaxRevision")]
pub(crate) fn max_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    sets.into_iter().filter_map(revision).max().unwrap_or(0).max(0)
}

/// The second highest revision, 0 without any.
#[doc(alias = "LastRevision")]
pub(crate) fn last_revision<'a>(sets: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for revision in sets.into_iter().filter_map(revision) {
        if revision >= highest {
            (highest, second) = (revision, highest);
        } else if revision > second {
            second = revision;
        }
    }
    second
}

/// The desired annotations of the new ReplicaSet. The flag is whether they require a separate write.
///
/// If a ReplicaSet with a revision gets a higher one, it was rolled back to: its old number is added to its history.
#[doc(alias = "SetNewReplicaSetAnnotations", alias = "copyDeploymentAnnotationsToReplicaSet")]
pub(crate) fn annotate_new(
    d: &Deployment,
    current: &BTreeMap<String, String>,
    new_revision: i64,
) -> (BTreeMap<String, String>, bool) {
    let mut annotations = current.clone();
    for (name, value) in d.metadata.annotations.iter().filter(|(name, _)| is_shared(name)) {
        annotations.insert(name.clone(), value.clone());
    }
    let old = current.get(REVISION);
    let old_number = match old.map(String::as_str) {
        None | Some("") => 0,
        Some(text) => match text.parse() {
            Ok(number) => number,
            // Another controller's numbering is left alone.
            Err(_) => return (annotations, false),
        },
    };
    if old_number < new_revision {
        annotations.insert(REVISION.into(), new_revision.to_string());
        if let Some(old) = old
            && let Some(history) = lengthen(annotations.get(REVISION_HISTORY).map_or("", String::as_str), old)
        {
            annotations.insert(REVISION_HISTORY.into(), history);
        }
    }
    let changed = annotations != *current;
    (annotations, changed)
}

/// Adds a revision to the history, dropping the oldest; `None` if it does not fit.
fn lengthen(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut rest = history;
    let mut length = history.len() + revision.len() + 1;
    while length > HISTORY_BYTES && !rest.is_empty() {
        let (first, others) = rest.split_once(',').unwrap_or((rest, ""));
        length -= first.len() + 1;
        rest = others;
    }
    match (length <= HISTORY_BYTES, rest) {
        (false, _) => None,
        (true, "") => Some(revision.to_owned()),
        (true, rest) => Some(format!("{rest},{revision}")),
    }
}

/// Annotations of a Deployment after a rollback to `set`: its own, and those that `set` shares.
#[doc(alias = "SetDeploymentAnnotationsTo", alias = "getSkippedAnnotations")]
pub(crate) fn annotations_of_rollback(d: &Deployment, set: &ReplicaSet) -> BTreeMap<String, String> {
    let own = d.metadata.annotations.iter().filter(|(name, _)| !is_shared(name));
    let shared = set.metadata.annotations.iter().filter(|(name, _)| is_shared(name));
    own.chain(shared).map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::{deployment, replica_set};

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn with_revision(name: &str, revision: &str) -> ReplicaSet {
        replica_set(name, &format!("metadata: {{annotations: {{{REVISION}: '{revision}'}}}}"))
    }

    #[test]
    fn revisions_that_are_no_numbers_are_skipped() {
        let sets: Vec<_> = ["1", "x", "3", "2"].iter().map(|r| with_revision("a", r)).collect();
        assert_eq!(max_revision(&sets), 3);
        assert_eq!(last_revision(&sets), 2);
        assert_eq!(max_revision([]), 0);
        assert_eq!(last_revision([&with_revision("a", "4")]), 0);
        assert_eq!(max_revision([&replica_set("a", "{}")]), 0);
    }

    #[test]
    fn shared_annotations_are_copied_and_the_others_are_not() {
        let mut d = deployment("{}");
        d.metadata.annotations = map(&[("team", "a"), (REVISION, "9"), (ROLLBACK_TO, "1"), (OWN[0], "{}")]);
        let (annotations, changed) = annotate_new(&d, &map(&[("kept", "b")]), 1);
        assert!(changed);
        assert_eq!(annotations, map(&[("team", "a"), ("kept", "b"), (REVISION, "1")]));
        assert_eq!(annotate_new(&d, &annotations, 1), (annotations.clone(), false), "the second time changes nothing");
    }

    #[test]
    fn a_revision_that_rises_leaves_its_old_number_in_the_history() {
        let d = deployment("{}");
        let step = |annotations: &[(&str, &str)], revision| annotate_new(&d, &map(annotations), revision).0;
        assert_eq!(step(&[(REVISION, "1")], 3), map(&[(REVISION, "3"), (REVISION_HISTORY, "1")]));
        assert_eq!(
            step(&[(REVISION, "3"), (REVISION_HISTORY, "1")], 5),
            map(&[(REVISION, "5"), (REVISION_HISTORY, "1,3")])
        );
        assert_eq!(step(&[(REVISION, "5")], 3), map(&[(REVISION, "5")]), "it does not fall");
        assert_eq!(step(&[(REVISION, "x")], 3), map(&[(REVISION, "x")]), "a value that is not a number stays");
    }

    #[test]
    fn a_history_that_is_too_long_loses_its_oldest_revisions() {
        let long = (100..600).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let history = lengthen(&long, "600").unwrap();
        assert!(history.len() <= HISTORY_BYTES && history.len() > HISTORY_BYTES - 4, "{}", history.len());
        assert!(history.starts_with("101,") && history.ends_with(",599,600"), "{history}");
        assert_eq!(lengthen("1", &"9".repeat(HISTORY_BYTES)), Some("9".repeat(HISTORY_BYTES)));
        assert_eq!(lengthen("1", &"9".repeat(HISTORY_BYTES + 1)), None);
        assert_eq!(lengthen("", "1").as_deref(), Some("1"));
    }

    #[test]
    fn the_oldest_of_equal_replica_sets_is_the_new_one() {
        let d = deployment("{}");
        let other = replica_set("c", "spec: {template: {spec: {containers: [{name: other}]}}}");
        let sets = [other.clone(), replica_set("a", "{}"), replica_set("b", "{}")];
        assert_eq!(find_new(&d, &sets), Some(1));
        assert_eq!(find_new(&d, &[other]), None);
    }

    #[test]
    fn a_rollback_takes_the_shared_annotations_of_the_replica_set() {
        let mut d = deployment("{}");
        d.metadata.annotations = map(&[("cause", "edit"), ("gone", "x"), (REVISION, "2")]);
        let set = replica_set("a", &format!("metadata: {{annotations: {{cause: create, {REVISION}: '1'}}}}"));
        assert_eq!(annotations_of_rollback(&d, &set), map(&[("cause", "create"), (REVISION, "2")]));
    }
}
