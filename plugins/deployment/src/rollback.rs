//! Rollback by annotation, as in `extensions/v1beta1`: the Deployment gets the template of an old revision.
//!
//! *Invariants*
//! 1. The annotation is always removed, so that a rollback happens once.
//! 2. A rollback waits until the new ReplicaSet exists and its revision is written, and is the only write of its run.
//!
//! *Source*: rollback.go.

use pintle_sdk::{Error, Event, EventType, Lister, Mutation, Resource};

use crate::context::Context;
use crate::revision::{ROLLBACK_TO, annotations_of_rollback, last_revision, revision};
use crate::sync::Next;
use crate::template::{HASH_LABEL, equal_ignore_hash};
use crate::types::{Deployment, ReplicaSet};

#[doc(alias = "RollbackRevisionNotFound")]
const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";
#[doc(alias = "RollbackTemplateUnchanged")]
const UNCHANGED: &str = "DeploymentRollbackTemplateUnchanged";
#[doc(alias = "RollbackDone")]
const DONE: &str = "DeploymentRollback";

/// The revision to roll back to, 0 for the previous one; `None` without a valid annotation.
#[doc(alias = "getRollbackTo")]
pub(crate) fn rollback_to(d: &Deployment) -> Option<i64> {
    d.metadata.annotations.get(ROLLBACK_TO)?.parse().ok()
}

impl Context {
    /// Rolls back to `to`.
    ///
    /// # Errors
    /// As [`ensure_new`](Self::ensure_new).
    #[doc(alias = "rollbackToTemplate")]
    pub(crate) fn rollback(&mut self, lister: &impl Lister, to: i64) -> Result<(), Error> {
        if !matches!(self.ensure_new(lister)?, Next::Found(_)) || self.has_writes() || self.is_status_changed() {
            return Ok(());
        }
        let to = if to == 0 { last_revision(self.all_sets()) } else { to };
        if to == 0 {
            self.event(EventType::Warning, NOT_FOUND, "Unable to find last revision.".into());
            return self.clear(None);
        }
        let target = self.all_sets().find(|set| revision(set) == Some(to)).map(|set| &set.metadata);
        // A run does not keep the templates of old ReplicaSets.
        let target = target.map(|meta| lister.get::<ReplicaSet>(&meta.namespace, &meta.name)).transpose()?;
        let Some(set) = target.flatten() else {
            self.event(EventType::Warning, NOT_FOUND, "Unable to find the revision to rollback to.".into());
            return self.clear(None);
        };
        let name = &self.d.metadata.name;
        if equal_ignore_hash(&self.d.spec.template, &set.spec.template) {
            let message = format!("The rollback revision contains the same template as current deployment {name:?}");
            self.event(EventType::Warning, UNCHANGED, message);
            return self.clear(None);
        }
        self.clear(Some((&set, to)))
    }

    /// Removes the annotation, and copies a ReplicaSet's template and shared annotations.
    #[doc(alias = "updateDeploymentAndClearRollbackTo", alias = "SetFromReplicaSetTemplate")]
    fn clear(&mut self, from: Option<(&ReplicaSet, i64)>) -> Result<(), Error> {
        let mut document = self.document()?;
        let Some((set, revision)) = from else {
            document.remove(&["metadata", "annotations", ROLLBACK_TO]);
            self.write(Mutation::update(&Deployment::KIND, document));
            return Ok(());
        };
        let mut annotations = annotations_of_rollback(&self.d, set);
        annotations.remove(ROLLBACK_TO);
        let mut template = set.spec.template.clone();
        template.metadata.labels.remove(HASH_LABEL);
        document.set(&["metadata", "annotations"], &annotations);
        document.set(&["spec", "template"], &template);
        let message = format!("Rolled back deployment {:?} to revision {revision}", self.d.metadata.name);
        let event = Event::normal(&Deployment::KIND, &self.d.metadata, DONE, message);
        self.write(Mutation::update(&Deployment::KIND, document).on_success(event));
        Ok(())
    }
}
