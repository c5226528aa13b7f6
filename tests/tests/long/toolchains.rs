//! The controller of `tests/toolchains`, built by the own command lines of six toolchains, reconciles in a whole host on the embedded
//! cluster. What each gets of WASI is the same: the time of the run, random numbers of the key, the log; and no files, no network and no
//! end of the process.

use anyhow::{Context, Result, ensure};
use pintle_tests::toolchains::{self, Toolchain};
use pintle_tests::{ApiClient, HostProcess, PATIENCE, TestCluster, eventually};
use serde_json::{Value, json};

/// What a toolchain's library makes of what a plugin does not have.
struct Expected {
    toolchain: Toolchain,
    /// The error of opening a file; `None` if the language has no files.
    file: Option<&'static str>,
    /// The error of opening a connection; `None` if the library has no sockets.
    network: Option<&'static str>,
    /// What is in the host's log when a connection ends the run.
    network_fault: Option<&'static str>,
    /// What is in the host's log when the program ends itself; `None` if it cannot.
    exit: Option<&'static str>,
}

const EXIT: &str =
    "the plugin called exit with code 1 (wasi:cli/exit); a plugin ends a run by returning an outcome or an error";

/// The plugin, in a host on a cluster.
struct Running {
    cluster: TestCluster,
    host: HostProcess,
}

impl Running {
    async fn start(toolchain: Toolchain) -> Result<Self> {
        let plugin = toolchains::build(toolchain)?.display().to_string();
        let cluster = TestCluster::embedded().await?;
        let mut host = cluster.host(&[HostProcess::controllers(&["badge"]), plugin])?;
        host.ready().await?;
        Ok(Self { cluster, host })
    }

    fn client(&self) -> &ApiClient {
        &self.cluster.client
    }

    /// Creates a namespace whose label says what the plugin shall try.
    async fn namespace(&self, name: &str, label: &str) -> Result<()> {
        let labels = json!({"badge": label});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        self.client().create("/api/v1/namespaces", &namespace).await.map(drop)
    }

    /// The data of the ConfigMap that the plugin creates, and its uid; not that with the uid `not`.
    async fn badge(&self, namespace: &str, not: &Value) -> Result<(Value, Value)> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/badge");
        let found = eventually(PATIENCE, "a badge", async || {
            let found = self.client().find(&path).await?;
            Ok(found.filter(|object| object["metadata"]["uid"] != *not))
        });
        let object =
            found.await.with_context(|| format!("{namespace}; the log ends with:\n{}", self.host.log_tail()))?;
        Ok((object["data"].clone(), object["metadata"]["uid"].clone()))
    }

    async fn logged(&self, text: &str) -> Result<()> {
        let logged = eventually(PATIENCE, "a line of the log", async || {
            let log = std::fs::read_to_string(self.host.process.log())?;
            Ok(log.contains(text).then_some(()))
        });
        logged.await.with_context(|| format!("{text:?} is not in the log, which ends with:\n{}", self.host.log_tail()))
    }
}

/// Milliseconds since 1970 of the run's `now`.
fn milliseconds(data: &Value) -> Result<String> {
    let now: jiff::Timestamp = data["now"].as_str().context("no time")?.parse()?;
    Ok(now.as_millisecond().to_string())
}

async fn reconciles(expected: Expected) -> Result<()> {
    let running = Running::start(expected.toolchain).await?;
    running.namespace("one", "").await?;
    running.namespace("two", "").await?;
    let (one, uid) = running.badge("one", &Value::Null).await?;
    let (two, _) = running.badge("two", &Value::Null).await?;
    for data in [&one, &two] {
        assert_eq!(data["clock"], milliseconds(data)?, "the clock is the time of the run");
        assert_eq!(data["random"].as_str().map(str::len), Some(16), "{data}");
    }
    assert_ne!(one["random"], two["random"], "another key has other numbers");
    running.logged("a badge for one").await?;

    // Another run of the same key, whose object has not changed.
    running.client().delete("/api/v1/namespaces/one/configmaps/badge", None).await?;
    let (again, _) = running.badge("one", &uid).await?;
    assert_eq!(again["random"], one["random"], "the same key and version have the same numbers");
    assert_eq!(again["clock"], milliseconds(&again)?);
    ensure!(milliseconds(&again)? > milliseconds(&one)?, "{again} is not later than {one}");

    if let Some(file) = expected.file {
        running.namespace("three", "file").await?;
        assert_eq!(running.badge("three", &Value::Null).await?.0["file"], file);
    }
    if let Some(network) = expected.network {
        running.namespace("four", "network").await?;
        assert_eq!(running.badge("four", &Value::Null).await?.0["network"], network);
    }
    let mut faults = Vec::new();
    for (name, label, fault) in [("five", "network", expected.network_fault), ("six", "exit", expected.exit)] {
        let Some(fault) = fault else { continue };
        running.namespace(name, label).await?;
        running.logged(fault).await?;
        faults.push(name);
    }
    // A fault is that of its key only, and nothing of the run is written.
    running.namespace("last", "").await?;
    running.badge("last", &Value::Null).await?;
    for name in faults {
        let badge = running.client().find(&format!("/api/v1/namespaces/{name}/configmaps/badge")).await?;
        assert_eq!(badge, None, "{name}");
    }
    running.host.stop().await;
    running.cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_cargo_for_wasm32_wasip2_reconciles() -> Result<()> {
    reconciles(Expected {
        toolchain: Toolchain::Rust,
        file: Some("No such file or directory (os error 44)"),
        network: Some("Permission denied (os error 2)"),
        network_fault: None,
        exit: Some(EXIT),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_go_and_the_adapter_of_jco_reconciles() -> Result<()> {
    reconciles(Expected {
        toolchain: Toolchain::Go,
        file: Some("open /etc/hostname: Bad file number"),
        // The library has no sockets for this target.
        network: None,
        network_fault: None,
        exit: Some(EXIT),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_jco_componentize_reconciles() -> Result<()> {
    reconciles(Expected {
        toolchain: Toolchain::JavaScript,
        // The engine has neither files nor an end of the process.
        file: None,
        network: None,
        network_fault: Some(
            "but it has no network: it reads through the lister, asks for more with needs, and writes with its outcome",
        ),
        exit: None,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_componentize_py_reconciles() -> Result<()> {
    reconciles(Expected {
        toolchain: Toolchain::Python,
        file: Some("[Errno 44] No such file or directory: '/etc/hostname'"),
        network: Some("[Errno 2] Permission denied"),
        network_fault: None,
        exit: Some(EXIT),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_zig_and_the_adapter_of_jco_reconciles() -> Result<()> {
    reconciles(Expected {
        toolchain: Toolchain::Zig,
        file: Some("FileNotFound"),
        // The library has no sockets for this target.
        network: None,
        network_fault: None,
        exit: Some(EXIT),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_a_c_compiler_and_the_adapter_of_jco_reconciles() -> Result<()> {
    reconciles(Expected {
        toolchain: Toolchain::C,
        file: Some("No such file or directory"),
        // The C library has no sockets for this target.
        network: None,
        network_fault: None,
        exit: Some(EXIT),
    })
    .await
}
