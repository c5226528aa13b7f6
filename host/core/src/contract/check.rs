//! Validates outcomes: sizes, counts, names and numbers that violate the contract are faults of the plugin.
//!
//! Invariant: a validated outcome needs no further checks of its shape; only grants and the JSON texts remain, which
//! the writer checks.

use std::borrow::Borrow;
use std::ops::Deref;
use std::time::Duration;

use crate::contract::manifest::{EffectiveLimits, Manifest, MetricSource, SettingType};
use crate::contract::outcome::{
    Action, Event, LiveDetail, Moment, Mutation, Need, Outcome, PatchType, Place, Preconditions, Wake,
};
use crate::object::id::{Key, Kind, ObjectKey};
use crate::policy::correlator::MAX_MESSAGE_BYTES;
use crate::policy::grants::is_path_segment;
use crate::policy::outside::CALL_TIMEOUT;
use crate::text::cut;

/// Largest number in the contract.
pub const MAX_U32: u32 = i32::MAX as u32;
/// Maximum needs of one round: a few rounds are enough to list every kind of a server.
pub const MAX_NEEDS: usize = 256;
/// Maximum observations of one outcome, in addition to those per mutation.
const MAX_OBSERVATIONS: usize = 1_000;
/// Additional observations per mutation: one for an attempt or success, one for a failure.
const MAX_OBSERVATIONS_OF_MUTATION: usize = 2;
/// Maximum writes of keyed state in one outcome.
const MAX_STATE_WRITES: usize = 1_000;
/// Maximum keys that a mapping returns for one object's change, and maximum keys that one outcome wakes.
const MAX_WAKES: usize = 10_000;
/// Maximum labels of a run.
const MAX_RUN_LABELS: usize = 16;
/// Longest kind and name of a mapped key, in bytes. A longer name comes from an object, so it is dropped without a
/// fault.
const MAX_KEY_BYTES: usize = 1024;
/// Maximum tolerated failures of one mutation: one per class.
const MAX_TOLERATED: usize = 6;
/// Longest uid of an object, in bytes; Kubernetes' own have 36.
const MAX_UID_BYTES: usize = 128;
/// Longest name in the keyed state, in bytes.
const MAX_STATE_NAME_BYTES: usize = 253;

/// An outcome that obeys the contract, its manifest and its limits. It needs no second check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedOutcome(Outcome);

impl CheckedOutcome {
    /// Bytes of all its texts.
    pub fn n_bytes(&self) -> u64 {
        size(&self.0)
    }

    /// The outcome, for modification.
    pub fn into_inner(self) -> Outcome {
        self.0
    }
}

impl Deref for CheckedOutcome {
    type Target = Outcome;

    fn deref(&self) -> &Outcome {
        &self.0
    }
}

impl Borrow<Outcome> for CheckedOutcome {
    fn borrow(&self) -> &Outcome {
        &self.0
    }
}

/// Keys of one change that obey the contract and their manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedKeys(Vec<Wake>);

impl MappedKeys {
    /// No keys.
    pub const NONE: Self = Self(Vec::new());

    /// The keys, with their delays.
    pub fn into_inner(self) -> Vec<Wake> {
        self.0
    }

    /// Splits the keys into those without and those with a delay.
    pub fn split_delayed(self) -> (Self, Vec<Wake>) {
        let (later, at_once) = self.0.into_iter().partition(|wake| wake.after.is_some());
        (Self(at_once), later)
    }
}

/// Checks an outcome against the contract, the manifest and the limits. The error describes the violation.
///
/// # Errors
/// The fault's message; a retry helps only if the plugin decides differently.
pub fn outcome(mut outcome: Outcome, manifest: &Manifest, limits: &EffectiveLimits) -> Result<CheckedOutcome, String> {
    check_outcome(&outcome, manifest, limits)?;
    outcome.steps.iter_mut().flat_map(|step| &mut step.mutations).for_each(cut_events);
    // The contents of an object are not the plugin's fault: names that no object can have are dropped.
    outcome.wake.retain(|wake| is_possible_key(&wake.key));
    Ok(CheckedOutcome(outcome))
}

