//! Cost of ingesting a Pod of 3 KB, for the projections that the built-in controllers declare.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pintle_core::object::field::FieldMask;
use pintle_core::object::id::Kind;
use pintle_core::object::ingest::{IngestPlan, Ingester, Needs};
use pintle_core::object::texts::Projection;

/// A Pod as returned by an API server, with the managed fields of four managers.
fn pod() -> String {
    let uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let managed = |manager: &str| {
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"web\"}}":{{".":{{}},"f:image":{{}}}}}}}}}}}}"#
        )
    };
    let managed = [managed("kube-controller-manager"), managed("kube-scheduler"), managed("kubelet")].join(",");
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}}"#
        )
    };
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(condition)
        .join(",");
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-5d4f8c7b9d-x2x7q","generateName":"web-5d4f8c7b9d-","namespace":"default","uid":"{uid}","resourceVersion":"123456","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"web","pod-template-hash":"5d4f8c7b9d"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9d","uid":"{uid}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{managed}]}},"spec":{{"volumes":[{{"name":"kube-api-access-abcde","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}}],"defaultMode":420}}}}],"containers":[{{"name":"web","image":"nginx:1.27","resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}}}},"volumeMounts":[{{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-17","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":[{conditions}],"hostIP":"10.0.0.17","podIP":"10.244.3.9","podIPs":[{{"ip":"10.244.3.9"}}],"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{{"name":"web","state":{{"running":{{"startedAt":"2026-01-01T00:00:00Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"nginx:1.27","imageID":"docker.io/library/nginx@sha256:0000000000000000000000000000000000000000000000000000000000000000","containerID":"containerd://0000000000000000000000000000000000000000000000000000000000000000","started":true}}],"qosClass":"Burstable"}}}}"#
    )
}

fn fields(paths: &[&str]) -> Projection {
    Projection::Fields(FieldMask::new(paths.iter().filter_map(|path| path.parse().ok())))
}

fn ingest(c: &mut Criterion) {
    let json = pod();
    let replica_set = fields(&[
        "metadata.labels",
        "metadata.ownerReferences",
        "metadata.deletionTimestamp",
        "metadata.creationTimestamp",
        "spec.nodeName",
        "status.phase",
        "status.conditions",
        "status.containerStatuses.restartCount",
    ]);
    let deployment = fields(&["metadata.ownerReferences", "status.phase"]);
    let garbage = fields(&["metadata.ownerReferences", "metadata.finalizers", "metadata.deletionTimestamp"]);
    let mut group = c.benchmark_group(format!("ingest of a Pod of {} bytes", json.len()));
    group.throughput(Throughput::Bytes(json.len() as u64));
    for (name, projections) in [
        ("metadata", vec![garbage.clone()]),
        ("replicaset", vec![replica_set.clone()]),
        ("replicaset, deployment, garbage collector", vec![replica_set, deployment, garbage]),
        ("whole", vec![Projection::Whole]),
    ] {
        let plan = IngestPlan::new(
            Kind::new("", "v1", "Pod"),
            Needs { projections: projections.into_iter().collect(), ..Needs::default() },
        );
        let mut ingester = Ingester::default();
        group.bench_function(name, |b| b.iter(|| ingester.ingest(&plan, black_box(&json)).is_ok()));
    }
    group.bench_function("into a tree of values, for comparison", |b| {
        b.iter(|| serde_json::from_str::<serde_json::Value>(black_box(&json)).is_ok());
    });
    group.finish();
}

criterion_group!(benches, ingest);
criterion_main!(benches);
