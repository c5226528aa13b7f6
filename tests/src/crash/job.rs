//! An indexed Job of 20 completions, of which three fail once.
//!
//! Rules, at each write:
//! 1. an index never has two Pods that have not ended;
//! 2. a Pod loses the finalizer of the Job only after it was counted, or noted as uncounted;
//! 3. the counts of the status never fall, and never exceed the Pods that have ended.
//!
//! At the end each Pod is counted once: 20 succeeded, 3 failed, and 23 were created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use pintle_sim::{EventType, SimCluster, WriteRecord};
use serde_json::{Value, json};

use super::{Story, User, replay};
use crate::objects::{count, has_condition};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const COMPLETIONS: usize = 20;
const PARALLELISM: usize = 7;
/// These fail once.
const FAILING: [usize; 3] = [3, 7, 11];
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The story.
pub const INDEXED: Story = Story {
    name: "indexed Job",
    controllers: &["job-controller", "garbage-collector-controller"],
    flags: &[],
    tell: |user| Box::pin(tell(user)),
    is_done,
    check,
};

async fn tell(user: &User<'_>) -> Result<()> {
    let failing = FAILING.map(|index| index.to_string()).join(",");
    let annotations = json!({
        "sim.pintle.dev/run-for": "50ms", "sim.pintle.dev/fail-indexes": failing, "sim.pintle.dev/fail-times": "1",
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {
            "completionMode": "Indexed", "completions": COMPLETIONS, "parallelism": PARALLELISM,
            "backoffLimitPerIndex": 1,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "sum:1"}]},
            },
        },
    });
    user.create(JOBS, &job).await?;
    user.until("the Job to complete", &[("batch", "jobs")], is_done).await
}

fn is_done(cluster: &SimCluster) -> bool {
    let jobs = cluster.objects("batch", "jobs");
    let [job] = &jobs[..] else { return false };
    let status = &job["status"];
    has_condition(job, "Complete", "True")
        && status["succeeded"] == COMPLETIONS
        && status["failed"] == FAILING.len()
        && status["completedIndexes"] == format!("0-{}", COMPLETIONS - 1)
        && cluster.objects("", "pods").iter().all(|pod| !is_tracked(pod))
}

fn is_tracked(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().into_iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

#[derive(Default)]
struct Replay {
    /// uid -> Pod.
    pods: BTreeMap<String, Value>,
    n_counted: u64,
    uncounted: BTreeSet<String>,
}

fn check(history: &[Arc<WriteRecord>]) -> Result<()> {
    let mut seen = Replay::default();
    replay(history, |write| {
        let object = write.after.value();
        match write.resource.as_str() {
            "jobs" => seen.job(&object),
            "pods" => seen.pod(write.effect, &write.after.uid, object),
            _ => Ok(()),
        }
    })?;
    let n_pods = seen.pods.len();
    ensure!(n_pods == COMPLETIONS + FAILING.len(), "{n_pods} Pods were created");
    Ok(())
}

impl Replay {
    fn job(&mut self, job: &Value) -> Result<()> {
        let n_counted = count(job, "succeeded") + count(job, "failed");
        ensure!(n_counted >= self.n_counted, "{n_counted} Pods are counted after {}", self.n_counted);
        let uncounted = &job["status"]["uncountedTerminatedPods"];
        let lists = [&uncounted["succeeded"], &uncounted["failed"]];
        let uids = lists.iter().filter_map(|list| list.as_array()).flatten().filter_map(Value::as_str);
        self.uncounted = uids.map(str::to_owned).collect();
        self.n_counted = n_counted;
        let n_ended = self.pods.values().filter(|pod| has_ended(pod)).count() as u64;
        ensure!(n_counted <= n_ended, "{n_counted} Pods are counted, and {n_ended} have ended");
        Ok(())
    }

    fn pod(&mut self, effect: EventType, uid: &str, pod: Value) -> Result<()> {
        ensure!(effect != EventType::Deleted, "a Pod is deleted");
        let before = self.pods.insert(uid.to_owned(), pod);
        let pod = &self.pods[uid];
        if before.is_none() {
            let index = &pod["metadata"]["annotations"][INDEX];
            let same = |other: &Value| other["metadata"]["annotations"][INDEX] == *index && !has_ended(other);
            let n_live = self.pods.values().filter(|other| same(other)).count();
            ensure!(n_live == 1, "{n_live} Pods of index {index}");
        }
        if before.is_some_and(|before| is_tracked(&before)) && !is_tracked(pod) {
            let n_free = self.pods.values().filter(|pod| !is_tracked(pod)).count() as u64;
            let n_noted = self.n_counted + self.uncounted.len() as u64;
            ensure!(n_free <= n_noted, "{n_free} Pods are free, and {n_noted} were counted or noted");
        }
        Ok(())
    }
}
