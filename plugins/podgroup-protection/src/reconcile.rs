//! The finalizer of one PodGroup.

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Lister, ObjectKey, Outcome, Query, Step, decode};
use plugin_lib::pods;
use plugin_lib::protection::{Protection, protection};

use crate::types::{Pod, PodGroup};

#[doc(alias = "PodGroupProtectionFinalizer")]
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

/// Computes whether a group's finalizer is removed.
///
/// # Errors
/// If the group or one of its Pods does not fit its type.
#[doc(alias = "processPodGroup")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(text) = lister.get_json(&key.kind, &ObjectKey::new(&key.namespace, &key.name)) else {
        return Ok(Outcome::new());
    };
    let group: PodGroup = decode(&key.kind, &text)?;
    let decision = protection(&group.metadata, FINALIZER, || has_active_pods(key, lister))?;
    let update = match decision {
        Protection::Remove => decision.update(&key.kind, &group.metadata, Document::parse(&text)?, FINALIZER),
        Protection::Add | Protection::Unchanged | Protection::Wait => None,
    };
    Ok(Outcome::new().step(Step::sequential(update)))
}

/// Whether a Pod that has not ended belongs to the group.
#[doc(alias = "hasActivePods", alias = "isPodTerminated")]
fn has_active_pods(key: &Key, lister: &impl Lister) -> Result<bool, Error> {
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace).index("group", &key.name))?;
    Ok(pods.iter().any(|pod| !pods::is_terminal(pod)))
}
