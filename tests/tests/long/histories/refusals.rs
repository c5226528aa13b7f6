//! Each write of each controller, refused for a minute: as many requests as by kube-controller-manager at most, the same events, and the
//! same state in the end.
//!
//! ```text
//! before -> quiet -> refused: then -> a minute -> allowed -> equal, soon?
//! ```
//!
//! The rows of a test run at once, each in a namespace for each code. `ROW` in the environment keeps those with these words.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::StatusCode;
use pintle_tests::proxy::{Count, Refusal, Verb};
use serde_json::{Value, json};

use super::plan::{PodStep, QUIET_LOOKS, Step, claim_spec, ended, pod, template};
use super::play::{Arena, Compared, Watched, close, compare, quiet, take};
use Verb::{Change, Create, Delete};

/// How long a write is refused.
const TIME: Duration = Duration::from_secs(60);

/// How long what was refused may take to be done: both back off, up to a minute and more.
const LATE: Duration = Duration::from_secs(150);

/// The minute may end just before a retry of one side and just after that of the other, which has up to three requests.
const SLACK: usize = 3;

/// Which part more may be chance where retries do not back off: each is later by the time of a request, and of a wait for it.
const PART: usize = 10;

const CODES: [StatusCode; 4] =
    [StatusCode::FORBIDDEN, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::INTERNAL_SERVER_ERROR];

/// Clients wait for the time in `Retry-After`, and then hold one of the few workers of their controller. How these are shared by several
/// keys is chance, so that only the sum of a controller is compared; and other codes would wait for the workers, too.
const WAITING: [StatusCode; 1] = [StatusCode::TOO_MANY_REQUESTS];

/// Its runs are 20 seconds apart. How many of them the minute has is chance where one takes longer than that.
const TICKING: &str = "pod-garbage-collector";

/// In events about a refusal.
const REFUSED: [&str; 1] = ["the API server is in trouble"];

/// A write of a controller, and how it comes to it.
struct Row {
    controller: &'static str,
    /// Why it writes.
    why: &'static str,
    verb: Verb,
    resource: &'static str,
    compared: Compared,
    /// The codes with which the end is another one on purpose.
    ends_otherwise: &'static [StatusCode],
    /// Steps before the refusal, and then.
    before: Vec<Step>,
    then: Vec<Step>,
}

impl Row {
    fn name(&self) -> String {
        format!("{}: {:?} {}, {}", self.controller, self.verb, self.resource, self.why)
    }
}

/// The rows of one controller.
struct Rows {
    controller: &'static str,
    kinds: &'static [&'static str],
    rows: Vec<Row>,
}

