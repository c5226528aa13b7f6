//! Keeps a number of Pods that are made from one template: what ReplicaSets and ReplicationControllers have in common.
//!
//! *Flow*: the owner -> its Pods and the orphans that it could adopt -> claim -> create or delete -> status.
//!
//! 1. Claims come first, and nothing is created or deleted before all of them are carried out.
//! 2. At most [`BURST`] Pods are created or deleted in one run, fewer large ones; the host runs the key again when the caches have seen
//!    them.
//! 3. The status is written only when it differs, also when a create or delete was refused, but not when a claim was.
//! 4. An owner that is being deleted only gets its status.
//! 5. No Pod is created in a namespace that terminates: the API server would refuse it until the namespace is gone. If the cache shows
//!    this late, the refusal is an ordinary failure, of which the host records no event.
//!
//! *Source*: Kubernetes' `pkg/controller/replicaset`. There a refusal is known before the status is written; here the
//! condition `ReplicaFailure` comes with the next run, which follows at once. There are no expectations, because the host
//! keeps read-your-writes.

mod create;
mod delete;
mod owner;
mod status;
mod types;

pub use owner::{HasSelector, Owner, Spec};
pub use types::{ListedReplicaSet, ListedReplicationController, Pod, ReplicaSet, ReplicationController};

use std::collections::BTreeSet;

use pintle_sdk::api::meta::{HasDeletionTimestamp as _, Metadata as _};
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step, log};

use crate::failures::{Failures as _, is_namespace_terminating};
use crate::{controller_ref, namespace, pods};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    /// Whether the status reports `terminatingReplicas`. Of a kind that does not have it, there is no such setting.
    #[serde(default)]
    terminating_replicas: bool,
    /// Whether the annotation with the cost of a Pod's deletion counts.
    pod_deletion_cost: bool,
}

type Brief<'a> = pods::Brief<'a, Pod>;

/// Most Pods that one run creates or deletes, as upstream's `BurstReplicas`.
pub const BURST: usize = 500;

/// Computes the changes for the owner that the key names.
///
/// # Errors
/// If an object does not fit its type, or a Pod cannot be adopted at this time.
pub fn reconcile<O: Owner>(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((owner, document)) = lister.get_document::<O>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let meta = owner.metadata();
    let spec = owner.spec();
    let selector = match owner.selector() {
        Ok(selector) => selector,
        Err(error) => {
            log::error(&format!("{error}; nothing is done until the selector changes"));
            return Ok(Outcome::new());
        }
    };
    let now = lister.now()?;
    let config: Config = lister.config()?;

    let texts = lister.list_json(&Pod::KIND, &Query::namespace(meta.namespace()).controlled_by_or_orphans(meta.uid()));
    let all = texts.iter().map(|text| Brief::decode(text)).collect::<Result<Vec<_>, _>>()?;
    let is_own = |pod: &Brief<'_>| pod.controller_uid() == Some(meta.uid());
    let matches = |pod: &Brief<'_>| selector.matches(pod.labels());
    let terminating = all.iter().filter(|pod| pods::is_terminating(*pod) && is_own(pod) && matches(pod)).count();
    let (mut active, others): (Vec<_>, Vec<_>) =
        all.into_iter().filter(pods::is_active).partition(|pod| is_own(pod) && matches(pod));
    // What is neither the owner's nor like it, such as any other Pod of the namespace without a controller, stays out.
    let unclear = others.into_iter().filter(|pod| is_own(pod) || matches(pod)).collect();
    let claims = claim::<O>(lister, meta, &selector, unclear, &mut active)?;
    let is_certain = claims.mutations.is_empty();
    let mut outcome = Outcome::new().step(claims);

    let excess = i64::try_from(active.len()).unwrap_or(i64::MAX) - i64::from(spec.replicas);
    let failure = Failure::of_last_run(lister, excess);
    // The refusal may be seen before the cache shows the namespace terminating.
    let is_refused = failure == Some(Failure::NamespaceTerminating);
    if meta.deletion_timestamp().is_none() && !is_refused {
        let number = usize::try_from(excess.unsigned_abs()).unwrap_or(usize::MAX).min(BURST);
        if excess < 0 {
            if !namespace::is_terminating(lister, meta.namespace())? {
                outcome.push(create::step(&owner, number)?);
            }
        } else if excess > 0 {
            delete::push(&mut outcome, lister, &owner, &active, number, now, config.pod_deletion_cost)?;
        }
    }

    let terminating = (O::COUNTS_TERMINATING && config.terminating_replicas).then_some(terminating);
    let new = status::calculate(&owner, &active, terminating, failure.as_ref(), now);
    // What could not be claimed must not be counted.
    outcome.push(Step { always: is_certain, ..Step::sequential(status::update(&owner, document, &new)) });

    if new.ready_replicas != new.available_replicas {
        let next = pods::next_availability(&active, spec.min_ready_seconds, now);
        outcome = next.into_iter().fold(outcome, Outcome::requeue_after);
    }
    Ok(outcome)
}

/// Adopts and releases. Few Pods get here, because those whose case is clear already do not.
fn claim<'a, O: Owner>(
    lister: &impl Lister,
    owner: &O::Metadata,
    selector: &Selector,
    unclear: Vec<Brief<'a>>,
    active: &mut Vec<Brief<'a>>,
) -> Result<Step, Error> {
    let full = unclear.iter().map(Brief::full).collect::<Result<Vec<_>, _>>()?;
    let mut claimed = controller_ref::claim::<O, Pod>(lister, owner, selector, full)?;
    let adopted: BTreeSet<&str> = claimed.owned.iter().map(|pod| pod.metadata.uid.as_str()).collect();
    active.extend(unclear.into_iter().filter(|pod| adopted.contains(pod.uid())));
    Ok(claimed.step())
}

/// What went wrong with the Pods in the previous run, if this run would try the same again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    Create(String),
    Delete(String),
    /// Not worth telling: the Pods will go anyway.
    NamespaceTerminating,
}

impl Failure {
    fn of_last_run(lister: &impl Lister, excess: i64) -> Option<Self> {
        let verb = match excess {
            ..0 => "create",
            0 => return None,
            1.. => "delete",
        };
        let mut terminating = false;
        for failure in lister.failures().of(verb, &Pod::KIND) {
            if is_namespace_terminating(failure) {
                terminating = true;
            } else if verb == "create" {
                return Some(Self::Create(failure.message.clone()));
            } else {
                return Some(Self::Delete(format!("unable to delete pods: {}", failure.message)));
            }
        }
        terminating.then_some(Self::NamespaceTerminating)
    }
}
