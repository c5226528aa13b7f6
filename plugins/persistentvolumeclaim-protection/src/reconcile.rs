//! The finalizers and conditions of the claims of one namespace.

use std::time::Duration;

use pintle_sdk::{Error, Key, Lister, Outcome, Query, Resource, Step, log};
use plugin_lib::batch::{Batch, SOON};
use plugin_lib::listing::fitting;
use plugin_lib::protection::{Protection, protection};

use crate::types::PersistentVolumeClaim;
use crate::unused;
use crate::usage::{self, Live, Usage, Verb, in_cache, live};

#[doc(alias = "PVCProtectionFinalizer")]
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Delay before checking again for a Pod that only the API server has shown: it may be deleted before the cache ever
/// has it, without an event.
const UNSEEN: Duration = Duration::from_secs(60);

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    unused_since: bool,
}

/// Computes the finalizers and conditions of a namespace's claims.
///
/// # Errors
/// If the Pods must be listed first, or that fails.
#[doc(alias = "processPVCsByNamespace", alias = "processPVC", alias = "isBeingUsedWith")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let namespace = &key.name;
    let config: Config = lister.config()?;
    // The usage, or the error of reading it, which does not affect the other claims.
    let mut pods: Option<Result<Usage, Error>> = None;
    let mut updates = Batch::default();
    let nodes = usage::nodes(lister, namespace);
    let mut outcome = Outcome::new();
    for claim in fitting::<PersistentVolumeClaim>(lister, &Query::namespace(namespace)) {
        let mut is_unseen = false;
        // Whether a Pod does so according to the API server; `None` if that is unknown.
        let mut live_has = |verb: Verb| -> Result<Option<bool>, Error> {
            if pods.is_none() {
                pods = Some(match live(namespace, nodes.get(), lister) {
                    Ok(Live::Usage(usage)) => Ok(usage),
                    Ok(Live::TooMany(busiest)) => {
                        outcome = nodes.keep(std::mem::take(&mut outcome), &busiest);
                        Err(Error::retry("the pods are more than one list can have; they are listed by node"))
                    }
                    Err(needs @ Error::Needs(_)) => return Err(needs),
                    Err(error) => Err(error),
                });
            }
            let usage = pods.as_ref().and_then(|pods| pods.as_ref().ok());
            let has = usage.map(|usage| (usage.has(verb, &claim), usage.is_partial && verb == Verb::Reference));
            is_unseen |= has.is_some_and(|(has, _)| has);
            Ok(has.filter(|(has, is_unknown)| *has || !is_unknown).map(|(has, _)| has))
        };
        let decision = protection(&claim.metadata, FINALIZER, || {
            // In use unless proved otherwise.
            Ok(in_cache(Verb::Use, &claim, lister) || live_has(Verb::Use)?.unwrap_or(true))
        })?;
        let mut is_used = None;
        if config.unused_since && decision == Protection::Unchanged && unused::is_due(&claim) {
            is_used = match in_cache(Verb::Reference, &claim, lister) {
                true => Some(true),
                // Otherwise there is nothing to write, whatever the API server has.
                false if unused::differs(&claim, false) => live_has(Verb::Reference)?,
                false => None,
            }
            .filter(|is_used| unused::differs(&claim, *is_used));
        }
        if is_unseen {
            outcome = outcome.requeue_after(UNSEEN);
        }
        if matches!(decision, Protection::Unchanged | Protection::Wait) && is_used.is_none() {
            continue;
        }
        let document = lister.get_document::<PersistentVolumeClaim>(namespace, &claim.metadata.name)?;
        let Some((_, document)) = document else { continue };
        let update = match is_used {
            Some(is_used) => Some(unused::update(document, is_used, lister.now()?)),
            None => decision.update(&PersistentVolumeClaim::KIND, &claim.metadata, document, FINALIZER),
        };
        // Claims are read one by one: all of a namespace may exceed the memory of a run.
        if update.is_some_and(|update| !updates.add(update)) {
            outcome = outcome.requeue_after(SOON);
            break;
        }
    }
    outcome.push(Step::parallel(updates.mutations));
    match pods {
        Some(Err(error)) if !outcome.state.is_empty() => {
            log::debug(&error.to_string());
            Ok(outcome.requeue_after(SOON))
        }
        Some(Err(error)) if outcome.steps.is_empty() => Err(error),
        Some(Err(error)) => Ok(outcome.fail(error)),
        Some(Ok(_)) => Ok(nodes.forget(outcome)),
        None => Ok(outcome),
    }
}
