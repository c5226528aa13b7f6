//! The life of a cluster without kube-controller-manager, and the same life with it beside: who writes what, and what becomes of it.
//!
//! ```text
//! two control planes, one with each subject -> the same steps on both, in turn -> audit logs: account -> writes, equal?
//!                                                                              -> objects at rest, equal?
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_tests::audited::{in_force, items, rbac};
use pintle_tests::controlplane::{Audit, Options, SUBJECT};
use pintle_tests::objects::{certificate_request, has_condition, last_due};
use pintle_tests::scenarios::history::Recorder;
use pintle_tests::scenarios::stage::{authority_of, deployment};
use pintle_tests::scenarios::subject::Running;
use pintle_tests::scenarios::{Chance, GATED_APIS, GATES, Stage, Subject, by_id, snapshot, subject};
use pintle_tests::{Failure, PATIENCE, PatchKind, TestCluster, eventually, kubectl};
use serde_json::{Value, json};
use similar::TextDiff;

/// The namespace in which most of it happens.
const NAMESPACE: &str = "life";

const N_NODES: usize = 4;

/// The node that is not lost, with the Pods of some workloads.
const KEPT_NODE: &str = "sim-node-0";

/// How often a node sends a heartbeat. A silent one is noticed after the time of `--node-monitor-grace-period`.
const HEARTBEAT: Duration = Duration::from_secs(2);

const FLAGS: [&str; 2] = ["--use-service-account-credentials", "--node-monitor-grace-period=16s"];

/// The kinds whose objects are compared beside those of every scenario. The cluster IP of a Service is chance.
const COMPARED: &[&str] = &[
    "statefulsets",
    "daemonsets",
    "controllerrevisions",
    "jobs",
    "cronjobs",
    "resourcequotas",
    "persistentvolumeclaims",
    "poddisruptionbudgets",
];

/// Accounts of subjects themselves, and of the controller that upstream runs with the account of kube-controller-manager.
const THEMSELVES: [&str; 3] = [SUBJECT, "pintle", "pintle-serviceaccount-token-controller"];

/// What a subject writes for itself: its Lease, and the accounts and tokens of its controllers.
const FOR_ITSELF: [&str; 4] = ["leases", "serviceaccounts", "serviceaccounts/token", "events"];

/// Who is first: whether a controller sees that a Pod of the lost node has failed before that is collected, and who deletes what of the
/// namespace before the others.
const CHANCE: [&str; 6] = [
    "daemon-set-controller: delete pods",
    "statefulset-controller: delete pods",
    "endpoint-controller: delete endpoints",
    "endpointslicemirroring-controller: delete endpointslices",
    "generic-garbage-collector: delete ",
    "itself: delete secrets",
];

/// What the garbage collector must have deleted nonetheless: the Pods of Deployments and Jobs.
const COLLECTED: &str = "generic-garbage-collector: delete pods";

const NODES: &str = "/api/v1/nodes";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets";
const PUBLIC: &str = "/api/v1/namespaces/kube-public/configmaps";

/// A control plane with a subject.
struct Side {
    cluster: TestCluster,
    running: Running,
}

impl Side {
    async fn start(subject: &Subject) -> Result<Side> {
        let apiserver_flags = [GATES, GATED_APIS].map(str::to_owned).into();
        let options = Options { apiserver_flags, audit: Some(Audit::Writes), ..Options::default() };
        let cluster = TestCluster::real_with(options).await?;
        let cluster = cluster
            .with_nodes(|nodes| {
                nodes.n_nodes = N_NODES;
                nodes.heartbeat = Some(HEARTBEAT);
            })
            .await?;
        let plane = cluster.plane()?;
        if let Subject::Pintle(_) = subject {
            let controllers = format!("--controllers={}", subject::CONTROLLERS.join(","));
            let roles = items(&rbac(&["--use-service-account-credentials", &controllers, "-o", "json"])?)?;
            let file = plane.folder().join("roles.json");
            std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": roles}).to_string())?;
            kubectl(&plane.kubeconfig(), &["apply", "-f", &file.display().to_string()]).await?;
            in_force(&cluster.client, &roles).await?;
        }
        let flags = subject::flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(FLAGS).chain([GATES]).collect();
        let running = subject.start_with(plane, &subject::CONTROLLERS, &flags).await?;
        Ok(Side { cluster, running })
    }

