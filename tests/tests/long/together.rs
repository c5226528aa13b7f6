//! Eight controllers of third parties, in four languages, in one host beside the built-in plugins on the real control plane: each does its
//! work within its grants, and what one more of them costs in memory is set against a process of its own for each.
//!
//! The host has the permissions that `pintle rbac` prints for these plugins, and no others. The table is printed:
//! `cargo test --workspace --test long together:: -- --nocapture`.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod load;
mod operators;
mod stories;
mod writes;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_tests::audited::{Audited, items, rbac};
use pintle_tests::process::Memory;
use pintle_tests::scenarios::stage::{Stage, deployment};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, components, eventually, languages, operator, webapps};
use serde_json::{Value, json};

/// Language and folder, in the order in which they are loaded.
const EIGHT: [(&str, &str); 8] = [
    ("rust", "config-reloader"),
    ("rust", "pod-reaper"),
    ("js", "namespace-defaults"),
    ("js", "robot"),
    ("go", "config-replicator"),
    ("go", "webapp"),
    ("python", "janitor"),
    ("python", "downscaler"),
];

/// One of the eight.
struct Controller {
    language: &'static str,
    /// As its manifest has it.
    name: String,
    component: PathBuf,
    manifest: Value,
}

impl Controller {
    fn build((language, example): (&'static str, &str)) -> Result<Controller> {
        let component = languages::build(language, example)?.component;
        let manifest = components::manifest_of(&std::fs::read(&component)?)?;
        let name = manifest["name"].as_str().context("a manifest without a name")?.to_owned();
        Ok(Controller { language, name, component, manifest })
    }

    fn file(&self) -> String {
        self.component.display().to_string()
    }

    /// What an operator says of it: only what its story needs to be short.
    fn config(&self) -> Value {
        match self.name.as_str() {
            "pod-reaper" => json!({"evictedSeconds": 1}),
            _ => json!({}),
        }
    }

    async fn load(&self, audited: &Audited, host: &HostProcess) -> Result<()> {
        let spec = audited.write(&format!("{}.yaml", self.name), &json!({"config": self.config()}).to_string())?;
        host.plugin(&["load", &self.file(), "--spec", &spec.display().to_string()])?;
        Ok(())
    }
}

/// The built-in plugins run beside the components that are named, which they do not by default.
const BESIDE: &str = "--controllers=*";

/// Waits until no plugin has anything to do now, and measures the process.
async fn memory_at_rest(host: &HostProcess) -> Result<Memory> {
    eventually(PATIENCE, "the queues to be empty", async || {
        let listing = host.plugin(&["list"])?;
        for plugin in listing["items"].as_array().context("no plugins")? {
            ensure!(plugin["phase"] == "Running", "{plugin}");
            for queue in plugin["queues"].as_array().context("no queues")? {
                ensure!(["dirty", "running", "held"].iter().all(|count| queue[*count] == 0), "{plugin}");
            }
        }
        Ok(Some(()))
    })
    .await?;
    host.process.memory()
}

fn mib(bytes: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "for people")]
    let bytes = bytes as f64;
    bytes / f64::from(1 << 20)
}