fn check_outcome(outcome: &Outcome, manifest: &Manifest, limits: &EffectiveLimits) -> Result<(), String> {
    let n_mutations: usize = outcome.steps.iter().map(|step| step.mutations.len()).sum();
    if n_mutations > limits.mutations as usize {
        return Err(format!("the outcome has {n_mutations} mutations, more than the limit of {}", limits.mutations));
    }
    if outcome.needs.len() > MAX_NEEDS {
        return Err(format!("the outcome has {} needs, more than {MAX_NEEDS}", outcome.needs.len()));
    }
    // An empty step has no mutations, but still costs work.
    if outcome.steps.len() > (limits.mutations as usize).max(1) {
        let (n, limit) = (outcome.steps.len(), limits.mutations);
        return Err(format!("the outcome has {n} steps, more than the limit of {limit} mutations allows"));
    }
    let max_observations = MAX_OBSERVATIONS + MAX_OBSERVATIONS_OF_MUTATION * n_mutations;
    for (what, found, most) in [
        ("observations", outcome.observations.len(), max_observations),
        ("values of the state", outcome.state.len(), MAX_STATE_WRITES),
        ("keys to wake", outcome.wake.len(), MAX_WAKES),
        ("labels of the run", outcome.run_labels.len(), MAX_RUN_LABELS),
    ] {
        if found > most {
            return Err(format!("the outcome has {found} {what}, more than {most}"));
        }
    }
    let bytes = size(outcome);
    if bytes > limits.outcome_bytes {
        return Err(format!("the outcome has {bytes} bytes, more than the limit of {}", limits.outcome_bytes));
    }
    for need in &outcome.needs {
        check_need(need, manifest)?;
    }
    for (i, step) in outcome.steps.iter().enumerate() {
        for (j, mutation) in step.mutations.iter().enumerate() {
            check_mutation(mutation).map_err(|why| format!("steps[{i}].mutations[{j}]: {why}"))?;
        }
    }
    if outcome.requeue_after.is_some_and(|after| after > Duration::from_millis(MAX_U32.into())) {
        return Err(format!("requeue-after-ms is more than {MAX_U32}"));
    }
    for (name, _) in &outcome.state {
        if name.is_empty() || name.len() > MAX_STATE_NAME_BYTES {
            return Err(format!("a name of the state has {} bytes; 1 to {MAX_STATE_NAME_BYTES} are valid", name.len()));
        }
    }
    for observation in &outcome.observations {
        let Some(metric) = manifest.metrics.iter().find(|metric| metric.name == observation.metric) else {
            let known: Vec<&str> = manifest.metrics.iter().map(|metric| metric.name.as_str()).collect();
            return Err(format!("metric {:?} is not declared; declared are {}", observation.metric, known.join(", ")));
        };
        if metric.of != MetricSource::Observations {
            return Err(format!("metric {:?} is fed by the host", metric.name));
        }
        if metric.labels.len() != observation.labels.len() {
            let (given, wanted) = (observation.labels.len(), metric.labels.len());
            return Err(format!("metric {:?} has {wanted} labels, the observation {given}", metric.name));
        }
        if !observation.value.is_finite() {
            return Err(format!("the observation of metric {:?} is not a finite number", metric.name));
        }
        if metric.per.is_some() && observation.at != Moment::Now {
            return Err(format!(
                "the observation of metric {:?} waits for a mutation, but the values of a metric `per: key` are those of the whole \
                 outcome: observe it now, or in the next run",
                metric.name
            ));
        }
        if let Moment::Done(place) | Moment::Failed(place) = observation.at
            && !has_mutation(outcome, place)
        {
            return Err(format!("the observation of metric {:?} is about {place}, which is not there", metric.name));
        }
    }
    for wake in &outcome.wake {
        check_wake(wake, manifest)?;
    }
    let of_runs = || manifest.metrics.iter().filter(|metric| metric.of == MetricSource::Runs);
    for (name, _) in &outcome.run_labels {
        if !of_runs().any(|metric| metric.labels.contains(name)) {
            return Err(format!("{name:?} is a label of no metric of runs"));
        }
    }
    Ok(())
}

fn has_mutation(outcome: &Outcome, place: Place) -> bool {
    let step = outcome.steps.get(place.step as usize);
    step.is_some_and(|step| (place.position as usize) < step.mutations.len())
}

