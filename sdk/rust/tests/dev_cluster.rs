//! `testing::dev` with a real `pintle`: run by the long tier, with the feature `dev-cluster`. `PLUGIN` names a component.

use std::path::PathBuf;
use std::time::Duration;

use pintle_sdk::testing::dev::{Dev, DevError, DevOptions};
use serde_json::json;

fn plugin() -> PathBuf {
    std::env::var_os("PLUGIN").expect("PLUGIN names a component").into()
}

fn options(plugins: Vec<PathBuf>) -> DevOptions {
    let flags = ["--controllers=namespace", "--nodes=0"].map(str::to_owned).to_vec();
    DevOptions { plugins, flags, ..DevOptions::default() }
}

#[test]
fn a_controller_runs_on_a_cluster_of_the_test() -> Result<(), DevError> {
    let cluster = Dev::start(options(vec![plugin()]))?;
    cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}))?;
    let account = cluster.wait("v1/ServiceAccount", "team", "default", |account| account.is_some())?;
    assert_eq!(account.unwrap()["metadata"]["namespace"], "team");
    cluster.delete("v1/Namespace", "", "team")?;
    cluster.wait("v1/Namespace", "", "team", |namespace| namespace.is_none())?;
    assert_eq!(cluster.get("v1/ServiceAccount", "team", "default")?, None);
    assert_eq!(cluster.get("v1/Namespace", "", "team")?, None);
    let error = cluster.get("v1/Team", "", "a").unwrap_err();
    assert_eq!(error.to_string(), "404 NotFound: the API server does not serve v1/Team");
    let error = cluster
        .apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}))
        .unwrap_err();
    let expected = "422 Invalid: Pod \"p\" is invalid: spec.containers: Required value";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(cluster.log().contains("The embedded cluster runs at"), "{}", cluster.log());

    let kubeconfig = cluster.kubeconfig().to_owned();
    let process = PathBuf::from(format!("/proc/{}", cluster.ready()["pid"]));
    assert!(kubeconfig.exists() && process.exists());
    drop(cluster);
    assert!(!kubeconfig.exists() && !process.exists());
    Ok(())
}

#[test]
fn a_condition_that_is_not_fulfilled_is_an_error_with_the_object() -> Result<(), DevError> {
    let cluster = Dev::start(DevOptions { wait_timeout: Duration::from_millis(100), ..options(Vec::new()) })?;
    let error = cluster.wait("v1/Namespace", "", "default", |namespace| namespace.is_none()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DevError::Timeout(_)), "{text}");
    assert!(text.starts_with("v1/Namespace /default is not as expected after 100ms: {"), "{text}");
    assert!(text.contains("\"name\": \"default\""), "{text}");
    Ok(())
}

#[test]
fn what_does_not_run_is_an_error_with_its_reason() {
    let start = |options| Dev::start(options).unwrap_err().to_string();
    let error = start(options(vec![concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into()]));
    assert!(error.starts_with("a plugin does not run: ") && error.contains("no version runs yet"), "{error}");
    let error = start(DevOptions { flags: vec!["--nonsense".into()], ..DevOptions::default() });
    assert!(error.starts_with("`pintle dev` ended:") && error.contains("unexpected argument '--nonsense'"), "{error}");
}
