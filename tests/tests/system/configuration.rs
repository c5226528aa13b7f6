//! The configuration file of a host (`pintle run --config`): its fields take effect, flags take precedence, and pages show the result.

use std::fs;

use anyhow::{Result, ensure};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::HostProcess;
use pintle_tests::pintle::{Answer, command};
use serde_json::{Value, json};

use crate::serving::{Port, get};

const HEAD: &str = "apiVersion: pintle.dev/v1alpha1\nkind: HostConfiguration\n";

#[tokio::test(flavor = "multi_thread")]
async fn fields_take_effect_and_flags_take_precedence() -> Result<()> {
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let folder = tempfile::tempdir()?;
    let port = Port::new(folder.path())?;
    let authority = port.renew()?;
    let file = folder.path().join("host.yaml");
    // The certificate is beside the file. The test's host has flags for its kubeconfig and its ports.
    let body = "
clientConnection: {qps: 5, burst: 6}
controllers: [replicaset]
controllerConfiguration: {replicaset-controller: {concurrentReplicasetSyncs: 3}}
serving:
  bindAddress: 127.0.0.1
  permitPortSharing: true
  tls: {certFile: tls.crt, privateKeyFile: tls.key}
metrics: {disabledMetrics: [workqueue_depth, workqueue_adds_total]}
";
    fs::write(&file, format!("{HEAD}{body}"))?;
    let flags = [format!("--config={}", file.display()), port.secure_port(), "--kube-api-qps=7".to_owned()];
    let mut host = HostProcess::start(&cluster.kubeconfig(), &flags)?;
    host.ready().await?;
    let client = port.client(None, &authority);
    let page = async |path: &str| -> Result<String> {
        let (status, text) = get(&client, path).await?;
        ensure!(status == 200, "{path}: {status} {text}");
        Ok(text)
    };
    let config: Value = serde_json::from_str(&page("/configz").await?)?;
    ensure!(
        config["plugins.pintle.dev"]["plugins"][0]["queues"] == json!([{"name": "replicaset", "workers": 3}]),
        "{config}"
    );
    let config = &config["pintle.dev"];
    ensure!(config["kind"] == "HostConfiguration" && config["clientConnection"]["qps"] == 7, "{config}");
    ensure!(config["clientConnection"]["burst"] == 6 && config["controllers"] == json!(["replicaset"]), "{config}");
    ensure!(config["serving"]["tls"]["certFile"] == json!(folder.path().join("tls.crt")), "{config}");
    ensure!(config["leaderElection"]["leaseDuration"] == "15s", "{config}");
    let flags = page("/flagz").await?;
    ensure!(flags.contains("\nconcurrent-replicaset-syncs=3\n") && flags.contains("\nkube-api-qps=7\n"), "{flags}");
    let metrics = page("/metrics").await?;
    ensure!(metrics.contains("\nworkqueue_retries_total") || metrics.contains("workqueue_queue_duration"), "{metrics}");
    ensure!(!metrics.contains("workqueue_depth") && !metrics.contains("workqueue_adds"), "{metrics}");
    host.stop().await;
    cluster.shutdown().await;
    Ok(())
}

#[test]
fn a_file_takes_precedence_over_the_environment() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("host.yaml");
    fs::write(&file, format!("{HEAD}clientConnection: {{kubeconfig: of-the-file}}\nlogging: {{filter: error}}\n"))?;
    let arguments =
        ["run", "--controllers=replicaset", "--config"].map(Into::into).into_iter().chain([file.into_os_string()]);
    let answer = Answer::of(command(arguments)?.env("KUBECONFIG", "/of/the/environment").env("PINTLE_LOG", "trace"))?;
    let expected = format!("pintle: cannot use kubeconfig {}/of-the-file: No such file", folder.path().display());
    ensure!(!answer.is_good() && answer.errors.starts_with(&expected), "{}", answer.errors);
    Ok(())
}

#[test]
fn a_check_reports_which_controllers_would_not_start() -> Result<()> {
    let answer = Answer::of(command(["run", "--check", "--controllers=*,-namespace"])?.env_remove("KUBECONFIG"))?;
    let expected = "does not start: feature gate GenericWorkload is off";
    ensure!(answer.is_good() && answer.errors.contains(expected), "{}", answer.text());
    Ok(())
}

#[test]
fn a_checked_configuration_is_printed_as_a_file_with_the_same_effect() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let check = |arguments: &[&str]| {
        Answer::of(command([&["run", "--check", "--log=error"], arguments].concat())?.env_remove("KUBECONFIG"))
    };
    let flags = [
        "--controllers=*,-namespace",
        "--kube-api-qps=9",
        "--concurrent-replicaset-syncs=4",
        "--set=replicaset-controller.nothing=1",
    ];
    let wrong = check(&flags)?;
    ensure!(!wrong.is_good() && wrong.errors.contains("setting \"nothing\" does not exist"), "{}", wrong.text());
    let wrong = check(&["--kubeconfig=missing"])?;
    ensure!(
        !wrong.is_good() && wrong.errors.starts_with("pintle: cannot use kubeconfig missing: "),
        "{}",
        wrong.text()
    );
    let printed = check(&flags[..3])?.success()?;
    let file = folder.path().join("host.yaml");
    fs::write(&file, &printed)?;
    let again = check(&[&format!("--config={}", file.display())])?.success()?;
    ensure!(again == printed, "{again}\nis not\n{printed}");
    let value: Value = serde_norway::from_str(&printed)?;
    ensure!(value["controllers"] == json!(["*", "-namespace"]) && value["clientConnection"]["qps"] == 9, "{printed}");
    // Nothing of it needs a cluster, and what is wrong is one line.
    fs::write(&file, format!("{HEAD}leaderElection: {{retryPeriod: 9s}}\n"))?;
    let wrong = check(&[&format!("--config={}", file.display())])?;
    let expected = format!(
        "pintle: --leader-elect-retry-period: 1.2 times 9s must be less than the renew deadline, 10s; in {}, --leader-elect-retry-period is leaderElection.retryPeriod\n",
        file.display()
    );
    ensure!(wrong.errors == expected, "{}", wrong.errors);
    Ok(())
}
