//! Controllers that create Pods and Jobs from a template, and autoscalers.

use pintle_sdk::testing::{Cluster, Plugin};
use pintle_sdk::{ApiError, ApiResource, Kind, Need};
use serde_json::{Value, json};

use super::*;
use crate::stories::answers::Answers;
use crate::{cronjob, daemonset, deployment, job as jobs, statefulset, ttl_after_finished};

const REVISION: Kind = Kind::new("apps", "v1", "ControllerRevision");
const JOB: Kind = Kind::new("batch", "v1", "Job");

/// Longest name of a CronJob and of a StatefulSet: with a longer one, the API server rejects the labels of its Pods.
const SHORT: usize = 52;

/// Ended, running and deleted Jobs, all of them in the status.
pub(super) fn cron_job(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut cron = object("batch/v1", "CronJob", "cron", 0, SHORT);
    let template = json!({"metadata": {"labels": labels()}, "spec": {"template": template()}});
    cron["spec"] = json!({"schedule": "0 0 1 1 *", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 3, "jobTemplate": template});
    cron["metadata"]["creationTimestamp"] = json!(cluster.now());
    let reference = |job: &Value| {
        let metadata = &job["metadata"];
        json!({"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "namespace": home(), "uid": metadata["uid"]})
    };
    let mut active = Vec::new();
    for i in 0..n {
        let mut job = object("batch/v1", "Job", "job", i, LABEL);
        job["metadata"]["ownerReferences"] = controlled_by(&cron);
        active.push(reference(&job));
        if i % 2 == 0 {
            job["status"] =
                json!({"conditions": [{"type": "Complete", "status": "True"}], "completionTime": cluster.now()});
        }
        cluster.insert(job);
    }
    active.extend((0..n / 2).map(|i| reference(&object("batch/v1", "Job", "gone", i, LABEL))));
    cron["status"] = json!({ "active": active });
    cluster.insert(cron.clone());
    let plugin = size.limit(cronjob::plugin());
    let keys = [key(&plugin, "", &cron)];
    settle(&mut cluster, &plugin, &keys, nobody);
    let n_active = |cluster: &Cluster| now(cluster, &cron)["status"]["active"].as_array().map_or(0, Vec::len);
    assert_eq!((cluster.list(&JOB).count(), n_active(&cluster)), (n / 2 + 3, n / 2));
    // They are replaced by one.
    cluster.edit(&keys[0].kind, &home(), &keys[0].name, |cron| {
        cron["spec"]["concurrencyPolicy"] = json!("Replace");
        cron["spec"]["schedule"] = json!("* * * * *");
    });
    settle(&mut cluster, &plugin, &keys, nobody);
    cluster.advance(Duration::from_secs(60));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!((cluster.list(&JOB).count(), n_active(&cluster)), (3 + 1, 1));
}

/// A Pod on each Node: adopted, failed, replaced, with a new template, and deleted with the Nodes. And the history.
pub(super) fn daemon_set(size: Size) {
    let n = size.beyond(300);
    let mut cluster = Cluster::new(1);
    let mut set = object("apps/v1", "DaemonSet", "set", 0, LONGEST);
    set["spec"] = json!({"selector": selector(), "template": template(), "revisionHistoryLimit": 2,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}});
    set["status"] = json!({});
    cluster.insert(set.clone());
    for i in 0..n {
        cluster.insert(global("v1", "Node", "node", i, LONGEST));
        cluster.insert(pod(i));
        let mut revision = object("apps/v1", "ControllerRevision", "revision", i, LONGEST);
        revision["metadata"]["labels"]["controller-revision-hash"] = json!(format!("{i}"));
        revision["revision"] = json!(i + 1);
        revision["data"] = json!({"spec": {"template": {"$patch": "replace", "spec": {"x": i}}}});
        cluster.insert(revision);
    }
    let plugin = size.limit(daemonset::plugin());
    let keys = [key(&plugin, "", &set)];
    settle(&mut cluster, &plugin, &keys, kubelet);
    let current = |cluster: &Cluster| {
        let newest =
            cluster.list(&REVISION).max_by_key(|revision| revision["revision"].as_i64()).expect("there is one");
        let hash = newest["metadata"]["labels"]["controller-revision-hash"].clone();
        cluster.list(&POD).filter(|pod| pod["metadata"]["labels"]["controller-revision-hash"] == hash).count()
    };
    assert_eq!((cluster.list(&POD).count(), current(&cluster), cluster.list(&REVISION).count()), (n, n, 3));
    let status = &now(&cluster, &set)["status"];
    assert_eq!([&status["numberReady"], &status["updatedNumberScheduled"]], [n, n], "{status}");
    edit_all(&mut cluster, &POD, |_| true, |pod| pod["status"] = json!({"phase": "Failed"}));
    // Pods that no run has deleted have to wait like those that have failed again.
    settle(&mut cluster, &plugin, &keys, |cluster| {
        let is_waiting = cluster.list(&POD).any(|pod| pod["status"]["phase"] == "Failed");
        cluster.advance(Duration::from_secs(901));
        kubelet(cluster) || is_waiting
    });
    assert_eq!(now(&cluster, &set)["status"]["numberReady"], n);
    // As many DaemonSets affected by a Node.
    for i in 1..n {
        let mut other = object("apps/v1", "DaemonSet", "set", i, LONGEST);
        other["spec"] = json!({"selector": selector(), "template": template()});
        cluster.insert(other);
    }
    let node = global("v1", "Node", "node", 0, LONGEST);
    let run = cluster.run(&plugin, &key(&plugin, "daemonset-node-updates", &node));
    assert_eq!(run.result.expect("it succeeds").wake.len(), n);
    for i in 1..n {
        cluster.remove(&keys[0].kind, &home(), &name("set", i, LONGEST));
    }
    for i in 1..n {
        cluster.remove(&NODE, "", &name("node", i, LONGEST));
    }
    settle(&mut cluster, &plugin, &keys, kubelet);
    assert_eq!(cluster.list(&POD).count(), 1);
}

/// Old ReplicaSets are adopted, scaled down, and deleted.
pub(super) fn deployment(size: Size) {
    let n = size.n();
    const SET: Kind = Kind::new("apps", "v1", "ReplicaSet");
    let mut cluster = Cluster::new(1);
    let mut deployment = object("apps/v1", "Deployment", "deployment", 0, LONGEST);
    deployment["spec"] = json!({"replicas": 3, "selector": selector(), "template": template(), "revisionHistoryLimit": 2,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": "100%"}}});
    deployment["status"] = json!({});
    cluster.insert(deployment.clone());
    for i in 0..n {
        let mut set = object("apps/v1", "ReplicaSet", "set", i, LONGEST);
        let mut old = template();
        old["spec"]["containers"][0]["image"] = json!(format!("old:{i}"));
        set["spec"] = json!({"replicas": 1, "selector": selector(), "template": old});
        set["status"] = json!({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1});
        cluster.insert(set);
    }
    let plugin = size.limit(deployment::plugin());
    let scale = |cluster: &mut Cluster| {
        let differs = |set: &Value| set["status"]["replicas"] != set["spec"]["replicas"];
        edit_all(cluster, &SET, differs, |set| {
            let n = &set["spec"]["replicas"];
            set["status"] = json!({"replicas": n, "readyReplicas": n, "availableReplicas": n, "observedGeneration": set["metadata"]["generation"]});
        })
    };
    settle(&mut cluster, &plugin, &[key(&plugin, "", &deployment)], scale);
    let replicas: Vec<i64> = cluster.list(&SET).filter_map(|set| set["spec"]["replicas"].as_i64()).collect();
    assert_eq!((replicas.len(), replicas.iter().sum::<i64>()), (3, 3));
    assert_eq!(now(&cluster, &deployment)["status"]["availableReplicas"], 3);
}

/// Replicas with claims, adopted together with a history, with a new template, scaled down, and up.
pub(super) fn stateful_set(size: Size) {
    let n = size.beyond(400);
    let mut cluster = Cluster::new(1);
    let mut set = object("apps/v1", "StatefulSet", "set", 0, SHORT);
    let claim = json!({"metadata": {"name": "c", "labels": labels()}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    set["spec"] = json!({
        "replicas": n, "selector": selector(), "template": template(), "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}, "revisionHistoryLimit": 2,
        "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
    });
    set["status"] = json!({});
    cluster.insert(set.clone());
    for i in 0..n {
        let mut revision = object("apps/v1", "ControllerRevision", "revision", i, LONGEST);
        revision["revision"] = json!(i + 1);
        revision["data"] = json!({"spec": {"template": {"$patch": "replace", "spec": {"x": i}}}});
        cluster.insert(revision);
        if i % 2 == 0 {
            let mut pod = pod(i);
            pod["metadata"]["name"] = json!(format!("{}-{i}", name("set", 0, SHORT)));
            cluster.insert(pod);
        }
    }
    let plugin = size.limit(statefulset::plugin()).config("maxUnavailable", true);
    let keys = [key(&plugin, "", &set)];
    settle(&mut cluster, &plugin, &keys, kubelet);
    let updated = |cluster: &Cluster| {
        let revision = now(cluster, &set)["status"]["updateRevision"].clone();
        cluster.list(&POD).filter(|pod| pod["metadata"]["labels"]["controller-revision-hash"] == revision).count()
    };
    assert_eq!((cluster.list(&POD).count(), updated(&cluster), cluster.list(&CLAIM).count()), (n, n, n));
    assert_eq!(cluster.list(&REVISION).count(), 3);
    assert_eq!(now(&cluster, &set)["status"]["readyReplicas"], n);
    cluster.edit(&keys[0].kind, &home(), &keys[0].name, |set| set["spec"]["replicas"] = json!(1));
    settle(&mut cluster, &plugin, &keys, kubelet);
    assert_eq!(cluster.list(&POD).count(), 1);
    let of_pods = cluster.list(&CLAIM).filter(|claim| claim["metadata"]["ownerReferences"][0]["kind"] == "Pod");
    assert_eq!(of_pods.count(), n - 1, "the claims go with their Pods");
}

/// Every second index fails. The Pods are adopted, counted, and lose their finalizers.
pub(super) fn job(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut job = object("batch/v1", "Job", "job", 0, LABEL);
    job["spec"] = json!({"parallelism": n, "completions": n, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "backoffLimit": i32::MAX,
        "selector": selector(), "template": template()});
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    job["status"] = json!({});
    cluster.insert(job.clone());
    for i in 0..n / 2 {
        let mut pod = pod(i);
        pod["metadata"]["annotations"] = json!({"batch.kubernetes.io/job-completion-index": i.to_string()});
        pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        cluster.insert(pod);
    }
    let plugin = size.limit(jobs::plugin());
    let keys = [key(&plugin, "", &job)];
    settle(&mut cluster, &plugin, &keys, start_pods);
    assert_eq!((cluster.list(&POD).count(), n_owned(&cluster, &POD)), (n, n));
    assert_eq!(now(&cluster, &job)["status"]["ready"], n);
    edit_all(
        &mut cluster,
        &POD,
        |_| true,
        |pod| {
            let index =
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str().unwrap_or_default();
            let is_odd = index.parse::<usize>().expect("it has an index") % 2 == 1;
            pod["status"] = json!({"phase": if is_odd { "Failed" } else { "Succeeded" }});
        },
    );
    settle(&mut cluster, &plugin, &keys, nobody);
    let status = &now(&cluster, &job)["status"];
    assert_eq!([&status["succeeded"], &status["failed"]], [n - n / 2, n / 2], "{status}");
    let conditions = status["conditions"].to_string();
    assert!(conditions.contains(r#""type":"Failed""#), "{conditions}");
    assert!(cluster.list(&POD).all(|pod| pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)));
    // It is deleted, and its Pods still have their finalizers.
    edit_all(
        &mut cluster,
        &POD,
        |_| true,
        |pod| {
            pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        },
    );
    cluster.remove(&JOB, &home(), &keys[0].name);
    settle(&mut cluster, &plugin, &keys, nobody);
}

/// A finished Job with many conditions.
pub(super) fn finished(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut job = object("batch/v1", "Job", "job", 0, LABEL);
    let condition = |kind: String, status| json!({"type": kind, "status": status, "lastTransitionTime": cluster.now()});
    let mut conditions: Vec<Value> =
        (0..n).map(|i| condition(format!("{}/c", name("type", i, LONGEST)), "True")).collect();
    conditions.push(condition("Complete".into(), "True"));
    job["spec"] = json!({"ttlSecondsAfterFinished": 10});
    job["status"] = json!({ "conditions": conditions });
    cluster.insert(job.clone());
    let plugin: Plugin<'_> = size.limit(ttl_after_finished::plugin());
    let keys = [key(&plugin, "", &job)];
    settle(&mut cluster, &plugin, &keys, nobody);
    cluster.advance(Duration::from_secs(11));
    cluster.run(&plugin, &keys[0]);
    assert!(is_deleting(now(&cluster, &job)));
}

/// All Pods of its namespace are those of its target, and their metrics exceed the host's default answer limit.
pub(super) fn autoscaler(size: Size) {
    let n = size.n();
    let resources = vec![ApiResource {
        kind: Kind::new("apps", "v1", "Deployment"),
        plural: "deployments".into(),
        namespaced: true,
        verbs: vec!["get".into()],
        subresources: vec!["scale".into()],
        preferred: true,
    }];
    let mut cluster = Cluster::new(1).resources(resources);
    let deployment = object("apps/v1", "Deployment", "deployment", 0, LONGEST);
    let mut stored = deployment.clone();
    stored["spec"] = json!({"replicas": n});
    cluster.insert(stored);
    for i in 0..n {
        let mut pod = pod(i);
        pod["spec"]["containers"] = json!([{"name": "c".repeat(LABEL), "resources": {"requests": {"cpu": "100m"}}}]);
        pod["status"]["startTime"] = json!(cluster.now());
        pod["status"]["conditions"][0]["lastTransitionTime"] = json!(cluster.now());
        cluster.insert(pod);
    }
    cluster.advance(Duration::from_secs(3_600));
    let mut autoscaler = object("autoscaling/v2", "HorizontalPodAutoscaler", "autoscaler", 0, LONGEST);
    let metrics: Vec<Value> = ["cpu", "memory"]
        .iter()
        .map(|name| json!({"type": "Resource", "resource": {"name": name, "target": {"type": "AverageValue", "averageValue": "50m"}}}))
        .collect();
    autoscaler["spec"] = json!({"maxReplicas": 2 * n, "metrics": metrics,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]}});
    autoscaler["status"] = json!({});
    cluster.insert(autoscaler.clone());
    let (label, value) = label();
    let scale = json!({"metadata": {"name": deployment["metadata"]["name"], "namespace": home(), "uid": "u", "resourceVersion": "9"},
        "spec": {"replicas": n}, "status": {"replicas": n, "selector": format!("{label}={value}")}});
    let item = |i| {
        json!({"metadata": {"name": name("pod", i, LONGEST), "namespace": home(), "labels": labels(), "annotations": {"x": "y".repeat(12_000_000 / n)}},
        "timestamp": cluster.now(), "window": "1m", "containers": [{"name": "c".repeat(LABEL), "usage": {"cpu": "50m", "memory": "50m"}}]})
    };
    let metrics = json!({"kind": "PodMetricsList", "items": (0..n).map(item).collect::<Vec<_>>()}).to_string();
    let manifest = include_str!("../../../../horizontal-pod-autoscaler/manifest.yaml");
    let limits = &serde_norway::from_str::<Value>(manifest).expect("it is a manifest")["limits"];
    let most = limits["answerBytes"].as_u64().unwrap_or(8 << 20);
    let answer = |need: &Need| match need {
        Need::LiveObject { .. } => Ok(scale.to_string()),
        Need::RawPath(_) if metrics.len() as u64 > most => Err(ApiError {
            code: 0,
            reason: "TooLarge".into(),
            message: format!("the answer has more than {most} bytes"),
        }),
        Need::RawPath(_) => Ok(metrics.clone()),
        other => panic!("{other:?}"),
    };
    let answer: &dyn Fn(&Need) -> Result<String, ApiError> = &answer;
    let plugin = Plugin::new(manifest, |key, lister| {
        plugin_horizontal_pod_autoscaler::reconcile(key, &Answers::to_needs(lister, answer))
    });
    let plugin = size.limit(plugin);
    let run = cluster.run(&plugin, &key(&plugin, "", &autoscaler));
    assert!(run.result.is_ok(), "{:?}", run.result.err());
    let status = &now(&cluster, &autoscaler)["status"];
    assert_eq!(status["desiredReplicas"], n, "{}", status["conditions"]);
    let conditions = status["conditions"].to_string();
    assert!(conditions.contains("ValidMetricFound"), "{conditions}");
}