    /// Lives from bootstrap to teardown. Returns the writes, and the objects when all is at rest, as text.
    async fn live(self) -> Result<String> {
        let root_ca = authority_of(&self.cluster.kubeconfig())?;
        let stage = Stage::new(self.cluster.client.clone(), self.cluster.kubeconfig(), NAMESPACE.to_owned());
        let stage = stage.with_root_ca(root_ca).comparing(COMPARED);
        let objects = live(&stage).await.with_context(|| self.running.process().log_tail())?;
        let writes = self.writes()?;
        self.running.stop().await;
        self.cluster.stop().await;
        Ok(writes + &objects)
    }

    /// Which account has written what, a line each.
    fn writes(&self) -> Result<String> {
        let mut writes: BTreeSet<String> = BTreeSet::new();
        for entry in self.cluster.plane()?.audit_log()? {
            let user = &entry.user.username;
            let account = user.strip_prefix("system:serviceaccount:kube-system:").unwrap_or(user);
            let is_itself = THEMSELVES.contains(&account);
            if !entry.succeeded() || !(is_itself || account != user) {
                continue;
            }
            let object = &entry.object_ref;
            let part = if object.subresource.is_empty() { String::new() } else { format!("/{}", object.subresource) };
            let resource = format!("{}{part}", object.resource);
            if is_itself && FOR_ITSELF.contains(&&*resource) {
                continue;
            }
            let write = match (&*entry.verb, &*resource) {
                // Once or again.
                (_, "events") => "record events".to_owned(),
                // The same change can be written in either way.
                ("update" | "patch", _) => format!("change {resource}"),
                // kube-controller-manager also sends those that find nothing.
                ("deletecollection", _) => "empty collections".to_owned(),
                (verb, _) => format!("{verb} {resource}"),
            };
            let account = if is_itself { "itself" } else { account };
            let line = format!("{account}: {write}");
            if line == COLLECTED || !CHANCE.iter().any(|chance| line.starts_with(chance)) {
                writes.insert(line);
            }
        }
        ensure!(!writes.is_empty(), "nobody has written anything");
        Ok(writes.iter().map(|line| format!("{line}\n")).collect())
    }
}

