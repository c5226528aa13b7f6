//! Keeps PersistentVolumeClaims that are being deleted until no Pod uses them, by the finalizer `kubernetes.io/pvc-protection`.
//!
//! *Flow*: key of a Namespace -> its claims -> used by a Pod in the cache? -> used by a Pod at the API server (one list for all
//! claims)? -> updates that add or remove the finalizer.
//!
//! *Invariant*: a finalizer goes only after a list of the API server has shown no Pod that uses the claim.
//!
//! *Source*: Kubernetes' `pkg/controller/volume/pvcprotection`. Of the 37 rows of `TestPVCProtectionController`
//! (`pvc_protection_controller_test.go`), 21 are cases, and one is a story of plugins/tests. The other 15 need the feature gate
//! `PersistentVolumeClaimUnusedSinceTime`, which is alpha and off; the host refuses to turn it on.
//!
//! *Not as upstream*
//! - Keys are Namespaces, so that `workqueue_*` counts these. Upstream has keys of claims, and collects by namespace those that wait.
//! - The claim of an ephemeral volume is looked at when its Pod is shut down. Upstream does so only if the containers have ended, too.

mod usage;

use std::time::Duration;

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step, json, log};
use plugin_lib::protection::{Protection, protection};

use crate::usage::{Live, Usage, in_cache, live, state_of};

pintle_sdk::types!("manifest.yaml");

const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Updates of one run. A claim is a few kilobytes, and at most those of an object of etcd; an outcome is limited.
const MOST_UPDATES: usize = 500;
const MOST_BYTES: usize = 4 << 20;

/// As soon as the caches show what was written.
const AT_ONCE: Duration = Duration::from_millis(5);

/// When to look again for a Pod that only the API server has shown: it may go before the cache ever has it, without a change.
const UNSEEN: Duration = Duration::from_secs(60);

/// Says which claims of a namespace get the finalizer, and which lose it.
///
/// # Errors
/// If the Pods must be listed first, or that fails.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let namespace = &key.name;
    // What is in use, or why that is not known, which is no reason to leave the other claims alone.
    let mut pods: Option<Result<Usage, Error>> = None;
    let (mut updates, mut n_bytes) = (Vec::new(), 0);
    let mut outcome = Outcome::new();
    for claim in lister.list::<PersistentVolumeClaim>(&Query::namespace(namespace))? {
        let mut is_unseen = false;
        let decision = protection(&claim.metadata, FINALIZER, || {
            if in_cache(&claim, lister)? {
                return Ok(true);
            }
            if pods.is_none() {
                pods = Some(match live(namespace, lister) {
                    Ok(Live::Usage(usage)) => Ok(usage),
                    Ok(Live::TooMany(nodes)) => {
                        outcome = std::mem::take(&mut outcome).keep(state_of(namespace), json(&nodes));
                        Err(Error::retry("the pods are more than one list can have; they are listed by node"))
                    }
                    Err(needs @ Error::Needs(_)) => return Err(needs),
                    Err(error) => Err(error),
                });
            }
            // In use as long as the opposite is not known.
            is_unseen = pods.as_ref().is_some_and(|pods| pods.as_ref().is_ok_and(|pods| pods.has(&claim)));
            Ok(is_unseen || pods.as_ref().is_some_and(Result::is_err))
        })?;
        if is_unseen {
            outcome = outcome.requeue_after(UNSEEN);
        }
        if matches!(decision, Protection::Unchanged | Protection::Wait) {
            continue;
        }
        let document = lister.get_document::<PersistentVolumeClaim>(namespace, &claim.metadata.name)?;
        let Some((_, document)) = document else { continue };
        n_bytes += pintle_sdk::json(&document).len();
        if updates.len() == MOST_UPDATES || (n_bytes > MOST_BYTES && !updates.is_empty()) {
            outcome = outcome.requeue_after(AT_ONCE);
            break;
        }
        updates.extend(decision.update(&PersistentVolumeClaim::KIND, &claim.metadata, document, FINALIZER));
    }
    outcome.push(Step::parallel(updates));
    match pods {
        Some(Err(error)) if !outcome.state.is_empty() => {
            log::debug(&error.to_string());
            Ok(outcome.requeue_after(AT_ONCE))
        }
        Some(Err(error)) if outcome.steps.is_empty() => Err(error),
        Some(Err(error)) => Ok(outcome.fail(error)),
        Some(Ok(_)) if lister.state(&state_of(namespace)).is_some() => Ok(outcome.forget(state_of(namespace))),
        _ => Ok(outcome),
    }
}

pintle_sdk::export!(reconcile);
