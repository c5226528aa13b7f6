//! Common steps of all rollouts: finding and creating the new ReplicaSet, pausing, and deleting old revisions.
//!
//! *Flow*: [`Context::sync_revision`] finds the new ReplicaSet and updates its annotations; [`Context::ensure_new`]
//! creates a missing one, and reports a failure of the previous attempt.
//!
//! *Invariants*
//! 1. The name of a new ReplicaSet is a function of template and collision count: creating it twice results in one
//!    object.
//! 2. If the name is taken by another object, the collision count in the status is raised before another name is tried.
//!    A name that is taken according to the cache is not tried at all.
//! 3. Only old ReplicaSets without current and desired Pods are deleted.
//!
//! *Source*: sync.go.

use std::collections::BTreeMap;

use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::api::meta::{LabelSelector, ObjectMeta, OwnerReference};
use pintle_sdk::{Error, Event, EventType, Lister, Mutation, Resource, json};
use plugin_lib::conditions;
use plugin_lib::failures::{Failures as _, is_namespace_terminating};
use plugin_lib::namespace::is_terminating;
use plugin_lib::number::narrow;
use serde::Serialize;

use crate::context::{Context, PROGRESSING, age, reason};
use crate::replicas::{
    DESIRED_REPLICAS, MAX_REPLICAS, desired_of, history_limit, max_surge, replicas_of_new, size, wanted,
};
use crate::revision::{REVISION, annotate_new, find_new, max_revision, revision};
use crate::rollback::rollback_to;
use crate::template::{HASH_LABEL, equal_ignore_hash, hash};
use crate::types::{Deployment, ReplicaSet, ReplicaSetMetadata, ReplicaSetSpec};

/// Longest name of an object, in bytes.
#[doc(alias = "DNS1123SubdomainMaxLength")]
const LONGEST_NAME: usize = 253;

/// The state of the new ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is at this index.
    Found(usize),
    /// This run creates it, at this index.
    Created(usize),
    /// It cannot be created now: the run ends.
    Stop,
}

/// The error for an unknown strategy.
pub(crate) fn unknown_strategy(kind: &str) -> Error {
    Error::retry(format!("unexpected deployment strategy type: {kind}"))
}

impl Context {
    /// Finds the new ReplicaSet, and updates its revision and annotations, and the Deployment's revision.
    #[doc(alias = "getAllReplicaSetsAndSyncRevision", alias = "getNewReplicaSet")]
    pub(crate) fn sync_revision(&mut self) {
        self.new = find_new(&self.d, &self.sets);
        let Some(new) = self.new else { return };
        let newest = max_revision(self.old_sets()).wrapping_add(1);
        let set = &self.sets[new];
        let seconds = self.d.spec.min_ready_seconds;
        let (annotations, is_due) = annotate_new(&self.d, &set.metadata.annotations, newest);
        if is_due || set.spec.min_ready_seconds != seconds {
            self.annotate(new, annotations, seconds);
        }
        self.take_revision(new);
        if self.has_progress_deadline() && self.progressing().is_none() {
            let message = format!("Found new replica set {:?}", self.sets[new].metadata.name);
            self.progress("True", reason::FOUND_NEW, message);
        }
    }

    /// Copies the revision of a ReplicaSet to the Deployment.
    #[doc(alias = "SetDeploymentRevision")]
    fn take_revision(&mut self, i: usize) {
        let revision = self.sets[i].metadata.annotations.get(REVISION).cloned().unwrap_or_default();
        if self.d.metadata.annotations.get(REVISION).map_or("", String::as_str) != revision {
            self.d.metadata.annotations.insert(REVISION.into(), revision);
        }
    }

    fn progress(&mut self, status: &str, reason: &str, message: String) {
        let condition = self.condition(PROGRESSING, status, reason, message);
        conditions::set(&mut self.d.status.conditions, condition);
    }

    /// Reports in the status that the Deployment is paused or resumed, so that the pause does not count as lack of
    /// progress.
    #[doc(alias = "checkPausedConditions")]
    pub(crate) fn check_paused(&mut self) {
        let current = self.progressing().map(|condition| condition.reason.as_str());
        // A reported lack of progress stays.
        if !self.has_progress_deadline() || current == Some(reason::TIMED_OUT) {
            return;
        }
        match (self.d.spec.paused, current == Some(reason::PAUSED)) {
            (true, false) => self.progress("Unknown", reason::PAUSED, "Deployment is paused".into()),
            (false, true) => self.progress("Unknown", reason::RESUMED, "Deployment is resumed".into()),
            _ => {}
        }
    }

    /// Scales, outside of a rollout or while it is paused.
    pub(crate) fn sync(&mut self) {
        self.scale_all();
        if self.d.spec.paused && rollback_to(&self.d).is_none() {
            self.cleanup();
        }
        self.sync_status();
    }