impl Rows {
    fn of(controller: &'static str, kinds: &'static [&'static str]) -> Rows {
        Rows { controller, kinds, rows: Vec::new() }
    }

    fn add(
        mut self,
        verb: Verb,
        resource: &'static str,
        why: &'static str,
        before: Vec<Step>,
        then: Vec<Step>,
    ) -> Rows {
        let Rows { controller, kinds, .. } = self;
        let compared = Compared { kinds, ..Compared::default() };
        self.rows.push(Row { controller, why, verb, resource, compared, ends_otherwise: &[], before, then });
        self
    }

    /// Compares one more object in the last row.
    fn beside(mut self, path: &'static str) -> Rows {
        if let Some(row) = self.rows.last_mut() {
            row.compared.beside = path;
        }
        self
    }

    /// With these codes, the last row ends in another way than by kube-controller-manager.
    fn ending_otherwise(mut self, codes: &'static [StatusCode]) -> Rows {
        if let Some(row) = self.rows.last_mut() {
            row.ends_otherwise = codes;
        }
        self
    }
}

fn named(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn job(mut spec: Value) -> Step {
    spec["template"] = template(&json!({"app": "web"}), "image:1");
    spec["template"]["spec"]["restartPolicy"] = json!("Never");
    Step::Create("jobs", named(spec))
}

fn workload(plural: &'static str, replicas: u32, more: &Value) -> Step {
    let mut spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(&json!({"app": "web"}), "image:1"),
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    if plural == "replicationcontrollers" {
        spec["selector"] = json!({"app": "web"});
    }
    if plural == "statefulsets" {
        spec["serviceName"] = json!("web");
    }
    Step::Create(plural, named(spec))
}

fn patch(plural: &'static str, spec: &Value) -> Step {
    Step::Patch(plural, "web".to_owned(), json!({"spec": spec}))
}

fn annotate(plural: &'static str, annotations: &Value) -> Step {
    Step::Patch(plural, "web".to_owned(), json!({"metadata": {"annotations": annotations}}))
}

fn image(plural: &'static str, image: &str) -> Step {
    patch(plural, &json!({"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}))
}

fn end(n: usize, code: i32) -> Step {
    Step::Pod(n, PodStep::Status(ended(code)))
}

fn label(n: usize, labels: &Value) -> Step {
    Step::Pod(n, PodStep::Patch(json!({"metadata": {"labels": labels}})))
}

fn remove(plural: &'static str, policy: &'static str) -> Step {
    Step::Delete(plural, "web".to_owned(), policy)
}

/// A Pod of the user.
fn mine(name: &str) -> Step {
    Step::Create("pods", pod(name, "web"))
}

/// A revision that nobody owns.
fn revision() -> Step {
    let metadata = json!({"name": "old", "labels": {"app": "web"}});
    let data = json!({"spec": {"template": {"$patch": "replace", "spec": {"containers": []}}}});
    Step::Create("controllerrevisions", json!({"metadata": metadata, "revision": 1, "data": data}))
}

const NODES: &str = "/api/v1/nodes";

/// Which row a Node belongs to.
const LABEL: &str = "example.com/history";

/// A Node without taints, which the API server gives to a new one.
fn node(name: &str) -> [Step; 2] {
    let name = format!("<namespace>-{name}");
    let metadata = json!({"name": name, "labels": {LABEL: "<namespace>"}});
    [Step::Create(NODES, json!({"metadata": metadata})), Step::Patch(NODES, name, json!({"spec": {"taints": []}}))]
}

fn jobs() -> Vec<Row> {
    let three = || job(json!({"parallelism": 3, "completions": 3}));
    let manual = json!({"manualSelector": true, "parallelism": 2, "completions": 2, "selector": {"matchLabels": {"app": "web"}}});
    Rows::of("job", &["jobs"])
        .add(Create, "pods", "parallelism", vec![], vec![three()])
        .add(
            Create,
            "pods",
            "each index",
            vec![],
            vec![job(json!({"parallelism": 3, "completions": 3, "completionMode": "Indexed"}))],
        )
        .add(Delete, "pods", "suspended", vec![three()], vec![patch("jobs", &json!({"suspend": true}))])
        .add(Delete, "pods", "deadline", vec![three()], vec![patch("jobs", &json!({"activeDeadlineSeconds": 1}))])
        .add(Change, "pods", "finalizer of one that has ended", vec![three()], vec![end(0, 0)])
        .add(Change, "pods", "finalizer when suspended", vec![three()], vec![patch("jobs", &json!({"suspend": true}))])
        .add(Change, "pods", "finalizer of an orphan", vec![three()], vec![remove("jobs", "Orphan")])
        .add(Change, "pods", "adoption", vec![mine("mine")], vec![job(manual)])
        .add(Change, "jobs/status", "begins", vec![], vec![three()])
        .add(Change, "jobs/status", "ends", vec![three(), end(0, 0), end(0, 0)], vec![end(0, 0)])
        .rows
}

/// CronJobs, and Jobs that are deleted some time after their end.
fn timed() -> Vec<Row> {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}]}});
    let job_template = json!({"spec": {"managedBy": "example.com/user", "template": template}});
    let cron = |policy: &str| {
        let spec = json!({
            "schedule": "0 0 1 1 *", "jobTemplate": job_template, "successfulJobsHistoryLimit": 0, "concurrencyPolicy": policy,
        });
        Step::Create("cronjobs", named(spec))
    };
    let due = |time: &str| Step::Status("cronjobs", "web".to_owned(), json!({"lastScheduleTime": time}));
    let (first, second) = ("2024-06-01T00:00:00Z", "2025-06-01T00:00:00Z");
    let at = "2026-01-02T00:00:00Z";
    let done = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at});
    let complete =
        json!({"startTime": at, "completionTime": at, "conditions": [done("SuccessCriteriaMet"), done("Complete")]});
    let completed = Step::Status("jobs", "web-29453760".to_owned(), complete);
    let later = patch("cronjobs", &json!({"schedule": "0 0 1 2 *"}));
    let mut rows = Rows::of("cronjob", &["cronjobs", "jobs"])
        .add(Create, "jobs", "due", vec![cron("Allow")], vec![due(second)])
        // No object has the name that is taken: a Job that has gone already, so that the next time counts.
        .ending_otherwise(&[StatusCode::CONFLICT])
        .add(Change, "cronjobs/status", "due", vec![cron("Allow")], vec![due(second)])
        // kube-controller-manager looks for its Job without a namespace, and so never names it in the status.
        .ending_otherwise(&CODES)
        .add(Change, "cronjobs/status", "a Job has ended", vec![cron("Forbid"), due(second)], vec![completed.clone()])
        .add(Delete, "jobs", "history", vec![cron("Allow"), due(second)], vec![completed])
        .add(Delete, "jobs", "replaced", vec![cron("Replace"), due(first), later], vec![due("2026-01-15T00:00:00Z")])
        .rows;
    let short = job(json!({"ttlSecondsAfterFinished": 3}));
    rows.extend(
        Rows::of("ttl-after-finished", &["jobs"]).add(Delete, "jobs", "ended", vec![short], vec![end(0, 0)]).rows,
    );
    rows
}

