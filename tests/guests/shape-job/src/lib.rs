//! The shape of the Job controller: a Pod that ended is first named in the status, then loses its finalizer, and only then is
//! counted, so that a crash between two writes counts no Pod twice and loses none. Failures slow new Pods down.

use std::time::Duration;

use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::api::meta::{ObjectMeta, OwnerReference};
use pintle_sdk::{Error, Key, Lister, Moment, Mutation, Outcome, PatchType, Place, Query, Resource, Step, resource};
use serde::{Deserialize, Serialize};
use serde_json::json;

pintle_sdk::types!("manifest.yaml", "batch/v1/Job" = _);

const TRACKING: &str = "batch.kubernetes.io/job-tracking";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Job {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

resource!(Job, "batch", "v1", "Job");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    completions: usize,
    parallelism: usize,
    completion_mode: String,
    template: PodTemplateSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    active: usize,
    succeeded: usize,
    failed: usize,
    uncounted_terminated_pods: Uncounted,
}

/// Uids of Pods that ended and are not counted yet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
struct Uncounted {
    succeeded: Vec<String>,
    failed: Vec<String>,
}

/// Failures in a row, and when the last one was seen, by the clock that nobody sets.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Failures {
    n: u32,
    last: f64,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == "job_orphan_pod" {
        let pod = lister.get::<Pod>(&key.namespace, &key.name)?;
        return Ok(Outcome::new().step(Step::sequential(pod.iter().map(without_finalizer))));
    }
    let state = format!("failures/{}/{}", key.namespace, key.name);
    let Some(job) = lister.get::<Job>(&key.namespace, &key.name)? else { return Ok(Outcome::new().forget(state)) };
    let pods: Vec<Pod> = lister.list(&Query::namespace(&key.namespace).controlled_by(&job.metadata.uid))?;
    let mut failures: Failures = match lister.state(&state) {
        Some(text) => serde_json::from_str(&text).map_err(|error| Error::Terminal(error.to_string()))?,
        None => Failures::default(),
    };

    let mut status = Status { active: pods.iter().filter(|pod| end(pod).is_none()).count(), ..job.status.clone() };
    // Phase 3: their finalizers are gone, whatever became of the Pods since.
    let tracked = |uid: &String| pods.iter().any(|pod| pod.metadata.uid == *uid && is_tracked(pod));
    let known = status.uncounted_terminated_pods.clone();
    let gone = |uids: &mut Vec<String>| {
        let before = uids.len();
        uids.retain(tracked);
        before - uids.len()
    };
    let n_succeeded = gone(&mut status.uncounted_terminated_pods.succeeded);
    let n_failed = gone(&mut status.uncounted_terminated_pods.failed);
    status.succeeded += n_succeeded;
    status.failed += n_failed;
    // Phase 1: named before anything else happens to them.
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        let uid = &pod.metadata.uid;
        match end(pod) {
            Some(true) if !known.succeeded.contains(uid) => {
                status.uncounted_terminated_pods.succeeded.push(uid.clone())
            }
            Some(false) if !known.failed.contains(uid) => {
                status.uncounted_terminated_pods.failed.push(uid.clone());
                failures = Failures { n: failures.n + 1, last: lister.uptime().as_secs_f64() };
            }
            _ => {}
        }
    }

    let action = if status == job.status { "none" } else { "tracking" };
    let mut outcome =
        Outcome::new().run_label("completion_mode", &job.spec.completion_mode).run_label("action", action);
    if status != job.status {
        let patch = Mutation::patch(&Job::KIND, job.metadata.key(), PatchType::Merge, json!({"status": status}));
        let patch = patch.subresource("status").uid(&job.metadata.uid).resource_version(&job.metadata.resource_version);
        outcome = outcome.step(Step::sequential([patch])).keep(state, json!(failures).to_string());
        for (n, result) in [(n_succeeded, "succeeded"), (n_failed, "failed")].into_iter().filter(|(n, _)| *n > 0) {
            // Not counted again if the write fails and the run is repeated.
            let labels = vec![job.spec.completion_mode.clone(), result.to_owned()];
            let written = Moment::Done(Place { step: 0, position: 0 });
            outcome = outcome.observe_at(written, "job_controller_job_pods_finished_total", labels, n as f64);
        }
    }
    // Phase 2: only after the status has been written.
    let uncounted = &status.uncounted_terminated_pods;
    let named =
        |pod: &&Pod| [&uncounted.succeeded, &uncounted.failed].iter().any(|uids| uids.contains(&pod.metadata.uid));
    outcome =
        outcome.step(Step::parallel(pods.iter().filter(named).filter(|pod| is_tracked(pod)).map(without_finalizer)));

    let left = job.spec.completions.saturating_sub(status.succeeded + uncounted.succeeded.len());
    let missing = left.min(job.spec.parallelism).saturating_sub(status.active);
    let wait = 10.0 * f64::from(1 << failures.n.saturating_sub(1).min(6));
    let passed = lister.uptime().as_secs_f64() - failures.last;
    Ok(if missing == 0 {
        outcome
    } else if failures.n > 0 && passed < wait {
        outcome.requeue_after(Duration::from_secs_f64(wait - passed))
    } else {
        outcome.step(Step::slow_start((0..missing).map(|_| new_pod(&job))))
    })
}

/// How the Pod ended: whether it succeeded.
fn end(pod: &Pod) -> Option<bool> {
    match pod.status.phase.as_str() {
        "Succeeded" => Some(true),
        "Failed" => Some(false),
        _ => None,
    }
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING)
}

fn without_finalizer(pod: &Pod) -> Mutation {
    let finalizers: Vec<&String> = pod.metadata.finalizers.iter().filter(|finalizer| *finalizer != TRACKING).collect();
    let body = json!({"metadata": {"finalizers": finalizers}});
    let patch = Mutation::patch(&Pod::KIND, pod.metadata.key(), PatchType::Merge, body);
    patch.uid(&pod.metadata.uid).resource_version(&pod.metadata.resource_version)
}

fn new_pod(job: &Job) -> Mutation {
    let template = &job.spec.template;
    let owner = OwnerReference::controller(&Job::KIND, &job.metadata);
    let metadata = json!({
        "generateName": format!("{}-", job.metadata.name), "labels": template.metadata.labels,
        "finalizers": [TRACKING], "ownerReferences": [owner],
    });
    Mutation::create(&Pod::KIND, &job.metadata.namespace, json!({"metadata": metadata, "spec": template.spec.value()}))
}

pintle_sdk::export!(reconcile);
