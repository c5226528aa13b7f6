//! Runs that failed in a host become cases that `pintle test` plays: the same failure is seen there, and none after the plugin is mended.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::crash::{self, Host};
use pintle_tests::{ApiClient, PatchKind, components, eventually, target_dir};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the host may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of the Secret, as objects hold it.
const TOKEN: &str = "dmVyeSBzZWNyZXQ=";
/// What every failing run has counted.
const COUNTED: &str = "2 Pods on n1, 3 are web, 1 Services, token: true";

/// How runs fail, and what is told of it.
const MODES: [(&str, &str, &str); 5] = [
    ("trap", "trap", "the last error in its log: panic: 2 Pods on n1"),
    ("retry", "retry", COUNTED),
    ("not-watched", "grant", "kind v1/Node is not watched by this plugin"),
    ("not-granted", "grant", "create v1/Secret"),
    ("live", "terminal", "there is one; 2 Pods on n1, 3 are web"),
];

/// A host at work with the guest that fails.
struct Stage {
    client: ApiClient,
    folder: TempDir,
    _host: Host,
    _cluster: SimCluster,
}

fn pod(name: &str, node: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
    })
}

async fn fill(client: &ApiClient) -> Result<()> {
    client.create_namespace("failing").await?;
    let pods = "/api/v1/namespaces/failing/pods";
    for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2")] {
        client.create(pods, &pod(name, node, &json!({"app": "web"}))).await?;
    }
    client.create(pods, &pod("other", "n2", &json!({"app": "other"}))).await?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    client.create("/api/v1/namespaces/failing/services", &service).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"token": TOKEN},
    });
    client.create("/api/v1/namespaces/failing/secrets", &secret).await?;
    Ok(())
}

impl Stage {
    async fn start() -> Result<Stage> {
        let cluster = SimCluster::start(SimConfig::default()).await?;
        let client = ApiClient::from_kubeconfig_text(&cluster.kubeconfig())?;
        fill(&client).await?;
        let folder = tempfile::Builder::new().prefix("failures-").tempdir_in(target_dir())?;
        for guest in ["failing", "failing-mended"] {
            std::fs::write(folder.path().join(format!("{guest}.wasm")), components::guest(guest)?)?;
        }
        let flags = [
            format!("--admin-socket={}", folder.path().join("admin.sock").display()),
            "--grant-requested".to_owned(),
            folder.path().join("failing.wasm").display().to_string(),
        ];
        let host = Host::start_with("failures", &cluster.kubeconfig(), &["failing"], &flags)?;
        let stage = Stage { client, folder, _host: host, _cluster: cluster };
        eventually(PATIENCE, "the host to answer", async || stage.pintle(&["plugin", "list"]).map(Some)).await?;
        Ok(stage)
    }

    /// Runs the binary in the stage's folder; its output, with an error if it failed.
    fn pintle(&self, arguments: &[&str]) -> Result<String> {
        let (is_good, told) = self.tried(arguments)?;
        ensure!(is_good, "{arguments:?}: {told}");
        Ok(told)
    }

    fn tried(&self, arguments: &[&str]) -> Result<(bool, String)> {
        let output = Command::new(crash::binary()?)
            .current_dir(self.folder.path())
            .env("PINTLE_ADMIN_SOCKET", "admin.sock")
            .args(arguments)
            .output()
            .context("run pintle")?;
        let told = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
    }

    async fn fail(&self, mode: &str) -> Result<()> {
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": mode, "labels": {"fail": "yes"}},
            "data": {"mode": mode, "unread": "x"},
        });
        self.client.create("/api/v1/namespaces/failing/configmaps", &settings).await.map(drop)
    }

    fn failures(&self) -> Result<Vec<Value>> {
        let told = self.pintle(&["plugin", "failures", "failing", "-o", "json"])?;
        let mut list: Value = serde_json::from_str(&told).context(told)?;
        Ok(serde_json::from_value(list["items"].take())?)
    }

    /// The saved case of a key.
    fn case(&self, cases: &str, mode: &str) -> Result<PathBuf> {
        let start = format!("failing-{mode}-");
        let entries = std::fs::read_dir(self.folder.path().join(cases))?;
        let folders = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let is_ours = |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
        folders.iter().find(is_ours).cloned().with_context(|| format!("no case of {mode} in {folders:?}"))
    }

    /// What `pintle test` says of the saved case of a key.
    fn tested(&self, report: &Value, mode: &str) -> Result<Value> {
        let name = self.case("cases", mode)?.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let cases = report["cases"].as_array().context("no cases")?;
        let found = cases.iter().find(|case| case["name"] == name.as_str());
        found.cloned().with_context(|| format!("{name} was not tested: {report}"))
    }
}