fn replicas(plural: &'static str, controller: &'static str, status: &'static str) -> Vec<Row> {
    let three = || workload(plural, 3, &json!({}));
    Rows::of(controller, &[])
        .add(Create, "pods", "replicas", vec![], vec![three()])
        .add(Delete, "pods", "too many", vec![three()], vec![patch(plural, &json!({"replicas": 1}))])
        .add(Change, "pods", "adoption", vec![mine("mine")], vec![three()])
        .add(Change, "pods", "release", vec![three()], vec![label(0, &json!({"app": "x"}))])
        .add(Change, status, "begins", vec![], vec![three()])
        .rows
}

fn replicated() -> Vec<Row> {
    let mut rows = replicas("replicasets", "replicaset", "replicasets/status");
    rows.extend(replicas("replicationcontrollers", "replicationcontroller", "replicationcontrollers/status"));
    rows
}

fn deployments() -> Vec<Row> {
    let it = "deployments";
    let recreated = || workload(it, 3, &json!({"strategy": {"type": "Recreate"}}));
    let forgets = || workload(it, 0, &json!({"revisionHistoryLimit": 0}));
    let rolling = || workload(it, 3, &json!({}));
    let mut orphan = workload("replicasets", 1, &json!({}));
    if let Step::Create(_, orphan) = &mut orphan {
        orphan["metadata"]["labels"] = json!({"app": "web"});
    }
    let back = json!({"deprecated.deployment.rollback.to": "0"});
    Rows::of("deployment", &[])
        .add(Create, "replicasets", "begins", vec![], vec![rolling()])
        .add(Change, "replicasets", "scaled", vec![rolling(), Step::Run(3)], vec![patch(it, &json!({"replicas": 5}))])
        .add(Change, "replicasets", "rolls", vec![recreated(), Step::Run(3)], vec![image(it, "image:2")])
        .add(Change, "replicasets", "adoption", vec![orphan], vec![rolling()])
        .add(Delete, "replicasets", "history", vec![forgets()], vec![image(it, "image:2")])
        .add(Change, it, "rolls back", vec![rolling(), Step::Run(3), image(it, "image:2")], vec![annotate(it, &back)])
        .add(Change, "deployments/status", "begins", vec![], vec![rolling()])
        .rows
}

const SETS: &[&str] = &["statefulsets", "controllerrevisions", "persistentvolumeclaims"];

fn stateful(replicas: u32, policy: &str, more: Value) -> Step {
    let mut more = more;
    more["podManagementPolicy"] = json!(policy);
    workload("statefulsets", replicas, &more)
}

