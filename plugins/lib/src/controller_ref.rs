//! Claiming: adopts and releases objects by controller reference and selector.
//!
//! A matching object without a controller is *adopted*; an owned object that no longer matches is *released*. Before
//! the first adoption the owner is read from the API server, because the cache may not show yet that it is being
//! deleted, and an object adopted then would be deleted with it.
//!
//! The manifest needs `{verbs: [patch], kinds: [...], of: controlled, adopt: true}`. If the watch of the owner's kind
//! declares `selects`, the host rejects the adoption of objects that the selector does not match.
//!
//! Source: `BaseControllerRefManager` of Kubernetes' `pkg/controller`. Upstream, a claim is a write in the middle of a
//! sync; here the patches are a step of the outcome, and the objects to adopt already count as owned.

use pintle_sdk::Error;
use pintle_sdk::Kind;
use pintle_sdk::Lister;
use pintle_sdk::api::meta::{HasController, HasDeletionTimestamp, HasLabels, Metadata, OwnerReference, Resource};
use pintle_sdk::selector::Selector;
use pintle_sdk::{Mutation, PatchType, Refusal, Step};
use serde_json::json;

/// Result of [`claim`].
#[derive(Clone, Debug)]
pub struct Claimed<T> {
    /// The owner's objects, including those that `mutations` adopt.
    pub owned: Vec<T>,
    /// Patches that adopt and release. Put them into a step before all others.
    pub mutations: Vec<Mutation>,
}

impl<T> Claimed<T> {
    /// The step of the patches. All are tried; a failure skips the following steps.
    pub fn step(&mut self) -> Step {
        Step::parallel(std::mem::take(&mut self.mutations))
    }
}

/// Claims `objects` for `owner`, an `O` that was read from `lister`.
///
/// `objects` are usually those of [`Query::controlled_by_or_orphans`](pintle_sdk::Query::controlled_by_or_orphans).
/// Objects of other controllers are left out. An owner that is being deleted neither adopts nor releases.
///
/// # Errors
/// [`Error::Needs`] for the live read before an adoption: pass it on with `?`.
/// A retry if the owner was replaced or is being deleted.
#[doc(alias = "ClaimPods")]
#[doc(alias = "ClaimReplicaSets")]
#[doc(alias = "ClaimControllerRevisions")]
pub fn claim<O, T>(
    lister: &impl Lister,
    owner: &O::Metadata,
    selector: &Selector,
    objects: Vec<T>,
) -> Result<Claimed<T>, Error>
where
    O: Resource<Metadata: HasDeletionTimestamp>,
    T: Resource<Metadata: HasLabels + HasController + HasDeletionTimestamp>,
{
    claim_where::<O, T>(lister, owner, selector, objects, |_| true)
}

/// As [`claim`], limited to the objects that `may_belong` accepts, as upstream's filters do: others are released and
/// never adopted, whatever the selector matches.
///
/// # Errors
/// As for [`claim`].
#[doc(alias = "ClaimPods")]
pub fn claim_where<O, T>(
    lister: &impl Lister,
    owner: &O::Metadata,
    selector: &Selector,
    objects: Vec<T>,
    may_belong: impl Fn(&T) -> bool,
) -> Result<Claimed<T>, Error>
where
    O: Resource<Metadata: HasDeletionTimestamp>,
    T: Resource<Metadata: HasLabels + HasController + HasDeletionTimestamp>,
{
    let nothing = Selector::nothing();
    let mut claimed = Claimed { owned: Vec::with_capacity(objects.len()), mutations: Vec::new() };
    let mut may_adopt = false;
    for object in objects {
        let meta = object.metadata();
        let selector = if may_belong(&object) { selector } else { &nothing };
        match relation(owner, selector, meta) {
            Relation::Owned => claimed.owned.push(object),
            Relation::Release => claimed.mutations.push(release(&T::KIND, meta, owner.uid())),
            Relation::Adopt => {
                if !may_adopt {
                    recheck::<O>(lister, owner)?;
                    may_adopt = true;
                }
                claimed.mutations.push(adopt(&O::KIND, owner, &T::KIND, meta));
                claimed.owned.push(object);
            }
            Relation::None => {}
        }
    }
    Ok(claimed)
}

/// Relation of an object to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The owner controls it, and the selector matches it.
    Owned,
    /// It has no controller and should be adopted: [`recheck`] the owner, then [`adopt`].
    Adopt,
    /// The owner controls it, and should no longer: [`release`].
    Release,
    /// It is unrelated: another object controls it, or none, and that stays so.
    None,
}

/// Relation of an object to an owner, by its controller reference and labels. An owner that is being deleted neither
/// adopts nor releases, an object that is being deleted is not adopted, and a namespaced owner adopts only in its
/// namespace.
#[doc(alias = "ClaimObject")]
pub fn relation(
    owner: &impl HasDeletionTimestamp,
    selector: &Selector,
    object: &(impl HasLabels + HasController + HasDeletionTimestamp),
) -> Relation {
    let matches = selector.matches(object.labels());
    match object.controller_uid() {
        Some(uid) if uid != owner.uid() => Relation::None,
        Some(_) if matches => Relation::Owned,
        Some(_) if !is_deleting(owner) => Relation::Release,
        Some(_) => Relation::None,
        None if matches && !is_deleting(owner) && !is_deleting(object) && same_namespace(owner, object) => {
            Relation::Adopt
        }
        None => Relation::None,
    }
}

