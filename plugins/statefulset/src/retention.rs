//! The owners of a claim by the retention policy; the claim is deleted with its owner.
//!
//! | policy | owner of a replica's claim | owner of a condemned replica's claim |
//! | --- | --- | --- |
//! | keep always | none | none |
//! | `whenDeleted: Delete` | the StatefulSet | the StatefulSet |
//! | `whenScaled: Delete` | none | its Pod |
//! | both | the StatefulSet | its Pod |
//!
//! Claims with an owner of the same name and another uid are left alone: the garbage collector deletes them.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::{Kind, Resource as _};

use crate::set::{Policy, Set};
use crate::types::{Pod, StatefulSet};

/// A StatefulSet and one of its replicas, as owners of a claim.
#[derive(Clone, Copy)]
pub(crate) struct Owners<'a> {
    set: Owner<'a>,
    pod: Owner<'a>,
    policy: Policy,
    is_wanted: bool,
}

#[derive(Clone, Copy)]
struct Owner<'a> {
    kind: &'a Kind,
    name: &'a str,
    /// Empty if the Pod does not exist yet.
    uid: &'a str,
}

const SET: &Kind = &StatefulSet::KIND;
const POD: &Kind = &Pod::KIND;

impl Owner<'_> {
    /// Whether a reference has its kind and name.
    fn is_named_by(&self, reference: &OwnerReference) -> bool {
        reference.api_version == self.kind.api_version()
            && reference.kind == self.kind.name
            && reference.name == self.name
    }

    /// Whether a reference has its uid.
    fn has(&self, references: &[OwnerReference]) -> bool {
        references.iter().any(|reference| reference.uid == self.uid)
    }

    /// Whether the first reference with its name has another uid.
    fn is_stale(&self, references: &[OwnerReference]) -> bool {
        references.iter().find(|reference| self.is_named_by(reference)).is_some_and(|found| found.uid != self.uid)
    }

    fn add(&self, references: &mut Vec<OwnerReference>) {
        if !self.has(references) {
            references.push(OwnerReference {
                api_version: self.kind.api_version(),
                kind: self.kind.name.to_string(),
                name: self.name.to_owned(),
                uid: self.uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            });
        }
    }
}

impl<'a> Owners<'a> {
    /// The owners of a replica's claims; `uid` is empty if the Pod does not exist yet.
    pub(crate) fn new(set: &'a Set, pod: &'a str, uid: &'a str, ordinal: i64) -> Self {
        Self {
            set: Owner { kind: SET, name: set.name(), uid: &set.object.metadata.uid },
            pod: Owner { kind: POD, name: pod, uid },
            policy: set.policy,
            is_wanted: set.wants(ordinal),
        }
    }

    /// Whether the claim belongs to an earlier Pod of this name, which blocks a new one.
    #[doc(alias = "PodClaimIsStale")]
    pub(crate) fn is_of_earlier_pod(&self, references: &[OwnerReference]) -> bool {
        self.policy.when_scaled && self.pod.is_stale(references)
    }

    /// Whether another controller manages the claim although the policy deletes claims.
    #[doc(alias = "hasUnexpectedController")]
    pub(crate) fn has_unexpected_controller(&self, references: &[OwnerReference]) -> bool {
        let is_unexpected = |reference: &OwnerReference| {
            let own = [self.set, self.pod].into_iter().find(|owner| owner.is_named_by(reference));
            own.map_or(reference.controller == Some(true), |own| own.uid != reference.uid)
        };
        self.policy != Policy::RETAIN && references.iter().any(is_unexpected)
    }

    fn has_owner_without_control(&self, references: &[OwnerReference]) -> bool {
        let is_own = |reference: &OwnerReference| reference.uid == self.set.uid || reference.uid == self.pod.uid;
        references.iter().any(|reference| is_own(reference) && reference.controller != Some(true))
    }

    /// Whether the StatefulSet and the Pod should own the claim.
    fn wanted(&self) -> (bool, bool) {
        let Policy { when_deleted, when_scaled } = self.policy;
        let by_pod = when_scaled && !self.is_wanted;
        (when_deleted && !by_pod, by_pod)
    }

    /// Whether the claim's owners are correct, or must not be changed.
    #[doc(alias = "isClaimOwnerUpToDate")]
    pub(crate) fn are_up_to_date(&self, references: &[OwnerReference]) -> bool {
        if self.set.is_stale(references) || self.pod.is_stale(references) {
            return true;
        }
        let has = (self.set.has(references), self.pod.has(references));
        if self.has_unexpected_controller(references) {
            return has == (false, false);
        }
        !self.has_owner_without_control(references) && has == self.wanted()
    }

    /// The owners of a new claim.
    pub(crate) fn of_new_claim(&self) -> Vec<OwnerReference> {
        let mut owners = Vec::new();
        if let (true, _) = self.wanted() {
            self.set.add(&mut owners);
        }
        owners
    }

    /// The owners that the claim should have. Other owners remain.
    #[doc(alias = "updateClaimOwnerRefForSetAndPod")]
    pub(crate) fn updated(&self, references: &[OwnerReference]) -> Vec<OwnerReference> {
        let is_own = |reference: &OwnerReference| self.set.is_named_by(reference) || self.pod.is_named_by(reference);
        let mut updated: Vec<_> = references.iter().filter(|reference| !is_own(reference)).cloned().collect();
        if !self.has_unexpected_controller(references) {
            match self.wanted() {
                (true, _) => self.set.add(&mut updated),
                (_, true) => self.pod.add(&mut updated),
                (false, false) => {}
            }
        }
        updated
    }
}
