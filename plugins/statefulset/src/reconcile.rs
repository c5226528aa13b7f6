//! One run of a StatefulSet.

use pintle_sdk::{Error, Key, Lister, Outcome, Step, log};
use plugin_lib::batch::SOON;
use plugin_lib::pods;

use crate::context::Context;
use crate::history;
use crate::replicas::{self, Replicas};
use crate::set::Set;
use crate::set_control::Flow;
use crate::status::Status;
use crate::types::StatefulSet;
use crate::writes::Writes;

const MAX_UNAVAILABLE: &str = "statefulset_controller_statefulset_max_unavailable";
const UNAVAILABLE: &str = "statefulset_controller_statefulset_unavailable_replicas";

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    max_unavailable: bool,
    recreate: bool,
    semantic_revisions: bool,
}

/// Computes the changes for one StatefulSet.
///
/// # Errors
/// If an object does not fit its type, or nothing can be adopted now.
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
    let claims = claimed.step();
    let pods = claimed.owned;
    let revisions = history::resolve(lister, &set, &history, config.semantic_revisions)?;
    // Objects whose claim or revision write failed must not be counted.
    let is_certain = claims.mutations.is_empty() && revisions.write.is_none();
    let mut outcome = Outcome::new().step(claims).step(Step::sequential(revisions.write.clone()));
    let deletes = Step::sequential(history::truncate(&set, &history, &revisions, &pods));
    if set.recreates() && !config.recreate {
        let (event, error) = set.unknown_strategy();
        return Ok(outcome.step(Step::sequential([event])).step(deletes).fail(error));
    }
    // If Pod writes fail repeatedly, a status that depends on these writes comes before the Pods.
    let is_status_first = !is_certain && lister.attempt() > 0;

    let replicas = Replicas::sort(&set, &pods);
    let failures = lister.failures();
    let writes = Writes::default();
    let mut context =
        Context { lister, set: &set, revisions: &revisions, replicas: &replicas, failures: &failures, now, writes };
    let mut n_gone = 0;
    let (flow, progress) = if set.is_deleting() { (Flow::Stop, None) } else { context.recreate() };
    if flow == Flow::Continue && context.scale()? == Flow::Continue {
        n_gone = context.roll(config.max_unavailable);
    }
    if config.max_unavailable {
        outcome = observe(outcome, &context);
    }
    let writes = context.writes;
    if writes.is_full() || writes.is_apart() {
        // Claim writes alone would not run the key again.
        outcome = outcome.requeue_after(SOON);
    }
    let mut status = match set.is_deleting() {
        true => Status::of(&set, &revisions, &pods, now),
        false => Status::of(&set, &revisions, replicas.all(), now),
    };
    // A deletion counts once it has succeeded: the status waits for it, and in a retry for the caches.
    let n_gone = if lister.attempt() > 0 { 0 } else { n_gone };
    status.current_replicas -= n_gone;
    if let Some(message) = progress {
        status.progressing("True", "RecreateInProgress", message, now);
    }
    if status.ready_replicas != status.available_replicas {
        let next = pods::next_availability(&pods, set.min_ready_seconds(), now);
        outcome = next.into_iter().fold(outcome, Outcome::requeue_after);
    }
    let status = Step::sequential(status.update(&set, document, now));
    let report = [Step { always: is_certain && n_gone == 0, ..status }, Step { always: is_certain, ..deletes }];
    let steps = if is_status_first {
        report.into_iter().chain(writes.steps).collect()
    } else {
        [writes.steps, report.into()].concat()
    };
    steps.into_iter().for_each(|step| outcome.push(step));
    Ok(outcome)
}

/// Both metrics, which exist only if `maxUnavailable` is enforced.
fn observe<L: Lister>(outcome: Outcome, context: &Context<'_, L>) -> Outcome {
    let set = context.set;
    let policy = set.object.spec.pod_management_policy.clone();
    let labels = vec![set.namespace().to_owned(), set.name().to_owned(), policy];
    // Replica counts have 32 bits.
    let (limit, unavailable) = (set.max_unavailable() as f64, context.n_unavailable() as f64);
    outcome.observe(MAX_UNAVAILABLE, labels.clone(), limit).observe(UNAVAILABLE, labels, unavailable)
}
