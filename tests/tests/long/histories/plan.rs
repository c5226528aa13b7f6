//! What a user does, as data.

use std::fmt;

use pintle_tests::objects;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};

/// How many looks must show no write where nothing waits on purpose.
pub(super) const QUIET_LOOKS: usize = 5;

/// A kind of history.
#[derive(Debug)]
pub(super) struct Kind {
    /// For messages.
    pub(super) name: &'static str,
    /// The kinds whose objects are compared beside those of every scenario, in the plural.
    pub(super) compared: &'static [&'static str],
    /// How many looks in a row must show no write before the next step.
    pub(super) n_quiet_looks: usize,
    /// Whether its objects need metrics.
    pub(super) has_metrics: bool,
    /// The first steps, which make the objects.
    pub(super) begin: fn(&mut StdRng) -> Vec<Step>,
    /// One more step.
    pub(super) step: fn(&mut StdRng) -> Step,
    /// The last steps, which no plan leaves out.
    pub(super) last: fn() -> Vec<Step>,
}

/// The steps of one history.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) kind: &'static Kind,
    pub(super) seed: u64,
    pub(super) steps: Vec<Step>,
}

/// One step of a user.
///
/// A text in an object that begins with `uid:`, as in `uid:configmaps/a`, is replaced by the uid of that object, or by one that no object
/// has. `<namespace>` is replaced by the namespace.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Creates an object. The path is absolute, or the plural of a kind in the namespace.
    Create(&'static str, Value),
    /// Changes an object by a merge patch.
    Patch(&'static str, String, Value),
    /// Changes its status so.
    Status(&'static str, String, Value),
    /// Deletes an object with this policy of propagation.
    Delete(&'static str, String, &'static str),
    /// Does something to one of the Pods: that of this number, modulo their number, in an order that is the same on both sides.
    Pod(usize, PodStep),
    /// Lets at most so many Pods run and become ready. Pods that are pinned to a node are bound to it.
    Run(usize),
    /// Writes what each Pod uses of resources.
    Use(Value),
}

/// What a user, or a kubelet, does to a Pod.
#[derive(Clone, Debug)]
pub(super) enum PodStep {
    /// Changes its status by a merge patch.
    Status(Value),
    /// Changes the object by a merge patch.
    Patch(Value),
    /// Deletes it.
    Delete,
    /// Evicts it.
    Evict,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SEED={:x} HISTORIES=1)", self.kind.name, self.seed)?;
        self.steps.iter().enumerate().try_for_each(|(n, step)| write!(f, "\n  {}. {step}", n + 1))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Create(plural, object) => write!(f, "create {plural} {object}"),
            Step::Patch(plural, name, patch) => write!(f, "patch {plural}/{name} {patch}"),
            Step::Status(plural, name, patch) => write!(f, "patch the status of {plural}/{name} {patch}"),
            Step::Delete(plural, name, policy) => write!(f, "delete {plural}/{name}, {policy}"),
            Step::Pod(n, PodStep::Status(status)) => write!(f, "patch the status of Pod {n} {status}"),
            Step::Pod(n, PodStep::Patch(patch)) => write!(f, "patch Pod {n} {patch}"),
            Step::Pod(n, PodStep::Delete) => write!(f, "delete Pod {n}"),
            Step::Pod(n, PodStep::Evict) => write!(f, "evict Pod {n}"),
            Step::Run(n) => write!(f, "run {n} Pods"),
            Step::Use(usage) => write!(f, "use {usage}"),
        }
    }
}

/// One of these.
pub(super) fn one<T: Clone>(random: &mut StdRng, of: &[T]) -> T {
    of.choose(random).expect("there is something to choose from").clone()
}

/// One of these JSON values, of which `null` leaves a field out.
pub(super) fn value(random: &mut StdRng, of: &[Value]) -> Value {
    one(random, of)
}

/// A policy of propagation.
pub(super) fn propagation(random: &mut StdRng) -> &'static str {
    one(random, &["Background", "Foreground", "Orphan"])
}

/// What Pods are made from.
pub(super) fn template(labels: &Value, image: &str) -> Value {
    let spec = json!({
        "terminationGracePeriodSeconds": 0, "schedulerName": "nobody", "containers": [{"name": "c", "image": image}],
    });
    json!({"metadata": {"labels": labels}, "spec": spec})
}

/// A Pod of the user, which a workload may adopt or whose name it may want.
pub(super) fn pod(name: &str, app: &str) -> Value {
    let mut pod = template(&json!({"app": app}), "image:1");
    pod["metadata"]["name"] = json!(name);
    pod
}

/// The spec of a claim that nothing binds.
pub(super) fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"})
}

/// A change of the image in a template.
pub(super) fn new_image(random: &mut StdRng) -> Value {
    let image = one(random, &["image:1", "image:2", "image:3"]);
    json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}})
}

/// The status of a Pod that has ended long ago.
pub(super) fn ended(code: i32) -> Value {
    objects::ended(code, "2026-01-01T00:00:00Z")
}

/// The status of a Pod that runs.
pub(super) fn running(is_ready: bool) -> Value {
    let ready = json!({
        "type": "Ready", "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    json!({"phase": "Running", "conditions": [ready]})
}

/// Something that becomes of a Pod of any workload.
pub(super) fn pod_step(random: &mut StdRng) -> PodStep {
    let labels = |value: Value| PodStep::Patch(json!({"metadata": {"labels": {"app": value}}}));
    one(
        random,
        &[
            PodStep::Delete,
            PodStep::Status(ended(1)),
            PodStep::Status(ended(0)),
            PodStep::Status(running(true)),
            PodStep::Status(running(false)),
            labels(json!("other")),
            labels(Value::Null),
            labels(json!("web")),
            PodStep::Patch(json!({"metadata": {"ownerReferences": null}})),
        ],
    )
}
