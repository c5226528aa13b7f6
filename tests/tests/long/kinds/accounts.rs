//! What `pintle new` makes, on the real control plane: the commands that the pages have for a cluster, with the account that
//! `pintle rbac` prints, an API server that guards owner references, and kube-controller-manager's garbage collector.
//!
//! An object is made, changed and deleted: its ConfigMap follows, comes back when somebody deletes it, goes in the foreground, and does
//! not come back for an object that a finalizer of somebody else keeps.

use anyhow::{Context, Result, ensure};
use pintle_build::Language;
use pintle_tests::audited::{Audited, items};
use pintle_tests::{ApiClient, HostProcess, PatchKind, eventually, kubectl};
use serde_json::{Value, json};

use super::{PATIENCE, Project};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A finalizer of somebody else.
const HOLD: &str = "example.org/hold";

/// What happens to one object.
struct Story {
    kind: Option<&'static str>,
    more: &'static [&'static str],
    /// Where objects of its kind are, and their resource for kubectl.
    path: &'static str,
    resource: &'static str,
    object: Value,
    change: Value,
    /// Its ConfigMap, and the data before and after the change.
    child: &'static str,
    data: [Value; 2],
}

fn stories() -> [Story; 3] {
    [
        Story {
            kind: None,
            more: &[],
            path: "/api/v1/namespaces/default/services",
            resource: "services",
            object: json!({"metadata": {"name": "blue"}, "spec": {"ports": [{"name": "http", "port": 80}]}}),
            change: json!({"spec": {"ports": [{"name": "http", "port": 81}]}}),
            child: "blue-ports",
            data: [json!({"http": "80"}), json!({"http": "81"})],
        },
        Story {
            kind: Some("example.org/v1/Note"),
            more: &[],
            path: "/apis/example.org/v1/namespaces/default/notes",
            resource: "notes.example.org",
            object: json!({"metadata": {"name": "red"}, "spec": {"text": "hello"}}),
            change: json!({"spec": {"text": "bye"}}),
            child: "red",
            data: [json!({"text": "hello"}), json!({"text": "bye"})],
        },
        Story {
            kind: Some("example.org/v1/Team"),
            more: &["--example"],
            path: "/apis/example.org/v1/namespaces/default/teams",
            resource: "teams.example.org",
            object: json!({"metadata": {"name": "green"}, "spec": {"members": ["ann", "bob"], "lead": "ann"}}),
            change: json!({"spec": {"members": ["ann", "bob", "eve"], "lead": "eve", "format": "Commas"}}),
            child: "green-members",
            data: [json!({"members": "ann\nbob", "lead": "ann"}), json!({"members": "ann, bob, eve", "lead": "eve"})],
        },
    ]
}

impl Story {
    async fn play(&self, client: &ApiClient, kubeconfig: &std::path::Path, host: &HostProcess) -> Result<()> {
        let mut object = self.object.clone();
        let (kind, name) =
            (self.kind.unwrap_or("v1/Service"), object["metadata"]["name"].as_str().context("no name")?.to_owned());
        let (api_version, kind) = kind.rsplit_once('/').context("no kind")?;
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(kind);
        client.create(self.path, &object).await?;
        let path = format!("{}/{name}", self.path);
        self.has(client, &path, &self.data[0]).await?;
        client.patch(&path, PatchKind::Merge, &self.change).await?;
        self.has(client, &path, &self.data[1]).await?;
        let child = format!("{CONFIG_MAPS}/{}", self.child);
        let uid = client.get(&child).await?["metadata"]["uid"].clone();
        client.delete(&child, None).await?;
        eventually(PATIENCE, "the ConfigMap is there again", async || {
            Ok((client.get(&child).await?["metadata"]["uid"] != uid).then_some(()))
        })
        .await?;

        let hold = json!({"metadata": {"finalizers": [HOLD]}});
        client.patch(&path, PatchKind::Merge, &hold).await?;
        let delete = ["delete", self.resource, &name, "--cascade=foreground", "--wait=false"];
        kubectl(kubeconfig, &delete).await?;
        eventually(PATIENCE, "the garbage collector is done", async || {
            Ok((client.get(&path).await?["metadata"]["finalizers"] == json!([HOLD])).then_some(()))
        })
        .await?;
        at_rest(host).await?;
        let names = client.list(CONFIG_MAPS).await?;
        ensure!(
            names.iter().all(|map| map["metadata"]["name"] != self.child),
            "made for an object that is deleted: {names:#?}"
        );
        client.patch(&path, PatchKind::Merge, &json!({"metadata": {"finalizers": null}})).await?;
        eventually(PATIENCE, "the object is gone", async || {
            Ok(client.list(self.path).await?.iter().all(|object| object["metadata"]["name"] != *name).then_some(()))
        })
        .await
    }