fn pods_of_stateful_sets() -> Vec<Row> {
    let it = "statefulsets";
    let ordered = |replicas| stateful(replicas, "OrderedReady", json!({}));
    let parallel = |replicas| stateful(replicas, "Parallel", json!({}));
    let number = json!({"statefulset.kubernetes.io/pod-name": null});
    Rows::of("statefulset", SETS)
        .add(Create, "pods", "one by one", vec![], vec![ordered(2)])
        .add(Create, "pods", "in parallel", vec![], vec![parallel(3)])
        .add(Create, "pods", "rolls", vec![parallel(3), Step::Run(3)], vec![image(it, "image:2")])
        .add(Delete, "pods", "too many", vec![parallel(3), Step::Run(3)], vec![patch(it, &json!({"replicas": 1}))])
        .add(Delete, "pods", "rolls", vec![ordered(1), Step::Run(1)], vec![image(it, "image:2")])
        .add(Delete, "pods", "has failed", vec![ordered(1), Step::Run(1)], vec![end(0, 1)])
        .add(Change, "pods", "release", vec![parallel(2)], vec![label(0, &json!({"app": "x"}))])
        .add(Change, "pods", "adoption", vec![mine("web-0")], vec![parallel(2)])
        .add(Change, "pods", "identity", vec![parallel(2), Step::Run(2)], vec![label(0, &number)])
        .rows
}

fn rest_of_stateful_sets() -> Vec<Row> {
    let it = "statefulsets";
    let two = || stateful(2, "Parallel", json!({}));
    let claims = || {
        let claim = json!({"metadata": {"name": "data"}, "spec": claim_spec()});
        stateful(2, "Parallel", json!({"volumeClaimTemplates": [claim]}))
    };
    let forgets = || stateful(0, "Parallel", json!({"revisionHistoryLimit": 0}));
    let delete = json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}});
    Rows::of("statefulset", SETS)
        .add(Create, "controllerrevisions", "begins", vec![], vec![two()])
        .add(Create, "controllerrevisions", "rolls", vec![two(), Step::Run(2)], vec![image(it, "image:2")])
        .add(
            Change,
            "controllerrevisions",
            "rolls back",
            vec![two(), Step::Run(2), image(it, "image:2")],
            vec![image(it, "image:1")],
        )
        .add(Change, "controllerrevisions", "adoption", vec![revision()], vec![two()])
        .add(Delete, "controllerrevisions", "history", vec![forgets()], vec![image(it, "image:2")])
        .add(Create, "persistentvolumeclaims", "begins", vec![], vec![claims()])
        .add(Change, "persistentvolumeclaims", "retention", vec![claims()], vec![patch(it, &delete)])
        .add(Change, "statefulsets/status", "begins", vec![], vec![two()])
        .rows
}

const DAEMONS: &[&str] = &["daemonsets", "controllerrevisions"];

/// Nodes, a DaemonSet on them, and its Pods, which run.
fn daemon_set(history: u32) -> [Vec<Step>; 3] {
    let mut pods = template(&json!({"app": "web"}), "image:1");
    pods["spec"]["nodeSelector"] = json!({LABEL: "<namespace>"});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}});
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}}, "template": pods, "updateStrategy": strategy, "revisionHistoryLimit": history,
    });
    [[node("a"), node("b")].concat(), vec![Step::Create("daemonsets", named(spec))], vec![Step::Run(2)]]
}

fn pods_of_daemon_sets() -> Vec<Row> {
    let [nodes, set, _] = daemon_set(10);
    let running = daemon_set(10).concat();
    let mut bound = pod("mine", "web");
    bound["spec"]["nodeName"] = json!("<namespace>-a");
    let bound = [nodes.clone(), vec![Step::Create("pods", bound)]].concat();
    Rows::of("daemonset", DAEMONS)
        .add(Create, "pods", "each Node", nodes, set.clone())
        .add(Delete, "pods", "rolls", running.clone(), vec![image("daemonsets", "image:2")])
        .add(Delete, "pods", "has failed", running.clone(), vec![end(0, 1)])
        .add(Change, "pods", "release", running, vec![label(0, &json!({"app": "x"}))])
        .add(Change, "pods", "adoption", bound, set)
        .rows
}