fn check_wake(wake: &Wake, manifest: &Manifest) -> Result<(), String> {
    if !manifest.queues.iter().any(|queue| *queue.name == *wake.key.queue) {
        let known: Vec<&str> = manifest.queues.iter().map(|queue| queue.name.as_str()).collect();
        return Err(format!("queue {:?} is not declared; declared are {}", wake.key.queue, known.join(", ")));
    }
    match wake.after {
        Some(after) if after > Duration::from_millis(MAX_U32.into()) => Err(format!("after-ms is more than {MAX_U32}")),
        _ => Ok(()),
    }
}

/// Whether an object or a tick can have this key.
fn is_possible_key(key: &Key) -> bool {
    is_kind(&key.kind) && is_possible(&key.object) && key.kind.n_bytes() + key.object.n_bytes() <= MAX_KEY_BYTES
}

/// Whether an object can have this name.
pub(crate) fn is_possible(object: &ObjectKey) -> bool {
    is_object(object) && object.n_bytes() <= MAX_KEY_BYTES
}

/// Checks the keys that the plugin's mapping returned. Keys of objects that cannot exist are dropped.
///
/// # Errors
/// The fault's message.
pub fn mapped_keys(keys: Vec<Wake>, manifest: &Manifest) -> Result<MappedKeys, String> {
    if keys.len() > MAX_WAKES {
        return Err(format!("the mapping has {} keys for one change, more than {MAX_WAKES}", keys.len()));
    }
    for wake in &keys {
        check_wake(wake, manifest)?;
    }
    // As in `outcome`.
    Ok(MappedKeys(keys.into_iter().filter(|wake| is_possible_key(&wake.key)).collect()))
}

fn is_kind(kind: &Kind) -> bool {
    (kind.group.is_empty() || is_path_segment(&kind.group))
        && is_path_segment(&kind.version)
        && is_path_segment(&kind.name)
}

fn is_object(object: &ObjectKey) -> bool {
    (object.namespace.is_empty() || is_path_segment(&object.namespace)) && is_path_segment(&object.name)
}

fn check_subresource(subresource: Option<&str>) -> Result<(), String> {
    match subresource {
        Some(name) if !is_path_segment(name) => Err(format!("{name:?} is not a subresource")),
        _ => Ok(()),
    }
}

/// Cuts texts that may come from an object: their length is not the plugin's fault.
fn cut_events(mutation: &mut Mutation) {
    let of_action = if let Action::Event(event) = &mut mutation.action { Some(event) } else { None };
    for event in of_action.into_iter().chain(&mut mutation.on_success).chain(&mut mutation.on_failure) {
        shorten(&mut event.message, MAX_MESSAGE_BYTES);
        // No object can have such a uid.
        if event.regarding_uid.len() > MAX_UID_BYTES {
            event.regarding_uid = String::new();
        }
    }
}

/// Cuts a text, and frees the rest of its memory.
fn shorten(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        *text = cut(text, max_bytes).to_owned();
    }
}

fn check_event(event: &Event) -> Result<(), String> {
    if event.reason.is_empty() || event.reason.len() > 128 {
        return Err(format!("the reason of an event has {} bytes; 1 to 128 are valid", event.reason.len()));
    }
    Ok(())
}

// Kinds and names are not checked: they come from the contents of objects. A need or a mutation whose target cannot
// exist is answered without a request where it would be sent.

fn check_need(need: &Need, manifest: &Manifest) -> Result<(), String> {
    match need {
        Need::LiveList { limit, .. } if *limit == 0 || *limit > MAX_U32 => {
            Err(format!("the limit of a live-list is {limit}; 1 to {MAX_U32} are valid"))
        }
        Need::LiveList { kind, detail: LiveDetail::Projection, .. }
            if !manifest.kinds().any(|watched| watched == kind) =>
        {
            Err(format!("a live-list asks for the projection of {kind}, which the manifest does not watch"))
        }
        Need::Review { kind, .. } if !is_review(kind) => Err(format!(
            "{kind} is not a review; reviews are the kinds of authentication.k8s.io and authorization.k8s.io whose names end in Review"
        )),
        Need::LiveObject { subresource, .. } => check_subresource(subresource.as_deref()),
        // The grants decide which paths are valid and allowed.
        Need::LiveList { .. } | Need::RawPath(_) | Need::Review { .. } => Ok(()),
        Need::SignJwt { key, .. } => check_secret(key, SettingType::Key, manifest),
        Need::SignCertificate(request) => check_secret(&request.authority, SettingType::Authority, manifest),
        Need::Call { timeout: Some(timeout), .. } if *timeout > CALL_TIMEOUT => {
            Err(format!("the timeout of a call is {timeout:?}, more than {CALL_TIMEOUT:?}"))
        }
        Need::Call { endpoint, operation, .. } => {
            let declared = manifest.endpoints.get(endpoint);
            if declared.is_none_or(|declared| !declared.operations.contains(operation)) {
                return Err(format!("the manifest declares no operation {operation:?} of an endpoint {endpoint:?}"));
            }
            Ok(())
        }
        Need::Discovery if manifest.discovery => Ok(()),
        Need::Discovery => Err("discovery is needed, but the manifest does not declare `discovery: true`".into()),
    }
}

