//! Limits of an outcome, and splitting a larger one into parts.
//!
//! The host rejects an outcome beyond the limits of the manifest. So the SDK returns a part of it, and the key runs
//! again as soon as the caches show that part: the next run decides again, without the changes that are already done.
//! Plugins need not count.
//!
//! *Invariants*
//! 1. A part has the first mutations, at least one. If a parallel step is split, failures of the previous run come
//!    last, so that they block nothing else.
//! 2. Standalone events take at most half of a part. Others are dropped, as event recorders do with many events of one
//!    object: the next run would report the same ones again, and make no progress.
//! 3. State, immediate samples, and a declared error come with the last part: they are about the whole outcome.
//! 4. An outcome within the limits is unchanged.
//!
//! *Not here*: a single object, or a state, that is too large is a fault.
//!
//! *Source*: the host's `contract/check.rs`, and `limits` of the manifest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::outcome::{Action, Event, Moment, Mutation, MutationFailure, Order, Outcome, Place, Preconditions, Step};

const MAX_STATE_WRITES: usize = 1_000;
const MAX_WAKES: usize = 10_000;

/// Time until the next part: the contract's minimum. The host waits until the caches show the previous part.
const NEXT_PART: Duration = Duration::from_millis(5);

/// The limits of a manifest, with the host's defaults. [`export!`](crate::export) reads the plugin's.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Mutations of one outcome.
    pub mutations: usize,
    /// Bytes of the texts of one outcome.
    pub outcome_bytes: usize,
    /// Bytes of the state of the plugin.
    pub state_bytes: usize,
    /// Bytes of one answer to a need. The host enforces it; so do native tests.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { mutations: 1_000, outcome_bytes: 8 << 20, state_bytes: 1 << 20, answer_bytes: 8 << 20 }
    }
}

impl Limits {
    #[doc(hidden)]
    pub fn new(mutations: Option<usize>, outcome_bytes: Option<usize>, state_bytes: Option<usize>) -> Self {
        let default = Self::default();
        Self {
            mutations: mutations.unwrap_or(default.mutations),
            outcome_bytes: outcome_bytes.unwrap_or(default.outcome_bytes),
            state_bytes: state_bytes.unwrap_or(default.state_bytes),
            ..default
        }
    }
}

/// The limited sizes of an outcome.
struct Size {
    n_mutations: usize,
    n_bytes: usize,
}

impl Outcome {
    /// The outcome, or its first part that fits; then the key runs again. `failures` are those of the previous run.
    #[must_use]
    pub fn within(mut self, limits: &Limits, failures: impl FnOnce() -> Vec<MutationFailure>) -> Self {
        if !self.needs.is_empty() {
            // The host ignores everything else in it.
            return self;
        }
        let mut is_partial = self.wake.len() > MAX_WAKES || self.state.len() > MAX_STATE_WRITES;
        self.wake.truncate(MAX_WAKES);
        self.state.truncate(MAX_STATE_WRITES);
        let Size { n_mutations, n_bytes } = self.size();
        if n_mutations > limits.mutations || (n_bytes > limits.outcome_bytes && n_mutations > 0) {
            is_partial |= self.cut(limits, &failures());
        }
        let n_mutations: usize = self.steps.iter().map(|step| step.mutations.len()).sum();
        self.observations.truncate(max_observations(n_mutations));
        if is_partial { self.requeue_after(NEXT_PART) } else { self }
    }

    fn size(&self) -> Size {
        let mutations = || self.steps.iter().flat_map(|step| &step.mutations);
        let of_mutations: usize = mutations().map(Mutation::n_bytes).sum();
        let n_bytes = of_mutations + n_bytes_of_state(self) + n_bytes_of_wakes(self);
        Size { n_mutations: mutations().count(), n_bytes }
    }

