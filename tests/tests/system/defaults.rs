//! What a host does unless its operator asks for more.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;

use anyhow::{Context, Result, ensure};
use pintle_tests::{HostProcess, PATIENCE, PatchKind, TestCluster, components, eventually, target_dir};
use serde_json::{Value, json};
use tempfile::TempDir;

const RESOURCES: &str = "/apis/pintle.dev/v1alpha1/controllerplugins";

/// A component that is not built in, in a folder.
fn component(name: &str) -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("defaults-").tempdir_in(target_dir())?;
    let built = components::with_manifest(&components::plugin("serviceaccount-controller")?, |manifest| {
        manifest["name"] = name.into();
        manifest.as_object_mut().unwrap().remove("builtIn");
    })?;
    std::fs::write(folder.path().join(format!("{name}.wasm")), built)?;
    Ok(folder)
}

/// Name and source of the plugins that run.
fn plugins(host: &HostProcess) -> Result<Vec<(String, String)>> {
    let listing = host.plugin(&["list"])?;
    let text = |plugin: &Value, field: &str| plugin[field].as_str().unwrap().to_owned();
    Ok(listing["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| (text(plugin, "name"), text(plugin, "source")))
        .collect())
}

/// The last line of a host that ends itself.
async fn refused(host: &mut HostProcess) -> Result<String> {
    let ended = eventually(PATIENCE, "the host to end", async || Ok(host.process.exited()));
    let status = ended.await.with_context(|| host.log_tail())?;
    ensure!(status.code() == Some(1), "{status}: {}", host.log_tail());
    Ok(host.log_tail().lines().last().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_controllers_do_not_start_beside_a_running_kube_controller_manager() -> Result<()> {
    let cluster = TestCluster::real().await?;
    let elects = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=15s",
        "--leader-elect-renew-deadline=10s",
        "--leader-elect-retry-period=2s",
    ];
    let kcm = cluster.plane()?.start_kcm(&["serviceaccount-controller"], &elects).await?;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
    eventually(PATIENCE, "kube-controller-manager to lead", async || Ok(cluster.client.get(lease).await.ok())).await?;

    let selected = HostProcess::controllers(&["replicaset", "deployment"]);
    // With the default of --leader-elect.
    let elects = "--leader-elect-retry-period=1s".to_owned();
    let why = refused(&mut cluster.host(&[selected.clone(), elects.clone()])?).await?;
    let flag = "Append `,-deployment-controller,-replicaset-controller`";
    ensure!(why.contains(flag) && why.contains("--beside-kube-controller-manager"), "{why}");
    let folder = component("robots")?;
    let alone = cluster.host(&[folder.path().join("robots.wasm").display().to_string()])?;
    alone.answers().await?;
    drop(alone);
    let beside = cluster.host(&[selected.clone(), "--beside-kube-controller-manager".to_owned()])?;
    beside.answers().await?;
    drop(beside);

    // It ends without releasing the Lease.
    drop(kcm);
    let why = refused(&mut cluster.host(&[selected.clone(), elects.clone()])?).await?;
    ensure!(why.contains(flag) && why.contains("--leader-elect"), "{why}");
    let mut after = cluster.host(&[selected, elects, "--leader-elect".to_owned()])?;
    after.ready().await?;
    eventually(PATIENCE, "the host to lead", async || {
        let lease = cluster.client.get(lease).await?;
        Ok(after.is_of(lease["spec"]["holderIdentity"].as_str().unwrap()).then_some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

/// Waits until a plugin of this name runs in this host and not in the other one.
async fn moves(name: &str, to: &HostProcess, from: &HostProcess) -> Result<()> {
    let has = |host: &HostProcess| -> Result<bool> { Ok(plugins(host)?.iter().any(|(plugin, _)| plugin == name)) };
    eventually(PATIENCE, format!("{name} to run in its host alone"), async || {
        ensure!(has(to)?, "it does not run yet: {}", to.log_tail());
        Ok((!has(from)?).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_belongs_to_the_host_of_its_class_and_the_controllers_flag_limits_it() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let folder = tempfile::Builder::new().prefix("defaults-").tempdir_in(target_dir())?;
    let below = folder.path().join("below");
    std::fs::create_dir(&below)?;
    std::fs::copy(component("robots")?.path().join("robots.wasm"), below.join("robots.wasm"))?;
    let host_of = |class: &[&str]| {
        let mut flags = vec![
            HostProcess::controllers(&["namespace"]),
            "--install-crd".to_owned(),
            "--grant-requested".to_owned(),
            format!("--plugin-dir={}", folder.path().display()),
        ];
        flags.extend(class.iter().map(|class| format!("--plugin-class={class}")));
        cluster.host(&flags)
    };
    let (plain, blue) = (host_of(&[])?, host_of(&["blue"])?);
    plain.answers().await?;
    blue.answers().await?;

    let resource = |name: &str, spec: Value| json!({"apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": name}, "spec": spec});
    let spec = json!({"source": {"file": "below/robots.wasm"}, "class": "blue"});
    cluster.client.create(RESOURCES, &resource("robots", spec)).await?;
    moves("robots", &blue, &plain).await?;
    let path = format!("{RESOURCES}/robots");
    let no_class = json!([{"op": "remove", "path": "/spec/class"}]);
    cluster.client.patch(&path, PatchKind::Json, &no_class).await?;
    moves("robots", &plain, &blue).await?;

    let builtin = "replicaset-controller";
    cluster.client.create(RESOURCES, &resource(builtin, json!({"source": {"builtin": builtin}}))).await?;
    eventually(PATIENCE, "the refusal in the status", async || {
        let object = cluster.client.get(&format!("{RESOURCES}/{builtin}")).await?;
        let accepted = &object["status"]["conditions"][0];
        ensure!((&accepted["status"], &accepted["reason"]) == (&json!("False"), &json!("Excluded")), "{object}");
        ensure!(object["status"]["phase"] == "Refused", "{object}");
        Ok(Some(()))
    })
    .await?;
    let of = |name: &str, source: &str| (name.to_owned(), source.to_owned());
    assert_eq!(plugins(&plain)?, [of("namespace-controller", "built-in"), of("robots", "resource")]);
    assert_eq!(plugins(&blue)?, [of("namespace-controller", "built-in")]);

    // Nobody keeps the statuses of a host that has stopped.
    let ready = |status: &Value| {
        let found =
            status["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == "Ready");
        found.map_or(Value::Null, |condition| condition["status"].clone())
    };
    eventually(PATIENCE, "the status of the host that runs it", async || {
        let status = cluster.client.get(&path).await?["status"].take();
        Ok((status["phase"] == "Running" && ready(&status) == "True").then_some(()))
    })
    .await?;
    let host = cluster.client.get(&path).await?["status"]["host"].take();
    assert_ne!(host.as_str().unwrap_or_default(), "");
    plain.stop().await;
    let status = cluster.client.get(&path).await?["status"].take();
    assert_eq!((&status["phase"], ready(&status), &status["host"]), (&json!("Unknown"), json!("Unknown"), &host));
    cluster.client.patch(&path, PatchKind::Merge, &json!({"spec": {"class": "blue"}})).await?;
    eventually(PATIENCE, "the status of the next host", async || {
        let status = cluster.client.get(&path).await?["status"].take();
        ensure!(status["phase"] == "Running" && ready(&status) == "True" && status["host"] != host, "{status}");
        Ok(Some(()))
    })
    .await?;

    let twin = host_of(&["blue"])?;
    twin.answers().await?;
    eventually(PATIENCE, "a warning about two hosts of one class", async || {
        let log = std::fs::read_to_string(blue.process.log())?;
        Ok(log.contains("another host writes the status of this ControllerPlugin").then_some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_changes_leaves_a_trace_and_what_is_declared_wins() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let selected = HostProcess::controllers(&["namespace", "serviceaccount"]);
    let host = cluster.host(&[selected, "--install-crd".to_owned()])?;
    host.answers().await?;
    let (declared, other) = ("namespace-controller", "serviceaccount-controller");
    let overridden = |conditions: &Value| {
        let found = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == "Overridden");
        found.map_or(Value::Null, |condition| condition["reason"].clone())
    };
    // The status of the resource and the admin API agree.
    let becomes = async |phase: &str, reason: Value| {
        eventually(PATIENCE, format!("{phase}, {reason}"), async || {
            let object = cluster.client.get(&format!("{RESOURCES}/{declared}")).await?;
            let plugin = host.plugin(&["describe", declared])?["plugin"].take();
            for (status, place) in [(&object["status"], "resource"), (&plugin, "admin API")] {
                ensure!(status["phase"] == phase && overridden(&status["conditions"]) == reason, "{place}: {status}");
            }
            Ok(Some(()))
        })
        .await
    };
    let spec = json!({"source": {"builtin": declared}, "disabled": true});
    let object = json!({"apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": declared}, "spec": spec});
    cluster.client.apply(&format!("{RESOURCES}/{declared}"), "test", true, &object).await?;
    becomes("Disabled", Value::Null).await?;
    host.plugin(&["enable", declared])?;
    becomes("Running", json!("Enabled")).await?;
    let enable = json!([{"op": "replace", "path": "/spec/disabled", "value": false}]);
    cluster.client.patch(&format!("{RESOURCES}/{declared}"), PatchKind::Json, &enable).await?;
    becomes("Running", Value::Null).await?;
    host.plugin(&["disable", declared])?;
    becomes("Disabled", json!("Disabled")).await?;

    host.plugin(&["unload", other])?;
    let uid = format!("by uid {}", std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(host.socket())?));
    let events = "/api/v1/namespaces/default/events";
    for (name, reason) in [(declared, "Enabled"), (declared, "Disabled"), (other, "Unloaded")] {
        eventually(PATIENCE, format!("the event {reason} of {name}"), async || {
            let events = cluster.client.list(events).await?;
            let is_of = |event: &Value| event["regarding"]["name"] == name || event["involvedObject"]["name"] == name;
            let is_it = |event: &&Value| event["reason"] == reason && is_of(event);
            let text = |event: &Value| {
                format!(
                    "{}{}",
                    event["note"].as_str().unwrap_or_default(),
                    event["message"].as_str().unwrap_or_default()
                )
            };
            ensure!(events.iter().filter(is_it).any(|event| text(event).contains(&uid)), "{events:?}");
            Ok(Some(()))
        })
        .await?;
    }
    let log = std::fs::read_to_string(host.process.log())?;
    ensure!(log.lines().any(|line| line.contains("unloaded") && line.contains(other) && line.contains(&uid)), "{log}");
    let why = host.plugin(&["enable", other]).unwrap_err().to_string();
    ensure!(why.contains(&format!("`pintle plugin load builtin:{other}`")), "{why}");
    host.plugin(&["load", &format!("builtin:{other}")])?;
    let described = host.plugin(&["describe", other])?;
    ensure!(described["plugin"]["source"] == "built-in", "{described}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn named_components_run_alone_unless_built_in_controllers_are_asked_for() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let folder = component("robots")?;
    let started = async |folder: &Path, controllers: &[&str]| -> Result<Vec<(String, String)>> {
        let mut flags = vec![folder.join("robots.wasm").display().to_string()];
        flags.extend(controllers.iter().map(|list| format!("--controllers={list}")));
        let host = cluster.host(&flags)?;
        host.answers().await?;
        plugins(&host)
    };
    let of = |name: &str, source: &str| (name.to_owned(), source.to_owned());
    let own = of("robots", "command line");
    assert_eq!(started(folder.path(), &[]).await?, std::slice::from_ref(&own));
    let beside = [of("namespace-controller", "built-in"), own.clone()];
    assert_eq!(started(folder.path(), &["namespace"]).await?, beside);
    let all = started(folder.path(), &["*"]).await?;
    assert!(all.contains(&own) && all.len() > 5, "{all:?}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_that_runs_a_plugin_keeps_its_status_beside_one_that_leaves_the_plugin_out() -> Result<()> {
    let cluster = TestCluster::embedded().await?;
    let host = |controller: &str| cluster.host(&[HostProcess::controllers(&[controller]), "--install-crd".to_owned()]);
    let (runs, excludes) = (host("replicaset")?, host("namespace")?);
    runs.answers().await?;
    excludes.answers().await?;
    let resource = |name: &str| json!({"apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": name}, "spec": {"source": {"builtin": name}}});
    let (name, of_nobody) = ("replicaset-controller", "deployment-controller");
    let path = format!("{RESOURCES}/{name}");
    let has = async |phase: &str| {
        eventually(PATIENCE, format!("the phase {phase}"), async || {
            let status = cluster.client.get(&path).await?["status"].take();
            Ok((status["phase"] == phase).then_some(status["host"].clone()))
        })
        .await
    };
    let version = cluster.client.create(RESOURCES, &resource(name)).await?["metadata"]["resourceVersion"].take();
    let keeper = has("Running").await?;
    cluster.client.patch(&path, PatchKind::Merge, &json!({"spec": {"disabled": true}})).await?;
    assert_eq!(has("Disabled").await?, keeper);

    // What it sees last: then it has seen the others, too. It ends after its last write.
    cluster.client.create(RESOURCES, &resource(of_nobody)).await?;
    eventually(PATIENCE, "the problems of the host that leaves both out", async || {
        let problems = excludes.plugin(&["list"])?["problems"].take();
        let plugins: Vec<&Value> =
            problems.as_array().into_iter().flatten().map(|problem| &problem["plugin"]).collect();
        Ok((plugins.contains(&&json!(name)) && plugins.contains(&&json!(of_nobody))).then_some(()))
    })
    .await?;
    excludes.stop().await;
    let end = cluster.client.patch(&path, PatchKind::Merge, &json!({"metadata": {"labels": {"end": ""}}})).await?;

    let since = format!("{RESOURCES}?watch=true&resourceVersion={}", version.as_str().context("no resourceVersion")?);
    let mut watch = cluster.client.watch(&since).await?;
    let mut hosts = Vec::new();
    while let Some(mut event) = watch.next(PATIENCE).await? {
        let mut object = event["object"].take();
        if object["metadata"]["name"] == name && !object["status"].is_null() {
            hosts.push(object["status"]["host"].take());
        }
        if object["metadata"]["resourceVersion"] == end["metadata"]["resourceVersion"] {
            break;
        }
    }
    // The other host may have been the first to see it.
    hosts.dedup();
    assert_eq!(hosts.last(), Some(&keeper));
    assert!(hosts.len() <= 2, "{hosts:?}");
    cluster.stop().await;
    Ok(())
}
