//! A server with 20,000 Pods, and plugins that watch them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use pintle_cache::{Caches, ChangeHandler, Delta, Subscription};
use pintle_core::contract::manifest::Manifest;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::ports::api::{
    ApiError, ApiReader, ApiResource, Discovery, ListPage, ListWatchTarget, Room, WatchFrame, WatchStart, WatchStream,
};
use tokio::sync::mpsc;

pub(crate) const N_PODS: usize = 20_000;
pub(crate) const PODS_PER_OWNER: usize = 100;

/// A server with Pods only, which are generated on request.
#[derive(Default)]
pub(crate) struct Server {
    watch: Mutex<Option<mpsc::Sender<Result<WatchFrame, ApiError>>>>,
}

pub(crate) fn uid(kind: u32, i: usize) -> String {
    format!("0f1e2d3c-4b5a-6978-{kind:04x}-{i:012x}")
}

/// About 2.5 KB, as an API server returns for a small Pod.
pub(crate) fn pod(i: usize, version: usize) -> String {
    let owner = i / PODS_PER_OWNER;
    let managed = |manager: &str| {
        format!(
            r#"{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:pod-template-hash":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"web\"}}":{{".":{{}},"f:image":{{}}}}}}}}}}}}"#
        )
    };
    let managed = ["kube-controller-manager", "kubelet"].map(managed).join(",");
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).join(",");
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-{owner:05}-5d4f8c7b9d-{i:06}","generateName":"web-5d4f8c7b9d-","namespace":"default","uid":"{}","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"web-{owner}","pod-template-hash":"5d4f8c7b9d"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{owner:05}-5d4f8c7b9d","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{managed}]}},"spec":{{"containers":[{{"name":"web","image":"nginx:1.27","resources":{{}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-{}","securityContext":{{}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true}},"status":{{"phase":"Running","conditions":[{conditions}],"hostIP":"10.0.0.17","podIP":"10.244.3.9","podIPs":[{{"ip":"10.244.3.9"}}],"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{{"name":"web","state":{{"running":{{"startedAt":"2026-01-01T00:00:00Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"nginx:1.27","imageID":"docker.io/library/nginx@sha256:00000000000000000000000000000000","containerID":"containerd://00000000000000000000000000000000","started":true}}],"qosClass":"BestEffort"}}}}"#,
        uid(1, i),
        uid(2, owner),
        i % 100,
    )
}

fn replica_set(i: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"web-{i:05}-5d4f8c7b9d","namespace":"default","uid":"{}","resourceVersion":"5"}},"spec":{{"replicas":{PODS_PER_OWNER},"selector":{{"matchLabels":{{"app":"web-{i}"}}}}}}}}"#,
        uid(2, i)
    )
}

impl ApiReader for Server {
    fn discover(&self) -> BoxFuture<'_, Result<Discovery, ApiError>> {
        let resource = |kind: Kind, plural: &str| ApiResource {
            kind,
            plural: plural.into(),
            namespaced: true,
            verbs: ["list", "watch", "delete"].map(String::from).into(),
            subresources: Vec::new(),
            preferred: true,
        };
        let resources = vec![
            resource(Kind::new("", "v1", "Pod"), "pods"),
            resource(Kind::new("apps", "v1", "ReplicaSet"), "replicasets"),
            resource(Kind::new("apps", "v1", "Deployment"), "deployments"),
        ];
        async move { Ok(Discovery { resources, failed: Vec::new() }) }.boxed()
    }

    fn list<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        limit: u32,
        page: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ListPage, ApiError>> {
        let from = page.and_then(|page| page.parse().ok()).unwrap_or(0);
        let (all, text): (usize, fn(usize) -> String) = match target.plural.as_str() {
            "pods" => (N_PODS, |i| pod(i, 10 + i)),
            "replicasets" => (N_PODS / PODS_PER_OWNER, replica_set),
            _ => (0, replica_set),
        };
        let to = (from + limit as usize).min(all);
        let items = (from..to).map(|i| text(i).into_boxed_str()).collect();
        let next = (to < all).then(|| to.to_string());
        async move { Ok(ListPage { items, resource_version: (10 + N_PODS).to_string(), next }) }.boxed()
    }

    fn watch<'a>(
        &'a self,
        target: &'a ListWatchTarget,
        start: WatchStart,
    ) -> BoxFuture<'a, Result<WatchStream, ApiError>> {
        if let WatchStart::InitialEvents = start {
            let invalid = ApiError {
                class: pintle_core::ports::api::ApiErrorClass::Invalid,
                code: 422,
                ..ApiError::transport("no")
            };
            return async move { Err(invalid) }.boxed();
        }
        if target.plural != "pods" {
            return async { Ok(futures::stream::pending().boxed()) }.boxed();
        }
        let (send, receive) = mpsc::channel(1024);
        if let Ok(mut watch) = self.watch.lock() {
            *watch = Some(send);
        }
        let stream =
            futures::stream::unfold(receive, |mut receive| async move { receive.recv().await.map(|f| (f, receive)) });
        async move { Ok(stream.boxed()) }.boxed()
    }

    fn get<'a>(
        &'a self,
        _: &'a ApiResource,
        _: &'a ObjectKey,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        async { Err(ApiError::transport("not here")) }.boxed()
    }

    fn review<'a>(&'a self, _: &'a ApiResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        Box::pin(std::future::ready(Err(ApiError::transport("no reviews"))))
    }

    fn raw<'a>(&'a self, _: &'a str, _: &'a Room<'a>) -> BoxFuture<'a, Result<Box<str>, ApiError>> {
        async { Err(ApiError::transport("not here")) }.boxed()
    }
}