    /// Finds or creates the new ReplicaSet.
    ///
    /// # Errors
    /// An unknown strategy.
    #[doc(alias = "getNewReplicaSet")]
    pub(crate) fn ensure_new(&mut self, lister: &impl Lister) -> Result<Next, Error> {
        if let Some(new) = self.new {
            return Ok(Next::Found(new));
        }
        let hash = hash(&self.d.spec.template, self.d.status.collision_count);
        let name = replica_set_name(&self.d.metadata.name, &hash);
        let failure =
            self.failures.of("create", &ReplicaSet::KIND).find(|failure| failure.object.name == name).cloned();
        if let Some(set) = lister.get::<ReplicaSet>(&self.d.metadata.namespace, &name)? {
            return Ok(self.resolve_collision(set));
        }
        // The object with this name is not in the cache yet, or has been deleted since.
        let is_taken = failure.as_ref().is_some_and(|failure| failure.reason == "AlreadyExists");
        if let Some(failure) = failure.filter(|_| !is_taken) {
            // All creates fail in a terminating namespace; that is not reported.
            if is_namespace_terminating(&failure) {
                return Ok(Next::Stop);
            }
            if self.has_progress_deadline() {
                let before = self.d.status.conditions.clone();
                let message = failed_to_create(&name, &failure.message);
                self.progress("False", reason::FAILED_CREATE, message);
                if self.d.status.conditions != before {
                    return Ok(Next::Stop);
                }
            }
        }
        if is_terminating(lister, &self.d.metadata.namespace)? {
            return Ok(Next::Stop);
        }
        Ok(Next::Created(self.create_new(name, &hash, is_taken)?))
    }

    /// Handles a name in use: by this ReplicaSet, which was just released, or by another one.
    fn resolve_collision(&mut self, set: ReplicaSet) -> Next {
        if set.metadata.is_controlled_by(&self.d.metadata.uid)
            && equal_ignore_hash(&set.spec.template, &self.d.spec.template)
        {
            self.sets.push(set);
            let new = self.sets.len() - 1;
            self.new = Some(new);
            self.take_revision(new);
            return Next::Found(new);
        }
        self.d.status.collision_count = Some(self.d.status.collision_count.unwrap_or(0).saturating_add(1));
        Next::Stop
    }

    /// Creates the new ReplicaSet; `quietly` if a failure is not reported again. Returns its index.
    fn create_new(&mut self, name: String, hash: &str, quietly: bool) -> Result<usize, Error> {
        let d = &self.d;
        let newest = max_revision(self.old_sets()).wrapping_add(1);
        let replicas = replicas_of_new(d, desired_of(self.old_sets()), 0).map_err(unknown_strategy)?;
        let mut annotations = annotate_new(d, &BTreeMap::new(), newest).0;
        annotations.insert(DESIRED_REPLICAS.into(), wanted(d).to_string());
        annotations.insert(MAX_REPLICAS.into(), (wanted(d) + max_surge(d)).to_string());

        let mut template = d.spec.template.clone();
        template.metadata.labels.insert(HASH_LABEL.into(), hash.to_owned());
        let mut selector: LabelSelector = d.spec.selector.clone().unwrap_or_default();
        selector.match_labels.insert(HASH_LABEL.into(), hash.to_owned());
        let metadata = ReplicaSetMetadata {
            name: name.clone(),
            namespace: d.metadata.namespace.clone(),
            labels: template.metadata.labels.clone(),
            annotations,
            owner_references: vec![OwnerReference::controller(&Deployment::KIND, &d.metadata)],
            ..ReplicaSetMetadata::default()
        };
        let spec =
            ReplicaSetSpec { replicas: Some(narrow(replicas)), min_ready_seconds: d.spec.min_ready_seconds, template };
        let object = new_replica_set(&metadata, &spec, &selector);
        // A failure is reported immediately here, and as a condition by the next run, which follows immediately.
        let refused = failed_to_create(&name, "{error}");
        let refused = Event::warning(&Deployment::KIND, &self.d.metadata, reason::FAILED_CREATE, refused);
        let mut create = Mutation::create(&ReplicaSet::KIND, &metadata.namespace, object);
        create.on_failure = Some(refused).filter(|_| !quietly);
        self.create(create);
        if replicas > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {replicas}");
            self.event(EventType::Normal, "ScalingReplicaSet", message);
        }
        self.sets.push(ReplicaSet { metadata, spec, ..ReplicaSet::default() });
        let new = self.sets.len() - 1;
        self.new = Some(new);
        self.take_revision(new);
        if self.has_progress_deadline() {
            self.progress("True", reason::NEW_REPLICA_SET, format!("Created new replica set {name:?}"));
        }
        Ok(new)
    }

    /// Deletes old ReplicaSets beyond the history limit, lowest revisions first.
    #[doc(alias = "cleanupDeployment", alias = "ReplicaSetsByRevision")]
    pub(crate) fn cleanup(&mut self) {
        let Some(limit) = history_limit(&self.d) else { return };
        let mut old: Vec<&ReplicaSet> = self.old_sets().filter(|set| !set.metadata.is_deleting()).collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.sort_by(|a, b| match (revision(a), revision(b)) {
            (Some(left), Some(right)) if left != right => left.cmp(&right),
            _ => age(a).cmp(&age(b)),
        });
        let is_unused = |set: &&ReplicaSet| {
            set.status.replicas == 0 && size(set) == 0 && set.metadata.generation <= set.status.observed_generation
        };
        let deletions: Vec<Mutation> = old
            .into_iter()
            .take(surplus)
            .filter(is_unused)
            .map(|set| {
                let meta = &set.metadata;
                Mutation::delete(&ReplicaSet::KIND, &meta.namespace, &meta.name)
                    .uid(&meta.uid)
                    .resource_version(&meta.resource_version)
            })
            .collect();
        self.forgive_nothing();
        for deletion in deletions {
            self.write(deletion);
        }
    }
}

