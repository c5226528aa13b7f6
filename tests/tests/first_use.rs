//! What somebody does who has never seen Pintle, in each language: `pintle new`, the steps that it prints, and a session against
//! `pintle dev --plugin`, in which a change of the source is saved.
//!
//! The times are printed: `cargo test --workspace --test first_use -- --nocapture`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pintle_tests::{ApiClient, crash, eventually, target_dir, workspace_dir};
use serde_json::{Value, json};

/// A first build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Language, and the source file of its plugin.
const LANGUAGES: [(&str, &str); 6] = [
    ("rust", "src/lib.rs"),
    ("go", "main.go"),
    ("ts", "controller.ts"),
    ("js", "controller.js"),
    ("python", "app.py"),
    ("c", "controller.c"),
];

/// An author's shell.
struct Shell {
    folder: PathBuf,
    path: String,
}

impl Shell {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.current_dir(&self.folder).args(["-c", line]).env("PATH", &self.path).stdin(Stdio::null());
        // Libraries that all plugins in Rust have are built once.
        command.env("CARGO_TARGET_DIR", workspace_dir().join("target/wasm"));
        // The author's own, not that of this repository's tests.
        command.env_remove("VIRTUAL_ENV");
        command
    }

    fn run(&self, line: &str) -> Result<String> {
        let output = self.command(line).output().with_context(|| format!("run {line}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let told = text(&output.stdout);
        ensure!(output.status.success(), "{line}: {told}{}", text(&output.stderr));
        Ok(told)
    }
}

/// The commands that `pintle new` prints, without what it says of them.
fn steps(told: &str) -> Vec<String> {
    let commands = told.lines().filter_map(|line| line.strip_prefix("  "));
    commands.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()).collect()
}

/// `pintle dev --plugin`; ends with the test.
struct Dev {
    process: Child,
    folder: PathBuf,
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Dev {
    fn start(shell: &Shell, line: &str, folder: &Path) -> Result<Dev> {
        let file = |name: &str| std::fs::File::create(folder.join(name));
        let kubeconfig = folder.join("kubeconfig");
        let socket = folder.join("admin.sock");
        let line = format!("exec {line} --kubeconfig {} --admin-socket {}", kubeconfig.display(), socket.display());
        let process =
            shell.command(&line).stdout(file("out")?).stderr(file("log")?).spawn().context("start pintle dev")?;
        Ok(Dev { process, folder: folder.to_owned() })
    }

    /// Waits until the host says this of the plugin.
    async fn told(&self, what: &str) -> Result<()> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        eventually(PATIENCE, format!("{what:?}"), async || {
            ensure!(read("out").contains(what), "{}\n{}", read("out"), read("log"));
            Ok(Some(()))
        })
        .await
    }

    fn client(&self) -> Result<ApiClient> {
        ApiClient::from_kubeconfig(&self.folder.join("kubeconfig"))
    }
}

async fn ports(client: &ApiClient, name: &str) -> Result<Value> {
    eventually(PATIENCE, format!("the ConfigMap {name}"), async || {
        let found = client.find(&format!("/api/v1/namespaces/default/configmaps/{name}")).await?;
        Ok(found.map(|object| object["data"].clone()))
    })
    .await
}

async fn first_use(language: &str, source: &str) -> Result<String> {
    let root = tempfile::Builder::new().prefix("first-").tempdir_in(target_dir())?;
    let binary = crash::binary()?;
    let binaries = binary.parent().context("a binary without a folder")?.display().to_string();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = Shell { folder: root.path().to_owned(), path };
    let told = shell.run(&format!("pintle new service-ports --lang {language}"))?;
    shell.folder = root.path().join("service-ports");
    let mut steps = steps(&told);
    assert_eq!(steps.first().map(String::as_str), Some("cd service-ports"), "{told}");
    let dev = steps.pop().filter(|step| step.starts_with("pintle dev")).context("no pintle dev at the end")?;

    let mut line = format!("{language:6}");
    let mut is_tested = false;
    for step in &steps[1..] {
        let started = Instant::now();
        let told = shell.run(step)?;
        if step == "pintle test" {
            is_tested = true;
            ensure!(told.contains("4 of 4 cases are as they should be"), "{told}");
        }
        let _ = write!(line, "  {step}: {:.1} s", started.elapsed().as_secs_f64());
    }
    ensure!(is_tested, "no pintle test among {steps:?}");

    let started = Instant::now();
    let dev = Dev::start(&shell, &dev, root.path())?;
    dev.told("loaded in").await?;
    let _ = write!(line, "  pintle dev, built and loaded: {:.1} s", started.elapsed().as_secs_f64());
    let client = dev.client()?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]},
    });
    client.create("/api/v1/namespaces/default/services", &service).await?;
    assert_eq!(ports(&client, "web-ports").await?, json!({"http": "80", "metrics": "9100"}));

    let file = shell.folder.join(source);
    let text = std::fs::read_to_string(&file)?;
    ensure!(text.contains("-ports"), "{source} has no -ports");
    let started = Instant::now();
    std::fs::write(&file, text.replace("-ports", "-numbers"))?;
    dev.told("swapped in").await?;
    let _ = write!(line, "  saved to swapped: {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!(ports(&client, "web-numbers").await?, json!({"http": "80", "metrics": "9100"}));
    // It is not wanted any more.
    eventually(PATIENCE, "the old ConfigMap to be gone", async || {
        let old = client.find("/api/v1/namespaces/default/configmaps/web-ports").await?;
        Ok(old.is_none().then_some(()))
    })
    .await?;
    Ok(line)
}

/// One language at a time: each build takes the whole machine.
#[tokio::test(flavor = "multi_thread")]
async fn every_language_is_learnt_by_the_steps_that_are_printed() -> Result<()> {
    let chosen = std::env::var("LANGUAGE_UNDER_TEST").unwrap_or_default();
    for (language, source) in LANGUAGES.into_iter().filter(|(language, _)| language.contains(&chosen)) {
        println!("{}", first_use(language, source).await.with_context(|| language.to_owned())?);
    }
    Ok(())
}
