//! One run of a namespace.
//!
//! *Flow*: a round is two runs. The first lists the content and deletes it; the second lists again, reports what
//! remains and why, and either waits or, when nothing remains, lets the next run remove the finalizer.
//!
//! *Invariants*
//! 1. Nothing else is deleted while a Pod is left, unless Pods can be neither listed nor deleted: then the rest is
//!    deleted in the same round.
//! 2. The finalizer is removed only after a round in which every list was empty and nothing failed.
//! 3. A failed round is repeated with a growing delay, at least once a minute.
//! 4. A round has one discovery. After a round that left something, the next ones list the Pods and what was left; when
//!    that is deleted, everything. Nothing can be created in the meantime, because the namespace is terminating.
//! 5. The kinds that a run lists are bounded. With more kinds, a round has several parts, and ends with the last one.
//!
//! *Not here*: group versions that do not parse: the host returns only valid ones, so that condition is never `True`.
//!
//! *Source*: namespace_controller.go, deletion/namespaced_resources_deleter.go.

use std::time::Duration;

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Refusal, Resource, Step};
use plugin_lib::batch::SOON;

use crate::content::is_unsupported;
use crate::context::Context;
use crate::round::{self, Parts};
use crate::types::Namespace;

/// The finalizer of this controller.
#[doc(alias = "FinalizerKubernetes")]
const FINALIZER: &str = "kubernetes";
/// Sweeps of one round before its report.
const SWEEPS: u32 = 2;

/// Computes the changes for one namespace.
///
/// # Errors
/// Discovery and live lists are needed; or the API server's resources are not known yet.
#[doc(alias = "syncNamespaceFromKey", alias = "Delete", alias = "updateNamespaceStatusFunc")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let record = round::record(lister, &key.name);
    let Some((namespace, mut document)) = lister.get_document::<Namespace>("", &key.name)? else {
        return Ok(record.forget(Outcome::new()));
    };
    let Some(deleted_at) = namespace.metadata.deletion_timestamp else { return Ok(Outcome::new()) };
    if namespace.status.phase != "Terminating" {
        document.set(&["status", "phase"], "Terminating");
        return Ok(Outcome::new().step(update_status(document)).requeue_after(SOON));
    }
    if namespace.spec.finalizers.is_empty() {
        return Ok(record.forget(Outcome::new()));
    }
    let uid = &namespace.metadata.uid;
    let mut round = record.of_uid(uid).cloned().unwrap_or_default();
    if round.emptied {
        return Ok(record.forget(Outcome::new().step(finalize(&namespace, document))));
    }
    let Some(context) = Context::read(&key.name, &mut round, lister)? else {
        return Ok(record.keep_of(Outcome::new().requeue_after(SOON), uid, round));
    };

    // A sweep in parts is stored with its last part only; its failures are reported before they are retried.
    let is_swept = round.swept == Some(context.stage()) || (round.swept.is_none() && !context.failures.is_empty());
    let deletions = context.deletions(!is_swept);
    // A second sweep deletes objects created since the first, and deletes one by one where collections cannot be
    // deleted.
    let may_sweep = !is_swept || (round.sweeps < SWEEPS && context.failures.iter().all(is_unsupported));
    if may_sweep && !deletions.is_empty() {
        round.sweeps = if is_swept { round.sweeps + 1 } else { 1 };
        round.swept = Some(context.stage());
        round.discovered = context.undiscovered;
        let outcome = Outcome::new().step(Step::parallel(deletions)).requeue_after(SOON);
        return Ok(record.keep_of(outcome, uid, round));
    }

    let now = lister.now()?;
    let is_in_parts = context.next.is_some() || round.parts.is_some();
    let mut parts = round.parts.take().unwrap_or_default();
    context.account(&mut parts, deleted_at, now);
    if let Some(after) = context.next {
        round.parts = Some(Parts { after, ..parts });
        (round.swept, round.sweeps) = (None, 0);
        round.discovered = context.undiscovered;
        return Ok(record.keep_of(Outcome::new().requeue_after(SOON), uid, round));
    }
    let Parts { seconds, left, mut findings, .. } = parts;
    findings.undiscovered = context.trouble.clone();
    findings.errors.extend(round.refused.take());
    if context.waits_for_pods {
        // The other content is unknown yet.
        findings.remaining.clear();
        findings.finalizers.clear();
    }
    let mut conditions = namespace.status.conditions.clone();
    findings.write(&mut conditions, now);
    let is_reported = conditions == namespace.status.conditions;
    let mut outcome = Outcome::new();
    if !is_reported {
        let mut document = document.clone();
        document.set(&["status", "conditions"], &conditions);
        outcome.push(update_status(document));
    }
    // The next run checks objects that were deleted again; with parts, the next round does.
    let is_over = deletions.is_empty() || is_in_parts;
    (round.swept, round.sweeps) = if is_over { (None, 0) } else { (Some(context.stage()), SWEEPS) };
    if !context.waits_for_pods {
        round.left = left;
    }
    if !is_over {
        outcome.push(Step::parallel(deletions).always());
    }

    if !findings.errors.is_empty() || findings.undiscovered.is_some() {
        let after = round.backoff();
        round.failed = round.failed.saturating_add(1);
        return Ok(record.keep_of(outcome.requeue_after(after), uid, round));
    }
    round.failed = 0;
    if let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0) {
        return Ok(record.keep_of(outcome.requeue_after(Duration::from_secs(seconds / 2 + 1)), uid, round));
    }
    if !is_reported {
        // Two writes with one resourceVersion would conflict.
        round.emptied = true;
        return Ok(record.keep_of(outcome.requeue_after(SOON), uid, round));
    }
    Ok(record.forget(Outcome::new().step(finalize(&namespace, document))))
}

/// Removes the controller's finalizer. As upstream, each run writes the finalizers while there are any, even if its own
/// is already removed; such a write changes nothing, so no event follows.
#[doc(alias = "finalizeNamespace")]
fn finalize(namespace: &Namespace, mut document: Document) -> Step {
    let mut finalizers: Vec<&String> =
        namespace.spec.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    finalizers.sort();
    finalizers.dedup();
    document.set(&["spec", "finalizers"], &finalizers);
    let update = Mutation::update(&Namespace::KIND, document).subresource("finalize");
    Step::sequential([update.tolerate([Refusal::NotFound])])
}

fn update_status(document: Document) -> Step {
    let update = Mutation::update_status(&Namespace::KIND, document);
    Step::sequential([update.tolerate([Refusal::NotFound])])
}
