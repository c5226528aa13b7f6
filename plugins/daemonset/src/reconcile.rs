//! One run of a DaemonSet.
//!
//! *Flow*: the DaemonSet and its history -> its Pods by Node -> creates and deletes -> status.
//!
//! *Invariants*
//! 1. Claims and the revision of the template are written first; if one of them fails, nothing else is written.
//! 2. For a DaemonSet that is being deleted nothing is written, not even a status: its history may be deleted already.
//! 3. The status is written even if creating or deleting Pods failed.
//!
//! *Source*: daemon_controller.go.

use std::time::Duration;

use pintle_sdk::api::meta::LabelSelector;
use pintle_sdk::document::Document;
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, Query, Resource, Step, log};
use plugin_lib::history::{ControllerRevision, surplus_with_live};
use plugin_lib::{controller_ref, namespace, pods};

use crate::backoff::{self, Backoff};
use crate::context::Context;
use crate::history::{self, History};
use crate::types::{DaemonSet, Pod};
use crate::{manage, node_updates, rolling, status, writes};

/// Default revision history limit. Behind an API server the field is always set.
const HISTORY_LIMIT: i32 = 10;

/// Computes the changes for one DaemonSet, or enqueues the DaemonSets that a Node affects.
///
/// # Errors
/// A live read is needed; an object does not decode; or the DaemonSet is invalid (its selector is not valid, or does
/// not match its template).
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    match key.queue.as_str() {
        "daemonset-node-updates" => node_updates::reconcile(key, lister),
        _ => sync(key, lister),
    }
}

#[doc(alias = "syncDaemonSet", alias = "getDaemonPods")]
fn sync(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((set, document)) = lister.get_document::<DaemonSet>(&key.namespace, &key.name)? else {
        return Ok(backoff::record(lister, &key.object()).forget(Outcome::new()));
    };
    if set.spec.selector.as_ref() == Some(&LabelSelector::default()) {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        let event = Event::warning(&DaemonSet::KIND, &set.metadata, "SelectingAll", message);
        return Ok(Outcome::new().step(Step::sequential([event.into()])));
    }
    if set.metadata.is_deleting() {
        return Ok(Outcome::new());
    }
    let selector = selector_of(&set)?;
    let (current, writes) = match history::construct(lister, &set, &document, &selector)? {
        History::Unsettled(steps) => return Ok(steps.into_iter().fold(Outcome::new(), Outcome::step)),
        History::Settled { current, writes } => (current, writes),
    };

    let listed = lister.list(&Query::namespace(&key.namespace).controlled_by_or_orphans(&set.metadata.uid))?;
    let mut claimed = controller_ref::claim::<DaemonSet, Pod>(lister, &set.metadata, &selector, listed)?;
    let claims = claimed.step();
    // After a failed claim or revision write, no other write follows.
    let is_certain = claims.mutations.is_empty() && writes.mutations.is_empty();
    let outcome = Outcome::new().step(claims).step(writes);
    let context = Context::new(lister, set, current.hash, claimed.owned)?;
    finish(lister, &context, &current.old, document, outcome, is_certain)
}

fn selector_of(set: &DaemonSet) -> Result<Selector, Error> {
    let name = &set.metadata.name;
    let selector = Selector::from_label_selector(set.spec.selector.as_ref())
        .map_err(|error| Error::terminal(format!("spec.selector of DaemonSet {name} is not valid: {error}")))?;
    // Such Pods would be released immediately and created again endlessly.
    if !selector.matches(&set.spec.template.metadata.labels) {
        let message = "does not match the labels in spec.template: no Pods are created until one of them changes";
        return Err(Error::terminal(format!("spec.selector of DaemonSet {name} {message}")));
    }
    Ok(selector)
}

/// Adds the Pod writes and the status.
#[doc(alias = "updateDaemonSet")]
fn finish(
    lister: &impl Lister,
    context: &Context,
    old: &[ControllerRevision],
    document: Document,
    mut outcome: Outcome,
    is_certain: bool,
) -> Result<Outcome, Error> {
    let object = context.set.metadata.key();
    let mut backoff = Backoff::read(lister, &context.set);
    let mut decision = manage::decide(context, &mut backoff);
    let mut is_valid = true;
    if decision.is_empty() {
        match rolling::decide(context) {
            Ok(rolling) => decision = rolling,
            // The status is written nevertheless. A change of the DaemonSet or of a Node runs the key again.
            Err(error) => {
                log::error(&format!("DaemonSet {object}: {error}"));
                is_valid = false;
            }
        }
    }
    let mut always = |step: Step| outcome.push(Step { always: is_certain, ..step });
    always(Step::sequential(decision.events.into_iter().take(writes::BURST).map(Mutation::from)));
    if !namespace::is_terminating(lister, &object.namespace)? {
        always(writes::create(context, &decision.create)?);
    }
    always(writes::delete(context, &decision.delete));
    if is_valid {
        outcome.push(clean_up(context, old));
    }
    let status = status::calculate(context);
    outcome.push(Step { always: is_certain, ..Step::sequential(status::update(&context.set, document, &status)) });
    let times = backoff.delay().into_iter().chain(next_availability(context));
    let outcome = times.fold(outcome, Outcome::requeue_after);
    Ok(backoff.keep(outcome))
}

/// Deletes the oldest revisions beyond the limit, except those of Pods.
#[doc(alias = "cleanupHistory")]
fn clean_up(context: &Context, old: &[ControllerRevision]) -> Step {
    let is_live =
        |revision: &ControllerRevision| history::hash(revision).is_some_and(|hash| context.live_hashes.contains(hash));
    let limit = context.set.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT);
    Step::sequential(surplus_with_live(old, limit, is_live).into_iter().map(history::delete))
}

/// Delay until another Pod becomes available.
fn next_availability(context: &Context) -> Option<Duration> {
    let min_ready = context.set.spec.min_ready_seconds;
    let pods = || context.pods.values().flatten();
    let waits = |pod: &&Pod| pods::is_ready(*pod) && !pods::is_available(*pod, min_ready, context.now);
    let default = Duration::from_secs(u64::try_from(min_ready).ok().filter(|seconds| *seconds > 0)?);
    pods().filter(waits).map(|pod| pods::until_available(pod, min_ready, context.now).unwrap_or(default)).min()
}