    /// Waits until the ConfigMap has this, and the status says so.
    async fn has(&self, client: &ApiClient, path: &str, data: &Value) -> Result<()> {
        eventually(PATIENCE, format!("{data} in {}", self.child), async || {
            let map = client.get(&format!("{CONFIG_MAPS}/{}", self.child)).await?;
            ensure!(map["data"] == *data, "{map}");
            let owner = &map["metadata"]["ownerReferences"][0];
            ensure!(owner["controller"] == true && owner["blockOwnerDeletion"] == true, "{map}");
            let object = client.get(path).await?;
            let (generation, status) = (&object["metadata"]["generation"], &object["status"]);
            let reported = status["observedGeneration"] == *generation && status["conditions"][0]["status"] == "True";
            ensure!(self.kind.is_none() || reported, "{object}");
            Ok(Some(()))
        })
        .await
    }
}

/// Waits until no key waits or runs.
async fn at_rest(host: &HostProcess) -> Result<()> {
    eventually(PATIENCE, "the queues to be empty", async || {
        let listing = host.plugin(&["list"])?;
        for plugin in listing["items"].as_array().context("no plugins")? {
            ensure!(plugin["nFaults"] == 0, "{plugin}");
            for queue in plugin["queues"].as_array().context("no queues")? {
                ensure!(["dirty", "running", "held"].iter().all(|count| queue[*count] == 0), "{plugin}");
            }
        }
        Ok(Some(()))
    })
    .await
}

/// Everything that `pintle new` makes in a language.
pub(super) async fn follow(language: Language) -> Result<()> {
    let cluster = Audited::start().await?;
    let kubeconfig = cluster.plane.kubeconfig();
    let mut projects = Vec::new();
    for story in stories() {
        let project = Project::of(language, story.kind, story.more)?;
        project.steps()?;
        if story.kind.is_some() {
            let definitions = project.file("crds").display().to_string();
            kubectl(&kubeconfig, &["apply", "-f", &definitions]).await?;
            let name = format!("crd/{}", story.resource);
            kubectl(&kubeconfig, &["wait", "--for=condition=Established", "--timeout=5m", &name]).await?;
        }
        projects.push((story, project));
    }
    let collector = cluster.plane.start_kcm(&["garbage-collector-controller"], &[]).await?;
    for (story, project) in &projects {
        project.pintle(&["build"])?.success()?;
        let of = kubeconfig.display().to_string();
        let printed = project.pintle(&["rbac", "teams.wasm", "--kubeconfig", &of, "-o", "json"])?.success()?;
        cluster.create("roles.json", &items(&printed)?).await?;
        let flags = [project.file("teams.wasm").display().to_string(), "--leader-elect".to_owned()];
        let (host, _) = cluster.host(&flags).await?;
        let played = story.play(&cluster.client, &kubeconfig, &host).await;
        played.with_context(|| format!("{}: {}", story.resource, host.log_tail()))?;
        host.stop().await;
    }
    // The API server has refused nothing, but for a kind that it did not know yet as an owner.
    cluster.deeds_in_the_end()?;
    drop(collector);
    cluster.plane.stop().await;
    Ok(())
}
