//! The second story: a Job with a failure, a CronJob that fires, a StatefulSet that is rolled out by partition, an eviction that a budget
//! refuses, a DaemonSet that follows a new Node, and a HorizontalPodAutoscaler that scales up and down.

use anyhow::{Context as _, Result, ensure};
use pintle_tests::objects::{count, has_condition, is_observed, template};
use pintle_tests::{ApiClient, Failure, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

use crate::PODS;
use crate::time_line::TimeLine;

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NODES: &str = "/api/v1/nodes";

pub(crate) async fn tell(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title("create CronJob tick, which is due at each full minute");
    client.create(CRON_JOBS, &cron_job()).await?;
    job(line, client).await?;
    stateful_set(line, client).await?;
    eviction(line, client).await?;
    daemon_set(line, client).await?;
    autoscaler(line, client).await?;
    fired(line, client).await
}

/// Waits until an object looks as wanted, and returns it.
async fn until(client: &ApiClient, path: &str, what: &str, looks: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(PATIENCE, format!("{path} to {what}"), async || {
        let object = client.get(path).await?;
        ensure!(looks(&object), "{}", object["status"]);
        Ok(Some(object))
    })
    .await
}

async fn job(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title("create Job sum with 4 indexes, of which index 2 fails once");
    let simulated = json!({
        "sim.pintle.dev/run-for": "500ms", "sim.pintle.dev/fail-indexes": "2", "sim.pintle.dev/fail-times": "1",
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {
            "completionMode": "Indexed", "completions": 4, "parallelism": 4,
            "template": template("sum", "sum:1", "Never", &simulated),
        },
    });
    client.create(JOBS, &job).await?;
    let path = format!("{JOBS}/sum");
    until(client, &path, "have a failed Pod", |job| count(job, "failed") == 1).await?;
    line.say("a Pod of index 2 has failed; another one follows");
    let job =
        until(client, &path, "complete", |job| count(job, "succeeded") == 4 && has_condition(job, "Complete", "True"))
            .await?;
    ensure!(job["status"]["completedIndexes"] == "0-3", "{}", job["status"]);
    line.say("4 of 4 indexes have succeeded, 1 Pod has failed, each Pod is counted once");
    Ok(())
}

async fn stateful_set(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title("create StatefulSet db with 3 replicas of db:1");
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db", "db:1", "Always", &json!({})),
        },
    });
    client.create(STATEFUL_SETS, &set).await?;
    let path = format!("{STATEFUL_SETS}/db");
    until(client, &path, "be ready", |set| count(set, "readyReplicas") == 3).await?;
    line.say("db-0, db-1 and db-2 are ready, one after the other");

    line.title("roll out db:2 from ordinal 2 on, then to all");
    let to = |partition: u32| {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        json!({"spec": {"updateStrategy": rolling, "template": {"spec": {"containers": [{"name": "c", "image": "db:2"}]}}}})
    };
    for (partition, n_updated) in [(2, 1), (0, 3)] {
        client.patch(&path, PatchKind::StrategicMerge, &to(partition)).await?;
        let set = until(client, &path, "be updated", |set| {
            is_observed(set) && count(set, "updatedReplicas") == n_updated && count(set, "readyReplicas") == 3
        })
        .await?;
        line.say(&format!("{n_updated} of 3 replicas run revision {}", set["status"]["updateRevision"]));
    }
    Ok(())
}