/// The JSON of a ReplicaSet to create.
fn new_replica_set(metadata: &ReplicaSetMetadata, spec: &ReplicaSetSpec, selector: &LabelSelector) -> String {
    #[derive(Serialize)]
    struct Object<'a> {
        metadata: ObjectMeta,
        spec: Spec<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        replicas: Option<i32>,
        #[serde(skip_serializing_if = "is_zero")]
        min_ready_seconds: i32,
        selector: &'a LabelSelector,
        template: &'a PodTemplateSpec,
    }
    json(&Object {
        metadata: ObjectMeta {
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            owner_references: metadata.owner_references.clone(),
            ..ObjectMeta::default()
        },
        spec: Spec {
            replicas: spec.replicas,
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: &spec.template,
        },
    })
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

fn failed_to_create(name: &str, error: &str) -> String {
    format!("Failed to create new replica set {name:?}: {error}")
}

/// Name of a ReplicaSet; a Deployment name that is too long is truncated.
#[doc(alias = "generateReplicaSetName")]
fn replica_set_name(deployment: &str, hash: &str) -> String {
    let longest = LONGEST_NAME - 1 - hash.len();
    format!("{}-{hash}", deployment.get(..longest).unwrap_or(deployment))
}

#[cfg(test)]
mod tests {
    use pintle_sdk::Action;

    use super::*;
    use crate::test_objects::{context, sized};

    #[test]
    fn a_name_that_is_too_long_is_cut_before_the_hash() {
        assert_eq!(replica_set_name("web", "5d8f"), "web-5d8f");
        let name = replica_set_name(&"a".repeat(253), "5d8f");
        assert_eq!((name.len(), name.ends_with("a-5d8f")), (253, true));
        assert_eq!(replica_set_name(&"a".repeat(248), "5d8f").len(), 253);
    }

    fn deletions(limit: i32, sets: &[(i64, i64, Option<&str>)]) -> Vec<String> {
        let sets = (1..).zip(sets).map(|(i, (replicas, actual, revision))| {
            let mut set = sized(&format!("rs{i}"), *replicas, 0);
            set.status.replicas = narrow(*actual);
            set.status.observed_generation = 1;
            set.metadata.annotations.extend(revision.map(|revision| (REVISION.into(), revision.into())));
            set
        });
        let mut context = context(&format!("revisionHistoryLimit: {limit}"), sets, None);
        context.cleanup();
        let outcome = context.finish().unwrap();
        let name = |mutation: &Mutation| match &mutation.action {
            Action::Delete { object, .. } => object.name.clone(),
            other => panic!("{other:?}"),
        };
        outcome.steps.iter().flat_map(|step| &step.mutations).map(name).collect()
    }

    #[test]
    fn old_replica_sets_without_pods_are_deleted_down_to_the_limit() {
        let idle = (0, 0, None);
        assert_eq!(deletions(1, &[idle, idle, idle]), ["rs1", "rs2"]);
        assert_eq!(deletions(0, &[idle, (0, 1, None), (1, 0, None), (1, 1, None)]), ["rs1"]);
        assert_eq!(deletions(0, &[idle, idle]), ["rs1", "rs2"]);
        assert!(deletions(0, &[(1, 1, None), (1, 1, None)]).is_empty());
        assert!(deletions(i32::MAX, &[idle, idle, idle]).is_empty());
        assert!(deletions(5, &[idle, idle]).is_empty());
    }

    #[test]
    fn the_lowest_revisions_go_first_and_age_breaks_ties() {
        let at = |revision| (0, 0, Some(revision));
        assert_eq!(deletions(1, &[at("1"), at("2")]), ["rs1"]);
        assert_eq!(deletions(1, &[at("2"), at("1")]), ["rs2"]);
        assert_eq!(deletions(1, &[at("1"), at("1")]), ["rs1"]);
        assert_eq!(deletions(1, &[at("2"), (0, 0, None)]), ["rs2"]);
        assert_eq!(deletions(2, &[at("10"), at("9"), at("3"), at("11")]), ["rs3", "rs2"]);
        // One that is in use counts against the limit.
        assert_eq!(deletions(1, &[(1, 1, Some("1")), at("2"), at("3")]), ["rs2"]);
    }
}