fn rest_of_daemon_sets() -> Vec<Row> {
    let [nodes, set, _] = daemon_set(10);
    let running = daemon_set(10).concat();
    let rolled = [running.clone(), vec![image("daemonsets", "image:2"), Step::Run(2)]].concat();
    let orphan = [nodes.clone(), vec![revision()]].concat();
    Rows::of("daemonset", DAEMONS)
        .add(Create, "controllerrevisions", "begins", nodes.clone(), set.clone())
        .add(Create, "controllerrevisions", "rolls", running, vec![image("daemonsets", "image:2")])
        .add(Change, "controllerrevisions", "rolls back", rolled, vec![image("daemonsets", "image:1")])
        .add(Change, "controllerrevisions", "adoption", orphan, set.clone())
        .add(Delete, "controllerrevisions", "history", daemon_set(0).concat(), vec![image("daemonsets", "image:2")])
        .add(Change, "daemonsets/status", "begins", nodes, set)
        .rows
}

fn config_map(name: &str, owners: &[&str]) -> Step {
    let owners = owners.iter().map(|owner| {
        let uid = format!("uid:configmaps/{owner}");
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": true})
    });
    let metadata = json!({"name": name, "ownerReferences": owners.collect::<Vec<_>>()});
    Step::Create("configmaps", json!({"metadata": metadata}))
}

/// The garbage collector, and the controller of namespaces.
fn ends() -> Vec<Row> {
    let it = "configmaps";
    let owned = || vec![config_map("web", &[]), config_map("child", &["web"])];
    let two_owners = || vec![config_map("web", &[]), config_map("other", &[]), config_map("child", &["web", "other"])];
    let secret = || vec![Step::Create("secrets", json!({"metadata": {"name": "s"}}))];
    let gone = || vec![Step::Delete("/api/v1/namespaces", "<namespace>".to_owned(), "Background")];
    let mut rows = Rows::of("garbage-collector", &[])
        .add(Delete, it, "owner is gone", owned(), vec![remove(it, "Background")])
        .add(Delete, it, "foreground", owned(), vec![remove(it, "Foreground")])
        .add(Change, it, "finalizer of an owner", owned(), vec![remove(it, "Foreground")])
        .add(Change, it, "orphans", owned(), vec![remove(it, "Orphan")])
        .add(Change, it, "one of two owners is gone", two_owners(), vec![remove(it, "Background")])
        .rows;
    rows.extend(
        Rows::of("namespace", &["secrets"])
            .add(Delete, "secrets", "contents", secret(), gone())
            .add(Change, "namespaces/status", "conditions", secret(), gone())
            .add(Change, "namespaces/finalize", "ends", secret(), gone())
            .rows,
    );
    rows
}

/// Autoscalers, budgets, and the garbage collector of Pods.
fn pods() -> Vec<Row> {
    let budget = || {
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
        Step::Create("poddisruptionbudgets", named(spec))
    };
    let stale = json!({"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let autoscaler = || {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let metric = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let spec = json!({"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5, "metrics": [metric]});
        Step::Create("horizontalpodautoscalers", named(spec))
    };
    let web = || vec![workload("deployments", 1, &json!({}))];
    let held = || {
        let mut held = pod("mine", "web");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        vec![Step::Create("pods", held)]
    };
    let deleted = || vec![Step::Delete("pods", "mine".to_owned(), "Background")];
    let mut rows = Rows::of("disruption", &["poddisruptionbudgets"])
        .add(Change, "poddisruptionbudgets/status", "begins", vec![mine("mine")], vec![budget()])
        .add(Change, "pods/status", "stale", vec![mine("mine")], vec![Step::Status("pods", "mine".to_owned(), stale)])
        .rows;
    rows.extend(
        Rows::of("horizontal-pod-autoscaler", &["horizontalpodautoscalers"])
            .add(Change, "deployments/scale", "too few", web(), vec![autoscaler()])
            .add(Change, "horizontalpodautoscalers/status", "begins", web(), vec![autoscaler()])
            .rows,
    );
    rows.extend(
        Rows::of("pod-garbage-collector", &[])
            .add(Change, "pods/status", "terminates without a Node", held(), deleted())
            .add(Delete, "pods", "terminates without a Node", held(), deleted())
            .rows,
    );
    rows
}

