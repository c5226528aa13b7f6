//! Objects whose owners are gone.
//!
//! *Source*: `attemptToDeleteItem`.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Error, Event, Lister, Mutation, Outcome, Propagation, Refusal, Step};

use crate::absent::Absent;
use crate::object::{FOREGROUND, ORPHAN, Object};
use crate::owners::{self, Owners};

/// Deletes the object if none of its owners is left, else removes the references to those that are gone.
pub(crate) fn collect(object: &Object, lister: &impl Lister) -> Result<Outcome, Error> {
    if object.metadata.owner_references.is_empty() {
        return Ok(Outcome::new());
    }
    let mut absent = Absent::load(lister);
    let Ok(owners) = owners::classify(object, lister, &mut absent)? else {
        return Ok(Outcome::new());
    };
    let mut outcome = Outcome::new();
    if !owners.elsewhere.is_empty() {
        outcome.push(Step::parallel(owners.elsewhere.iter().map(|owner| wrong_namespace(object, owner))));
    }
    if !owners.solid.is_empty() {
        if !owners.dangling.is_empty() || !owners.waiting.is_empty() {
            // A reference to a waiting owner would keep it waiting for ever.
            let rest: Vec<OwnerReference> = owners.solid.iter().map(|owner| (*owner).clone()).collect();
            outcome.push(Step::sequential([object.set_owners(&rest).tolerate([Refusal::NotFound])]));
        }
        return Ok(absent.keep(outcome));
    }
    outcome.push(Step::sequential(delete(object, &owners, lister)?));
    Ok(absent.keep(outcome))
}

fn delete(object: &Object, owners: &Owners<'_>, lister: &impl Lister) -> Result<Vec<Mutation>, Error> {
    let deletion_of_any_version = |policy| {
        Mutation::delete(&object.kind(), &object.metadata.namespace, &object.metadata.name)
            .uid(&object.metadata.uid)
            .propagation(policy)
    };
    let deletion = |policy| deletion_of_any_version(policy).resource_version(&object.metadata.resource_version);
    let dependents = if owners.waiting.is_empty() { Vec::new() } else { object.dependents(lister)? };
    if dependents.is_empty() {
        let policy = if object.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else if object.has_finalizer(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        return Ok(vec![deletion(policy)]);
    }
    // An owner waits for this object, which has dependents of its own: they go first.
    let blocking = object.metadata.owner_references.iter().any(|owner| owner.block_owner_deletion == Some(true));
    if blocking && dependents.iter().any(Object::waits_for_dependents) {
        // A dependent waits as well: perhaps a circle, so this object must block nobody from now on.
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

fn wrong_namespace(object: &Object, owner: &OwnerReference) -> Mutation {
    let namespace = &object.metadata.namespace;
    let message = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace {namespace:?}",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    Event::warning(&object.kind(), &object.metadata, "OwnerRefInvalidNamespace", message).into()
}