fn check_secret(name: &str, kind: SettingType, manifest: &Manifest) -> Result<(), String> {
    match manifest.config.get(name) {
        Some(setting) if setting.kind == kind => Ok(()),
        _ => Err(format!(
            "{name:?} is not a setting of type {}",
            if kind == SettingType::Key { "key" } else { "authority" }
        )),
    }
}

/// Whether a create of this kind only returns a verdict, and stores nothing.
pub fn is_review(kind: &Kind) -> bool {
    matches!(&*kind.group, "authentication.k8s.io" | "authorization.k8s.io") && kind.name.ends_with("Review")
}

fn check_mutation(mutation: &Mutation) -> Result<(), String> {
    if mutation.tolerate.len() > MAX_TOLERATED {
        return Err(format!("{} refusals are tolerated; there are {MAX_TOLERATED}", mutation.tolerate.len()));
    }
    for event in mutation.on_success.iter().chain(&mutation.on_failure) {
        check_event(event)?;
    }
    match &mutation.action {
        Action::Create { subresource, .. } | Action::Update { subresource, .. } => {
            check_subresource(subresource.as_deref())
        }
        Action::Patch { subresource, patch_type, .. } => {
            check_subresource(subresource.as_deref())?;
            match patch_type {
                PatchType::Apply { field_manager, .. } if field_manager.is_empty() || field_manager.len() > 128 => {
                    Err(format!("the field manager has {} bytes; 1 to 128 are valid", field_manager.len()))
                }
                _ => Ok(()),
            }
        }
        Action::Delete { grace_period_seconds: Some(seconds), .. } if *seconds > MAX_U32 => {
            Err(format!("grace-period-seconds is more than {MAX_U32}"))
        }
        Action::Delete { .. } | Action::DeleteCollection { .. } => Ok(()),
        Action::Event(event) => check_event(event),
    }
}

