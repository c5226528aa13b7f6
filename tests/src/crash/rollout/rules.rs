//! What must be true of a story, whatever happened to the host: decided from every write that took effect.
//!
//! Invariants of a rollout without outside interference, at each write:
//! 1. the ReplicaSets together want no more Pods than the Deployment and its surge;
//! 2. a Pod is created only where its ReplicaSet wants more than it has, terminating ones not counted;
//! 3. while rolling, enough Pods are ready; when recreating, no new Pod is created beside an old one;
//! 4. there is one ReplicaSet per template, no Pod is created or deleted more often than the rollout needs.
//!
//! Pods may be more than the ReplicaSets want for the moment between a scale-down and its deletions, as upstream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use pintle_sim::{EventType, WriteRecord};
use serde_json::Value;

use super::super::{is_delete_of_host, replay};
use super::{REPLICAS, Strategy, revision_of};
use crate::objects::has_condition;

/// Pods beyond the wanted ones while rolling.
pub const MAX_SURGE: i64 = 1;
/// Wanted Pods that may be missing while rolling.
pub const MAX_UNAVAILABLE: i64 = 1;

#[derive(Default)]
struct Replay {
    sets: BTreeMap<String, Set>,
    pods: BTreeMap<String, Pod>,
    /// The first rollout has ended, so that from now on enough Pods must be ready.
    served: bool,
    n_created: i64,
    n_deletes: i64,
}

struct Set {
    template: Value,
    wanted: i64,
}

struct Pod {
    set: String,
    terminating: bool,
    ready: bool,
}

/// Replays all writes of the cluster.
///
/// # Errors
/// The first rule that was broken, with the write that broke it.
pub fn check(history: &[Arc<WriteRecord>], strategy: Strategy) -> Result<()> {
    let mut seen = Replay::default();
    replay(history, |write| seen.step(write, strategy))?;
    ensure!(seen.sets.len() == 2, "there are {} ReplicaSets", seen.sets.len());
    ensure!(seen.n_created == 2 * REPLICAS, "{} Pods were created", seen.n_created);
    ensure!(seen.n_deletes == REPLICAS, "{} Pods were deleted by the host", seen.n_deletes);
    Ok(())
}

impl Replay {
    fn step(&mut self, write: &WriteRecord, strategy: Strategy) -> Result<()> {
        match write.resource.as_str() {
            "deployments" => self.deployment(&write.after.value()),
            "replicasets" => self.set(write, strategy),
            "pods" => self.pod(write, strategy),
            _ => Ok(()),
        }
    }

    fn deployment(&mut self, object: &Value) -> Result<()> {
        let collisions = &object["status"]["collisionCount"];
        ensure!(collisions.is_null(), "the Deployment saw a hash collision: {collisions}");
        ensure!(["", "1", "2"].contains(&revision_of(object)), "the Deployment is at revision {}", revision_of(object));
        self.served |= object["status"]["availableReplicas"] == REPLICAS;
        Ok(())
    }

    fn set(&mut self, write: &WriteRecord, strategy: Strategy) -> Result<()> {
        let object = write.after.value();
        ensure!(write.effect != EventType::Deleted, "a ReplicaSet is deleted");
        let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
        if write.effect == EventType::Added {
            let mut template = object["spec"]["template"].clone();
            template["metadata"]["labels"]["pod-template-hash"] = Value::Null;
            ensure!(self.sets.values().all(|set| set.template != template), "a second ReplicaSet of one template");
            self.sets.insert(write.after.uid.to_string(), Set { template, wanted });
        } else {
            self.sets.get_mut(&*write.after.uid).context("an unknown ReplicaSet")?.wanted = wanted;
        }
        let surge = if strategy == Strategy::Rolling { MAX_SURGE } else { 0 };
        let total: i64 = self.sets.values().map(|set| set.wanted).sum();
        ensure!(total <= REPLICAS + surge, "the ReplicaSets want {total} Pods");
        Ok(())
    }

    fn pod(&mut self, write: &WriteRecord, strategy: Strategy) -> Result<()> {
        let uid = write.after.uid.to_string();
        if is_delete_of_host(write) {
            self.n_deletes += 1;
        }
        if write.effect == EventType::Deleted {
            self.pods.remove(&uid);
        } else {
            let pod = read(&write.after.value())?;
            if write.effect == EventType::Added {
                self.created(&pod, strategy)?;
            }
            self.pods.insert(uid, pod);
        }
        let ready = self.pods.values().filter(|pod| pod.ready && !pod.terminating).count();
        if self.served && strategy == Strategy::Rolling && i64::try_from(ready)? < REPLICAS - MAX_UNAVAILABLE {
            bail!("only {ready} Pods are ready");
        }
        Ok(())
    }

    fn created(&mut self, pod: &Pod, strategy: Strategy) -> Result<()> {
        self.n_created += 1;
        let wanted = self.sets.get(&pod.set).context("a Pod of no ReplicaSet")?.wanted;
        let present = self.pods.values().filter(|other| other.set == pod.set && !other.terminating).count();
        ensure!(i64::try_from(present)? < wanted, "surplus: {present} of {wanted} Pods are there already");
        let owners: BTreeSet<&str> = self.pods.values().map(|other| other.set.as_str()).collect();
        let alone = owners.iter().all(|owner| *owner == pod.set);
        ensure!(strategy == Strategy::Rolling || alone, "a new Pod beside an old one");
        Ok(())
    }
}

fn read(object: &Value) -> Result<Pod> {
    let owners = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owner = owners.iter().find(|owner| owner["controller"] == true).context("a Pod without controller")?;
    Ok(Pod {
        set: owner["uid"].as_str().unwrap_or_default().to_owned(),
        terminating: !object["metadata"]["deletionTimestamp"].is_null(),
        ready: has_condition(object, "Ready", "True"),
    })
}