/// Maps each change to keys like a controller, and counts them.
#[derive(Default)]
pub(crate) struct Mapping {
    subscription: OnceLock<Arc<Subscription>>,
    changes: AtomicU64,
}

impl ChangeHandler for Mapping {
    fn on_changes(&self, batch: &Arc<[Delta]>) {
        if let Some(subscription) = self.subscription.get() {
            let snapshot = subscription.snapshot();
            for delta in &**batch {
                black_box(snapshot.keys(delta));
            }
        }
        self.changes.fetch_add(batch.len() as u64, Ordering::Release);
    }

    fn on_progress(&self, _: &Kind) {}
}

/// A plugin with these watches; its rules run if `with_rules`.
pub(crate) fn subscribe(
    caches: &Arc<Caches>,
    name: &str,
    watches: &str,
    with_rules: bool,
) -> (Arc<Subscription>, Arc<Mapping>) {
    let json =
        format!(r#"{{"name":"{name}","version":"1","contract":"0.2","queues":[{{"name":"q"}}],"watches":{watches}}}"#);
    let manifest = match Manifest::parse(json.as_bytes()) {
        Ok(manifest) => Arc::new(manifest),
        Err(why) => panic!("{why}"),
    };
    let handler = Arc::new(Mapping::default());
    let subscription = Arc::new(caches.subscribe(manifest, handler.clone()));
    if with_rules {
        let _ = handler.subscription.set(subscription.clone());
    }
    (subscription, handler)
}

/// Sends Pod changes to the watch; returns the time until the handler has received them all, by this clock.
pub(crate) fn time_of_changes(
    server: &Server,
    handler: &Mapping,
    version: &mut usize,
    n: u64,
    clock: impl Fn() -> Duration,
) -> Duration {
    let watch = loop {
        match server.watch.lock().ok().and_then(|watch| watch.clone()) {
            Some(watch) => break watch,
            None => std::thread::yield_now(),
        }
    };
    let lines: Vec<_> = (0..n as usize).map(|i| pod(i * 7 % N_PODS, *version + i).into_boxed_str()).collect();
    *version += n as usize;
    let until = handler.changes.load(Ordering::Acquire) + n;
    let begin = clock();
    for line in lines {
        let _ = watch.blocking_send(Ok(WatchFrame::Modified(line)));
    }
    while handler.changes.load(Ordering::Acquire) < until {
        std::thread::sleep(Duration::from_micros(20));
    }
    clock() - begin
}

pub(crate) fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}
