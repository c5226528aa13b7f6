//! A write with a precondition that does not hold is a conflict to the plugin, whatever the API server calls it.
//!
//! A plugin made of a closure sends every kind of write, with the right uid and resourceVersion and with wrong ones, through the
//! whole host; what its next run sees must be the same on the embedded and on the real API server.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use expect_test::expect;
use pintle_core::contract::manifest::Manifest;
use pintle_core::contract::outcome::{Action, Mutation, Order, Outcome, PatchType, Preconditions, Step};
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_runtime::manager::PluginOptions;
use pintle_testing::FakeGuest;
use pintle_tests::{ApiClient, LocalHost, PATIENCE, TestCluster};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A case: what is written, under which name.
type Case = (String, Action);

/// A guest that sends all cases in its first run, and passes on what the second run sees of each.
fn writing(manifest: Arc<Manifest>, cases: Vec<Case>, seen: oneshot::Sender<Vec<String>>) -> FakeGuest {
    let seen = Mutex::new(Some(seen));
    FakeGuest::new(manifest, move |key, view| {
        let mut outcome = Outcome::default();
        if &*key.object.name != "key" {
            // The others are written to.
        } else if view.attempt() == 0 {
            // Each in its own step: one failure stops none of the others.
            outcome.steps = cases.iter().map(|(_, action)| step(action.clone())).collect();
        } else if let Some(seen) = seen.lock().unwrap().take() {
            let line = |(place, (name, _)): (usize, &Case)| {
                let failure = view.failures().iter().find(|failure| failure.step as usize == place);
                failure.map_or(format!("{name}: ok"), |failure| format!("{name}: {}", failure.reason))
            };
            drop(seen.send(cases.iter().enumerate().map(line).collect()));
        }
        Ok(Ok(outcome))
    })
}

fn step(action: Action) -> Step {
    let mutation = Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() };
    Step { order: Order::Sequential, mutations: vec![mutation], always: true }
}

fn config_map() -> Kind {
    Kind::new("", "v1", "ConfigMap")
}

/// Makes a ConfigMap for a case.
async fn made(client: &ApiClient, name: &str) -> Result<Value> {
    let object = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    client.create("/api/v1/namespaces/default/configmaps", &object).await
}

