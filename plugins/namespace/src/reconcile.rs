//! The decision for one namespace.
//!
//! *Flow*: a round is two runs. The first lists what is there and deletes it; the second lists again, reports what remains and why,
//! and either waits or, when nothing remains, removes the finalizer.
//!
//! *Invariants*
//! 1. Nothing else is deleted while a Pod is left.
//! 2. The finalizer goes only after a round in which every list was empty and nothing failed.
//! 3. A round that fails is repeated with a growing delay, at least once a minute.
//!
//! *Not here*: group versions that do not parse: the host hands out only what parses, so that condition is never `True`.
//!
//! *Source*: namespace_controller.go, deletion/namespaced_resources_deleter.go.

use std::time::Duration;

use pintle_sdk::api::core::Namespace;
use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Lister, Mutation, MutationFailure, Outcome, Refusal, Resource, Step};

use crate::conditions::Findings;
use crate::content::{Content, deletable, is_pods, is_unsupported, list};
use crate::discovery::gaps;
use crate::round::{Round, Stage};

/// The finalizer of this controller.
const FINALIZER: &str = "kubernetes";
/// As soon as the caches show what was written.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Says what should change for one namespace.
///
/// # Errors
/// Live lists are needed; or the API server's resources are not known yet.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let name = key.name.as_str();
    let Some((namespace, document)) = lister.get_document::<Namespace>("", name)? else {
        return Ok(Round::forget(lister, name));
    };
    let Some(deleted_at) = namespace.metadata.deletion_timestamp else { return Ok(Outcome::new()) };
    if namespace.status.phase != "Terminating" {
        let mut document = document;
        document.set(&["status", "phase"], "Terminating");
        return Ok(write_status(document).requeue_after(AT_ONCE));
    }
    if namespace.spec.finalizers.is_empty() {
        return Ok(Round::forget(lister, name));
    }

    let resources = lister.resources();
    let undiscovered = gaps(&resources, lister)?;
    let resources = deletable(resources);
    if resources.is_empty() {
        return Err(Error::retry("unable to get any supported resources from server"));
    }
    let (pods, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(is_pods);
    let mut contents = list(pods, name, lister)?;
    let has_pods = contents.iter().any(|content| content.count() > 0 || content.error().is_some());
    if !has_pods {
        contents.extend(list(others, name, lister)?);
    }

    let stage = if has_pods { Stage::Pods } else { Stage::Rest };
    let run = Run { name, namespace: &namespace, document, contents, has_pods };
    let mut round = Round::read(lister, name, &namespace.metadata.uid);
    let failures: Vec<MutationFailure> =
        lister.failures().into_iter().filter(|failure| failure.verb.starts_with("delete")).collect();
    let mut deletions = Vec::new();
    if round.swept != Some(stage) || !failures.is_empty() {
        deletions = run.deletions(&failures, round.swept != Some(stage));
        if failures.iter().all(is_unsupported) && !deletions.is_empty() {
            round.swept = Some(stage);
            let outcome = Outcome::new().step(Step::parallel(deletions)).requeue_after(AT_ONCE);
            return Ok(round.keep(outcome, name));
        }
    }

    let now = lister.now()?;
    let mut findings = Findings { undiscovered, ..Findings::default() };
    let seconds =
        run.contents.iter().map(|content| content.account(name, deleted_at, now, &failures, &mut findings)).max();
    if has_pods {
        // What else is there is not known yet.
        findings.remaining.clear();
        findings.finalizers.clear();
    }
    let mut conditions = namespace.status.conditions.clone();
    findings.write(&mut conditions, now);
    let status = (conditions != namespace.status.conditions).then(|| {
        let mut document = run.document.clone();
        document.set(&["status", "conditions"], &conditions);
        write_status(document)
    });
    let is_reported = status.is_none();
    let mut outcome = status.unwrap_or_default();
    outcome.push(Step::parallel(deletions).always());

    round.swept = None;
    if !findings.errors.is_empty() || findings.undiscovered.is_some() {
        let after = round.backoff();
        round.failed = round.failed.saturating_add(1);
        return Ok(round.keep(outcome.requeue_after(after), name));
    }
    round.failed = 0;
    if let Some(seconds) = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0) {
        return Ok(round.keep(outcome.requeue_after(Duration::from_secs(seconds / 2 + 1)), name));
    }
    if !is_reported {
        // Two writes with one resourceVersion would conflict.
        round.swept = Some(stage);
        return Ok(round.keep(outcome.requeue_after(AT_ONCE), name));
    }
    let mut outcome = Round::forget(lister, name);
    outcome.push(run.finalize());
    Ok(outcome)
}

struct Run<'a> {
    name: &'a str,
    namespace: &'a Namespace,
    document: Document,
    contents: Vec<Content>,
    has_pods: bool,
}

impl Run<'_> {
    fn deletions(&self, failures: &[MutationFailure], unseen: bool) -> Vec<Mutation> {
        let unseen = unseen && !self.has_pods;
        self.contents.iter().flat_map(|content| content.deletions(self.name, failures, unseen)).collect()
    }

    /// Takes the controller's finalizer away.
    fn finalize(self) -> Step {
        let mut finalizers: Vec<&String> =
            self.namespace.spec.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        finalizers.sort();
        finalizers.dedup();
        let mut document = self.document;
        document.set(&["spec", "finalizers"], &finalizers);
        let update = Mutation::update(&Namespace::KIND, document).subresource("finalize");
        Step::sequential([update.tolerate([Refusal::NotFound])])
    }
}

fn write_status(document: Document) -> Outcome {
    let update = Mutation::update_status(&Namespace::KIND, document);
    Outcome::new().step(Step::sequential([update.tolerate([Refusal::NotFound])]))
}
