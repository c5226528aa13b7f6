//! One run of a Deployment: claims its ReplicaSets, then pauses, rolls back, scales or rolls out.
//!
//! *Flow*: a key in; one outcome out, or a retry. If a decision depends on a write, the run ends: the host runs the key
//! again when the caches show the write.
//!
//! *Invariants*
//! 1. For a Deployment that is being deleted, only the status is written: nothing is scaled, created, adopted or
//!    released.
//! 2. An adopted object is not written again in the same run: its resourceVersion is no longer the cached one.
//!
//! *Not here*: when to run (the manifest), retry delays (the queue).
//!
//! *Source*: deployment_controller.go.

use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::api::meta::LabelSelector;
use pintle_sdk::document::Document;
use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, ObjectKey, Outcome, Query, Refusal, Resource, Step, decode};
use plugin_lib::controller_ref::claim;

use crate::context::Context;
use crate::replicas::{Strategy, strategy};
use crate::revision::{LAST_APPLIED, is_shared};
use crate::rollback::rollback_to;
use crate::sync::unknown_strategy;
use crate::template::equal_ignore_hash;
use crate::types::{Deployment, ListedReplicaSet, ReplicaSet};

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    terminating_replicas: bool,
}

/// Computes the changes for one Deployment.
///
/// # Errors
/// A live read is needed before an adoption; an object does not decode; or the Deployment is invalid (its selector, or
/// an unknown strategy).
#[doc(alias = "syncDeployment", alias = "getReplicaSetsForDeployment")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(text) = lister.get_json(&Deployment::KIND, &ObjectKey::new(&key.namespace, &key.name)) else {
        return Ok(Outcome::new());
    };
    let d: Deployment = decode(&Deployment::KIND, &text)?;
    if d.spec.selector.as_ref() == Some(&LabelSelector::default()) {
        return refuse_to_select_all(&d, &text);
    }
    let selector = Selector::from_label_selector(d.spec.selector.as_ref()).map_err(|why| {
        Error::retry(format!("deployment {}/{} has invalid label selector: {why}", key.namespace, key.name))
    })?;

    let sets =
        lister.list::<ListedReplicaSet>(&Query::namespace(&key.namespace).controlled_by_or_orphans(&d.metadata.uid))?;
    let mut claimed = claim::<Deployment, ListedReplicaSet>(lister, &d.metadata, &selector, sets)?;
    let claims = claimed.step();
    if claimed.owned.iter().any(|set| !set.metadata.is_controlled_by(&d.metadata.uid)) {
        return Ok(Outcome::new().step(claims));
    }

    let failed_before = lister.attempt() > 0;
    let Config { terminating_replicas } = lister.config()?;
    let sets = read(lister, &d, claimed.owned)?;
    let mut context = Context::new(lister.now()?, d, text, sets, lister.failures());
    context.counts_terminating = terminating_replicas;
    let mut outcome = run(context, lister, failed_before)?;
    if !claims.mutations.is_empty() {
        // After a failed claim, no further step runs.
        outcome.steps.iter_mut().for_each(|step| step.always = false);
        outcome.steps.insert(0, claims);
    }
    Ok(outcome)
}

/// The ReplicaSets of the Deployment, read one at a time. Only the new one, the oldest with the Deployment's template,
/// keeps its template and all annotations: those of a long history may be larger than the memory of a run.
fn read(lister: &impl Lister, d: &Deployment, mut owned: Vec<ListedReplicaSet>) -> Result<Vec<ReplicaSet>, Error> {
    let age = |set: &ListedReplicaSet| (set.metadata.creation_timestamp, set.metadata.name.clone());
    owned.sort_by_cached_key(age);
    let mut sets = Vec::with_capacity(owned.len());
    let mut has_new = false;
    for listed in owned {
        let meta = listed.metadata;
        let Some(mut set) = lister.get::<ReplicaSet>(&meta.namespace, &meta.name)? else { continue };
        if !has_new && equal_ignore_hash(&set.spec.template, &d.spec.template) {
            has_new = true;
        } else {
            set.spec.template = PodTemplateSpec::default();
            set.metadata.annotations.retain(|name, _| !is_shared(name));
            set.metadata.annotations.remove(LAST_APPLIED);
            set.metadata.labels.clear();
        }
        sets.push(set);
    }
    Ok(sets)
}

#[doc(alias = "syncDeployment", alias = "syncStatusOnly")]
fn run(mut context: Context, lister: &impl Lister, failed_before: bool) -> Result<Outcome, Error> {
    if context.d.metadata.is_deleting() {
        context.sync_revision();
        context.sync_status();
        return context.finish();
    }
    context.check_paused();
    // A pause is reported even while other writes fail, and so is the revision of an existing ReplicaSet.
    if failed_before && context.is_status_changed() {
        return context.finish();
    }
    context.sync_revision();
    if failed_before && context.is_status_changed() && !context.has_writes() {
        return context.finish();
    }
    if context.d.spec.paused {
        context.sync();
    } else if let Some(to) = rollback_to(&context.d) {
        context.rollback(lister, to)?;
    } else if context.is_scaling_event() {
        context.sync();
    } else {
        match strategy(&context.d).map_err(unknown_strategy)? {
            Strategy::Recreate => context.rollout_recreate(lister)?,
            Strategy::RollingUpdate => context.rollout_rolling(lister)?,
        }
    }
    context.finish()
}

/// An empty selector would match every ReplicaSet of the namespace.
fn refuse_to_select_all(d: &Deployment, text: &str) -> Result<Outcome, Error> {
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    let mut mutations = vec![Event::warning(&Deployment::KIND, &d.metadata, "SelectingAll", message).into()];
    if d.status.observed_generation < d.metadata.generation {
        let mut document = Document::parse(text)?;
        document.set(&["status", "observedGeneration"], &d.metadata.generation);
        let update = Mutation::update_status(&Deployment::KIND, document);
        // All these errors are tolerated, as upstream does. A conflict loses nothing: it comes from a newer object,
        // which runs this key again.
        mutations.push(update.tolerate([Refusal::Conflict, Refusal::NotFound, Refusal::Invalid, Refusal::Forbidden]));
    }
    Ok(Outcome::new().step(Step::sequential(mutations)))
}
