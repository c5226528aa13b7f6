//! What the eight have written, as others than the host saw it, and that they could not have written anything else.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use pintle_tests::audited::Audited;
use pintle_tests::scenarios::stage::Stage;
use pintle_tests::{ApiClient, HostProcess, eventually};
use serde_json::{Value, json};

use super::{Controller, PATIENCE};

/// The plugin that is given less than it asks for.
const CURTAILED: &str = "janitor";

/// Neither what `pintle plugin` tells nor the metrics know of a fault, or of a write that was not granted.
pub(crate) async fn nothing_went_wrong(host: &HostProcess, client: &ApiClient) -> Result<()> {
    let listing = host.plugin(&["list"])?;
    ensure!(listing["problems"] == json!([]), "{listing:#}");
    for plugin in listing["items"].as_array().context("no plugins")? {
        ensure!(plugin["nFaults"] == 0, "{plugin:#}");
    }
    let metrics = client.request("GET", "/metrics", &[], None).await?.text();
    let faults = samples(&metrics, "pintle_plugin_faults_total", &[]);
    ensure!(faults == 0, "{faults} faults");
    let refused = samples(&metrics, "pintle_mutations_total", &["result=\"not_granted\""]);
    ensure!(refused == 0, "{refused} writes were not granted");
    // The names above are right: there are others of these metrics.
    ensure!(samples(&metrics, "pintle_mutations_total", &["result=\"ok\""]) > 100, "{metrics}");
    Ok(())
}

/// The sum of a counter over all samples with these labels.
fn samples(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    let values = metrics.lines().filter(|line| {
        let of_name = line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        of_name && labels.iter().all(|label| line.contains(label))
    });
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// The API server's own log knows of no request of one of the eight but those that its manifest asks for, and of some of each.
pub(crate) async fn only_what_is_granted(audited: &Audited, eight: &[Controller]) -> Result<()> {
    let deeds = audited.deeds()?;
    println!("plugin              requests  written");
    for controller in eight {
        let granted = granted(&audited.client, &controller.manifest).await?;
        let own: Vec<_> = deeds.iter().filter(|deed| deed.who == controller.name).collect();
        let written: BTreeSet<&str> =
            own.iter().filter(|deed| deed.is_write()).map(|deed| deed.what.as_str()).collect();
        println!(
            "{:18}  {:>8}  {}",
            controller.name,
            own.len(),
            written.iter().copied().collect::<Vec<_>>().join(", ")
        );
        for deed in &own {
            ensure!(granted.contains(&deed.what), "{} did {}, and asks for {granted:?}", controller.name, deed.what);
        }
        let but_events = written.iter().filter(|what| !what.ends_with(" events"));
        ensure!(but_events.count() > 0, "{} has written nothing", controller.name);
    }
    Ok(())
}

/// What a manifest asks for, as the API server's log would call it: `VERB RESOURCE[/SUBRESOURCE]`. Events are everybody's.
async fn granted(client: &ApiClient, manifest: &Value) -> Result<BTreeSet<String>> {
    let mut granted: BTreeSet<String> = ["create events", "patch events"].map(str::to_owned).into();
    let texts = |grant: &Value, list: &str| -> Vec<String> {
        let items = grant[list].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for grant in manifest["grants"].as_array().into_iter().flatten() {
        for kind in texts(grant, "kinds") {
            let plural = plural(client, &kind).await?;
            let subresources = texts(grant, "subresources");
            let resources = match subresources.is_empty() {
                true => vec![plural],
                false => subresources.iter().map(|subresource| format!("{plural}/{subresource}")).collect(),
            };
            for verb in texts(grant, "verbs") {
                granted.extend(resources.iter().map(|resource| format!("{verb} {resource}")));
            }
        }
    }
    Ok(granted)
}

/// The resource of a kind, as the API server has it.
async fn plural(client: &ApiClient, kind: &str) -> Result<String> {
    let (version, name) = kind.rsplit_once('/').context("a kind without a version")?;
    let path = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let resources = client.get(&path).await?;
    for resource in resources["resources"].as_array().into_iter().flatten() {
        let plural = resource["name"].as_str().unwrap_or_default();
        if resource["kind"] == name && !plural.contains('/') {
            return Ok(plural.to_owned());
        }
    }
    bail!("the API server has no {kind}")
}

/// One of the eight, given all that it asks for but the deletion of Services: it runs, its write is refused by the host with the line that
/// is missing, nothing of it reaches the API server, and the rest of its work goes on. With the line it is done.
pub(crate) async fn grants_bind(
    audited: &Audited,
    namespace: &Stage,
    host: &HostProcess,
    eight: &[Controller],
) -> Result<()> {
    let controller =
        eight.iter().find(|controller| controller.name == CURTAILED).context("it is not among the eight")?;
    let watched: Vec<&Value> =
        controller.manifest["watches"].as_array().into_iter().flatten().map(|watch| &watch["kind"]).collect();
    let spec = |deleted: &[&Value]| {
        json!({"ungranted": "Deny", "grants": [
            {"verbs": ["list", "watch"], "kinds": watched}, {"verbs": ["delete"], "kinds": deleted, "of": "key"},
        ]})
    };
    let all_but_services: Vec<&Value> = watched.iter().copied().filter(|kind| **kind != "v1/Service").collect();
    ensure!(all_but_services.len() + 1 == watched.len(), "{CURTAILED} does not watch Services");
    let swap = |spec: &Value| -> Result<()> {
        let file = audited.write("curtailed.yaml", &spec.to_string())?;
        host.plugin(&["swap", CURTAILED, &controller.file(), "--spec", &file.display().to_string()]).map(drop)
    };
    swap(&spec(&all_but_services))?;
    audited.forget()?;

    let ttl = json!({"janitor.example.com/ttl": "0s"});
    let service = json!({"metadata": {"name": "stays", "annotations": ttl}, "spec": {"ports": [{"port": 80}]}});
    namespace.create("services", &service).await?;
    let told = eventually(PATIENCE, "the refusal to be told", async || {
        let events = namespace.list("events").await?;
        let fault =
            events.iter().find(|event| event["reason"] == "PluginFault" && event["involvedObject"]["name"] == "stays");
        Ok(fault.map(|event| event["message"].as_str().unwrap_or_default().to_owned()))
    });
    let told = told.await.with_context(|| host.log_tail())?;
    println!("{told}");
    for part in [
        "delete v1/Service stories/stays is not granted to plugin janitor",
        "its operator does not give it",
        "add `- {verbs: [delete], kinds: [v1/Service]",
    ] {
        ensure!(told.contains(part), "{told:?} does not say {part:?}");
    }
    namespace.create("configmaps", &json!({"metadata": {"name": "goes", "annotations": ttl}})).await?;
    namespace.until_gone("configmaps", "goes").await?;
    namespace.until("services", "stays", "stay", |service| service["metadata"]["deletionTimestamp"].is_null()).await?;
    let deeds = audited.deeds()?;
    ensure!(deeds.iter().any(|deed| deed.who == CURTAILED && deed.what == "delete configmaps"), "{deeds:?}");
    ensure!(!deeds.iter().any(|deed| deed.what == "delete services"), "{deeds:?}");

    swap(&spec(&watched))?;
    namespace.until_gone("services", "stays").await
}