/// A patch of its own object, with a precondition that holds or not.
async fn patches(client: &ApiClient) -> Result<Vec<Case>> {
    let types = [
        ("json", PatchType::Json, r#"[{"op":"replace","path":"/data/k","value":"w"}]"#),
        ("merge", PatchType::Merge, r#"{"data":{"k":"w"}}"#),
        ("strategic", PatchType::StrategicMerge, r#"{"data":{"k":"w"}}"#),
        ("apply", PatchType::Apply { field_manager: "me".into(), force: true }, r#"{"data":{"k":"w"}}"#),
    ];
    let mut cases = Vec::new();
    for (language, patch_type, body) in types {
        for condition in ["right-uid", "right-version", "both-right", "wrong-uid", "old-version", "gone"] {
            let name = format!("{language}-{condition}");
            let made = if condition == "gone" { json!({}) } else { made(client, &name).await? };
            let right = |field: &str| made["metadata"][field].as_str().map(str::to_owned);
            let wrong = |text: &str| Some(text.to_owned());
            let (uid, resource_version) = match condition {
                "right-uid" => (right("uid"), None),
                "right-version" => (None, right("resourceVersion")),
                "both-right" => (right("uid"), right("resourceVersion")),
                "wrong-uid" => (wrong("00000000-0000-4000-8000-000000000000"), None),
                "old-version" => (None, wrong("1")),
                _ => (wrong("00000000-0000-4000-8000-000000000000"), None),
            };
            let action = Action::Patch {
                kind: config_map(),
                object: ObjectKey::new("default", &name),
                subresource: None,
                patch_type: patch_type.clone(),
                body: body.to_owned(),
                preconditions: Preconditions { uid, resource_version },
            };
            cases.push((name, action));
        }
    }
    Ok(cases)
}

/// A patch that is wrong by itself must not be taken for one that came late.
async fn wrong_patches(client: &ApiClient) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, patch_type, body) in [
        ("json-own-test", PatchType::Json, r#"[{"op":"test","path":"/data/k","value":"other"}]"#),
        ("json-no-path", PatchType::Json, r#"[{"op":"remove","path":"/data/absent"}]"#),
        ("merge-bad-label", PatchType::Merge, r#"{"metadata":{"labels":{"not a label":"w"}}}"#),
    ] {
        let uid = made(client, name).await?["metadata"]["uid"].as_str().map(str::to_owned);
        for preconditions in [Preconditions { uid, resource_version: None }, Preconditions::default()] {
            let conditional = if preconditions.uid.is_some() { "conditional" } else { "plain" };
            let action = Action::Patch {
                kind: config_map(),
                object: ObjectKey::new("default", name),
                subresource: None,
                patch_type: patch_type.clone(),
                body: body.to_owned(),
                preconditions,
            };
            cases.push((format!("{name} {conditional}"), action));
        }
    }
    Ok(cases)
}

async fn updates_and_deletes(client: &ApiClient) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (condition, field, value) in [
        ("wrong-uid", "uid", "00000000-0000-4000-8000-000000000000"),
        ("old-version", "resourceVersion", "1"),
        ("right", "", ""),
    ] {
        let mut object = made(client, &format!("update-{condition}")).await?;
        if !field.is_empty() {
            object["metadata"][field] = value.into();
        }
        let action = Action::Update { kind: config_map(), object: object.to_string(), subresource: None };
        cases.push((format!("update-{condition}"), action));
        let name = format!("delete-{condition}");
        made(client, &name).await?;
        let given = |wanted: &str| (wanted == field).then(|| value.to_owned());
        let action = Action::Delete {
            kind: config_map(),
            object: ObjectKey::new("default", &name),
            preconditions: Preconditions { uid: given("uid"), resource_version: given("resourceVersion") },
            propagation: None,
            grace_period_seconds: None,
        };
        cases.push((name, action));
    }
    Ok(cases)
}

/// What a plugin sees of each case.
async fn seen(cluster: TestCluster) -> Result<String> {
    let client = &cluster.client;
    let mut cases = patches(client).await?;
    cases.extend(wrong_patches(client).await?);
    cases.extend(updates_and_deletes(client).await?);
    made(client, "key").await?;
    let manifest = json!({
        "name": "writing", "version": "1", "contract": "0.2",
        "watches": [{"kind": "v1/ConfigMap", "namespace": "default", "enqueue": [{"to": "self"}]}],
        "queues": [{"name": "q", "concurrency": 1}],
        "grants": [{"verbs": ["*"], "kinds": ["v1/ConfigMap"]}],
    });
    let manifest = Arc::new(Manifest::parse(manifest.to_string().as_bytes())?);
    let (seen, second_run) = oneshot::channel();
    let host = LocalHost::start(cluster.kubeconfig()).await?;
    host.manager.add(Arc::new(writing(manifest, cases, seen)), PluginOptions::default())?;
    let lines = tokio::time::timeout(PATIENCE, second_run).await.context("no second run")??;
    let metrics = host.manager.metrics_text();
    host.stop().await?;
    cluster.stop().await;
    let counted = |line: &str| metrics.lines().any(|other| other.starts_with(line));
    assert!(counted(r#"rest_client_requests_total{code="200",method="PATCH","#), "{metrics}");
    assert!(counted(r#"rest_client_request_duration_seconds_count{verb="PATCH","#), "{metrics}");
    assert!(counted(r#"rest_client_response_size_bytes_count{verb="GET","#), "{metrics}");
    Ok(lines.join("\n") + "\n")
}

fn expected() -> expect_test::Expect {
    expect![[r#"
        json-right-uid: ok
        json-right-version: ok
        json-both-right: ok
        json-wrong-uid: Conflict
        json-old-version: Conflict
        json-gone: NotFound
        merge-right-uid: ok
        merge-right-version: ok
        merge-both-right: ok
        merge-wrong-uid: Conflict
        merge-old-version: Conflict
        merge-gone: NotFound
        strategic-right-uid: ok
        strategic-right-version: ok
        strategic-both-right: ok
        strategic-wrong-uid: Conflict
        strategic-old-version: Conflict
        strategic-gone: NotFound
        apply-right-uid: ok
        apply-right-version: ok
        apply-both-right: ok
        apply-wrong-uid: Conflict
        apply-old-version: Conflict
        apply-gone: Conflict
        json-own-test conditional: Invalid
        json-own-test plain: Invalid
        json-no-path conditional: Invalid
        json-no-path plain: Invalid
        merge-bad-label conditional: Invalid
        merge-bad-label plain: Invalid
        update-wrong-uid: Conflict
        delete-wrong-uid: Conflict
        update-old-version: Conflict
        delete-old-version: Conflict
        update-right: ok
        delete-right: ok
    "#]]
}

#[tokio::test(flavor = "multi_thread")]
async fn late_writes_are_conflicts_on_the_embedded_cluster() -> Result<()> {
    expected().assert_eq(&seen(TestCluster::embedded().await?).await?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn late_writes_are_conflicts_on_the_real_api_server() -> Result<()> {
    expected().assert_eq(&seen(TestCluster::real().await?).await?);
    Ok(())
}