/// Objects that protect others, and those that each namespace has.
fn marks() -> Vec<Row> {
    let claims = "persistentvolumeclaims";
    let claim = || vec![Step::Create(claims, named(claim_spec()))];
    let bare = |plural: &'static str, name: &str| {
        vec![Step::Patch(plural, name.to_owned(), json!({"metadata": {"finalizers": null}}))]
    };
    let mut with_volume = pod("mine", "web");
    with_volume["spec"]["volumes"] =
        json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec()}}}]);
    let mut rows = Rows::of("ephemeral-volume", &["persistentvolumeclaims"])
        .add(Create, claims, "begins", vec![], vec![Step::Create("pods", with_volume)])
        .rows;
    rows.extend(
        Rows::of("persistentvolumeclaim-protection", &["persistentvolumeclaims"])
            .add(Change, claims, "finalizer is lost", claim(), bare(claims, "web"))
            .add(Change, claims, "deleted", claim(), vec![remove(claims, "Background")])
            .rows,
    );
    let volumes = "/api/v1/persistentvolumes";
    let volume = || {
        let spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/none"},
        });
        vec![Step::Create(volumes, json!({"metadata": {"name": "<namespace>-a"}, "spec": spec}))]
    };
    let it = "<namespace>-a";
    let delete = |plural: &'static str| vec![Step::Delete(plural, it.to_owned(), "Background")];
    rows.extend(
        Rows::of("persistentvolume-protection", &[])
            .add(Change, "persistentvolumes", "finalizer is lost", volume(), bare(volumes, it))
            .beside("/api/v1/persistentvolumes/<namespace>-a")
            .add(Change, "persistentvolumes", "deleted", volume(), delete(volumes))
            .beside("/api/v1/persistentvolumes/<namespace>-a")
            .rows,
    );
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let class = || {
        let parameters = json!({"iops": "100"});
        vec![Step::Create(
            classes,
            json!({"metadata": {"name": it}, "driverName": "driver.example.com", "parameters": parameters}),
        )]
    };
    rows.extend(
        Rows::of("volumeattributesclass-protection", &[])
            .add(Change, "volumeattributesclasses", "finalizer is lost", class(), bare(classes, it))
            .beside("/apis/storage.k8s.io/v1/volumeattributesclasses/<namespace>-a")
            .add(Change, "volumeattributesclasses", "deleted", class(), delete(classes))
            .beside("/apis/storage.k8s.io/v1/volumeattributesclasses/<namespace>-a")
            .rows,
    );
    let groups = "/apis/scheduling.k8s.io/v1beta1/namespaces/<namespace>/podgroups";
    let group = Step::Create(groups, named(json!({"schedulingPolicy": {"gang": {"minCount": 1}}})));
    rows.extend(
        Rows::of("podgroup-protection", &[])
            .add(Change, "podgroups", "deleted", vec![group], vec![remove(groups, "Background")])
            .beside("/apis/scheduling.k8s.io/v1beta1/namespaces/<namespace>/podgroups/web")
            .rows,
    );
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let selector = json!([{"matchLabels": {LABEL: "<namespace>"}}]);
    let aggregate =
        Step::Create(roles, json!({"metadata": {"name": it}, "aggregationRule": {"clusterRoleSelectors": selector}}));
    let part = json!({
        "metadata": {"name": "<namespace>-part", "labels": {LABEL: "<namespace>"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    rows.extend(
        Rows::of("clusterrole-aggregation", &[])
            .add(Change, "clusterroles", "one more", vec![aggregate], vec![Step::Create(roles, part)])
            .beside("/apis/rbac.authorization.k8s.io/v1/clusterroles/<namespace>-a")
            .rows,
    );
    rows.extend(
        Rows::of("ttl", &[])
            .add(Change, "nodes", "begins", vec![], vec![node("a")[0].clone()])
            .beside("/api/v1/nodes/<namespace>-a")
            .rows,
    );
    let account = Step::Delete("serviceaccounts", "default".to_owned(), "Background");
    rows.extend(Rows::of("serviceaccount", &[]).add(Create, "serviceaccounts", "deleted", vec![], vec![account]).rows);
    let authority = "kube-root-ca.crt".to_owned();
    let changed = Step::Patch("configmaps", authority.clone(), json!({"data": {"ca.crt": "x"}}));
    rows.extend(
        Rows::of("root-ca-certificate-publisher", &[])
            .add(Create, "configmaps", "deleted", vec![], vec![Step::Delete("configmaps", authority, "Background")])
            .add(Change, "configmaps", "changed", vec![], vec![changed])
            .rows,
    );
    rows
}

/// What came of a row with one code.
struct Line<'a> {
    row: &'a Row,
    code: StatusCode,
    /// Of kube-controller-manager, and of Pintle.
    counts: [Count; 2],
    difference: Option<String>,
}

/// Takes a step, which must succeed on both sides.
async fn take_both(both: &[Watched; 2], step: &Step) -> Result<()> {
    let answers = tokio::try_join!(take(&both[0].stage, step), take(&both[1].stage, step))?;
    let is_done = |answer: &str| answer == "ok" || answer.ends_with(" run") && answer != "0 run";
    ensure!(answers.0 == answers.1 && is_done(&answers.0), "{step}: {answers:?}");
    Ok(())
}

/// Opens a namespace, and takes the steps before the refusal.
async fn prepare(arena: &Arena, row: &Row, code: StatusCode) -> Result<[Watched; 2]> {
    let mut compared = row.compared;
    // Whether a key had a worker for all retries of a write is chance as well. And that a name is taken which no object has is no state of
    // an API server: some controllers report it before they look, others do not.
    if WAITING.contains(&code) || (row.verb, code) == (Create, StatusCode::CONFLICT) {
        compared.left_out = &REFUSED;
    }
    let both = arena.open(compared).await?;
    quiet(&both, QUIET_LOOKS).await?;
    for step in &row.before {
        take_both(&both, step).await?;
        quiet(&both, QUIET_LOOKS).await?;
    }
    Ok(both)
}

async fn try_row<'a>(arena: &Arena, row: &'a Row, code: StatusCode, both: [Watched; 2]) -> Result<Line<'a>> {
    let namespace = both[0].stage.ns.clone();
    for proxy in arena.proxies() {
        let (verb, resource) = (row.verb, row.resource.to_owned());
        proxy.refuse(Refusal { namespace: namespace.clone(), verb, resource, code });
    }
    for step in &row.then {
        take_both(&both, step).await?;
    }
    tokio::time::sleep(TIME).await;
    let counts = arena.proxies().map(|proxy| proxy.allow(&namespace));
    let difference = match row.ends_otherwise.contains(&code) || code == WAITING[0] && !row.ends_otherwise.is_empty() {
        true => None,
        false => compare(&both, LATE).await?.difference().map(|difference| difference.to_string()),
    };
    close(&both).await;
    Ok(Line { row, code, counts, difference })
}

