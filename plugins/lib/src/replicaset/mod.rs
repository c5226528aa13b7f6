//! Keeps a number of Pods that are created from one template: the common part of ReplicaSets and
//! ReplicationControllers.
//!
//! *Flow*: the owner -> its Pods and adoptable orphans -> claim -> create or delete -> status.
//!
//! 1. Claims come first; nothing is created or deleted before all of them have succeeded.
//! 2. A run creates or deletes at most [`BURST`] Pods, fewer large ones; the host runs the key again when the caches
//!    show them.
//! 3. The status is written only when it differs, also after a failed create or delete, but not after a failed claim.
//! 4. For an owner that is being deleted, only the status is written.
//! 5. No Pod is created in a terminating namespace: the API server would reject it. If the cache shows the termination
//!    late, the rejection is an ordinary failure, for which the host records no event.
//!
//! *Source*: Kubernetes' `pkg/controller/replicaset`. Upstream, the error of a create is known before the status is
//! written; here the condition `ReplicaFailure` is set, and removed, by the next run, which follows immediately. There are
//! no expectations, because the host guarantees read-your-writes.

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
    /// Whether the status reports `terminatingReplicas`. Kinds without this field have no such setting.
    #[serde(default)]
    terminating_replicas: bool,
    /// Whether the annotation with a Pod's deletion cost counts.
    pod_deletion_cost: bool,
}

type Brief<'a> = pods::Brief<'a, Pod>;

/// Most Pods that one run creates or deletes.
#[doc(alias = "BurstReplicas")]
pub const BURST: usize = 500;

/// Computes the changes for one owner.
///
/// # Errors
/// If an object does not fit its type, or a Pod cannot be adopted now.
#[doc(alias = "syncReplicaSet")]
#[doc(alias = "manageReplicas")]
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
    // Skips Pods that are neither the owner's nor match, such as other orphans of the namespace.
    let unclear = others.into_iter().filter(|pod| is_own(pod) || matches(pod)).collect();
    let claims = claim::<O>(lister, meta, &selector, unclear, &mut active)?;
    let is_certain = claims.mutations.is_empty();
    let mut outcome = Outcome::new().step(claims);

    let excess = i64::try_from(active.len()).unwrap_or(i64::MAX) - i64::from(spec.replicas);
    let failure = Failure::of_last_run(lister, excess);
    // The rejection may come before the cache shows that the namespace is terminating.
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
    // Pods whose claim failed must not be counted.
    outcome.push(Step { always: is_certain, ..Step::sequential(status::update(&owner, document, &new)) });

    if new.ready_replicas != new.available_replicas {
        let next = pods::next_availability(&active, spec.min_ready_seconds, now);
        outcome = next.into_iter().fold(outcome, Outcome::requeue_after);
    }
    Ok(outcome)
}

/// Adopts and releases. Clear cases are decided before, so few Pods get here.
#[doc(alias = "claimPods")]
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

/// Failure of the previous run with Pods, if this run would try the same again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    Create(String),
    Delete(String),
    /// Not reported: the Pods will be deleted anyway.
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