fn same_namespace(owner: &impl Metadata, object: &impl Metadata) -> bool {
    owner.namespace().is_empty() || owner.namespace() == object.namespace()
}

fn is_deleting(object: &impl HasDeletionTimestamp) -> bool {
    object.deletion_timestamp().is_some()
}

/// Succeeds if the API server still has the owner, with the same uid and not being deleted. Call it before the first
/// adoption.
///
/// # Errors
/// [`Error::Needs`] for the read: pass it on with `?`. A retry if the owner was replaced or is being deleted.
#[doc(alias = "RecheckDeletionTimestamp")]
pub fn recheck<O>(lister: &impl Lister, owner: &O::Metadata) -> Result<(), Error>
where
    O: Resource<Metadata: HasDeletionTimestamp>,
{
    let name = owner.name();
    let fresh: Option<O> = lister.live(owner.namespace(), name)?;
    let kind = O::KIND;
    let Some(fresh) = fresh else {
        return Err(Error::retry(format!("cannot adopt: {kind} {name} is gone")));
    };
    let meta = fresh.metadata();
    if meta.uid() != owner.uid() {
        return Err(Error::retry(format!(
            "cannot adopt: {kind} {name} was replaced: uid {}, wanted {}",
            meta.uid(),
            owner.uid()
        )));
    }
    if let Some(since) = meta.deletion_timestamp() {
        return Err(Error::retry(format!("cannot adopt: {kind} {name} is being deleted since {since}")));
    }
    Ok(())
}

/// A patch that makes `owner` the controller of an object. The API server rejects it if the object has another
/// controller.
#[doc(alias = "AdoptPod")]
#[doc(alias = "AdoptReplicaSet")]
#[doc(alias = "AdoptControllerRevision")]
#[doc(alias = "ownerRefControllerPatch")]
pub fn adopt(owner_kind: &Kind, owner: &impl Metadata, kind: &Kind, object: &impl Metadata) -> Mutation {
    let body = json!({"metadata": {"ownerReferences": [OwnerReference::controller(owner_kind, owner)]}});
    Mutation::patch(kind, object.key(), PatchType::StrategicMerge, body).uid(object.uid()).tolerate([Refusal::NotFound])
}

/// A patch that removes the owner reference with this uid from an object.
#[doc(alias = "ReleasePod")]
#[doc(alias = "ReleaseReplicaSet")]
#[doc(alias = "ReleaseControllerRevision")]
#[doc(alias = "GenerateDeleteOwnerRefStrategicMergeBytes")]
pub fn release(kind: &Kind, object: &impl Metadata, owner_uid: &str) -> Mutation {
    let body = json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}});
    // Invalid: the object no longer has the owner reference. A conflict is not tolerated: it need not come from another
    // object of this name, whose arrival would run this key again.
    Mutation::patch(kind, object.key(), PatchType::StrategicMerge, body)
        .uid(object.uid())
        .tolerate([Refusal::NotFound, Refusal::Invalid])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_sdk::api::meta::ObjectMeta;
    use pintle_sdk::time::Timestamp;

    /// `deleted`, `of=UID`, `label=VALUE`, `in=NAMESPACE`.
    fn meta(text: &str) -> ObjectMeta {
        let mut meta = ObjectMeta { namespace: "ns".into(), ..ObjectMeta::default() };
        for word in text.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("deleted", _) => meta.deletion_timestamp = Some(Timestamp::from_micros(0)),
                ("uid", uid) => meta.uid = uid.into(),
                ("in", namespace) => meta.namespace = namespace.into(),
                ("of", uid) => meta.owner_references.push(OwnerReference {
                    uid: uid.into(),
                    controller: Some(true),
                    ..OwnerReference::default()
                }),
                (label, value) => drop(meta.labels.insert(label.into(), value.into())),
            }
        }
        meta
    }

    /// As `TestClaimPods` of controller_ref_manager_test.go.
    #[test]
    fn objects_are_claimed_by_controller_and_labels() {
        let selector = Selector::parse("app=web").unwrap();
        for (owner, object, expected) in [
            ("uid=1", "app=web", Relation::Adopt),
            ("uid=1", "app=other", Relation::None),
            ("uid=1 deleted", "app=web", Relation::None),
            ("uid=1", "app=web deleted", Relation::None),
            ("uid=1", "app=web in=other", Relation::None),
            ("uid=1 in=", "app=web in=other", Relation::Adopt),
            ("uid=1", "app=web of=2", Relation::None),
            ("uid=1", "app=other of=2", Relation::None),
            ("uid=1", "app=web of=1", Relation::Owned),
            ("uid=1", "app=web of=1 deleted", Relation::Owned),
            ("uid=1 deleted", "app=web of=1", Relation::Owned),
            ("uid=1", "app=other of=1", Relation::Release),
            ("uid=1 deleted", "app=other of=1", Relation::None),
            ("uid=1", "app=other of=1 deleted", Relation::Release),
        ] {
            assert_eq!(relation(&meta(owner), &selector, &meta(object)), expected, "{owner}: {object}");
        }
    }
}
