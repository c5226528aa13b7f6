//! From nothing to a cluster that three replicas control, by the page for installing (`host/docs/install.md`) alone, and back: each command
//! of it runs unchanged on a real control plane, with the files of a release. Kubelets run what the manifests say, from the image, as
//! processes ([`pintle_tests::kubelet`]).

mod chart;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_tests::kubelet::Kubelets;
use pintle_tests::registry::{Access, Registry};
use pintle_tests::tutorial::{Machine, Page, Player};
use pintle_tests::{ControlPlane, Options, static_pod, workspace_dir};
use serde_json::json;
use xtask::release::{self, Target};

const PAGE: &str = "host/docs/install.md";

/// Programs of the page that any machine of an administrator has.
const TOOLS: [&str; 8] = ["curl", "gzip", "install", "sha256sum", "skopeo", "stat", "tar", "uname"];

/// What `ctr` does for a kubelet: it keeps the image under the name that the archive says.
const CTR: &str = r#"set -e
[ "$1 $2 $3 $4" = "--namespace k8s.io images import" ]
mkdir -p "$IMAGES/new"
tar -xf "$5" -C "$IMAGES/new"
name=$(sed 's/.*"io.containerd.image.name":"\([^"]*\)".*/\1/' "$IMAGES/new/index.json")
digest=$(sed 's/.*"digest":"\([^"]*\)".*/\1/' "$IMAGES/new/index.json")
mv "$IMAGES/new" "$IMAGES/$(printf %s "${name#docker.io/library/}" | tr /: __)"
echo "unpacking $name ($digest)...done"
"#;

/// A release of an unoptimised build for this machine.
fn release(out: &Path) -> Result<()> {
    let target = Target::of_this_machine().context("there is no release for this machine")?;
    target.prepare()?;
    // The names of functions make most of the file, and packing it takes time.
    let folder = tempfile::tempdir()?;
    let binary = folder.path().join("pintle");
    let mut strip = Command::new("strip");
    xtask::process::run(strip.arg("-o").arg(&binary).arg(target.build("dev", &[])?))?;
    let options = release::Options { out: out.to_owned(), targets: vec![target], binary: Some(binary) };
    release::release(&options).map(drop)
}

/// Kubeconfigs of the control plane's own programs, as kubeadm writes them, and the authority of the cluster.
async fn node_files(plane: &ControlPlane, folder: &Path) -> Result<()> {
    let kubernetes = folder.join("node/etc/kubernetes");
    std::fs::create_dir_all(kubernetes.join("pki"))?;
    std::fs::copy(plane.kubeconfig_for(KUBE_CONTROLLER_MANAGER), kubernetes.join("controller-manager.conf"))?;
    std::fs::write(kubernetes.join("pki/ca.crt"), plane.authority())?;
    // The authority is in the kubeconfig of kubeadm itself; here it names a file of this machine.
    let file = kubernetes.join("controller-manager.conf");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    config["clusters"][0]["cluster"]["certificate-authority"] = json!("/etc/kubernetes/pki/ca.crt");
    std::fs::write(&file, config.to_string())?;
    Ok(())
}

const KUBE_CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_brings_up_three_replicas_and_takes_them_away() -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let page = Page::parse(&text).context(PAGE)?;
    let machine = Machine::plain()?.without("pintle")?;
    let home = machine.home();
    let out = home.clone();
    tokio::task::spawn_blocking(move || release(&out)).await??;
    let user = pintle_tests::controlplane::User { name: KUBE_CONTROLLER_MANAGER.to_owned(), groups: Vec::new() };
    let plane = ControlPlane::start(Options { users: vec![user], ..Options::default() }).await?;
    let registry = Registry::start(Access::Tls).await?;
    let folder = tempfile::Builder::new().prefix("kubelets-").tempdir_in(pintle_tests::target_dir())?;
    node_files(&plane, folder.path()).await?;
    let manifests = home.join("manifests");
    std::fs::create_dir(&manifests)?;
    std::fs::write(manifests.join("kube-controller-manager.yaml"), static_pod::MANIFEST)?;

    let helm = tokio::task::spawn_blocking(xtask::tools::helm).await??.display().to_string();
    let prefix = home.join("local");
    let mut machine = machine
        .with_program("helm", &[&helm])?
        .with_program("ctr", &["/bin/sh", "-c", CTR, "ctr"])?
        .with_path(&prefix.join("bin"))
        .with_variable("PREFIX", &prefix)
        .with_variable("MANIFESTS", &manifests)
        .with_variable("IMAGES", folder.path().join("images"))
        .with_variable("REGISTRY", registry.host())
        .with_variable("SSL_CERT_FILE", registry.authority())
        .with_variable("KUBECONFIG", plane.kubeconfig());
    for tool in TOOLS {
        machine = machine.with_real(tool)?;
    }
    let mut config = SimNodesConfig::new(Connect::KubeconfigFile(plane.kubeconfig()));
    config.bind = false;
    config.ready_delay = Duration::from_millis(200);
    let nodes = SimNodes::start(config).await?;
    let mut kubelets = Kubelets::new(&plane, folder.path(), nodes.names().to_vec()).await?;
    let player = Player::new(&machine)?;
    let followed = tokio::select! {
        followed = player.follow(&page) => followed.context(PAGE),
        ended = kubelets.run() => Err(ended.err().unwrap_or_else(|| anyhow::anyhow!("the kubelets ended"))),
        ended = Kubelets::follow_static_pods(&plane, &manifests, folder.path()) => Err(ended.err().unwrap_or_else(|| anyhow::anyhow!("the static Pods ended"))),
    };
    match followed {
        Ok(times) => times.iter().for_each(|timed| {
            println!("{:8.1} s  {}", timed.took.as_secs_f64(), timed.what.lines().next().unwrap_or_default())
        }),
        Err(error) => bail!("{error:#}\n{}", logs(folder.path())?),
    }
    nodes.stop().await;
    plane.stop().await;
    Ok(())
}

/// The ends of the logs of all containers.
fn logs(folder: &Path) -> Result<String> {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder)? {
        let file: PathBuf = entry?.path();
        if file.extension().is_some_and(|extension| extension == "log") {
            text += &format!("{}:\n{}\n", file.display(), pintle_tests::process::tail(&file));
        }
    }
    Ok(text)
}