/// Lives. Returns the objects when all is at rest, as text.
async fn live(s: &Stage) -> Result<String> {
    bootstrap(s).await.context("bootstrap")?;
    s.client.create_namespace(&s.ns).await?;
    let recorder = Recorder::start(s).await?;
    s.open().await.context("a namespace")?;
    workloads(s).await.context("workloads")?;
    quota(s).await.context("quota")?;
    services(s).await.context("services")?;
    volumes(s).await.context("volumes")?;
    node_failure(s).await.context("a node fails")?;
    let left = s.settle().await?;
    let history = recorder.until(&by_id(s, &left)).await?;
    let chance = Chance { order: true, pods: true, states: true, ..Chance::NONE };
    let mut seen = snapshot::without_chance(&snapshot::normalize(&left, &history, &s.root_ca), chance);
    if let Some(seen) = seen.as_object_mut() {
        seen.shift_remove("passage");
    }
    teardown(s).await.context("teardown")?;
    // Which node was lost is chance.
    Ok((0..N_NODES).fold(format!("{seen:#}\n"), |seen, n| seen.replace(&format!("sim-node-{n}"), "<node>")))
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

async fn bootstrap(s: &Stage) -> Result<()> {
    // Roles that others add to.
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"life": "true"}}]});
    s.client.create(ROLES, &json!({"metadata": {"name": "life"}, "aggregationRule": selector, "rules": []})).await?;
    let rule = json!({"apiGroups": ["example.com"], "resources": ["lives"], "verbs": ["get"]});
    let part = json!({"metadata": {"name": "life-part", "labels": {"life": "true"}}, "rules": [rule]});
    s.client.create(ROLES, &part).await?;
    until(s, &format!("{ROLES}/life"), "have the rules", |role| role["rules"] == part["rules"]).await?;

    // How nodes join: a token, and the address of the cluster that it signs.
    let token = |name: &str, data: Value| json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "data": data});
    let signing = json!({
        "token-id": base64("abcdef"), "token-secret": base64("0123456789abcdef"), "usage-bootstrap-signing": base64("true"),
    });
    s.client.create(TOKENS, &token("bootstrap-token-abcdef", signing)).await?;
    let expired = json!({"expiration": base64("2000-01-01T00:00:00Z")});
    s.client.create(TOKENS, &token("bootstrap-token-expire", expired)).await?;
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "apiVersion: v1"}});
    s.client.create(PUBLIC, &info).await?;
    let is_signed = |info: &Value| !info["data"]["jws-kubeconfig-abcdef"].is_null();
    until(s, &format!("{PUBLIC}/cluster-info"), "be signed", is_signed).await?;
    until_gone(s, &format!("{TOKENS}/bootstrap-token-expire")).await?;

    // The certificate of a kubelet.
    let request = certificate_request("system:node:life", "system:nodes", &[])?;
    let spec = json!({
        "request": request, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"], "expirationSeconds": 3600,
    });
    s.client.create(REQUESTS, &json!({"metadata": {"name": "life"}, "spec": spec})).await?;
    until(s, &format!("{REQUESTS}/life"), "be signed", |request| !request["status"]["certificate"].is_null()).await?;

    // Nodes have ranges of addresses.
    eventually(PATIENCE, "ranges of the nodes", async || {
        let nodes = s.client.list(NODES).await?;
        Ok(nodes.iter().all(|node| node["spec"]["podCIDRs"].as_array().map_or(0, Vec::len) == 2).then_some(()))
    })
    .await
}

async fn workloads(s: &Stage) -> Result<()> {
    let tolerates =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1});
    let moves = json!([tolerates("node.kubernetes.io/not-ready"), tolerates("node.kubernetes.io/unreachable")]);
    let spec = json!({"template": {"spec": {"tolerations": moves}}});
    s.create("deployments", &deployment("web", 3, spec)).await?;
    s.rolled_out("web").await?;
    s.set_image("web", "image:2").await?;
    s.rolled_out("web").await?;
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    s.create("poddisruptionbudgets", &budget).await?;
    let is_counted = |budget: &Value| budget["status"]["currentHealthy"] == 3;
    s.until("poddisruptionbudgets", "web", "be counted", is_counted).await?;

    let template = |app: &str| {
        let mut pod = json!({"containers": [{"name": "c", "image": "image:1"}]});
        if app != "agent" {
            pod["nodeName"] = json!(KEPT_NODE);
        }
        json!({"metadata": {"labels": {"app": app}}, "spec": pod})
    };
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let db = json!({"replicas": 2, "serviceName": "db", "selector": selector("db"), "template": template("db")});
    s.create("statefulsets", &json!({"metadata": {"name": "db"}, "spec": db})).await?;
    s.until("statefulsets", "db", "be ready", |set| set["status"]["readyReplicas"] == 2).await?;
    let agent = json!({"selector": selector("agent"), "template": template("agent")});
    s.create("daemonsets", &json!({"metadata": {"name": "agent"}, "spec": agent})).await?;
    s.until("daemonsets", "agent", "be ready", |set| set["status"]["numberReady"] == N_NODES).await?;
    let old = json!({"replicas": 1, "selector": {"app": "old"}, "template": template("old")});
    s.create("replicationcontrollers", &json!({"metadata": {"name": "old"}, "spec": old})).await?;
    s.until("replicationcontrollers", "old", "be ready", |set| set["status"]["readyReplicas"] == 1).await?;

    let ends = json!({"metadata": {"annotations": {"sim.pintle.dev/exit-code": "0"}}, "spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "image:1"}],
    }});
    let job = json!({"completions": 2, "template": ends, "ttlSecondsAfterFinished": 1});
    s.create("jobs", &json!({"metadata": {"name": "short"}, "spec": job})).await?;
    s.until_gone("jobs", "short").await?;
    let cron = json!({"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": ends}}});
    s.create("cronjobs", &json!({"metadata": {"name": "hourly"}, "spec": cron})).await?;
    let due = last_due(s.now(), Duration::from_secs(7200));
    s.client.patch(&format!("{}/status", s.one("cronjobs", "hourly")), PatchKind::Merge, &due).await?;
    s.until("cronjobs", "hourly", "have run", |cron| !cron["status"]["lastSuccessfulTime"].is_null()).await?;
    // Its times are chance.
    s.delete("cronjobs", "hourly", "Foreground").await?;
    s.until_gone("cronjobs", "hourly").await?;

    // Without metrics it keeps to its bounds.
    s.create("deployments", &deployment("small", 1, json!({}))).await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "small"});
    let scaler = json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3});
    s.create("horizontalpodautoscalers", &json!({"metadata": {"name": "small"}, "spec": scaler})).await?;
    s.until("deployments", "small", "be larger", |small| small["status"]["readyReplicas"] == 2).await?;
    // How often it fails to read metrics is chance.
    s.delete("horizontalpodautoscalers", "small", "Background").await?;
    s.delete("deployments", "small", "Foreground").await?;
    s.until_gone("deployments", "small").await
}

