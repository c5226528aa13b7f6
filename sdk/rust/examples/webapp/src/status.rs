//! Status, conditions and events of a WebApp.

use pintle_sdk::api::meta::Condition;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{
    Error, Event, Lister, Mutation, Outcome, Resource, Step, find_condition, is_true, patch_status, set_condition,
};

use crate::types::{Deployment, Status, WebApp};

/// Consecutive failures after which a WebApp is reported as failing, rather than retrying.
const MANY: u32 = 5;

/// Other results of the run.
pub struct Findings {
    /// Number of writes of this run.
    pub n_changes: usize,
    /// Messages about conflicts.
    pub conflicts: Vec<String>,
    /// Objects that must be deleted before they can be created again.
    pub waiting: Vec<String>,
    /// Whether this WebApp holds the host.
    pub is_held: bool,
}

/// The reported state.
pub struct Report {
    /// Events, then the status if it changes.
    pub mutations: Vec<Mutation>,
    /// Whether nothing is pending.
    pub is_ready: bool,
}

/// A condition to be set.
struct Verdict {
    status: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn new(status: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into() }
    }
}

/// The outcome for an invalid WebApp: the status reports the problems, and nothing else changes.
pub fn invalid(app: &WebApp, problems: &[String], lister: &impl Lister) -> Result<Outcome, Error> {
    let now = lister.now()?;
    let mut status = current(app)?;
    let message = problems.join("; ");
    let mut outcome = Outcome::new();
    let mut mutations = Vec::new();
    if !says(&status.conditions, "Valid", false, &message) {
        mutations.push(warning(app, "InvalidSpec", &message));
        outcome = outcome.observe("webapp_invalid_specs_total", Vec::new(), 1.0);
    }
    status.observed_generation = app.metadata.generation;
    set(app, &mut status, "Valid", Verdict::new(false, "InvalidSpec", message.clone()), now);
    set(app, &mut status, "Ready", Verdict::new(false, "InvalidSpec", message), now);
    mutations.extend(patch_status(&WebApp::KIND, &app.metadata, &app.status, &status)?);
    Ok(outcome.step(Step::sequential(mutations)))
}

/// Status and events of a valid WebApp.
pub fn report(app: &WebApp, findings: &Findings, lister: &impl Lister) -> Result<Report, Error> {
    let now = lister.now()?;
    let deployment: Option<Deployment> = lister
        .get::<Deployment>(&app.metadata.namespace, &app.metadata.name)?
        .filter(|deployment| deployment.metadata.is_controlled_by(&app.metadata.uid));
    let old = current(app)?;

    let conflict = conflict(findings);
    let available = available(deployment.as_ref());
    let progressing = progressing(deployment.as_ref(), findings);
    let ready = ready(&conflict, &available, &progressing, lister);

    let mut mutations = Vec::new();
    if conflict.status && !says(&old.conditions, "Conflict", true, &conflict.message) {
        mutations.push(warning(app, "Conflict", &conflict.message));
    }
    if ready.status && !is_true(&old.conditions, "Ready") {
        let event = Event::normal(&WebApp::KIND, &app.metadata, "Ready", &ready.message);
        mutations.push(Mutation::event(event));
    }

    let is_ready = ready.status;
    let mut status = Status {
        observed_generation: app.metadata.generation,
        replicas: deployment.as_ref().map_or(0, |deployment| deployment.status.replicas.into()),
        available_replicas: deployment.as_ref().map_or(0, |deployment| deployment.status.available_replicas.into()),
        url: if findings.is_held { format!("http://{}", app.spec.host()) } else { String::new() },
        conditions: old.conditions,
    };
    set(app, &mut status, "Valid", Verdict::new(true, "Valid", "the spec is valid"), now);
    set(app, &mut status, "Conflict", conflict, now);
    set(app, &mut status, "Available", available, now);
    set(app, &mut status, "Progressing", progressing, now);
    set(app, &mut status, "Ready", ready, now);
    mutations.extend(patch_status(&WebApp::KIND, &app.metadata, &app.status, &status)?);
    Ok(Report { mutations, is_ready })
}

