//! Deletes finished and evicted Pods after a delay.
//!
//! Pods of a Job are skipped, because the Job has its own TTL, and so are Pods with the annotation
//! `pod-reaper.example.com/keep: "true"`.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Error, Event, Key, Lister, Mutation, Outcome, Resource, Step};
use serde::Deserialize;

pintle_sdk::types!("manifest.yaml");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    finished_seconds: u64,
    evicted_seconds: u64,
}

impl Pod {
    fn is_left_alone(&self) -> bool {
        let is_of_job = || self.metadata.controller().is_some_and(|owner| owner.kind == "Job");
        self.metadata.is_deleting() || self.metadata.annotations.keep.as_deref() == Some("true") || is_of_job()
    }

    /// How the Pod ended, and its remaining lifetime after that; `None` if it has not ended.
    fn end(&self, settings: &Settings) -> Option<(&'static str, Duration)> {
        let finished = Duration::from_secs(settings.finished_seconds);
        match (self.status.phase.as_str(), self.status.reason.as_str()) {
            ("Failed", "Evicted") => Some(("evicted", Duration::from_secs(settings.evicted_seconds))),
            ("Failed", _) => Some(("failed", finished)),
            ("Succeeded", _) => Some(("succeeded", finished)),
            _ => None,
        }
    }

    /// When its last container ended; the Pod's creation if none ever ran, as for many evicted Pods.
    fn ended_at(&self) -> Option<Timestamp> {
        let states = self.status.container_statuses.iter().filter_map(|status| status.state.terminated.as_ref());
        states.filter_map(|terminated| terminated.finished_at).max().or(self.metadata.creation_timestamp)
    }
}

/// Computes whether one Pod is deleted, or when to check again.
///
/// # Errors
/// If the Pod or the configuration does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(pod) = lister.get::<Pod>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    let Some((what, stays)) = pod.end(&lister.config()?) else { return Ok(Outcome::new()) };
    let Some(ended_at) = pod.ended_at().filter(|_| !pod.is_left_alone()) else { return Ok(Outcome::new()) };
    let left = ended_at.plus(stays).since(lister.now()?);
    if !left.is_zero() {
        return Ok(Outcome::new().requeue_after(left));
    }
    let message = format!("{what} more than {} s ago", stays.as_secs());
    let delete = Mutation::delete(&Pod::KIND, &key.namespace, &key.name)
        .uid(&pod.metadata.uid)
        .on_success(Event::normal(&Pod::KIND, &pod.metadata, "Reaped", message));
    Ok(Outcome::new().step(Step::sequential([delete])))
}

pintle_sdk::export!(reconcile);
