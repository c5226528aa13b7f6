//! Identity of replicas: names, ordinals, and whether a Pod matches its name.
//!
//! A Pod's name ends with its replica's ordinal. Only the exact name that the StatefulSet generates counts: `web-1` is
//! a replica of `web`, `web-01` is not.

use crate::set::Set;
use crate::types::Pod;

/// Label of a Pod: its own name, so that a Service can select one Pod.
pub(crate) const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// Label of a Pod: its ordinal.
pub(crate) const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Splits a Pod's name into the StatefulSet's name and the ordinal. The ordinal is absent if it is not a 32-bit number;
/// both are absent if the name does not end with a dash and digits.
pub(crate) fn parent_and_ordinal(pod: &str) -> Option<(&str, Option<i32>)> {
    let dash = pod.rfind(|c: char| !c.is_ascii_digit()).filter(|dash| pod[*dash..].starts_with('-'))?;
    let digits = &pod[dash + 1..];
    (!digits.is_empty()).then(|| (&pod[..dash], digits.parse().ok()))
}

/// The ordinal in a Pod's name.
pub(crate) fn ordinal(pod: &str) -> Option<i64> {
    parent_and_ordinal(pod)?.1.map(i64::from)
}

/// Whether a Pod's name belongs to the StatefulSet, whatever its ordinal.
pub(crate) fn is_member(set: &str, pod: &str) -> bool {
    parent_and_ordinal(pod).is_some_and(|(parent, _)| parent == set)
}

/// Name of a replica.
pub(crate) fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// Name of a replica's claim from this template.
pub(crate) fn claim_name(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// Whether a replica has the label with its name. The ordinal label is only added together with it.
pub(crate) fn has_identity(pod: &Pod) -> bool {
    pod.metadata.labels.get(POD_NAME_LABEL) == Some(&pod.metadata.name)
}

/// Whether the volumes of a replica are its claims.
pub(crate) fn has_storage(set: &Set, pod: &Pod, ordinal: i64) -> bool {
    set.claims.iter().all(|template| {
        let volume = pod.spec.volumes.iter().rfind(|volume| volume.name == template.name);
        let claim = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        claim.is_some_and(|claim| claim.claim_name == claim_name(&template.name, set.name(), ordinal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TestGetParentNameAndOrdinal` and `TestIsMemberOf`, plus unusual names that the regular expression there
    /// accepts.
    #[test]
    fn the_last_number_of_a_name_is_the_ordinal() {
        for (pod, expected) in [
            ("foo-5", Some(("foo", Some(5)))),
            ("foo-1-web-12", Some(("foo-1-web", Some(12)))),
            ("foo-007", Some(("foo", Some(7)))),
            ("-1", Some(("", Some(1)))),
            ("foo-2147483647", Some(("foo", Some(i32::MAX)))),
            ("foo-2147483648", Some(("foo", None))),
            ("foo-99999999999999999999", Some(("foo", None))),
            ("foo", None),
            ("foo-", None),
            ("foo-5a", None),
            ("foo.5", None),
            ("foo5", None),
            ("5", None),
            ("", None),
            ("fö-5", Some(("fö", Some(5)))),
        ] {
            assert_eq!(parent_and_ordinal(pod), expected, "{pod}");
        }
        assert!(is_member("foo", "foo-1") && is_member("foo", "foo-99999999999"));
        assert!(!is_member("foo", "foo-bar-1") && !is_member("foo", "foo"));
    }
}
