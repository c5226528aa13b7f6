//! The finalizer of one VolumeAttributesClass.

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step};
use plugin_lib::protection::protection;

use crate::types::{PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass};

#[doc(alias = "VACProtectionFinalizer")]
const FINALIZER: &str = "kubernetes.io/vac-protection";

/// Computes whether a class's finalizer is added or removed.
///
/// # Errors
/// If the class does not fit its type.
#[doc(alias = "processVAC")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some((class, document)) = lister.get_document::<VolumeAttributesClass>("", &key.name)? else {
        return Ok(Outcome::new());
    };
    let decision = protection(&class.metadata, FINALIZER, || Ok(is_used(&key.name, lister)))?;
    let update = decision.update(&VolumeAttributesClass::KIND, &class.metadata, document, FINALIZER);
    Ok(Outcome::new().step(Step::sequential(update)))
}

/// Whether a volume refers to the class, or a claim does as its desired, current or target class.
#[doc(alias = "isBeingUsed", alias = "getPVReferencedVACNames", alias = "getPVCReferencedVACNames")]
fn is_used(class: &str, lister: &impl Lister) -> bool {
    let named = |index: &str| Query::all().index(index, class);
    lister.count(&PersistentVolume::KIND, &named("class")) > 0
        || ["class", "current", "target"]
            .iter()
            .any(|index| lister.count(&PersistentVolumeClaim::KIND, &named(index)) > 0)
}
