//! Runs that failed in a host become cases of `pintle test`: they fail in the same way, and pass with a fixed plugin.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pintle_tests::pintle::{self, Answer};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, components, eventually, target_dir};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Of the Secret, as objects hold it.
const TOKEN: &str = "dmVyeSBzZWNyZXQ=";
/// What every failing run has counted.
const COUNTED: &str = "2 Pods on n1, 3 are web, 1 Services, token: true";

/// How runs fail: the mode, the kind of failure, and a part of its message.
const MODES: [(&str, &str, &str); 5] = [
    ("trap", "trap", "the last error in its log: panic: 2 Pods on n1"),
    ("retry", "retry", COUNTED),
    ("not-watched", "grant", "kind v1/Node is not watched by this plugin"),
    ("not-granted", "grant", "create v1/Secret"),
    ("live", "terminal", "there is one; 2 Pods on n1, 3 are web"),
];

/// A host that runs the failing guest, and the folder of its components and cases.
struct Fixture {
    folder: TempDir,
    _host: HostProcess,
    cluster: TestCluster,
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

impl Fixture {
    async fn start() -> Result<Fixture> {
        let cluster = TestCluster::embedded().await?;
        fill(&cluster.client).await?;
        let folder = tempfile::Builder::new().prefix("failures-").tempdir_in(target_dir())?;
        let failing = components::guest("failing")?;
        let fixed = components::with_manifest(&failing, |manifest| {
            manifest["version"] = "1.0.1".into();
            manifest["config"] = json!({"fixed": {"type": "boolean", "default": true, "description": "No run fails."}});
        })?;
        std::fs::write(folder.path().join("failing.wasm"), failing)?;
        std::fs::write(folder.path().join("fixed.wasm"), fixed)?;
        let flags = [
            HostProcess::controllers(&["failing"]),
            format!("--admin-socket={}", folder.path().join("admin.sock").display()),
            "--grant-requested".to_owned(),
            folder.path().join("failing.wasm").display().to_string(),
        ];
        let host = cluster.host(&flags)?;
        host.answers().await?;
        Ok(Fixture { cluster, folder, _host: host })
    }

    /// Runs the binary in the folder.
    fn run(&self, arguments: &[&str]) -> Result<Answer> {
        let mut command = pintle::command(arguments)?;
        Answer::of(command.current_dir(self.folder.path()).env("PINTLE_ADMIN_SOCKET", "admin.sock"))
    }

    /// What the binary prints; an error if it fails.
    fn pintle(&self, arguments: &[&str]) -> Result<String> {
        self.run(arguments)?.success().with_context(|| format!("{arguments:?}"))
    }

    async fn fail(&self, mode: &str) -> Result<()> {
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": mode, "labels": {"fail": "yes"}},
            "data": {"mode": mode, "unread": "x"},
        });
        self.cluster.client.create("/api/v1/namespaces/failing/configmaps", &settings).await.map(drop)
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
async fn a_failed_run_is_replayed_as_a_case() -> Result<()> {
    let fixture = Fixture::start().await?;
    ensure!(fixture.failures()?.is_empty());
    for (mode, ..) in MODES {
        fixture.fail(mode).await?;
    }
    let kept = eventually(PATIENCE, "a failed run of each kind", async || {
        let kept = fixture.failures()?;
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
    let list = fixture.pintle(&["plugin", "failures", "failing"])?;
    ensure!(list.starts_with("LAST ") && list.contains("v1/ConfigMap   failing/trap"), "{list}");

    let told = fixture.pintle(&["plugin", "failures", "failing", "--save", "cases"])?;
    ensure!(told.contains("pintle test --cases cases"), "{told}");
    saved(&fixture)?;
    replayed(&fixture)?;
    fixed(&fixture)?;
    masked_unless_asked_for(&fixture)?;
    counted(&fixture).await
}

/// The files contain what the runs read, and how they failed.
fn saved(fixture: &Fixture) -> Result<()> {
    for (mode, failure, message) in MODES {
        let case = fixture.case("cases", mode)?;
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
fn replayed(fixture: &Fixture) -> Result<()> {
    let answer = fixture.run(&["test", "failing.wasm", "--cases", "cases", "-o", "json"])?;
    ensure!(!answer.is_good(), "{}", answer.text());
    let report = serde_json::from_str(&answer.output).with_context(|| answer.text())?;
    for (mode, failure, message) in MODES {
        let case = fixture.tested(&report, mode)?;
        let seen = match failure {
            "retry" | "terminal" => &case["seen"][failure],
            _ => &case["problems"][0],
        };
        ensure!(seen.as_str().is_some_and(|seen| seen.contains(message)), "{mode}: {case}");
    }
    Ok(())
}

/// The next version has none of the failures, and its outcomes become what is expected.
fn fixed(fixture: &Fixture) -> Result<()> {
    let told = fixture.pintle(&["test", "fixed.wasm", "--cases", "cases", "--update"])?;
    ensure!(told.contains("5 of 5 cases passed"), "{told}");
    fixture.pintle(&["test", "fixed.wasm", "--cases", "cases"])?;
    let answer = fixture.run(&["test", "failing.wasm", "--cases", "cases"])?;
    ensure!(!answer.is_good() && answer.text().contains("the run ended with a fault: trap: "), "{}", answer.text());
    Ok(())
}

fn masked_unless_asked_for(fixture: &Fixture) -> Result<()> {
    let masked = read(&fixture.case("cases", "trap")?)?;
    ensure!(!masked.contains(TOKEN) && masked.contains("KioqKioqKio="), "{masked}");
    ensure!(masked.contains("#   masked values of Secrets and of settings from files: 1 "), "{masked}");
    // The live answer, too.
    ensure!(!read(&fixture.case("cases", "live")?)?.contains(TOKEN));

    let asked = ["plugin", "failures", "failing", "--key", "failing/trap", "--save", "shown", "--secrets"];
    fixture.pintle(&asked)?;
    ensure!(std::fs::read_dir(fixture.folder.path().join("shown"))?.count() == 1, "--key is about one key");
    let shown = read(&fixture.case("shown", "trap")?)?;
    ensure!(shown.contains(TOKEN), "{shown}");
    Ok(())
}

/// The same failure again is counted, saved once, and other objects make another one.
async fn counted(fixture: &Fixture) -> Result<()> {
    let of = |name: &str| -> Result<Vec<Value>> {
        let mut kept = fixture.failures()?;
        kept.retain(|failure| failure["key"]["name"] == name);
        Ok(kept)
    };
    eventually(PATIENCE, "the key to fail again", async || {
        let kept = of("trap")?;
        ensure!(kept.len() == 1 && kept[0]["times"].as_u64() >= Some(2), "{kept:?}");
        Ok(Some(()))
    })
    .await?;
    let told = fixture.pintle(&["plugin", "failures", "failing", "--key", "trap", "--save", "cases"])?;
    ensure!(told.contains("(was there already)"), "{told}");

    fixture.cluster.client.delete("/api/v1/namespaces/failing/pods/a", Some(&json!({"gracePeriodSeconds": 0}))).await?;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    fixture.cluster.client.patch("/api/v1/namespaces/failing/configmaps/retry", PatchKind::Merge, &touch).await?;
    eventually(PATIENCE, "another message to be another failure", async || {
        let kept = of("retry")?;
        ensure!(kept.len() == 2, "{kept:?}");
        Ok(Some(()))
    })
    .await
}
