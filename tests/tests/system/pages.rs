//! Pages that are looked up, and not followed from top to bottom: their marked blocks run unchanged, in their order. Those for operators
//! on a real control plane, where the host has the account that the page makes, and no other permissions; the README on the embedded one.
//!
//! *Not here*: the first hour (`first_hour.rs`), the recipes (`tests/tests/long/recipes.rs`), the manifests (`deploy.rs`).

use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_tests::audited::Audited;
use pintle_tests::pintle::{self, Answer};
use pintle_tests::tutorial::{Machine, Page, Player, ports};
use pintle_tests::{PATIENCE, components, eventually, kubectl, process, static_pod, workspace_dir};
use serde_json::json;

const OPERATORS: &str = "host/docs/operators.md";
const IN_CLUSTER: &str = "host/docs/in-cluster.md";

/// `--controllers` of kube-controller-manager, as the page tells.
fn controllers(page: &str) -> Result<Vec<&str>> {
    let line = page.lines().find_map(|line| line.strip_prefix("--controllers="));
    Ok(line.context("the page has no --controllers")?.split(',').collect())
}

/// Whatever is there with the name of Pintle.
async fn left_behind(cluster: &Audited) -> Result<Vec<String>> {
    let kinds = "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,leases,customresourcedefinitions";
    let printed = kubectl(&cluster.plane.kubeconfig(), &["get", kinds, "--all-namespaces", "-o", "name"]).await?;
    Ok(printed.lines().filter(|line| line.contains("pintle")).map(str::to_owned).collect())
}

/// `kubectl pintle` by the role of its page, up to the kubelet that the Pod does not have.
async fn the_role_of_operators_is_enough(cluster: &Audited) -> Result<()> {
    let kubeconfig = cluster.plane.kubeconfig();
    let page =
        std::fs::read_to_string(workspace_dir().join(IN_CLUSTER)).with_context(|| format!("read {IN_CLUSTER}"))?;
    let roles = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).context("no role")?;
    cluster.client.create_namespace("pintle-system").await?;
    let account = json!({"metadata": {"name": "default"}});
    cluster.client.create("/api/v1/namespaces/pintle-system/serviceaccounts", &account).await?;
    let lease = json!({
        "metadata": {"name": "pintle", "annotations": {"pintle.dev/holder": "pintle-0_5b1c"}},
        "spec": {"holderIdentity": "pintle-0_5b1c"},
    });
    cluster.client.create("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", &lease).await?;
    let containers = json!([{"name": "pintle", "image": "pintle:0.1.0"}]);
    let pod = json!({"metadata": {"name": "pintle-0"}, "spec": {"containers": containers}});
    cluster.client.create("/api/v1/namespaces/pintle-system/pods", &pod).await?;

    let program = cluster.folder().join("kubectl-pintle");
    std::os::unix::fs::symlink(std::path::absolute(pintle::binary()?)?, &program)?;
    let words = kubectl::program()?;
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    process::write_program(&cluster.folder().join("kubectl"), &format!("#!/bin/sh\nexec {line} \"$@\"\n"))?;
    let path = format!("{}:{}", cluster.folder().display(), std::env::var("PATH").unwrap_or_default());
    let ask = || {
        let mut command = Command::new(&program);
        command.args(["plugin", "list", "--as=somebody", "--kubeconfig"]).arg(&kubeconfig).env("PATH", &path);
        Answer::of(&mut command)
    };
    let refused = ask()?;
    ensure!(!refused.is_good() && refused.errors.contains("forbidden"), "{refused:?}");

    let file = cluster.write("operators.yaml", roles)?.display().to_string();
    kubectl(&kubeconfig, &["apply", "-f", &file]).await?;
    for namespace in ["pintle-system", "kube-system"] {
        let bind = ["create", "rolebinding", "somebody", "-n", namespace, "--role=pintle-operator", "--user=somebody"];
        kubectl(&kubeconfig, &bind).await?;
    }
    eventually(PATIENCE, "the API server to know the role", async || {
        let answer = ask()?;
        ensure!(!answer.errors.to_lowercase().contains("forbidden"), "{answer:?}");
        ensure!(answer.errors.contains("does not have a host assigned"), "{answer:?}");
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_shows_what_its_commands_print() -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join("README.md")).context("read README.md")?;
    let page = Page::marked(&text)?;
    let _alone = ports().await?;
    Player::new(&Machine::plain()?)?.follow(&page).await.context("README.md").map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_runs_beside_kube_controller_manager_by_the_account_of_the_page_and_leaves_nothing() -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join(OPERATORS)).with_context(|| format!("read {OPERATORS}"))?;
    let page = Page::marked(&text).context(OPERATORS)?;
    let _alone = ports().await?;
    let cluster = Audited::start().await?;
    let nodes = SimNodes::start(SimNodesConfig::new(Connect::KubeconfigFile(cluster.plane.kubeconfig()))).await?;
    let kcm = cluster
        .plane
        .start_kcm(&controllers(&text)?, &[&["--leader-elect=true"][..], &static_pod::OURS].concat())
        .await?;
    let web = ["create", "deployment", "web", "--image=nginx", "--replicas=2"];
    kubectl(&cluster.plane.kubeconfig(), &web).await?;

    let machine = Machine::plain()?.with_program("curl")?.with_variable("KUBECONFIG", cluster.plane.kubeconfig());
    let component = components::plugin("serviceaccount-controller")?;
    let widgets = components::with_manifest(&component, |manifest| manifest["name"] = json!("widgets"))?;
    std::fs::write(machine.home().join("widgets.wasm"), widgets)?;
    Player::new(&machine)?.follow(&page).await.context(OPERATORS)?;

    // Each by its own account, and nobody was refused anything.
    let deeds = cluster.deeds_in_the_end()?;
    for (account, what) in [
        ("deployment-controller", "create replicasets"),
        ("replicaset-controller", "create pods"),
        ("pintle", "update leases"),
    ] {
        ensure!(deeds.iter().any(|deed| deed.account == account && deed.what == what), "{account}: {what}: {deeds:#?}");
    }
    let left = left_behind(&cluster).await?;
    ensure!(left.is_empty(), "{left:?}");
    drop(kcm);
    nodes.stop().await;
    the_role_of_operators_is_enough(&cluster).await?;
    cluster.plane.stop().await;
    Ok(())
}
