//! The limits of an outcome that the host enforces: beyond them, nothing of it is carried out.
//!
//! *Source*: the host's `contract/check.rs`, and `limits` of the manifest.

use serde::Deserialize;

use crate::outcome::{Action, Event, Mutation, Outcome, Preconditions};

const MAX_STATE_WRITES: usize = 1_000;
const MAX_WAKES: usize = 10_000;
const MAX_STATE_NAME_BYTES: usize = 253;

/// What a manifest asks for, with the host's defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Limits {
    mutations: usize,
    outcome_bytes: usize,
    state_bytes: usize,
    /// Of one answer to a need.
    pub(super) answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { mutations: 1_000, outcome_bytes: 8 << 20, state_bytes: 1 << 20, answer_bytes: 8 << 20 }
    }
}

impl Limits {
    /// Ends the test where the host would end the run.
    ///
    /// # Panics
    /// If the outcome is beyond a limit.
    pub(super) fn check(&self, outcome: &Outcome) {
        let n_mutations = outcome.steps.iter().map(|step| step.mutations.len()).sum();
        let n_observations = outcome.observations.len();
        for (what, found, most) in [
            ("mutations", n_mutations, self.mutations),
            ("steps", outcome.steps.len(), self.mutations.max(1)),
            ("observations", n_observations, 1_000 + 2 * n_mutations),
            ("values of the state", outcome.state.len(), MAX_STATE_WRITES),
            ("keys to wake", outcome.wake.len(), MAX_WAKES),
            ("bytes", n_bytes(outcome), self.outcome_bytes),
            ("bytes in its state", n_bytes_of_state(outcome), self.state_bytes),
        ] {
            assert!(found <= most, "fault: the outcome has {found} {what}, more than {most}");
        }
        for (name, _) in &outcome.state {
            let n_bytes = name.len();
            assert!(n_bytes <= MAX_STATE_NAME_BYTES, "fault: the name {name:?} of the state has {n_bytes} bytes");
        }
    }
}

fn n_bytes_of_state(outcome: &Outcome) -> usize {
    outcome.state.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len)).sum()
}

/// Bytes of the texts, as the host counts them.
fn n_bytes(outcome: &Outcome) -> usize {
    let of_wakes: usize =
        outcome.wake.iter().map(|wake| wake.key.queue.len() + wake.key.namespace.len() + wake.key.name.len()).sum();
    outcome.steps.iter().flat_map(|step| &step.mutations).map(of_mutation).sum::<usize>()
        + n_bytes_of_state(outcome)
        + of_wakes
}

fn of_mutation(mutation: &Mutation) -> usize {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let event = |event: &Event| {
        let object = event.regarding.name.len() + event.regarding.namespace.len();
        event.message.len() + event.reason.len() + event.regarding_uid.len() + object
    };
    let of = |conditions: &Preconditions| optional(&conditions.uid) + optional(&conditions.resource_version);
    let events: usize = mutation.on_success.iter().chain(&mutation.on_failure).map(event).sum();
    events
        + match &mutation.action {
            Action::Create { object, .. } | Action::Update { object, .. } => object.len(),
            Action::Patch { body, preconditions, .. } => body.len() + of(preconditions),
            Action::Delete { preconditions, .. } => of(preconditions),
            Action::DeleteCollection { label_selector, .. } => optional(label_selector),
            Action::Event(one) => event(one),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Step;
    use crate::types::Kind;

    #[test]
    fn an_outcome_may_have_what_the_manifest_asks_for() {
        const POD: Kind = Kind::new("", "v1", "Pod");
        let deletes = |n: usize| {
            let delete = Mutation::delete(&POD, "ns", "a").uid("12345678");
            Outcome::new().step(Step::parallel(vec![delete; n]))
        };
        let limits: Limits = serde_json::from_str(r#"{"mutations": 3, "outcomeBytes": 30}"#).unwrap();
        let is_fault = |outcome: Outcome| std::panic::catch_unwind(|| limits.check(&outcome)).is_err();
        assert!(!is_fault(deletes(3)));
        assert!(is_fault(deletes(4)), "mutations");
        assert!(!is_fault(deletes(3).keep("a", "12345")));
        assert!(is_fault(deletes(3).keep("a", "123456")), "bytes");
        let by_default = |outcome: Outcome| std::panic::catch_unwind(|| Limits::default().check(&outcome)).is_err();
        assert!(!by_default(deletes(1_000)));
        assert!(by_default(deletes(1_001)), "mutations");
        assert!(!by_default(Outcome::new().keep("n".repeat(253), "")));
        assert!(by_default(Outcome::new().keep("n".repeat(254), "")), "a name of the state");
        assert!(by_default(Outcome::new().keep("n", "x".repeat(1 << 20))), "the state");
    }
}