    /// Drops events, and then mutations from the end. Returns whether a mutation is left for another run.
    fn cut(&mut self, limits: &Limits, failures: &[MutationFailure]) -> bool {
        let n_most = limits.mutations.max(1);
        let mut n_events = n_most / 2;
        let mut steps: Vec<Part> = std::mem::take(&mut self.steps).into_iter().map(Part::all).collect();
        for step in &mut steps {
            step.kept.retain(|(_, mutation)| {
                let is_event = matches!(mutation.action, Action::Event(_));
                let is_kept = !is_event || n_events > 0;
                n_events = n_events.saturating_sub(usize::from(is_event));
                is_kept
            });
        }
        let n_bytes = limits.outcome_bytes.saturating_sub(n_bytes_of_wakes(self));
        let mut left = Size { n_mutations: n_most, n_bytes };
        let mut is_cut = false;
        let mut is_first = true;
        for step in &mut steps {
            if is_cut {
                step.kept.clear();
                continue;
            }
            if step.order == Order::Parallel && !left.has_room_for(step) {
                step.kept.sort_by_key(|(_, mutation)| has_failed(mutation, failures));
            }
            let n_all = step.kept.len();
            let fits = |(_, mutation): &&(usize, Mutation)| left.take(mutation, std::mem::take(&mut is_first));
            let n = step.kept.iter().take_while(fits).count();
            step.kept.truncate(n);
            is_cut = n < n_all;
        }
        // Without room for the state, the next run stores it.
        is_cut |= n_bytes_of_state(self) > left.n_bytes;
        if is_cut {
            self.state.clear();
            self.error = None;
        }
        self.move_samples(&steps, is_cut);
        for step in steps {
            let Part { order, always, kept } = step;
            self.push(Step { order, always, mutations: kept.into_iter().map(|(_, mutation)| mutation).collect() });
        }
        is_cut
    }

    /// Moves samples with their mutations, and drops those of dropped mutations.
    fn move_samples(&mut self, steps: &[Part], is_cut: bool) {
        let mut places: BTreeMap<Place, Place> = BTreeMap::new();
        let place = |step: usize, position: usize| {
            Some(Place { step: u32::try_from(step).ok()?, position: u32::try_from(position).ok()? })
        };
        let is_kept = |step: &&(usize, &Part)| !step.1.kept.is_empty();
        for (new_step, (step, part)) in steps.iter().enumerate().collect::<Vec<_>>().iter().filter(is_kept).enumerate()
        {
            for (position, (old, _)) in part.kept.iter().enumerate() {
                if let (Some(old), Some(new)) = (place(*step, *old), place(new_step, position)) {
                    places.insert(old, new);
                }
            }
        }
        self.observations.retain_mut(|sample| match &mut sample.at {
            Moment::Now => !is_cut,
            Moment::Done(place) | Moment::Failed(place) => {
                let new = places.get(place);
                *place = new.copied().unwrap_or(*place);
                new.is_some()
            }
        });
    }
}

/// The kept part of a step: mutations with their original positions.
struct Part {
    order: Order,
    always: bool,
    kept: Vec<(usize, Mutation)>,
}

impl Part {
    fn all(step: Step) -> Self {
        let Step { order, mutations, always } = step;
        Self { order, always, kept: mutations.into_iter().enumerate().collect() }
    }
}

fn n_bytes_of_wakes(outcome: &Outcome) -> usize {
    outcome.wake.iter().map(|wake| wake.key.queue.len() + wake.key.namespace.len() + wake.key.name.len()).sum()
}

impl Size {
    /// Whether the whole step fits.
    fn has_room_for(&self, step: &Part) -> bool {
        let n_bytes: usize = step.kept.iter().map(|(_, mutation)| mutation.n_bytes()).sum();
        step.kept.len() <= self.n_mutations && n_bytes <= self.n_bytes
    }

    /// Takes the room of a mutation, if it fits.
    fn take(&mut self, mutation: &Mutation, is_first: bool) -> bool {
        let n_bytes = mutation.n_bytes();
        let fits = is_first || (self.n_mutations > 0 && n_bytes <= self.n_bytes);
        if fits {
            self.n_mutations = self.n_mutations.saturating_sub(1);
            self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
        }
        fits
    }
}

