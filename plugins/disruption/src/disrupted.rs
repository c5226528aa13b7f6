//! Healthy Pods, and Pods that count as deleted because the API server has just evicted them.
//!
//! The API server records each eviction in `status.disruptedPods` before it deletes the Pod. The entry stays until the
//! Pod is seen to be deleted; after two minutes it expires, and the Pod counts again.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{Event, Resource};
use plugin_lib::pods;

use crate::types::{CountedPod, PodDisruptionBudget};

/// Time limit between an eviction and the deletion of its Pod.
#[doc(alias = "DeletionTimeout")]
const DELETION_TIMEOUT: Duration = Duration::from_secs(120);

/// Most expired evictions that one run reports, each with an event: the host drops events from an outcome that is too
/// large.
const MOST_EXPIRED: usize = 500;

/// Pending evictions of a budget.
#[derive(Debug, Default)]
pub(crate) struct Disrupted {
    /// Eviction time by Pod name.
    pub(crate) pods: BTreeMap<String, Timestamp>,
    /// Time at which the first of them expires.
    pub(crate) recheck: Option<Timestamp>,
    /// Number of healthy Pods.
    pub(crate) n_healthy: i32,
    /// Names and uids of Pods that were not deleted in time.
    expired: Vec<(String, String)>,
}

impl Disrupted {
    #[doc(alias = "buildDisruptedPodMap", alias = "countHealthyPods")]
    pub(crate) fn of(pdb: &PodDisruptionBudget, pods: &[CountedPod], now: Timestamp) -> Self {
        let mut disrupted = Self::default();
        for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
            let name = &pod.metadata.name;
            let evicted = pdb.status.disrupted_pods.get(name).copied();
            let end = evicted.map(|at| at.plus(DELETION_TIMEOUT));
            if let (Some(at), Some(end)) = (evicted, end) {
                if end < now && disrupted.expired.len() < MOST_EXPIRED {
                    disrupted.expired.push((name.clone(), pod.metadata.uid.clone()));
                } else if end < now {
                    // It stays until a later run reports it, which the current status write starts.
                    disrupted.pods.insert(name.clone(), at);
                } else {
                    disrupted.recheck = Some(disrupted.recheck.map_or(end, |other| other.min(end)));
                    disrupted.pods.insert(name.clone(), at);
                }
            }
            if end.is_none_or(|end| end <= now) && pods::is_ready(pod) {
                disrupted.n_healthy = disrupted.n_healthy.saturating_add(1);
            }
        }
        disrupted
    }

    /// Warnings about Pods that were not deleted. The namespace appears twice, as upstream.
    pub(crate) fn not_deleted(&self, pdb: &PodDisruptionBudget) -> Vec<Event> {
        let namespace = &pdb.metadata.namespace;
        let message = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        let event = |(name, uid): &(String, String)| Event {
            regarding_kind: CountedPod::KIND,
            regarding: pintle_sdk::ObjectKey::new(namespace, name),
            regarding_uid: uid.clone(),
            event_type: pintle_sdk::EventType::Warning,
            reason: "NotDeleted".into(),
            message: message.clone(),
        };
        self.expired.iter().map(event).collect()
    }
}
