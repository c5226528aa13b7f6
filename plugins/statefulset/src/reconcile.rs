//! One run for a StatefulSet.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Key, Lister, Outcome, Step, log};
use plugin_lib::pods;

use crate::history;
use crate::plan::Plan;
use crate::replicas::{self, Replicas};
use crate::set::Set;
use crate::status::Status;
use crate::sync::{Flow, Sync};
use crate::types::{Pod, StatefulSet};

const MAX_UNAVAILABLE: &str = "statefulset_controller_statefulset_max_unavailable";
const UNAVAILABLE: &str = "statefulset_controller_statefulset_unavailable_replicas";

/// Most Pods and revisions that one run adopts and releases.
const MAX_CLAIMS: usize = 300;

/// When a run that leaves work to another one is followed by it.
const SOON: Duration = Duration::from_millis(5);

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    max_unavailable: bool,
    semantic_revisions: bool,
}

/// Says what should change for the StatefulSet that the key names.
///
/// # Errors
/// If an object does not fit its type, or nothing can be adopted at this time.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((object, document)) = lister.get_document::<StatefulSet>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let set = match Set::new(object) {
        Ok(set) => set,
        Err(error) => {
            log::error(&format!("{error}; nothing is done until the StatefulSet changes"));
            return Ok(Outcome::new());
        }
    };
    let now = lister.now()?;
    let config: Config = lister.config()?;
    let history = history::list(lister, &set)?;
    let mut claimed = replicas::claim(lister, &set)?;
    claimed.mutations.splice(..0, history::adopt(lister, &set, &history)?);
    if let Some(part) = claimed.part(MAX_CLAIMS, lister) {
        return Ok(Outcome::new().step(part));
    }
    let claims = claimed.step();
    let pods = claimed.owned;
    let revisions = history::resolve(lister, &set, &history, config.semantic_revisions)?;
    // What could not be claimed or recorded must not be counted.
    let is_certain = claims.mutations.is_empty() && revisions.write.is_none();
    let mut outcome = Outcome::new().step(claims).step(Step::sequential(revisions.write.clone()));
    // If Pods are refused again and again, a status that must not be written without these writes comes before the Pods.
    let is_status_first = !is_certain && lister.attempt() > 0;

    let replicas = Replicas::sort(&set, &pods);
    let failures = lister.failures();
    let plan = Plan::default();
    let mut sync =
        Sync { lister, set: &set, revisions: &revisions, replicas: &replicas, failures: &failures, now, plan };
    let mut n_gone = 0;
    if !set.is_deleting() && sync.scale()? == Flow::Continue {
        n_gone = sync.roll(config.max_unavailable);
    }
    if config.max_unavailable {
        outcome = observe(outcome, &sync);
    }
    let plan = sync.plan;
    if plan.is_full() || plan.is_apart() {
        // Writes of claims alone would not run the key again.
        outcome = outcome.requeue_after(SOON);
    }
    let mut status = match set.is_deleting() {
        true => Status::of(&set, &revisions, &pods, now),
        false => Status::of(&set, &revisions, replicas.all(), now),
    };
    if !is_status_first {
        status.current_replicas -= n_gone;
    }
    if let Some(after) = next_availability(&set, &status, &pods, now) {
        outcome = outcome.requeue_after(after);
    }
    let (deletes, are_left) = history::truncate(&set, &history, &revisions, &pods);
    let report = [Step::sequential(status.write(&set, document)), Step::sequential(deletes)];
    let report = report.map(|step| Step { always: is_certain, ..step });
    let steps = if is_status_first {
        report.into_iter().chain(plan.steps).collect()
    } else {
        [plan.steps, report.into()].concat()
    };
    steps.into_iter().for_each(|step| outcome.push(step));
    Ok(if are_left { outcome.requeue_after(SOON) } else { outcome })
}

/// When the next Pod becomes available, if one is ready and not available.
fn next_availability(set: &Set, status: &Status, all: &[Pod], now: Timestamp) -> Option<Duration> {
    let min_ready = u64::try_from(set.min_ready_seconds()).ok().filter(|seconds| *seconds > 0)?;
    if status.ready_replicas == status.available_replicas {
        return None;
    }
    let next = all.iter().filter_map(|pod| pods::until_available(pod, set.min_ready_seconds(), now)).min();
    Some(next.unwrap_or(Duration::from_secs(min_ready)))
}

/// Both metrics, which exist only if `maxUnavailable` counts.
fn observe<L: Lister>(outcome: Outcome, sync: &Sync<'_, L>) -> Outcome {
    let set = sync.set;
    let policy = set.object.spec.pod_management_policy.clone();
    let labels = vec![set.namespace().to_owned(), set.name().to_owned(), policy];
    // Numbers of replicas have 32 bits.
    let (limit, unavailable) = (set.max_unavailable() as f64, sync.n_unavailable() as f64);
    outcome.observe(MAX_UNAVAILABLE, labels.clone(), limit).observe(UNAVAILABLE, labels, unavailable)
}
