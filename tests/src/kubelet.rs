//! What kubelets do with Pods whose image is on their node: they run its files as a process, with the arguments, environment, volumes and
//! user of the Pod, and a read-only root. So what a manifest says is what runs.
//!
//! ```text
//! Pods of the API server, files of static Pods -> container (unpacked image, mounts, token of the Pod's account) -> process -> status
//! ```
//!
//! Invariants:
//! 1. A container sees the files of its image and its volumes, and nothing else of this machine but the network.
//! 2. A Pod is Ready when its readiness probe succeeds, and gone when its process is.
//! 3. No process outlives this value.
//!
//! Not here: the network (containers share that of this machine, with ports of their own), Pods whose image is nowhere (`host/nodes`).

mod container;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use container::Container;
use serde_json::{Value, json};

use crate::{ApiClient, ControlPlane, PatchKind};

/// Time between two looks at the Pods.
const LOOK: Duration = Duration::from_millis(200);

/// The nodes of these kubelets; there are so many.
pub const NODES: [&str; 3] = ["node-0", "node-1", "node-2"];

/// Kubelets, and the scheduler: Pods with a known image go to [`NODES`], all others to simulated nodes.
#[derive(Debug)]
pub struct Kubelets<'a> {
    plane: &'a ControlPlane,
    client: ApiClient,
    /// Images as `ctr` unpacked them, containers, and the files of the nodes.
    folder: PathBuf,
    /// Names of nodes that are simulated.
    simulated: Vec<String>,
    /// By uid.
    running: BTreeMap<String, Container>,
    n_bound: usize,
}

/// What a container needs to know of its surroundings.
struct Surroundings<'a> {
    plane: &'a ControlPlane,
    client: &'a ApiClient,
    folder: &'a Path,
}

impl<'a> Kubelets<'a> {
    /// Registers the nodes. `folder` has the unpacked images, in `images/NAME`, and is where containers run.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn new(plane: &'a ControlPlane, folder: &Path, simulated: Vec<String>) -> Result<Kubelets<'a>> {
        let client = plane.client();
        for name in NODES {
            client
                .create(
                    "/api/v1/nodes",
                    &json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}),
                )
                .await?;
            let ready =
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
            client.patch(&format!("/api/v1/nodes/{name}/status"), PatchKind::Merge, &ready).await?;
        }
        Ok(Kubelets { plane, client, folder: folder.to_owned(), simulated, running: BTreeMap::new(), n_bound: 0 })
    }

    /// Acts as the kubelets and the scheduler do. Does not end.
    ///
    /// # Errors
    /// A container cannot be started.
    ///
    /// # Cancel safety
    /// Containers run on, until this value is dropped.
    pub async fn run(&mut self) -> Result<()> {
        let mut look = tokio::time::interval(LOOK);
        loop {
            look.tick().await;
            // The API server may be away for a moment.
            let Ok(pods) = self.client.list("/api/v1/pods").await else { continue };
            self.look(&pods).await?;
        }
    }

    async fn look(&mut self, pods: &[Value]) -> Result<()> {
        let uids: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
        // Deleted without a grace period.
        self.running.retain(|uid, _| uids.contains(&uid.as_str()));
        for pod in pods {
            let is_deleted = !pod["metadata"]["deletionTimestamp"].is_null();
            match pod["spec"]["nodeName"].as_str() {
                None if !is_deleted => self.bind(pod, pods).await,
                Some(node) if NODES.contains(&node) && is_deleted => self.end(pod).await,
                Some(node) if NODES.contains(&node) => self.keep_up(pod).await?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A Pod of an image that is here goes to the node with the fewest of them.
    async fn bind(&mut self, pod: &Value, pods: &[Value]) {
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
        let on = |node: &str| pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node).count();
        let node = if container::image(&self.folder, image).exists() {
            let fewest = NODES.into_iter().min_by_key(|node| on(node));
            // One at a time: the next look counts it.
            fewest.unwrap_or(NODES[0]).to_owned()
        } else {
            self.n_bound += 1;
            self.simulated[self.n_bound % self.simulated.len()].clone()
        };
        let path = format!("{}/binding", path_of(pod));
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}});
        // It may be gone, or bound by an earlier request whose answer was lost.
        let _ = self.client.create(&path, &binding).await;
    }

    /// Starts the container of a Pod, again when it has ended, and says whether it is ready.
    async fn keep_up(&mut self, pod: &Value) -> Result<()> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let surroundings = Surroundings { plane: self.plane, client: &self.client, folder: &self.folder };
        let container = match self.running.get_mut(&uid) {
            Some(container) => container,
            // A volume may not be there yet, as for real kubelets.
            None => match Container::create(&surroundings, pod).await? {
                Some(container) => self.running.entry(uid).or_insert(container),
                None => return Ok(()),
            },
        };
        container.restart_if_ended()?;
        let is_ready = container.is_ready().await;
        let reported = pod["status"]["containerStatuses"][0]["ready"].as_bool();
        if reported != Some(is_ready) {
            let status = json!({"status": container.status(pod, is_ready)});
            // The next look reports it again.
            let _ = self.client.patch(&format!("{}/status", path_of(pod)), PatchKind::Merge, &status).await;
        }
        Ok(())
    }

    async fn end(&mut self, pod: &Value) {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        if let Some(container) = self.running.get_mut(uid)
            && !container.stop()
        {
            return;
        }
        self.running.remove(uid);
        let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        // Asked again in the next look.
        let _ = self.client.delete(&path_of(pod), Some(&now)).await;
    }

    /// Follows a folder of static Pods: files come and go, and with them what they say. kube-controller-manager is the real one. Does not
    /// end.
    ///
    /// # Errors
    /// A file cannot be read, or what it says does not start.
    ///
    /// # Cancel safety
    /// Dropping the future ends the static Pods.
    pub async fn follow_static_pods(plane: &ControlPlane, manifests: &Path, folder: &Path) -> Result<()> {
        let client = plane.client();
        let mut look = tokio::time::interval(LOOK);
        let mut pintle: Option<Container> = None;
        let kube_controller_manager = crate::static_pod::follow(plane, manifests.join("kube-controller-manager.yaml"));
        tokio::pin!(kube_controller_manager);
        loop {
            tokio::select! {
                ended = &mut kube_controller_manager => return ended,
                _ = look.tick() => {}
            }
            let file = manifests.join("pintle.yaml");
            match (file.exists(), &mut pintle) {
                (true, None) => {
                    let text = std::fs::read_to_string(&file).context("read the static Pod")?;
                    let mut pod: Value = serde_norway::from_str(&text).context("read the static Pod")?;
                    pod["metadata"]["uid"] = "static".into();
                    pintle = Container::create(&Surroundings { plane, client: &client, folder }, &pod).await?;
                }
                (true, Some(container)) => container.restart_if_ended()?,
                (false, Some(container)) => {
                    if container.stop() {
                        pintle = None;
                    }
                }
                (false, None) => {}
            }
        }
    }
}

fn path_of(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("/api/v1/namespaces/{}/pods/{}", text("namespace"), text("name"))
}
