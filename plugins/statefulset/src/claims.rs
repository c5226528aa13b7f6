//! The claims of a replica: missing ones, those with wrong owners, and those that block it.

use pintle_sdk::api::meta::OwnerReference;
use pintle_sdk::document::Document;
use pintle_sdk::{Error, Lister, Mutation, MutationFailure, Resource as _};
use plugin_lib::failures::Failures as _;
use serde_json::{Map, Value};

use crate::events::Verb;
use crate::identity::claim_name;
use crate::retention::Owners;
use crate::set::{ClaimTemplate, Set};
use crate::types::PersistentVolumeClaim;

/// The claims of one replica.
pub(crate) struct Claims<'a, L> {
    lister: &'a L,
    set: &'a Set,
    pod: &'a str,
    owners: Owners<'a>,
    all: Vec<Claim<'a>>,
}

struct Claim<'a> {
    template: &'a ClaimTemplate,
    name: String,
    found: Option<PersistentVolumeClaim>,
}

impl<'a, L: Lister> Claims<'a, L> {
    /// Reads the claims of a replica. `uid` is empty if the Pod does not exist yet.
    ///
    /// # Errors
    /// Terminal, if a claim does not fit its type.
    pub(crate) fn read(lister: &'a L, set: &'a Set, pod: &'a str, uid: &'a str, ordinal: i64) -> Result<Self, Error> {
        let read = |template: &'a ClaimTemplate| {
            let name = claim_name(&template.name, set.name(), ordinal);
            let found = lister.get(set.namespace(), &name)?;
            Ok(Claim { template, name, found })
        };
        let all = set.claims.iter().map(read).collect::<Result<_, Error>>()?;
        Ok(Self { lister, set, pod, owners: Owners::new(set, pod, uid, ordinal), all })
    }

    fn found(&self) -> impl Iterator<Item = (&str, &[OwnerReference])> {
        self.all
            .iter()
            .filter_map(|claim| Some((claim.name.as_str(), claim.found.as_ref()?.metadata.owner_references.as_slice())))
    }

    /// Whether a claim belongs to an earlier Pod of this name and is deleted with it, so that the Pod cannot be created
    /// yet.
    pub(crate) fn are_stale(&self) -> bool {
        self.found().any(|(_, owners)| self.owners.is_of_earlier_pod(owners))
    }

    /// Writes that create the missing claims.
    ///
    /// A claim that is being deleted is created again too: the request fails while it exists, so the run fails and is
    /// retried with backoff. `is_for_create`: whether the Pod waits for the claims, which adds an event to the failure.
    pub(crate) fn creates(&self, is_for_create: bool) -> Vec<Mutation> {
        let create = |claim: &Claim<'_>| {
            let write = Mutation::create(&PersistentVolumeClaim::KIND, self.set.namespace(), self.object(claim));
            match &claim.found {
                None => Some(self.set.with_claim_events(write, &claim.name, self.pod)),
                Some(found) if !found.metadata.is_deleting() => None,
                Some(_) if !is_for_create => Some(write),
                Some(_) => {
                    let error = format!("pvc {} is being deleted", claim.name);
                    Some(write.on_failure(self.set.pod_failed(Verb::Create, self.pod, &error)))
                }
            }
        };
        self.all.iter().filter_map(create).collect()
    }

    /// The event for claims of a Pod still to be created that the previous run failed to create, given its failures.
    pub(crate) fn refused(&self, failures: &[MutationFailure]) -> Option<Mutation> {
        let mut errors: Vec<String> = Vec::new();
        for failure in failures.of("create", &PersistentVolumeClaim::KIND) {
            let is_missing = |claim: &&Claim<'_>| claim.found.is_none() && claim.name == failure.object.name;
            if let Some(claim) = self.all.iter().find(is_missing) {
                errors.push(format!("failed to create PVC {}: {}", claim.name, failure.message));
            }
        }
        let error = match errors.as_slice() {
            [] => return None,
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Some(Mutation::event(self.set.pod_failed(Verb::Create, self.pod, &error)))
    }

    /// Whether a claim may not exist in time: it is being deleted, or it is missing and the previous run failed to
    /// create claims, of which the host does not remember all.
    pub(crate) fn are_hindered(&self, failures: &[MutationFailure]) -> bool {
        let is_any_refused = failures.any("create", &PersistentVolumeClaim::KIND);
        self.all.iter().any(|claim| claim.found.as_ref().map_or(is_any_refused, |found| found.metadata.is_deleting()))
    }

    /// Whether all existing claims have the owners that the policy requires.
    pub(crate) fn match_policy(&self) -> bool {
        self.found().all(|(_, owners)| self.owners.are_up_to_date(owners))
    }

    /// Writes that set the claims' owners as the policy requires, and events about claims with another controller.
    ///
    /// # Errors
    /// Terminal, if a claim is not an object.
    pub(crate) fn updates(&self, is_pod_event: bool) -> Result<Vec<Mutation>, Error> {
        let mut writes = Vec::new();
        for (name, references) in self.found() {
            if self.owners.has_unexpected_controller(references) {
                writes.push(Mutation::event(self.set.conflicting_controller(name)));
            }
            if self.owners.are_up_to_date(references) {
                continue;
            }
            let whole = self.lister.get_document::<PersistentVolumeClaim>(self.set.namespace(), name)?;
            let Some((_, mut document)) = whole else { continue };
            let updated = self.owners.updated(references);
            match updated.is_empty() {
                true => document.remove(&["metadata", "ownerReferences"]),
                false => document.set(&["metadata", "ownerReferences"], &updated),
            }
            let mut update = Mutation::update(&PersistentVolumeClaim::KIND, document);
            if is_pod_event {
                let error = format!("could not update claim {name} for delete policy ownerRefs: {{error}}");
                update = update.on_failure(self.set.pod_failed(Verb::Update, self.pod, &error));
            }
            writes.push(update);
        }
        Ok(writes)
    }

    /// A claim to create: the template with the name, the labels of the selector, and the owner.
    fn object(&self, claim: &Claim<'_>) -> Document {
        let mut document = claim.template.document.clone();
        let mut labels: Map<String, Value> = document.get(&["metadata", "labels"]).unwrap_or_default();
        for (key, value) in self.set.match_labels().into_iter().flatten() {
            labels.insert(key.clone(), value.as_str().into());
        }
        document.set(&["metadata", "name"], claim.name.as_str());
        document.set(&["metadata", "namespace"], self.set.namespace());
        if !labels.is_empty() {
            document.set(&["metadata", "labels"], &labels);
        }
        // A claim owned by the StatefulSet is created with this owner, so that it need not be written again.
        if let owners @ [_, ..] = self.owners.of_new_claim().as_slice() {
            document.set(&["metadata", "ownerReferences"], &owners);
        }
        document.remove(&["status"]);
        document
    }
}
