//! A host on API servers of the two minor versions before the one that it follows, with upstream's own roles of that version.
//!
//! Shown for each: the scenarios; what it says about the version, that claims get their finalizers, the condition `Unused` where the
//! server permits it, PodGroups in the version that the server has, a rollout, and that no request is refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::Write as _;

use anyhow::{Context, Result};
use pintle_core::kubernetes;
use pintle_tests::audited::{Audited, items, rbac};
use pintle_tests::scenarios::{Sample, Subject, chosen, report, run_with_roles};
use pintle_tests::{ApiClient, HostProcess, Options, PATIENCE, PatchKind, eventually};
use serde_json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GATE: &str = "--feature-gates=GenericWorkload=true";

/// The newest of each minor version that the module proxy has: version, and that of PodGroups.
const OLDER: [(&str, Option<&str>); 2] = [("1.36.3", Some("v1alpha2")), ("1.35.4", None)];

#[tokio::test(flavor = "multi_thread")]
async fn a_host_does_its_work_on_older_api_servers_and_is_refused_nothing() -> Result<()> {
    for (version, groups) in OLDER {
        let minor = kubernetes::minor_number(version).unwrap();
        on(version, groups, minor >= 36).await.with_context(|| format!("on Kubernetes {version}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_on_an_api_server_of_the_minor_version_before() -> Result<()> {
    scenarios(OLDER[0].0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_on_an_api_server_of_two_minor_versions_before() -> Result<()> {
    scenarios(OLDER[1].0).await
}

/// The API server refuses a minimum of zero before 1.37.
const OF_1_37: &str = "a HorizontalPodAutoscaler scales to zero and back by an external metric";

/// Runs the scenarios, but those that need what is off by default: each ends as recorded, but for what the API server does not store.
async fn scenarios(version: &'static str) -> Result<()> {
    let mut sample = Sample::whole(chosen()?);
    sample.scenarios.retain(|scenario| !scenario.gated && scenario.name != OF_1_37);
    sample.kubernetes = Some(version);
    let mut sample = sample.with_records();
    for record in sample.records.values_mut().flatten() {
        remove_what_is_new(&mut record["objects"]);
    }
    let pintle = Subject::pintle()?;
    let (got, judgement) = run_with_roles(&sample, &pintle).await?;
    let report = report(&sample.scenarios, ["recorded", pintle.name()], [&sample.records, &got]);
    // The table is a result, so it is printed past the capture of the test harness.
    writeln!(std::io::stderr(), "{}on Kubernetes {version}", report.text)?;
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    assert!(judgement.refused.is_empty(), "the roles do not suffice: {:#?}", judgement.refused);
    Ok(())
}

/// API servers before 1.37 count no generations of autoscalers, and do not store how many replicas of a StatefulSet may be unavailable.
fn remove_what_is_new(objects: &mut Value) {
    for hpa in all(objects, "horizontalpodautoscalers") {
        hpa["metadata"].as_object_mut().unwrap().remove("generation");
        if let Some(observed) = hpa.pointer_mut("/status/observedGeneration") {
            *observed = json!("stale");
        }
    }
    for set in all(objects, "statefulsets") {
        if let Some(rolling) = set.pointer_mut("/spec/updateStrategy/rollingUpdate").and_then(Value::as_object_mut) {
            rolling.remove("maxUnavailable");
        }
    }
}

fn all<'a>(objects: &'a mut Value, plural: &str) -> impl Iterator<Item = &'a mut Value> {
    objects.get_mut(plural).and_then(Value::as_array_mut).into_iter().flatten()
}

async fn on(version: &'static str, groups: Option<&str>, has_condition: bool) -> Result<()> {
    let flags = groups.map(|api| format!("--runtime-config=scheduling.k8s.io/{api}=true"));
    let apiserver_flags = flags.into_iter().chain(groups.map(|_| GATE.to_owned())).collect();
    let options = Options { kubernetes: Some(version), apiserver_flags, ..Options::default() };
    let cluster = Audited::with(options).await?;
    // The roles of the controllers' own accounts are upstream's.
    let own = items(&rbac(&["--use-service-account-credentials", "-o", "json"])?)?;
    let is_hosts = |object: &&Value| {
        let name = object["metadata"]["name"].as_str().unwrap();
        name.starts_with("pintle") && !name.starts_with("pintle:controller:")
    };
    cluster.create("host.json", &own.iter().filter(is_hosts).cloned().collect::<Vec<_>>()).await?;
    let flags = ["--leader-elect", "--use-service-account-credentials", GATE].map(str::to_owned);
    let (host, _) = cluster.host(&flags).await?;

    protects_claims(&cluster.client, &host, has_condition).await?;
    if let Some(api) = groups {
        let groups = format!("/apis/scheduling.k8s.io/{api}/namespaces/default/podgroups");
        let group = json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}});
        cluster.client.create(&groups, &group).await?;
        cluster.client.delete(&format!("{groups}/g"), None).await?;
        until(&host, "the PodGroup to go", async || Ok(cluster.client.list(&groups).await?.is_empty())).await?;
    }
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    for (kind, more) in [("deployments", json!({})), ("statefulsets", json!({"podManagementPolicy": "Parallel"}))] {
        let mut spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = format!("/apis/apps/v1/namespaces/default/{kind}");
        cluster.client.create(&path, &json!({"metadata": {"name": kind}, "spec": spec})).await?;
    }
    until(&host, "the Pods", async || Ok(pods_of(&cluster.client).await? == 4)).await?;

    let log = fs::read_to_string(host.process.log())?;
    host.stop().await;
    assert!(
        log.contains(&format!("server_version=\"v{version}\"")) || log.contains(&format!("server_version=v{version}")),
        "{log}"
    );
    assert!(!log.contains("controllers may not work as documented"), "{log}");
    assert_eq!(log.matches("off: the API server is older").count(), usize::from(!has_condition), "{log}");
    // It fails if anybody was refused anything.
    let deeds = cluster.deeds_in_the_end()?;
    let writes = deeds.iter().filter(|deed| deed.what == "update persistentvolumeclaims/status").count();
    assert_eq!(writes > 0, has_condition);
    println!("{version}: {} requests", deeds.len());
    Ok(())
}