fn conflict(findings: &Findings) -> Verdict {
    if findings.conflicts.is_empty() {
        return Verdict::new(false, "NoConflict", "nothing is in the way");
    }
    Verdict::new(true, "InUse", findings.conflicts.join("; "))
}

fn available(deployment: Option<&Deployment>) -> Verdict {
    let Some(deployment) = deployment else {
        return Verdict::new(false, "NoDeployment", "there is no Deployment of this WebApp");
    };
    let message = format!("replicas available: {}", deployment.status.available_replicas);
    if is_true(&deployment.status.conditions, "Available") {
        Verdict::new(true, "MinimumReplicasAvailable", message)
    } else {
        Verdict::new(false, "MinimumReplicasUnavailable", message)
    }
}

fn progressing(deployment: Option<&Deployment>, findings: &Findings) -> Verdict {
    if findings.n_changes > 0 {
        return Verdict::new(true, "Applying", format!("changes being applied: {}", findings.n_changes));
    }
    if !findings.waiting.is_empty() {
        return Verdict::new(true, "Waiting", format!("waiting for the deletion of {}", findings.waiting.join("; ")));
    }
    let Some(deployment) = deployment else {
        return Verdict::new(false, "Blocked", "there is no Deployment of this WebApp");
    };
    let desired = deployment.spec.replicas.unwrap_or(1);
    let status = &deployment.status;
    let message = format!(
        "replicas updated: {}, available: {}, desired: {desired}",
        status.updated_replicas, status.available_replicas
    );
    if status.observed_generation < deployment.metadata.generation {
        return Verdict::new(true, "RollingOut", message);
    }
    if status.updated_replicas == desired && status.replicas == desired && status.available_replicas == desired {
        return Verdict::new(false, "Complete", message);
    }
    let stalled = find_condition(&status.conditions, "Progressing")
        .is_some_and(|condition| condition.reason == "ProgressDeadlineExceeded");
    if stalled {
        return Verdict::new(false, "Stalled", message);
    }
    Verdict::new(true, "RollingOut", message)
}

/// The first of these that is not good, or ready.
fn ready(conflict: &Verdict, available: &Verdict, progressing: &Verdict, lister: &impl Lister) -> Verdict {
    if conflict.status {
        return Verdict::new(false, "Conflict", conflict.message.clone());
    }
    let failures = failures(lister);
    if !failures.is_empty() {
        let reason = if lister.attempt() >= MANY { "Failing" } else { "Retrying" };
        return Verdict::new(false, reason, failures.join("; "));
    }
    if progressing.reason != "Complete" {
        return Verdict::new(false, progressing.reason, progressing.message.clone());
    }
    if !available.status {
        return Verdict::new(false, "Unavailable", available.message.clone());
    }
    Verdict::new(true, "Ready", available.message.clone())
}

/// Failed writes of the previous run. A conflict only means that the cache was stale.
fn failures(lister: &impl Lister) -> Vec<String> {
    let mut failures = Vec::new();
    for failure in lister.failures() {
        if failure.reason != "Conflict" {
            let kind = failure.kind.as_ref().map(ToString::to_string).unwrap_or_default();
            failures.push(format!("{} {kind} {}: {}", failure.verb, failure.object, failure.message));
        }
    }
    failures
}

/// The current status.
fn current(app: &WebApp) -> Result<Status, Error> {
    if app.status.is_null() {
        return Ok(Status::default());
    }
    Ok(serde_json::from_value(app.status.clone())?)
}

fn set(app: &WebApp, status: &mut Status, kind: &str, verdict: Verdict, now: Timestamp) {
    let condition = Condition {
        type_: kind.to_owned(),
        status: if verdict.status { "True" } else { "False" }.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message,
        observed_generation: Some(app.metadata.generation),
        ..Condition::default()
    };
    status.conditions = set_condition(&status.conditions, condition, now);
}

/// Whether the condition is set already.
fn says(conditions: &[Condition], kind: &str, status: bool, message: &str) -> bool {
    find_condition(conditions, kind).is_some_and(|condition| {
        condition.status == if status { "True" } else { "False" } && condition.message == message
    })
}

fn warning(app: &WebApp, reason: &str, message: &str) -> Mutation {
    Mutation::event(Event::warning(&WebApp::KIND, &app.metadata, reason, message))
}
