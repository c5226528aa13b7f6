//! What a run reads may be large: more than the memory of a plugin by default. Components in the real sandbox, without a cluster.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use pintle_core::contract::outcome::{MutationFailure, Need, NeedError, Outcome};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::view::{Query, View, ViewError};
use pintle_tests::components;
use pintle_wasm::{WasmConfig, WasmEngine};
use serde_json::{Value, json};

/// A view in which each read has one answer.
#[derive(Default)]
struct Large {
    config: Value,
    /// What the key names.
    root: String,
    /// What any other object is.
    other: String,
    list: Vec<Arc<str>>,
    dependents: Vec<Arc<str>>,
    resources: Vec<ApiResource>,
    root_name: &'static str,
}

impl View for Large {
    fn now(&self) -> &str {
        "2026-01-01T00:00:00.000000Z"
    }
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
    fn get(&self, _: &Kind, object: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        let text = if &*object.name == self.root_name { &self.root } else { &self.other };
        Ok(Some(text.as_str().into()))
    }
    fn list(&self, _: &Kind, _: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(self.list.clone())
    }
    fn count(&self, _: &Kind, _: &Query) -> Result<usize, ViewError> {
        Ok(self.list.len())
    }
    fn selecting(&self, _: &Kind, _: &str, _: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }
    fn dependents(&self, _: &str) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(self.dependents.clone())
    }
    fn by_uid(&self, _: &str) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }
    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        Ok(self.resources.clone().into())
    }
    fn config(&self) -> Arc<str> {
        self.config.to_string().into()
    }
    fn state(&self, _: &str) -> Option<Arc<str>> {
        None
    }
    fn attempt(&self) -> u32 {
        0
    }
    fn failures(&self) -> &[MutationFailure] {
        &[]
    }
    fn answer(&self, _: &Need) -> Option<Result<Arc<str>, NeedError>> {
        None
    }
}

/// Runs a built-in plugin once.
async fn run(plugin: &str, queue: &str, kind: &str, view: Large) -> Result<Outcome> {
    let engine = WasmEngine::new(WasmConfig::default())?;
    let guest = engine.load(plugin, &components::plugin(plugin)?)?;
    let key = Key {
        queue: queue.into(),
        kind: kind.parse().context("a kind")?,
        object: ObjectKey::new("ns", view.root_name),
    };
    let run = guest.reconcile(&key, Arc::new(view)).await;
    let outcome = run.result.map_err(|fault| anyhow!("{plugin}: {fault}"))?;
    outcome.map(|outcome| outcome.into_inner()).map_err(|error| anyhow!("{plugin}: {error:?}"))
}

fn n_mutations(outcome: &Outcome) -> usize {
    outcome.steps.iter().map(|step| step.mutations.len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_may_have_hundreds_of_thousands_of_dependents() -> Result<()> {
    const N: usize = 300_000;
    let dependent = |i: usize| {
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "owner", "controller": true});
        let meta = json!({"name": format!("dependent-{i}"), "namespace": "ns", "uid": format!("0000-0000-{i}"),
            "resourceVersion": "1", "ownerReferences": [owner]});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}).to_string().into()
    };
    let dependents: Vec<Arc<str>> = (0..N).map(dependent).collect();
    for (finalizer, expected) in [("orphan", 1_000), ("foregroundDeletion", 1)] {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "owner", "namespace": "ns", "uid": "owner", "resourceVersion": "1", "finalizers": [finalizer],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        let view =
            Large { root: owner.to_string(), root_name: "owner", dependents: dependents.clone(), ..Large::default() };
        let outcome = run("garbage-collector-controller", "garbage_collector_attempt_to_delete", "v1/ConfigMap", view);
        assert_eq!(n_mutations(&outcome.await?), expected, "{finalizer}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_may_have_a_history_larger_than_its_memory() -> Result<()> {
    // 400 ReplicaSets with templates of a megabyte.
    let template = |image: &str| {
        let env = json!([{"name": "LARGE", "value": "x".repeat(1 << 20)}]);
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image, "env": env}]}})
    };
    let meta = |name: &str| {
        json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}})
    };
    let mut set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta("old"), "spec": {"replicas": 0},
        "status": {"replicas": 0}});
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true}]);
    let listed = |i: usize| {
        let mut listed = set.clone();
        listed["metadata"]["name"] = json!(format!("web-{i}"));
        listed.to_string().into()
    };
    let list = (0..400).map(listed).collect();
    let mut old = set.clone();
    old["spec"]["template"] = template("old");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("web"), "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("new"), "revisionHistoryLimit": 1_000,
        "strategy": {"type": "Recreate"},
    }});
    let config = json!({"terminatingReplicas": true});
    let view = Large {
        root: deployment.to_string(),
        root_name: "web",
        other: old.to_string(),
        list,
        config,
        ..Large::default()
    };
    let outcome = run("deployment-controller", "deployment", "apps/v1/Deployment", view).await?;
    // The new ReplicaSet's name is taken, as every name is in this view: that goes into the status.
    assert_eq!(n_mutations(&outcome), 1, "{:.300}", format!("{outcome:?}"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_set_may_have_more_than_100_000_pods() -> Result<()> {
    const N: usize = 150_000;
    let meta =
        |name: &str| json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "generation": 1});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta("web"), "spec": {
        "replicas": N, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let pod = |i: usize| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(&format!("web-{i}")), "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["metadata"]["ownerReferences"] = json!([{"uid": "web", "controller": true}]);
        pod.to_string().into()
    };
    let config = json!({"terminatingReplicas": true, "podDeletionCost": true});
    let list = (0..N).map(pod).collect();
    let view = Large { root: set.to_string(), root_name: "web", list, config, ..Large::default() };
    let outcome = run("replicaset-controller", "replicaset", "apps/v1/ReplicaSet", view).await?;
    assert_eq!(n_mutations(&outcome), 1, "the status");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_may_have_100_000_pods() -> Result<()> {
    const N: usize = 100_000;
    let meta =
        |name: &str| json!({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "generation": 1});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("pi"), "spec": {
        "parallelism": N, "completions": N, "backoffLimit": 6, "selector": {"matchLabels": {"job": "pi"}},
        "template": {"metadata": {"labels": {"job": "pi"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
    }});
    let pod = |i: usize| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(&format!("pi-{i}")), "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        pod["metadata"]["labels"] = json!({"job": "pi"});
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        pod["metadata"]["ownerReferences"] = json!([{"uid": "pi", "controller": true}]);
        pod.to_string().into()
    };
    let config = json!({"clearsStartTime": true});
    let list = (0..N).map(pod).collect();
    let view = Large { root: job.to_string(), root_name: "pi", list, config, ..Large::default() };
    let outcome = run("job-controller", "job", "batch/v1/Job", view).await?;
    assert_eq!(n_mutations(&outcome), 1, "the status");
    Ok(())
}
