//! Objects whose owners are deleted.

use std::time::Duration;

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Error, Event, Lister, Mutation, MutationFailure, Need, Outcome, Propagation, Refusal, Step};
use plugin_lib::failures::Failures as _;

use crate::absent::Absent;
use crate::owners::{self, Cached, Impossible, Owners};
use crate::types::{FOREGROUND, ORPHAN, Object};

/// Delay before an owner that the cache lacks is checked again: it may never enter the cache, so no event would report
/// its deletion. Upstream checks each such owner up to every 1,000 s.
const UNSEEN: Duration = Duration::from_secs(300);

/// Deletes the object if none of its owners exists, else removes the references to deleted ones.
#[doc(alias = "attemptToDeleteItem")]
pub(crate) fn collect(object: &Object, lister: &impl Lister) -> Result<Outcome, Error> {
    if object.metadata.owner_references.is_empty() {
        return Ok(Outcome::new());
    }
    let mut absent = Absent::load(lister);
    let mut cached = Cached::new(lister);
    // A retry does not report it again.
    let elsewhere = owners::elsewhere(object, &mut cached)?.filter(|_| lister.attempt() == 0);
    let mut outcome = Outcome::new().step(Step::sequential(elsewhere.map(|owner| wrong_namespace(object, owner))));
    let owners = match owners::classify(object, lister, &mut cached, &mut absent) {
        Ok(Ok(owners)) => owners,
        Ok(Err(Impossible)) => return Ok(outcome),
        Err(error) if outcome.steps.is_empty() => return Err(error),
        Err(error) => return Ok(outcome.fail(error)),
    };
    if owners.is_any_unseen {
        outcome = outcome.requeue_after(UNSEEN);
    }
    if !owners.solid.is_empty() {
        if !owners.dangling.is_empty() || !owners.waiting.is_empty() {
            // A reference to a waiting owner would keep the owner waiting endlessly.
            let goes =
                |place: usize, _: &OwnerReference| owners.dangling.contains(&place) || owners.waiting.contains(&place);
            outcome.push(Step::sequential([object.remove_owners(goes).tolerate([Refusal::NotFound])]));
        }
        return Ok(absent.keep(outcome));
    }
    if owners.is_partial {
        if owners.dangling.is_empty() {
            return Err(Error::retry("not all owners could be looked for, and none of those found is gone"));
        }
        // References to absent owners make room for the rest. One reference stays, so that the object still has an
        // owner.
        let goes = |place: usize, _: &OwnerReference| owners.dangling.contains(&place);
        outcome.push(Step::sequential([object.remove_owners(goes).tolerate([Refusal::NotFound])]));
        return Ok(absent.keep(outcome));
    }
    outcome.push(Step::sequential(delete(object, &owners, lister)?));
    Ok(absent.keep(outcome))
}

#[doc(alias = "deleteObject", alias = "unblockOwnerReferencesJSONMergePatch")]
fn delete(object: &Object, owners: &Owners, lister: &impl Lister) -> Result<Vec<Mutation>, Error> {
    let deletion_of_any_version = |policy| {
        Mutation::delete(&object.kind(), &object.metadata.namespace, &object.metadata.name)
            .uid(&object.metadata.uid)
            .propagation(policy)
    };
    let is_version_moot = has_only_moved_on(object, lister)?;
    let deletion = |policy| match is_version_moot {
        true => deletion_of_any_version(policy),
        false => deletion_of_any_version(policy).resource_version(&object.metadata.resource_version),
    };
    let (mut has_dependents, mut is_any_waiting) = (false, false);
    if !owners.waiting.is_empty() {
        for dependent in object.dependents(lister) {
            has_dependents = true;
            is_any_waiting |= dependent?.waits_for_dependents();
        }
    }
    if !has_dependents {
        let policy = if object.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else if object.has_finalizer(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        return Ok(vec![deletion(policy)]);
    }
    // An owner waits for this object, which has dependents: they are deleted first.
    let blocking = object.metadata.owner_references.iter().any(|owner| owner.block_owner_deletion == Some(true));
    if blocking && is_any_waiting {
        // A dependent waits as well: possibly a cycle, so this object must not block its owners any more.
        let unblocked: Vec<OwnerReference> = object
            .metadata
            .owner_references
            .iter()
            .map(|owner| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() })
            .collect();
        return Ok(vec![object.set_owners(&unblocked), deletion_of_any_version(Propagation::Foreground)]);
    }
    Ok(vec![deletion(Propagation::Foreground)])
}

/// Whether the last run's delete conflicted although the object's owners are the same: other fields change so often
/// that the delete must ignore its version, or it would never succeed.
#[doc(alias = "deleteObject")]
fn has_only_moved_on(object: &Object, lister: &impl Lister) -> Result<bool, Error> {
    let (kind, key) = (object.kind(), object.metadata.key());
    let is_conflict = |failure: &MutationFailure| failure.reason == "Conflict" && failure.object == key;
    if !lister.failures().of("delete", &kind).any(is_conflict) {
        return Ok(false);
    }
    match lister.ask(Need::LiveObject { kind: kind.clone(), object: key.clone(), subresource: None })? {
        Ok(text) => {
            let live = Object::parse(&text)?.metadata;
            Ok(live.uid == object.metadata.uid && live.owner_references == object.metadata.owner_references)
        }
        Err(error) if error.code == 404 => Ok(false),
        Err(error) => Err(Error::retry(format!("read {kind} {key}: {}", error.message))),
    }
}

#[doc(alias = "reportInvalidNamespaceOwnerRef")]
fn wrong_namespace(object: &Object, owner: &OwnerReference) -> Mutation {
    let namespace = &object.metadata.namespace;
    let message = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    Event::warning(&object.kind(), &object.metadata, "OwnerRefInvalidNamespace", message).into()
}
