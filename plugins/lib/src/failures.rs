//! Failed writes of a key's last run.

use pintle_sdk::{Kind, MutationFailure};

/// Writes of the last run that failed and were not tolerated, by [`Lister::failures`](pintle_sdk::Lister::failures).
pub trait Failures {
    /// The failures with a verb (`create`, `update`, `patch`, `delete`, `delete-collection`) and a kind.
    fn of(&self, verb: &str, kind: &Kind) -> impl Iterator<Item = &MutationFailure>;

    /// Whether there are failures with a verb and a kind.
    fn any(&self, verb: &str, kind: &Kind) -> bool {
        self.of(verb, kind).next().is_some()
    }
}

impl Failures for [MutationFailure] {
    fn of(&self, verb: &str, kind: &Kind) -> impl Iterator<Item = &MutationFailure> {
        self.iter().filter(move |failure| failure.verb == verb && failure.kind.as_ref() == Some(kind))
    }
}

/// Whether the API server rejected the write because the namespace is being deleted. Such failures need no report.
#[doc(alias = "HasStatusCause")]
pub fn is_namespace_terminating(failure: &MutationFailure) -> bool {
    failure.causes.iter().any(|cause| cause == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_found_by_verb_and_kind() {
        const POD: Kind = Kind::new("", "v1", "Pod");
        let failure = |verb: &str, kind: &Kind| MutationFailure {
            verb: verb.into(),
            kind: Some(kind.clone()),
            ..Default::default()
        };
        let failures =
            [failure("create", &POD), failure("create", &Kind::new("", "v1", "Node")), failure("delete", &POD)];
        assert_eq!(failures.of("create", &POD).count(), 1);
        assert!(failures.any("delete", &POD) && !failures.any("patch", &POD));
    }
}