/// Tries each row with each of these codes, once all are prepared.
async fn refuse(rows: Vec<Row>, codes: &[StatusCode]) -> Result<()> {
    let words = std::env::var("ROW").unwrap_or_default();
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.name().contains(&words)).collect();
    let arena = Arena::start(false).await?;
    let tries: Vec<(&Row, StatusCode)> =
        rows.iter().flat_map(|row| codes.iter().map(move |code| (row, *code))).collect();
    let prepared = tries.into_iter().map(|(row, code)| {
        let arena = &arena;
        async move {
            let both = prepare(arena, row, code).await.with_context(|| row.name())?;
            anyhow::Ok((row, code, both))
        }
    });
    let prepared = futures::future::try_join_all(prepared).await?;
    let tried = prepared.into_iter().map(|(row, code, both)| {
        let arena = &arena;
        async move { try_row(arena, row, code, both).await.with_context(|| format!("{}, {code}", row.name())) }
    });
    let lines = futures::future::join_all(tried).await;
    arena.stop().await;
    let (mut table, mut last, mut wrong) = (String::new(), String::new(), Vec::new());
    // Controller -> requests of those whose clients wait.
    let mut waiting: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for line in lines {
        let Line { row, code, counts: [theirs, ours], difference } = match line {
            Ok(line) => line,
            Err(error) => {
                wrong.push(format!("{error:#}"));
                continue;
            }
        };
        let name = row.name();
        let mut notes = Vec::new();
        if code == StatusCode::TOO_MANY_REQUESTS {
            let all = waiting.entry(row.controller).or_default();
            *all = [all[0] + theirs.n_requests, all[1] + ours.n_requests];
        } else if theirs.n_refused == 0 || ours.n_refused == 0 {
            notes.push("nothing was refused");
        } else if is_more([theirs.n_requests + n_asked(code, ours), ours.n_requests]) {
            notes.push("more requests");
        }
        if difference.is_some() {
            notes.push("differs");
        }
        let notes = notes.join(", ");
        if last != name {
            write!(table, "\n{name:80}")?;
            last.clone_from(&name);
        }
        let mark = if notes.is_empty() { "" } else { "!" };
        write!(table, " {:>9}", format!("{}/{}{mark}", ours.n_requests, theirs.n_requests))?;
        if !notes.is_empty() {
            let difference = difference.unwrap_or_default();
            wrong.push(format!("{name}, {code}: {notes} ({theirs:?}, {ours:?})\n{difference}"));
        }
    }
    for (controller, n_requests) in waiting {
        if n_requests.contains(&0) || is_more(n_requests) && controller != TICKING {
            wrong.push(format!("{controller}: {n_requests:?} requests in all"));
        }
    }
    let codes = codes.iter().map(|code| format!("{:>9}", code.as_u16())).collect::<Vec<_>>().join(" ");
    writeln!(std::io::stderr(), "{:80} {codes}{table}", "requests in a minute, Pintle/kube-controller-manager")?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// How many more requests Pintle may make: it asks whether a write has happened that failed within the API server, so that nothing is