async fn pods_of(client: &ApiClient) -> Result<usize> {
    let pods = client.list(PODS).await?;
    Ok(pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == "web").count())
}

/// A bound claim without a finalizer gets it, and says whether a Pod refers to it.
async fn protects_claims(client: &ApiClient, host: &HostProcess, has_condition: bool) -> Result<()> {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""},
    });
    client.create(CLAIMS, &claim).await?;
    let path = format!("{CLAIMS}/data");
    let bound = json!({"status": {"phase": "Bound"}});
    client.patch(&format!("{path}/status"), PatchKind::Merge, &bound).await?;
    client.patch(&path, PatchKind::Merge, &json!({"metadata": {"finalizers": null}})).await?;
    let is_protected = async || Ok(!client.get(&path).await?["metadata"]["finalizers"][0].is_null());
    until(host, "the finalizer", is_protected).await?;
    if has_condition {
        let unused = async |status: &str| Ok(client.get(&path).await?["status"]["conditions"][0]["status"] == status);
        until(host, "the condition", async || unused("True").await).await?;
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "data"}});
        let pod = json!({"metadata": {"name": "user"}, "spec": {"volumes": [volume], "containers": [{"name": "c", "image": "nginx"}]}});
        client.create(PODS, &pod).await?;
        until(host, "the claim to be in use", async || unused("False").await).await?;
    }
    Ok(())
}

async fn until(host: &HostProcess, what: &str, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let seen = eventually(PATIENCE, what.to_owned(), async || Ok(is_so().await?.then_some(())));
    seen.await.with_context(|| host.log_tail())
}