/// Loads the eight one by one, plays what each is for, and prints what each has added. Answers what they have added together.
async fn run_all(eight: &[Controller], audited: &Audited, namespace: &Stage, host: &HostProcess) -> Result<Memory> {
    let first = memory_at_rest(host).await?;
    let mut before = first;
    println!("plugin              language  component KiB  + PSS MiB  + private MiB");
    println!(
        "{:18}  {:8}  {:>13}  {:9.1}  {:13.1}",
        "built-in ones",
        "rust",
        "",
        mib(first.pss_bytes),
        mib(first.private_bytes)
    );
    for controller in eight {
        controller.load(audited, host).await?;
        let played = stories::run(&controller.name, namespace).await;
        played.with_context(|| format!("{}; the log ends with:\n{}\n", controller.name, host.log_tail()))?;
        let now = memory_at_rest(host).await?;
        println!(
            "{:18}  {:8}  {:>13}  {:9.1}  {:13.1}",
            controller.name,
            controller.language,
            std::fs::metadata(&controller.component)?.len() >> 10,
            mib(now.pss_bytes) - mib(before.pss_bytes),
            mib(now.private_bytes) - mib(before.private_bytes),
        );
        before = now;
    }
    let added = Memory {
        rss_bytes: before.rss_bytes.saturating_sub(first.rss_bytes),
        pss_bytes: before.pss_bytes.saturating_sub(first.pss_bytes),
        private_bytes: before.private_bytes.saturating_sub(first.private_bytes),
    };
    println!(
        "{:18}  {:8}  {:>13}  {:9.1}  {:13.1}",
        "eight",
        "four",
        "",
        mib(added.pss_bytes),
        mib(added.private_bytes)
    );
    Ok(added)
}

/// The host runs with nothing but what is printed for the built-in plugins and the eight.
async fn permit(audited: &Audited, eight: &[Controller]) -> Result<()> {
    let files: Vec<String> = eight.iter().map(Controller::file).collect();
    let kubeconfig = audited.plane.kubeconfig().display().to_string();
    let mut args: Vec<&str> = files.iter().map(String::as_str).collect();
    args.extend([BESIDE, "--kubeconfig", &kubeconfig, "-o", "json"]);
    audited.create("rbac.json", &items(&rbac(&args)?)?).await
}

/// A host that finds all components compiled, as after any restart: what compiling leaves in the allocator is not counted.
async fn start(audited: &Audited, eight: &[Controller]) -> Result<(HostProcess, ApiClient)> {
    let flags = ["--grant-requested".to_owned()];
    let all: Vec<String> =
        flags.iter().cloned().chain([BESIDE.to_owned()]).chain(eight.iter().map(Controller::file)).collect();
    let (first, _) = audited.host(&all).await?;
    first.stop().await;
    audited.forget()?;
    audited.host(&flags).await
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_controllers_in_four_languages_share_one_host() -> Result<()> {
    let eight = EIGHT.into_iter().map(Controller::build).collect::<Result<Vec<_>>>()?;
    let manager = operator::ensure_binary()?;
    let audited = Audited::start().await?;
    let nodes = SimNodes::start(SimNodesConfig::new(Connect::KubeconfigFile(audited.plane.kubeconfig()))).await?;
    webapps::define(&audited.client).await?;
    permit(&audited, &eight).await?;
    let (host, client) = start(&audited, &eight).await?;
    let namespace = load::fill(&audited).await?;

    let added = run_all(&eight, &audited, &namespace, &host).await?;
    // The built-in plugins work as before.
    namespace.create("deployments", &deployment("beside", 3, json!({}))).await?;
    namespace.rolled_out("beside").await?;
    writes::nothing_went_wrong(&host, &client).await?;
    writes::only_what_is_granted(&audited, &eight).await?;
    writes::grants_bind(&audited, &namespace, &host, &eight).await?;
    host.stop().await;

    let processes = operators::run(&audited, &manager, eight.len()).await?;
    println!("             RSS MiB  PSS MiB  private MiB");
    for (what, Memory { rss_bytes, pss_bytes, private_bytes }) in
        [("eight plugins", added), ("eight processes", processes)]
    {
        println!("{what:13}  {:5.0}  {:7.0}  {:11.0}", mib(rss_bytes), mib(pss_bytes), mib(private_bytes));
    }
    // Containers of different images share nothing, so it is all that is resident that counts. These processes are of one image,
    // and share its code, which PSS and private memory do not count eight times.
    ensure!(added.rss_bytes < processes.rss_bytes, "{added:?} {processes:?}");
    nodes.stop().await;
    audited.plane.stop().await;
    Ok(())
}
