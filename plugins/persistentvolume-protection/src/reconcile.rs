//! The finalizer of one PersistentVolume.

use pintle_sdk::{Error, Key, Lister, Outcome, Resource, Step};
use plugin_lib::protection::protection;

use crate::types::PersistentVolume;

#[doc(alias = "PVProtectionFinalizer")]
const FINALIZER: &str = "kubernetes.io/pv-protection";

/// Computes whether a volume's finalizer is added or removed.
///
/// # Errors
/// If the volume does not fit its type.
#[doc(alias = "processPV", alias = "isBeingUsed")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((volume, document)) = lister.get_document::<PersistentVolume>("", &key.name)? else {
        return Ok(Outcome::new());
    };
    let decision = protection(&volume.metadata, FINALIZER, || Ok(volume.status.phase == "Bound"))?;
    let update = decision.update(&PersistentVolume::KIND, &volume.metadata, document, FINALIZER);
    Ok(Outcome::new().step(Step::sequential(update)))
}
