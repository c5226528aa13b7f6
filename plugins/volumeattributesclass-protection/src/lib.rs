//! Keeps VolumeAttributesClasses that are being deleted while volumes or claims name them, by the finalizer
//! `kubernetes.io/vac-protection`.
//!
//! *Flow*: key of a VolumeAttributesClass -> named by a volume or a claim in the cache? -> an update that adds or removes the finalizer.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/vacprotection`. All 16 rows of `TestVACProtectionController`
//! (`vac_protection_controller_test.go`) are cases. As upstream, it asks the caches only: a class may go while a claim that names it is
//! on its way to them.

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step};
use plugin_lib::protection::protection;

pintle_sdk::types!("manifest.yaml");

const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Says whether a class gets the finalizer, or loses it.
///
/// # Errors
/// If the class does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((class, document)) = lister.get_document::<VolumeAttributesClass>("", &key.name)? else {
        return Ok(Outcome::new());
    };
    let decision = protection(&class.metadata, FINALIZER, || Ok(is_used(&key.name, lister)))?;
    let update = decision.update(&VolumeAttributesClass::KIND, &class.metadata, document, FINALIZER);
    Ok(Outcome::new().step(Step::sequential(update)))
}

/// Whether a volume names the class, or a claim as wanted, as current, or as the one that it changes to.
///
/// *Source*: `getPVReferencedVACNames`, `getPVCReferencedVACNames`.
fn is_used(class: &str, lister: &impl Lister) -> bool {
    let named = |index: &str| Query::all().index(index, class);
    lister.count(&PersistentVolume::KIND, &named("class")) > 0
        || ["class", "current", "target"]
            .iter()
            .any(|index| lister.count(&PersistentVolumeClaim::KIND, &named(index)) > 0)
}

pintle_sdk::export!(reconcile);
