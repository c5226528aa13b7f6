//! What becomes of a namespace that is deleted.
//!
//! Each scenario deletes a second namespace, `<namespace>-x`. What is seen of it while something holds it is compared, and the order in
//! which its objects went is checked.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::history::{Effect, Recorder};
use crate::scenarios::stage::{Stage, deployment, pod};
use crate::webhook::Webhook;
use crate::{PATIENCE, eventually};

mod kinds;

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(
    &["namespace-controller", "root-ca-certificate-publisher-controller", "serviceaccount-controller"],
    &[SCENARIOS],
)];

/// The API of admission policies and webhooks.
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A finalizer that only the scenario removes.
const HOLD: &str = "example.com/hold";

const NO_ADMISSION: &str = "it has no admission policies and no webhooks";

const NO_AGGREGATION: &str = "it has no aggregated API servers";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a namespace goes with all that it holds, Pods first", |s| Box::pin(emptied(s))),
    Scenario::new("a Pod that a finalizer holds keeps all else in its namespace", |s| Box::pin(held_pod(s))),
    Scenario::new("a Pod that outlives its grace keeps all else in its namespace", |s| Box::pin(grace(s))),
    Scenario::new("Pods whose deletion is refused are reported", |s| Box::pin(refused_by_a_policy(s)))
        .only_real(NO_ADMISSION),
    Scenario::new("Pods whose deletion a webhook refuses are reported", |s| Box::pin(refused_by_a_webhook(s)))
        .only_real(NO_ADMISSION),
    Scenario::new("an API that is unavailable keeps a namespace", |s| Box::pin(unavailable(s)))
        .alone()
        .only_real(NO_AGGREGATION),
    Scenario::new("custom resources go with their namespace", |s| Box::pin(custom(s))),
    Scenario::new("a namespace of objects of forty kinds goes", |s| Box::pin(kinds::forty(s))),
];

/// The namespace that is deleted, with what happens in it.
struct Doomed {
    x: Stage,
    recorder: Recorder,
}

impl Doomed {
    /// Creates the namespace, with what every one of them has and a ConfigMap.
    async fn create(s: &Stage) -> Result<Doomed> {
        let x = s.beside(format!("{}-x", s.ns));
        x.client.create_namespace(&x.ns).await?;
        let recorder = Recorder::start(&x).await?;
        x.open().await?;
        x.create("configmaps", &json!({"metadata": {"name": "kept"}})).await?;
        Ok(Doomed { x, recorder })
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}", self.x.ns)
    }

    async fn delete(&self) -> Result<()> {
        self.x.client.delete(&self.path(), None).await?;
        Ok(())
    }

    /// Waits until the conditions, `TYPE STATUS REASON MESSAGE` in their order, are as wanted.
    async fn conditions(&self, what: &str, wanted: impl Fn(&[String]) -> bool) -> Result<Vec<String>> {
        eventually(PATIENCE, format!("the namespace to {what}"), async || {
            let namespace = self.x.client.get(&self.path()).await?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let all = namespace["status"]["conditions"].as_array().into_iter().flatten();
            let lines: Vec<String> =
                all.map(|c| ["type", "status", "reason", "message"].map(|field| text(&c[field])).join(" ")).collect();
            ensure!(wanted(&lines), "it has the conditions {lines:#?}");
            Ok(Some(lines))
        })
        .await
    }

    /// Waits until nothing of the compared kinds changes in the namespace, and notes its conditions and what is left in it.
    async fn observe(&self, s: &Stage, when: &str, conditions: &[String]) -> Result<()> {
        let mut left = Vec::new();
        for plural in ["pods", "configmaps", "serviceaccounts", "networkpolicies", "deployments", "replicasets"] {
            let objects = self.x.list(plural).await?;
            if !objects.is_empty() {
                left.push(format!("{plural}: {}", objects.len()));
            }
        }
        s.observe(when, &json!({"conditions": conditions, "left": left}));
        Ok(())
    }

    /// The label selector of the namespace.
    fn selector(&self) -> Value {
        json!({"matchLabels": {"kubernetes.io/metadata.name": self.x.ns}})
    }

    /// Deletes the namespace with a Pod in it whose deletion is refused, until these objects are deleted.
    async fn refused(self, s: &Stage, by: &[String]) -> Result<()> {
        self.x.create("pods", &pod("one", "none")).await?;
        let try_only = json!({"dryRun": ["All"]});
        eventually(PATIENCE, "the deletion of a Pod to be refused", async || {
            let tried = self.x.client.delete(&self.x.one("pods", "one"), Some(&try_only)).await;
            Ok(tried.is_err().then_some(()))
        })
        .await?;
        self.delete().await?;
        let failed = |conditions: &[String]| is_true(conditions, "NamespaceDeletionContentFailure");
        let conditions = self.conditions("report the refusal", failed).await?;
        // All else goes meanwhile.
        s.observe("while Pods cannot be deleted", &json!({"conditions": conditions}));
        for path in by {
            s.client.delete(path, None).await?;
        }
        self.went().await
    }

    /// Waits until the namespace is gone.
    async fn went(&self) -> Result<()> {
        eventually(PATIENCE, "the namespace to go", async || match self.x.client.find(&self.path()).await? {
            None => Ok(Some(())),
            Some(namespace) => bail!("its status is {:#}", namespace["status"]),
        })
        .await
    }

    /// Takes all finalizers of an object away.
    async fn release(&self, path: &str) -> Result<()> {
        let none = json!({"metadata": {"finalizers": null}});
        self.x.client.patch(path, PatchKind::Merge, &none).await?;
        Ok(())
    }

    /// Waits until the namespace is gone, and checks that no object went before the last Pod, and that nothing was reported in it.
    async fn gone(self) -> Result<()> {
        self.went().await?;
        let history = eventually(PATIENCE, "the watches to show the end of the ConfigMap", async || {
            let history = self.recorder.so_far()?;
            let ended = |plural: &str| history.of(plural).any(|w| w.effect == Effect::Deleted && w.name() == "kept");
            Ok(ended("configmaps").then_some(history))
        })
        .await?;
        let gone: Vec<_> = history.writes.iter().filter(|write| write.effect == Effect::Deleted).collect();
        let last_pod = gone.iter().rposition(|write| write.plural == "pods");
        let early: Vec<String> = gone[..last_pod.unwrap_or(0)]
            .iter()
            .filter(|write| write.plural != "pods")
            .map(|write| format!("{} {}", write.plural, write.name()))
            .collect();
        ensure!(early.is_empty(), "these went before the last Pod: {early:?}");
        let reasons = history.of("events").filter_map(|write| write.object["reason"].as_str());
        // What its HorizontalPodAutoscaler would scale does not exist.
        let reasons = reasons.filter(|reason| *reason != "FailedGetScale");
        let failed: Vec<&str> = reasons.filter(|reason| reason.starts_with("Failed")).collect();
        ensure!(failed.is_empty(), "events report {failed:?}");
        Ok(())
    }
}

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!([HOLD]);
    object
}