/// done twice.
fn n_asked(code: StatusCode, ours: Count) -> usize {
    if code == StatusCode::INTERNAL_SERVER_ERROR { ours.n_refused } else { 0 }
}

/// Whether the second number is more than the first, and not by chance.
fn is_more([theirs, ours]: [usize; 2]) -> bool {
    ours > theirs + SLACK + theirs / PART
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_of_jobs_are_not_hurried() -> Result<()> {
    refuse(jobs(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_of_cron_jobs_are_not_hurried() -> Result<()> {
    refuse(timed(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_of_replicas_are_not_hurried() -> Result<()> {
    refuse(replicated(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_of_deployments_are_not_hurried() -> Result<()> {
    refuse(deployments(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_pods_of_stateful_sets_are_not_hurried() -> Result<()> {
    refuse(pods_of_stateful_sets(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_revisions_and_claims_of_stateful_sets_are_not_hurried() -> Result<()> {
    refuse(rest_of_stateful_sets(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_pods_of_daemon_sets_are_not_hurried() -> Result<()> {
    refuse(pods_of_daemon_sets(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_revisions_of_daemon_sets_are_not_hurried() -> Result<()> {
    refuse(rest_of_daemon_sets(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_ends_of_owners_and_namespaces_are_not_hurried() -> Result<()> {
    refuse(ends(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_about_single_pods_are_not_hurried() -> Result<()> {
    refuse(pods(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_finalizers_and_marks_are_not_hurried() -> Result<()> {
    refuse(marks(), &CODES).await
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_are_too_many_wait_as_long() -> Result<()> {
    refuse([jobs(), timed(), replicated(), deployments(), ends()].into_iter().flatten().collect(), &WAITING).await
}

#[tokio::test(flavor = "multi_thread")]
async fn other_writes_that_are_too_many_wait_as_long() -> Result<()> {
    let sets = [pods_of_stateful_sets(), rest_of_stateful_sets(), pods_of_daemon_sets(), rest_of_daemon_sets()];
    refuse(sets.into_iter().chain([pods(), marks()]).flatten().collect(), &WAITING).await
}