fn read(case: &Path) -> Result<String> {
    std::fs::read_to_string(case).with_context(|| format!("read {}", case.display()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_played_again_as_a_case() -> Result<()> {
    let stage = Stage::start().await?;
    ensure!(stage.failures()?.is_empty());
    for (mode, ..) in MODES {
        stage.fail(mode).await?;
    }
    let kept = eventually(PATIENCE, "a failed run of each kind", async || {
        let kept = stage.failures()?;
        let of = |mode: &str| kept.iter().find(|failure| failure["key"]["name"] == mode);
        ensure!(MODES.iter().all(|(mode, ..)| of(mode).is_some()), "{kept:?}");
        Ok(Some(kept))
    })
    .await?;
    for (mode, failure, message) in MODES {
        let found = kept.iter().find(|failure| failure["key"]["name"] == mode).context(mode)?;
        ensure!(found["failure"] == failure, "{mode}: {found}");
        ensure!(found["message"].as_str().is_some_and(|told| told.contains(message)), "{mode}: {found}");
    }
    let list = stage.pintle(&["plugin", "failures", "failing"])?;
    ensure!(list.starts_with("LAST ") && list.contains("v1/ConfigMap   failing/trap"), "{list}");

    let told = stage.pintle(&["plugin", "failures", "failing", "--save", "cases"])?;
    ensure!(told.contains("pintle test --cases cases"), "{told}");
    saved(&stage)?;
    played(&stage)?;
    mended(&stage)?;
    masked_unless_asked_for(&stage)?;
    counted(&stage).await
}

/// The folders hold what the runs saw, and say how they failed.
fn saved(stage: &Stage) -> Result<()> {
    for (mode, failure, message) in MODES {
        let case = stage.case("cases", mode)?;
        let text = read(&case)?;
        for part in [&format!("failure  {failure}: "), message, "info   2 Pods on n1", "v1/ConfigMap failing/"] {
            ensure!(text.contains(part), "{mode} has no {part:?}:\n{text}");
        }
        let input: Value = serde_norway::from_str(&text)?;
        ensure!(input["key"]["name"] == mode && input["now"].is_string(), "{input}");
        let names = input["objects"].as_array().context("no objects")?.iter().map(|object| &object["metadata"]["name"]);
        let names: Vec<&Value> = names.collect();
        // What no read has found is not there.
        ensure!(names.contains(&&json!("a")) && !names.contains(&&json!("other")), "{names:?}");
        ensure!(!input["objects"].to_string().contains("unread"), "more than the projection: {input}");
    }
    Ok(())
}

/// The component fails in the same way as it did in the host.
fn played(stage: &Stage) -> Result<()> {
    let (is_good, told) = stage.tried(&["test", "failing.wasm", "--cases", "cases", "-o", "json"])?;
    ensure!(!is_good, "{told}");
    // What goes to standard error follows.
    let report = serde_json::Deserializer::from_str(&told).into_iter::<Value>().next();
    let report = report.context("no JSON")?.with_context(|| told.clone())?;
    for (mode, failure, message) in MODES {
        let case = stage.tested(&report, mode)?;
        let seen = match failure {
            "retry" | "terminal" => &case["seen"][failure],
            _ => &case["problems"][0],
        };
        ensure!(seen.as_str().is_some_and(|seen| seen.contains(message)), "{mode}: {case}");
    }
    Ok(())
}

/// The next version has none of the failures, and its outcomes become what is expected.
fn mended(stage: &Stage) -> Result<()> {
    let told = stage.pintle(&["test", "failing-mended.wasm", "--cases", "cases", "--update"])?;
    ensure!(told.contains("5 of 5 cases are as they should be"), "{told}");
    stage.pintle(&["test", "failing-mended.wasm", "--cases", "cases"])?;
    let (is_good, told) = stage.tried(&["test", "failing.wasm", "--cases", "cases"])?;
    ensure!(!is_good && told.contains("the run ended with a fault: trap: "), "{told}");
    Ok(())
}

fn masked_unless_asked_for(stage: &Stage) -> Result<()> {
    let masked = read(&stage.case("cases", "trap")?)?;
    ensure!(!masked.contains(TOKEN) && masked.contains("KioqKioqKio="), "{masked}");
    ensure!(masked.contains("#   masked values of Secrets and of settings from files: 1 "), "{masked}");
    // The live answer, too.
    ensure!(!read(&stage.case("cases", "live")?)?.contains(TOKEN));

    let asked = ["plugin", "failures", "failing", "--key", "failing/trap", "--save", "shown", "--secrets"];
    stage.pintle(&asked)?;
    ensure!(std::fs::read_dir(stage.folder.path().join("shown"))?.count() == 1, "--key is about one key");
    let shown = read(&stage.case("shown", "trap")?)?;
    ensure!(shown.contains(TOKEN), "{shown}");
    Ok(())
}

/// The same failure again is counted, saved once, and other objects make another one.
async fn counted(stage: &Stage) -> Result<()> {
    let of = |name: &str| -> Result<Vec<Value>> {
        let mut kept = stage.failures()?;
        kept.retain(|failure| failure["key"]["name"] == name);
        Ok(kept)
    };
    eventually(PATIENCE, "the key to fail again", async || {
        let kept = of("trap")?;
        ensure!(kept.len() == 1 && kept[0]["times"].as_u64() >= Some(2), "{kept:?}");
        Ok(Some(()))
    })
    .await?;
    let told = stage.pintle(&["plugin", "failures", "failing", "--key", "trap", "--save", "cases"])?;
    ensure!(told.contains("(was there already)"), "{told}");

    stage.client.delete("/api/v1/namespaces/failing/pods/a", Some(&json!({"gracePeriodSeconds": 0}))).await?;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    stage.client.patch("/api/v1/namespaces/failing/configmaps/retry", PatchKind::Merge, &touch).await?;
    eventually(PATIENCE, "another message to be another failure", async || {
        let kept = of("retry")?;
        ensure!(kept.len() == 2, "{kept:?}");
        Ok(Some(()))
    })
    .await
}