/// Whether all five conditions are there and none is true.
fn is_fine(conditions: &[String]) -> bool {
    conditions.len() == 5 && conditions.iter().all(|line| line.split(' ').nth(1) == Some("False"))
}

fn is_true(conditions: &[String], kind: &str) -> bool {
    conditions.iter().any(|line| line.starts_with(&format!("{kind} True ")))
}

async fn emptied(s: &Stage) -> Result<()> {
    let doomed = Doomed::create(s).await?;
    doomed.x.create("deployments", &deployment("web", 10, json!({}))).await?;
    doomed.x.rolled_out("web").await?;
    // Events about the rollout come later than its end.
    doomed.x.settle().await?;
    doomed.delete().await?;
    doomed.gone().await
}

async fn held_pod(s: &Stage) -> Result<()> {
    let doomed = Doomed::create(s).await?;
    let policy = json!({"metadata": {"name": "deny"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    doomed.x.create("networkpolicies", &policy).await?;
    doomed.x.create("deployments", &deployment("web", 10, json!({}))).await?;
    doomed.x.rolled_out("web").await?;
    doomed.x.create("pods", &held(pod("held", "none"))).await?;
    doomed.x.settle().await?;
    doomed.delete().await?;
    doomed.x.until_all("pods", "be but one", |pods| pods.len() == 1).await?;
    let conditions = doomed.conditions("have its conditions", is_fine).await?;
    doomed.x.settle().await?;
    doomed.observe(s, "while the Pod is held", &conditions).await?;
    doomed.release(&doomed.x.one("pods", "held")).await?;
    doomed.gone().await
}

async fn grace(s: &Stage) -> Result<()> {
    let doomed = Doomed::create(s).await?;
    // No kubelet ends it. The Node is there, so the collector of Pods leaves it alone.
    let node = format!("{}-silent", s.ns);
    s.client.create("/api/v1/nodes", &json!({"metadata": {"name": node}})).await?;
    let mut lost = pod("lost", "none");
    lost["spec"]["nodeName"] = json!(node);
    lost["spec"]["terminationGracePeriodSeconds"] = json!(20);
    doomed.x.create("pods", &lost).await?;
    doomed.delete().await?;
    let conditions = doomed.conditions("have its conditions", is_fine).await?;
    doomed.observe(s, "in the grace period", &conditions).await?;
    let late = |conditions: &[String]| is_true(conditions, "NamespaceDeletionContentFailure");
    let conditions = doomed.conditions("report the Pod", late).await?;
    doomed.observe(s, "after the grace period", &conditions).await?;
    let at_once = json!({"gracePeriodSeconds": 0});
    doomed.x.client.delete(&doomed.x.one("pods", "lost"), Some(&at_once)).await?;
    doomed.gone().await?;
    s.client.delete(&format!("/api/v1/nodes/{node}"), None).await?;
    Ok(())
}

async fn refused_by_a_policy(s: &Stage) -> Result<()> {
    let doomed = Doomed::create(s).await?;
    let name = format!("{}.example.com", doomed.x.ns);
    let policies = format!("{ADMISSION}/validatingadmissionpolicies");
    let bindings = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let policy = json!({"metadata": {"name": name}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [deletions_of_pods()]},
        "validations": [{"expression": "false", "message": "this Pod stays"}],
    }});
    let binding = json!({"metadata": {"name": name}, "spec": {
        "policyName": name, "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": doomed.selector()},
    }});
    s.client.create(&policies, &policy).await?;
    s.client.create(&bindings, &binding).await?;
    doomed.refused(s, &[format!("{bindings}/{name}"), format!("{policies}/{name}")]).await
}