fn has_failed(mutation: &Mutation, failures: &[MutationFailure]) -> bool {
    let object = match &mutation.action {
        Action::Patch { object, .. } | Action::Delete { object, .. } => object,
        Action::Create { .. } | Action::Update { .. } | Action::DeleteCollection { .. } | Action::Event(_) => {
            return false;
        }
    };
    failures.iter().any(|failure| failure.object == *object)
}

const fn max_observations(n_mutations: usize) -> usize {
    1_000 + 2 * n_mutations
}

fn n_bytes_of_state(outcome: &Outcome) -> usize {
    outcome.state.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len)).sum()
}

impl Mutation {
    /// Bytes of its texts, counted as in the host.
    pub fn n_bytes(&self) -> usize {
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let event = |event: &Event| {
            let object = event.regarding.name.len() + event.regarding.namespace.len();
            event.message.len() + event.reason.len() + event.regarding_uid.len() + object
        };
        let of = |conditions: &Preconditions| optional(&conditions.uid) + optional(&conditions.resource_version);
        let events: usize = self.on_success.iter().chain(&self.on_failure).map(event).sum();
        events
            + match &self.action {
                Action::Create { object, .. } | Action::Update { object, .. } => object.len(),
                Action::Patch { body, preconditions, .. } => body.len() + of(preconditions),
                Action::Delete { preconditions, .. } => of(preconditions),
                Action::DeleteCollection { label_selector, .. } => optional(label_selector),
                Action::Event(one) => event(one),
            }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Limits {
    /// Fails the test where the host would end the run.
    ///
    /// # Panics
    /// If the outcome is beyond a limit.
    pub(crate) fn check(&self, outcome: &Outcome) {
        const MAX_STATE_NAME_BYTES: usize = 253;
        let Size { n_mutations, n_bytes } = outcome.size();
        for (what, found, most) in [
            ("mutations", n_mutations, self.mutations),
            ("steps", outcome.steps.len(), self.mutations.max(1)),
            ("observations", outcome.observations.len(), max_observations(n_mutations)),
            ("values of the state", outcome.state.len(), MAX_STATE_WRITES),
            ("keys to wake", outcome.wake.len(), MAX_WAKES),
            ("bytes", n_bytes, self.outcome_bytes),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Key, Kind, ObjectKey};

    const POD: Kind = Kind::new("", "v1", "Pod");

    fn delete(name: &str) -> Mutation {
        Mutation::delete(&POD, "ns", name).uid("12345678")
    }

    fn deletes(n: usize) -> Outcome {
        Outcome::new().step(Step::parallel(vec![delete("a"); n]))
    }

    fn limits(text: &str) -> Limits {
        serde_json::from_str(text).unwrap()
    }

    /// Names of the objects, one word for each step.
    fn names(outcome: &Outcome) -> String {
        let of_step = |step: &Step| -> String {
            let name = |mutation: &Mutation| match &mutation.action {
                Action::Delete { object, .. } => object.name.clone(),
                other => panic!("{other:?}"),
            };
            step.mutations.iter().map(name).collect()
        };
        outcome.steps.iter().map(of_step).collect::<Vec<_>>().join(" ")
    }

    fn steps(text: &str) -> Outcome {
        let step = |word: &str| Step::parallel(word.chars().map(|name| delete(&name.to_string())));
        text.split(' ').map(step).fold(Outcome::new(), Outcome::step)
    }

    fn failed(names: &str) -> Vec<MutationFailure> {
        let failure =
            |name: char| MutationFailure { object: ObjectKey::new("ns", name.to_string()), ..Default::default() };
        names.chars().map(failure).collect()
    }

    #[test]
    fn an_outcome_may_have_what_the_manifest_asks_for() {
        let limits = limits(r#"{"mutations": 3, "outcomeBytes": 30}"#);
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

    #[test]
    fn the_first_mutations_of_a_large_outcome_are_carried_out_and_the_key_runs_again() {
        let three = limits(r#"{"mutations": 3}"#);
        for (all, part) in
            [("ab c", "ab c"), ("ab cd", "ab c"), ("abcd e", "abc"), ("abc d", "abc"), ("a b c d", "a b c")]
        {
            let outcome = steps(all).within(&three, Vec::new);
            assert_eq!(names(&outcome), part, "{all}");
            assert_eq!(outcome.requeue_after, (all != part).then_some(NEXT_PART), "{all}");
        }
        // Each has eight bytes.
        for (n_bytes, part) in [(24, "abc"), (23, "ab"), (8, "a"), (1, "a")] {
            let outcome = steps("abc").within(&limits(&format!(r#"{{"outcomeBytes": {n_bytes}}}"#)), Vec::new);
            assert_eq!(names(&outcome), part, "{n_bytes}");
        }
    }

    #[test]
    fn what_failed_before_comes_last_in_a_part_and_stays_in_its_place_in_a_whole() {
        let two = limits(r#"{"mutations": 2}"#);
        assert_eq!(names(&steps("abc").within(&two, || failed("a"))), "bc");
        assert_eq!(names(&steps("abcd").within(&two, || failed("abc"))), "da");
        assert_eq!(names(&steps("ab").within(&two, || failed("a"))), "ab");
        let mut sequential = steps("abc");
        sequential.steps[0].order = Order::Sequential;
        assert_eq!(names(&sequential.within(&two, || failed("a"))), "ab");
    }

    #[test]
    fn events_beyond_half_of_the_limit_keep_nothing_from_being_done() {
        let four = limits(r#"{"mutations": 4}"#);
        let meta = crate::api::meta::ObjectMeta::default();
        let event = |i: usize| Mutation::event(Event::normal(&POD, &meta, "Seen", i.to_string()));
        let at = |step, position| Moment::Done(Place { step, position });
        let outcome = Outcome::new()
            .step(Step::sequential((0..9).map(event).chain([delete("a")])))
            .step(Step::sequential([delete("b")]))
            .observe_at(at(0, 9), "a", Vec::new(), 1.0)
            .keep("s", "1")
            .within(&four, Vec::new);
        assert_eq!(outcome.steps.iter().map(|step| step.mutations.len()).collect::<Vec<_>>(), [3, 1]);
        assert_eq!((outcome.observations[0].at, outcome.state.len()), (at(0, 2), 1));
        assert_eq!(outcome.requeue_after, None, "nothing is left");
    }

    #[test]
    fn what_is_about_the_whole_outcome_comes_with_its_last_part() {
        let two = limits(r#"{"mutations": 2}"#);
        let outcome = |names: &str| {
            let at = |position| Moment::Done(Place { step: 0, position });
            let outcome =
                steps(names).keep("s", "1").observe("now", Vec::new(), 1.0).fail(crate::Error::retry("later"));
            (0..3).fold(outcome, |outcome, i| outcome.observe_at(at(i), format!("m{i}"), Vec::new(), 1.0))
        };
        let part = outcome("abc").within(&two, || failed("a"));
        assert!(part.state.is_empty() && part.error.is_none());
        let samples: Vec<_> = part.observations.iter().map(|sample| (sample.metric.as_str(), sample.at)).collect();
        let at = |position| Moment::Done(Place { step: 0, position });
        assert_eq!(samples, [("m1", at(0)), ("m2", at(1))], "they follow their mutations");
        let last = outcome("ab").within(&two, Vec::new);
        assert!(last.state.len() == 1 && last.error.is_some() && last.observations.len() == 4);
    }

    #[test]
    fn keys_and_values_beyond_the_limits_follow_in_the_next_run() {
        let wake = |outcome: Outcome, n: usize| outcome.wake(Key::new("q", POD, "ns", n.to_string()));
        let outcome = (0..=MAX_WAKES).fold(Outcome::new(), wake).within(&Limits::default(), Vec::new);
        assert_eq!((outcome.wake.len(), outcome.requeue_after), (MAX_WAKES, Some(NEXT_PART)));
        let keep = |outcome: Outcome, n: usize| outcome.keep(n.to_string(), "");
        let outcome = (0..=MAX_STATE_WRITES).fold(Outcome::new(), keep).within(&Limits::default(), Vec::new);
        assert_eq!((outcome.state.len(), outcome.requeue_after), (MAX_STATE_WRITES, Some(NEXT_PART)));
    }
}