async fn eviction(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title("create PodDisruptionBudget db, which lets 1 Pod of db be away, and evict 2");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    });
    client.create(BUDGETS, &budget).await?;
    until(client, &format!("{BUDGETS}/db"), "allow 1 disruption", |budget| count(budget, "disruptionsAllowed") == 1)
        .await?;
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        client.create(&format!("{PODS}/{name}/eviction"), &eviction).await
    };
    let pod = format!("{PODS}/db-2");
    let evicted = client.get(&pod).await?["metadata"]["uid"].clone();
    evict("db-2").await?;
    line.say("db-2 is evicted");
    let refused = evict("db-1").await.err().context("the second eviction was allowed")?;
    ensure!(Failure::code_of(&refused) == Some(429), "{refused:#}");
    line.say("db-1 is not: the budget refuses");
    eventually(PATIENCE, "another db-2", async || {
        let is_back = |pod: &Value| pod["metadata"]["uid"] != evicted && has_condition(pod, "Ready", "True");
        Ok(client.find(&pod).await?.filter(is_back))
    })
    .await?;
    line.say("db-2 is back");
    Ok(())
}

async fn daemon_set(line: &TimeLine, client: &ApiClient) -> Result<()> {
    let n_nodes = client.list(NODES).await?.len() as u64;
    line.title(&format!("create DaemonSet agent on {n_nodes} nodes, then Node edge"));
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent", "agent:1", "Always", &json!({})),
        },
    });
    client.create(DAEMON_SETS, &set).await?;
    let path = format!("{DAEMON_SETS}/agent");
    let ready_on = async |n: u64| {
        until(client, &path, &format!("be ready on {n} nodes"), |set| {
            count(set, "desiredNumberScheduled") == n && count(set, "numberReady") == n
        })
        .await
    };
    ready_on(n_nodes).await?;
    line.say(&format!("{n_nodes} Pods are ready, one on each node"));
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "edge", "labels": {"sim.pintle.dev/node": "true"}},
    });
    client.create(NODES, &node).await?;
    ready_on(n_nodes + 1).await?;
    let on_edge = client.list(PODS).await?.into_iter().filter(|pod| pod["spec"]["nodeName"] == "edge").count();
    ensure!(on_edge == 1, "{on_edge} Pods on the new node");
    line.say("the new node has its Pod");
    Ok(())
}

async fn autoscaler(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title("create Deployment worker and a HorizontalPodAutoscaler: a Pod for every 10 in a queue of 30");
    let queue = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "queue", "labels": {"sim.pintle.dev/metrics": "external"}}, "data": {"depth": "30"},
    });
    client.create(CONFIG_MAPS, &queue).await?;
    let worker = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "worker"},
        "spec": {
            "selector": {"matchLabels": {"app": "worker"}},
            "template": template("worker", "worker:1", "Always", &json!({})),
        },
    });
    client.create(DEPLOYMENTS, &worker).await?;
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "worker"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"},
            "minReplicas": 1, "maxReplicas": 5,
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "10"},
            }}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    });
    client.create(AUTOSCALERS, &autoscaler).await?;
    let path = format!("{DEPLOYMENTS}/worker");
    let scaled_to = async |n: u64| {
        until(client, &path, &format!("have {n} replicas"), |worker| {
            worker["spec"]["replicas"] == n && count(worker, "readyReplicas") == n && count(worker, "replicas") == n
        })
        .await
    };
    scaled_to(3).await?;
    line.say("3 Pods work on it");
    line.title("empty the queue to 10");
    client.patch(&format!("{CONFIG_MAPS}/queue"), PatchKind::Merge, &json!({"data": {"depth": "10"}})).await?;
    scaled_to(1).await?;
    line.say("1 Pod is left");
    Ok(())
}

fn cron_job() -> Value {
    let simulated = json!({"sim.pintle.dev/run-for": "500ms"});
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": template("tick", "tick:1", "Never", &simulated)}},
        },
    })
}

async fn fired(line: &TimeLine, client: &ApiClient) -> Result<()> {
    line.title("wait until the CronJob has fired");
    let tick = until(client, &format!("{CRON_JOBS}/tick"), "have a successful Job", |tick| {
        tick["status"]["lastSuccessfulTime"].is_string()
    })
    .await?;
    line.say(&format!("a Job of {} has succeeded", tick["status"]["lastScheduleTime"]));
    Ok(())
}
