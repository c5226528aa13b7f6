//! The first hour of an operator (`host/docs/first-hour.md`): each command runs unchanged on a real control plane, and prints what the
//! page shows. kube-controller-manager runs as the file of its static Pod says.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use pintle_tests::tutorial::{Machine, Page, Player, ports};
use pintle_tests::{TestCluster, static_pod, workspace_dir};

const PAGE: &str = "host/docs/first-hour.md";

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_hands_deployments_over_and_back_as_the_page_shows() -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let page = Page::parse(&text).context(PAGE)?;
    let _alone = ports().await?;
    let cluster = TestCluster::real().await?.with_nodes(|nodes| nodes.ready_delay = Duration::from_millis(200)).await?;
    let machine = Machine::plain()?;
    let manifests = machine.home().join("manifests");
    std::fs::create_dir(&manifests).context("make the folder of static Pods")?;
    let file = manifests.join("kube-controller-manager.yaml");
    std::fs::write(&file, static_pod::MANIFEST).context("write the static Pod")?;
    let machine = machine.with_variable("MANIFESTS", &manifests).with_variable("KUBECONFIG", cluster.kubeconfig());
    let player = Player::new(&machine)?;
    tokio::select! {
        followed = player.follow(&page) => drop(followed.context(PAGE)?),
        ended = static_pod::kube_controller_manager(cluster.plane()?, &file) => {
            ended?;
            bail!("kube-controller-manager ended");
        }
    }
    cluster.stop().await;
    Ok(())
}