async fn quota(s: &Stage) -> Result<()> {
    let pods = s.list("pods").await?.len();
    let quota = json!({"metadata": {"name": "limit"}, "spec": {"hard": {"count/configmaps": "2", "services": "5"}}});
    s.create("resourcequotas", &quota).await?;
    let is_counted = |quota: &Value| quota["status"]["used"]["count/configmaps"] == "1";
    s.until("resourcequotas", "limit", "be counted", is_counted).await?;
    s.create("configmaps", &json!({"metadata": {"name": "one"}})).await?;
    let refused = s.create("configmaps", &json!({"metadata": {"name": "two"}})).await;
    ensure!(refused.is_err_and(|error| Failure::code_of(&error) == Some(403)), "the quota is not enforced");
    s.delete("configmaps", "one", "Background").await?;
    s.until("resourcequotas", "limit", "be counted again", is_counted).await?;
    ensure!(s.list("pods").await?.len() == pods, "Pods came or went");

    let name = json!({"kubernetes.io/service-account.name": "default"});
    let secret =
        json!({"metadata": {"name": "token", "annotations": name}, "type": "kubernetes.io/service-account-token"});
    s.create("secrets", &secret).await?;
    s.until("secrets", "token", "have a token", |secret| !secret["data"]["token"].is_null()).await
}

async fn services(s: &Stage) -> Result<()> {
    let ports = json!([{"port": 80}]);
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}});
    s.create("services", &service).await?;
    s.until_all("endpointslices", "have three ready endpoints", |slices| n_ready(slices, "web") == 3).await?;
    let has_three = |endpoints: &Value| endpoints["subsets"][0]["addresses"].as_array().map_or(0, Vec::len) == 3;
    s.until("endpoints", "web", "have three addresses", has_three).await?;
    // One of addresses outside of the cluster.
    s.create("services", &json!({"metadata": {"name": "outside"}, "spec": {"ports": ports}})).await?;
    let outside =
        json!({"metadata": {"name": "outside"}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]});
    s.create("endpoints", &outside).await?;
    s.until_all("endpointslices", "have the address", |slices| n_ready(slices, "outside") == 1).await.map(drop)
}

/// How many ready endpoints a Service has.
fn n_ready(slices: &[Value], service: &str) -> usize {
    let of_it = slices.iter().filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
    let endpoints = of_it.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false).count()
}