async fn refused_by_a_webhook(s: &Stage) -> Result<()> {
    let doomed = Doomed::create(s).await?;
    let name = format!("{}.example.com", doomed.x.ns);
    let webhook = Webhook::refusing("this Pod stays").await?;
    let configurations = format!("{ADMISSION}/validatingwebhookconfigurations");
    let configuration = json!({"metadata": {"name": name}, "webhooks": [{
        "name": name, "clientConfig": webhook.client_config(), "rules": [deletions_of_pods()],
        "namespaceSelector": doomed.selector(), "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }]});
    s.client.create(&configurations, &configuration).await?;
    doomed.refused(s, &[format!("{configurations}/{name}")]).await?;
    ensure!(webhook.n_refused() > 1, "the webhook was asked {} times", webhook.n_refused());
    Ok(())
}

/// The rule of a policy or webhook about deletions of Pods.
fn deletions_of_pods() -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]})
}

async fn unavailable(s: &Stage) -> Result<()> {
    const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
    let service = json!({"metadata": {"name": "v1.away.example.com"}, "spec": {
        "group": "away.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": s.ns, "name": "away"},
    }});
    s.client.create(SERVICES, &service).await?;
    eventually(PATIENCE, "the API to be unavailable", async || {
        let service = s.client.get(&format!("{SERVICES}/v1.away.example.com")).await?;
        let mut conditions = service["status"]["conditions"].as_array().into_iter().flatten();
        Ok(conditions.any(|c| c["type"] == "Available" && c["status"] == "False").then_some(()))
    })
    .await?;
    let doomed = Doomed::create(s).await?;
    doomed.delete().await?;
    let failed = |conditions: &[String]| is_true(conditions, "NamespaceDeletionDiscoveryFailure");
    let conditions = doomed.conditions("report the API", failed).await?;
    doomed.x.settle().await?;
    doomed.observe(s, "while the API is unavailable", &conditions).await?;
    s.client.delete(&format!("{SERVICES}/v1.away.example.com"), None).await?;
    doomed.gone().await
}

/// Defines a namespaced kind `Widget` in the group `<namespace>.example.com`, and returns the path of the group.
async fn define(s: &Stage, plural: &str, kind: &str) -> Result<String> {
    let group = format!("{}.example.com", s.ns);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": format!("{plural}.{group}")}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    s.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let path = format!("/apis/{group}/v1/namespaces/{}-x/{plural}", s.ns);
    eventually(PATIENCE, format!("{plural} to be served"), async || Ok(s.client.find(&path).await?.map(drop)))
        .await
        .with_context(|| format!("define {kind}"))?;
    Ok(path)
}

async fn custom(s: &Stage) -> Result<()> {
    let path = define(s, "widgets", "Widget").await?;
    let doomed = Doomed::create(s).await?;
    let widget = |name: &str| json!({"apiVersion": format!("{}.example.com/v1", s.ns), "kind": "Widget", "metadata": {"name": name}});
    for name in ["a", "b", "c"] {
        s.client.create(&path, &widget(name)).await?;
    }
    s.client.create(&path, &held(widget("held"))).await?;
    doomed.delete().await?;
    let waits = |conditions: &[String]| is_true(conditions, "NamespaceFinalizersRemaining");
    let conditions = doomed.conditions("report the finalizer", waits).await?;
    doomed.x.settle().await?;
    doomed.observe(s, "while a custom resource is held", &conditions).await?;
    doomed.release(&format!("{path}/held")).await?;
    doomed.gone().await
}