/// Bytes of all texts of an outcome.
fn size(outcome: &Outcome) -> u64 {
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let event = Event::n_bytes;
    let of = |conditions: &Preconditions| optional(&conditions.uid) + optional(&conditions.resource_version);
    let mut bytes = 0;
    for need in &outcome.needs {
        bytes += need.n_bytes();
    }
    for mutation in outcome.steps.iter().flat_map(|step| &step.mutations) {
        bytes += mutation.on_success.iter().chain(&mutation.on_failure).map(event).sum::<usize>();
        bytes += match &mutation.action {
            Action::Create { object, .. } | Action::Update { object, .. } => object.len(),
            Action::Patch { body, preconditions, .. } => body.len() + of(preconditions),
            Action::Delete { preconditions, .. } => of(preconditions),
            Action::DeleteCollection { label_selector, .. } => optional(label_selector),
            Action::Event(one) => event(one),
        };
    }
    for (name, value) in &outcome.state {
        bytes += name.len() + optional(value);
    }
    for observation in &outcome.observations {
        bytes += observation.labels.iter().map(String::len).sum::<usize>();
    }
    for wake in &outcome.wake {
        bytes += wake.key.n_bytes();
    }
    for (name, value) in &outcome.run_labels {
        bytes += name.len() + value.len();
    }
    bytes as u64
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::contract::outcome::{Observation, Order, Step};

    fn manifest() -> Manifest {
        let manifest = serde_json::json!({
            "name": "widgets", "version": "1.0.0", "contract": "0.2",
            "watches": [], "queues": [{"name": "widgets"}],
            "metrics": [
                {"name": "widgets_total", "help": "Widgets.", "type": "counter", "labels": ["color"]},
                {"name": "runs_total", "help": "Runs.", "type": "counter", "of": "runs", "labels": ["action"]},
                {"name": "sizes", "help": "Sizes.", "type": "gauge", "per": "key"},
            ],
            "limits": {"mutations": 2, "outcomeBytes": 100},
        });
        Manifest::parse(manifest.to_string().as_bytes()).unwrap()
    }

    fn check(outcome: Outcome, expect: Expect) {
        let manifest = manifest();
        let result = super::outcome(outcome, &manifest, &manifest.limits.effective());
        expect.assert_eq(result.err().as_deref().unwrap_or("ok"));
    }

    fn delete(name: &str) -> Mutation {
        let action = Action::Delete {
            kind: Kind::new("", "v1", "Pod"),
            object: ObjectKey::new("ns", name),
            preconditions: Preconditions::default(),
            propagation: None,
            grace_period_seconds: None,
        };
        Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() }
    }

    #[test]
    fn events_are_cut_and_are_no_faults() {
        let event = |n_bytes: usize| Event {
            regarding_kind: Kind::new("", "v1", "Pod"),
            regarding: ObjectKey::new("ns", "a"),
            regarding_uid: "u".repeat(n_bytes),
            warning: false,
            reason: "Tried".into(),
            message: "ä".repeat(n_bytes),
        };
        let manifest = manifest();
        let limits = EffectiveLimits { outcome_bytes: 1 << 20, ..manifest.limits.effective() };
        let told = |n_bytes: usize| {
            let of_write =
                Mutation { on_success: Some(event(n_bytes)), on_failure: Some(event(n_bytes)), ..delete("a") };
            let alone = Mutation { action: Action::Event(event(n_bytes)), ..delete("a") };
            let checked = super::outcome(step(vec![of_write, alone]), &manifest, &limits).unwrap().into_inner();
            let [of_write, alone] = &checked.steps[0].mutations[..] else { panic!("{checked:?}") };
            let Action::Event(alone) = &alone.action else { panic!("{alone:?}") };
            let events = [of_write.on_success.as_ref().unwrap(), of_write.on_failure.as_ref().unwrap(), alone];
            events.map(|event| (event.message.len(), event.regarding_uid.len()))
        };
        assert_eq!(told(128), [(256, 128); 3]);
        assert_eq!(told(129), [(258, 0); 3]);
        assert_eq!(told(50_000), [(1024, 0); 3]);
    }

    fn step(mutations: Vec<Mutation>) -> Outcome {
        Outcome { steps: vec![Step { order: Order::Parallel, mutations, always: false }], ..Outcome::default() }
    }

    #[test]
    fn limits_reject_the_first_value_above_them() {
        check(step(vec![delete("a"), delete("b")]), expect!["ok"]);
        check(
            step(vec![delete("a"), delete("b"), delete("c")]),
            expect!["the outcome has 3 mutations, more than the limit of 2"],
        );
        let state = |n: usize| Outcome { state: vec![("name".into(), Some("x".repeat(n)))], ..Outcome::default() };
        check(state(96), expect!["ok"]);
        check(state(97), expect!["the outcome has 101 bytes, more than the limit of 100"]);
        let path = |i: usize| if i < 50 { "/" } else { "" };
        let needs =
            |n| Outcome { needs: (0..n).map(|i| Need::RawPath(path(i).into())).collect(), ..Outcome::default() };
        check(needs(256), expect!["ok"]);
        check(needs(257), expect!["the outcome has 257 needs, more than 256"]);
        let discovery = Outcome { needs: vec![Need::Discovery], ..Outcome::default() };
        check(discovery, expect!["discovery is needed, but the manifest does not declare `discovery: true`"]);
        let requeue = |ms| Outcome { requeue_after: Some(Duration::from_millis(ms)), ..Outcome::default() };
        check(requeue(2_147_483_647), expect!["ok"]);
        check(requeue(2_147_483_648), expect!["requeue-after-ms is more than 2147483647"]);
    }

    #[test]
    fn lists_without_bytes_are_limited_too() {
        let empty = Step { order: Order::Parallel, mutations: Vec::new(), always: false };
        let steps = |n| Outcome { steps: vec![empty.clone(); n], ..Outcome::default() };
        check(steps(2), expect!["ok"]);
        check(steps(3), expect!["the outcome has 3 steps, more than the limit of 2 mutations allows"]);
        let at = Moment::Now;
        let sample = Observation { metric: "widgets_total".into(), labels: vec![String::new()], value: 1.0, at };
        let observations = |n| Outcome { observations: vec![sample.clone(); n], ..Outcome::default() };
        check(observations(1_000), expect!["ok"]);
        check(observations(1_001), expect!["the outcome has 1001 observations, more than 1000"]);
        let of_two_mutations = |n| Outcome { steps: step(vec![delete("a"), delete("b")]).steps, ..observations(n) };
        check(of_two_mutations(1_004), expect!["ok"]);
        check(of_two_mutations(1_005), expect!["the outcome has 1005 observations, more than 1004"]);
        let state = |n| Outcome { state: vec![(String::new(), None); n], ..Outcome::default() };
        check(state(1_001), expect!["the outcome has 1001 values of the state, more than 1000"]);
        let tolerates =
            |n| step(vec![Mutation { tolerate: vec![crate::contract::outcome::Refusal::Conflict; n], ..delete("a") }]);
        check(tolerates(6), expect!["ok"]);
        check(tolerates(7), expect!["steps[0].mutations[0]: 7 refusals are tolerated; there are 6"]);
    }

    #[test]
    fn the_keys_of_a_change_are_limited() {
        let key = Key { queue: "widgets".into(), kind: Kind::new("", "v1", "Pod"), object: ObjectKey::new("ns", "a") };
        let wake = Wake { key, after: None };
        let keys = |n| mapped_keys(vec![wake.clone(); n], &manifest());
        assert_eq!(keys(10_000), Ok(MappedKeys(vec![wake.clone(); 10_000])));
        assert_eq!(keys(10_001), Err("the mapping has 10001 keys for one change, more than 10000".to_owned()));
    }

    #[test]
    fn names_that_nothing_can_have_are_no_fault() {
        check(step(vec![delete("../../secrets/x")]), expect!["ok"]);
        let need = Need::LiveObject {
            kind: Kind::new("", "v1", "Pod/log"),
            object: ObjectKey::new("a", "../b"),
            subresource: None,
        };
        check(Outcome { needs: vec![need], ..Outcome::default() }, expect!["ok"]);
        let key = |kind: &str, namespace: &str, name: &str| Wake {
            key: Key {
                queue: "widgets".into(),
                kind: Kind::new("", "v1", kind),
                object: ObjectKey::new(namespace, name),
            },
            after: None,
        };
        let long = |n: usize| key("Pod", "ns", &"x".repeat(n - "v1Podns".len()));
        assert_eq!(
            mapped_keys(vec![long(1025), long(1024)], &manifest()).map(|keys| keys.into_inner()),
            Ok(vec![long(1024)])
        );
        let keys = vec![key("Pod", "ns", "a/b"), key("Pod", "ns", "a b"), key("Pod", "..", "c"), key("a/b", "ns", "d")];
        assert_eq!(mapped_keys(keys, &manifest()).map(|keys| keys.into_inner()), Ok(vec![key("Pod", "ns", "a b")]));
    }

    fn wake(queue: &str, after_ms: u64) -> Wake {
        let key = Key { queue: queue.into(), kind: Kind::new("", "v1", "Pod"), object: ObjectKey::new("ns", "a") };
        Wake { key, after: Some(Duration::from_millis(after_ms)) }
    }

    #[test]
    fn keys_to_wake_are_of_the_plugins_queues_and_limited() {
        let limits = EffectiveLimits { outcome_bytes: 1 << 20, ..manifest().limits.effective() };
        let check = |wake: Vec<Wake>, expect: Expect| {
            let result = super::outcome(Outcome { wake, ..Outcome::default() }, &manifest(), &limits);
            expect.assert_eq(&result.map_or_else(|why| why, |outcome| format!("{} keys", outcome.wake.len())));
        };
        check(vec![wake("widgets", 2_147_483_647); 10_000], expect!["10000 keys"]);
        check(vec![wake("widgets", 0); 10_001], expect!["the outcome has 10001 keys to wake, more than 10000"]);
        check(vec![wake("widgets", 2_147_483_648)], expect!["after-ms is more than 2147483647"]);
        check(vec![wake("other", 0)], expect![[r#"queue "other" is not declared; declared are widgets"#]]);
        let mut impossible = wake("widgets", 0);
        impossible.key.object = ObjectKey::new("ns", "../a");
        check(vec![impossible, wake("widgets", 0)], expect!["1 keys"]);
    }

    #[test]
    fn only_reviews_are_created_for_an_answer() {
        let review = |group: &str, name: &str| Outcome {
            needs: vec![Need::Review {
                kind: Kind::new(group, "v1", name),
                namespace: String::new(),
                object: "{}".into(),
            }],
            ..Outcome::default()
        };
        check(review("authorization.k8s.io", "SubjectAccessReview"), expect!["ok"]);
        check(review("authentication.k8s.io", "TokenReview"), expect!["ok"]);
        let others = [("", "Pod"), ("authentication.k8s.io", "TokenRequest"), ("example.com", "Review")];
        for (group, name) in others {
            assert!(super::outcome(review(group, name), &manifest(), &manifest().limits.effective()).is_err());
        }
    }

    #[test]
    fn a_projection_is_that_of_a_watch() {
        let need = Need::LiveList {
            kind: Kind::new("", "v1", "Pod"),
            namespace: String::new(),
            label_selector: None,
            field_selector: None,
            detail: LiveDetail::Projection,
            limit: 1,
        };
        let asks = Outcome { needs: vec![need], ..Outcome::default() };
        check(asks, expect!["a live-list asks for the projection of v1/Pod, which the manifest does not watch"]);
    }

    #[test]
    fn samples_and_labels_of_a_run_belong_to_what_is_there() {
        let sample = |at| Observation { metric: "widgets_total".into(), labels: vec!["red".into()], value: 1.0, at };
        let at = |step, position| {
            let observations = vec![sample(Moment::Done(Place { step, position }))];
            Outcome { observations, ..step_of_one() }
        };
        check(at(0, 0), expect!["ok"]);
        check(
            at(0, 1),
            expect![[
                r#"the observation of metric "widgets_total" is about steps[0].mutations[1], which is not there"#
            ]],
        );
        check(
            at(1, 0),
            expect![[
                r#"the observation of metric "widgets_total" is about steps[1].mutations[0], which is not there"#
            ]],
        );
        let labels = |n: usize, name: &str| Outcome {
            run_labels: vec![(name.to_owned(), "x".to_owned()); n],
            ..Outcome::default()
        };
        let size = |at| Outcome {
            observations: vec![Observation { metric: "sizes".into(), labels: vec![], value: 1.0, at }],
            ..step_of_one()
        };
        check(size(Moment::Now), expect!["ok"]);
        let place = Place { step: 0, position: 0 };
        check(
            size(Moment::Done(place)),
            expect![[
                r#"the observation of metric "sizes" waits for a mutation, but the values of a metric `per: key` are those of the whole outcome: observe it now, or in the next run"#
            ]],
        );
        check(
            size(Moment::Failed(place)),
            expect![[
                r#"the observation of metric "sizes" waits for a mutation, but the values of a metric `per: key` are those of the whole outcome: observe it now, or in the next run"#
            ]],
        );
        check(labels(14, "action"), expect!["ok"]);
        check(labels(17, "action"), expect!["the outcome has 17 labels of the run, more than 16"]);
        check(labels(1, "color"), expect![[r#""color" is a label of no metric of runs"#]]);
    }

    fn step_of_one() -> Outcome {
        step(vec![delete("a")])
    }

    #[test]
    fn observations_fit_their_declaration() {
        let observe = |metric: &str, labels: &[&str], value| Outcome {
            observations: vec![Observation {
                metric: metric.into(),
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                value,
                at: Moment::Now,
            }],
            ..Outcome::default()
        };
        check(observe("widgets_total", &["red"], 1.0), expect!["ok"]);
        check(
            observe("widgets", &["red"], 1.0),
            expect![[r#"metric "widgets" is not declared; declared are widgets_total, runs_total, sizes"#]],
        );
        check(
            observe("widgets_total", &[], 1.0),
            expect![[r#"metric "widgets_total" has 1 labels, the observation 0"#]],
        );
        check(observe("runs_total", &[], 1.0), expect![[r#"metric "runs_total" is fed by the host"#]]);
        check(
            observe("widgets_total", &["red"], f64::NAN),
            expect![[r#"the observation of metric "widgets_total" is not a finite number"#]],
        );
    }
}