async fn volumes(s: &Stage) -> Result<()> {
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"});
    let volume = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}});
    let pod = json!({"metadata": {"name": "writer"}, "spec": {
        "schedulerName": "nobody", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "image:1"}], "volumes": [volume],
    }});
    s.create("pods", &pod).await?;
    s.until("persistentvolumeclaims", "writer-scratch", "be made", |_| true).await?;
    // Its Pod protects it.
    s.delete("persistentvolumeclaims", "writer-scratch", "Background").await?;
    s.delete("pods", "writer", "Background").await?;
    s.until_gone("persistentvolumeclaims", "writer-scratch").await
}

/// A node falls silent: its Pods move, and when it is removed, the rest goes, too.
async fn node_failure(s: &Stage) -> Result<()> {
    let pods = s.list("pods").await?;
    let is_lost = |pod: &&Value| pod["metadata"]["labels"]["app"] == "web" && pod["spec"]["nodeName"] != KEPT_NODE;
    let web = pods.iter().find(is_lost).context("no Pod of web")?;
    let lost = web["spec"]["nodeName"].as_str().context("a Pod on no node")?.to_owned();
    let node = format!("{NODES}/{lost}");
    let silent = json!({"metadata": {"annotations": {"sim.pintle.dev/unreachable": "true"}}});
    s.client.patch(&node, PatchKind::Merge, &silent).await?;
    let is_tainted = |node: &Value| {
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        taints.filter(|taint| taint["key"] == "node.kubernetes.io/unreachable").count() == 2
    };
    until(s, &node, "be tainted", is_tainted).await?;
    s.until_all("pods", "run elsewhere", |pods| {
        // What is on the lost node stays until that is removed.
        let is_live = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
        let of_web = || pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web" && is_live(pod));
        of_web().count() == 3
            && of_web().all(|pod| has_condition(pod, "Ready", "True") && pod["spec"]["nodeName"] != *lost)
    })
    .await?;
    s.until_all("endpointslices", "follow", |slices| n_ready(slices, "web") == 3).await?;
    s.client.delete(&node, None).await?;
    let is_there = |pods: &[Value]| pods.iter().any(|pod| pod["spec"]["nodeName"] == *lost);
    s.until_all("pods", "be collected", |pods| !is_there(pods)).await?;
    s.until("daemonsets", "agent", "be ready", |set| {
        let wanted = N_NODES - 1;
        set["status"]["desiredNumberScheduled"] == wanted && set["status"]["numberReady"] == wanted
    })
    .await?;
    s.until("statefulsets", "db", "be ready", |set| set["status"]["readyReplicas"] == 2).await?;
    s.until("replicationcontrollers", "old", "be ready", |set| set["status"]["readyReplicas"] == 1).await
}

async fn teardown(s: &Stage) -> Result<()> {
    let namespace = format!("/api/v1/namespaces/{}", s.ns);
    s.client.delete(&namespace, None).await?;
    until_gone(s, &namespace).await
}

/// Waits until an object of any namespace, or none, looks so.
async fn until(s: &Stage, path: &str, what: &str, looks: impl Fn(&Value) -> bool) -> Result<()> {
    eventually(PATIENCE, format!("{path} to {what}"), async || {
        let object = s.client.get(path).await?;
        ensure!(looks(&object), "{object}");
        Ok(Some(()))
    })
    .await
}

async fn until_gone(s: &Stage, path: &str) -> Result<()> {
    let gone = async || Ok(s.client.find(path).await?.is_none().then_some(()));
    eventually(PATIENCE, format!("{path} to go"), gone).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_lives_without_kube_controller_manager() -> Result<()> {
    let live = async |subject: Subject| {
        let side = Side::start(&subject).await.with_context(|| format!("start {}", subject.name()))?;
        side.live().await.with_context(|| subject.name())
    };
    let (reference, ours) = tokio::try_join!(live(Subject::KubeControllerManager), live(Subject::pintle()?))?;
    let diff = TextDiff::from_lines(&reference, &ours).unified_diff().context_radius(6).to_string();
    ensure!(reference == ours, "they differ (- kube-controller-manager, + pintle):\n{diff}");
    Ok(())
}
