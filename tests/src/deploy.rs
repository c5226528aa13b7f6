//! The manifests of `host/deploy`, as an operator gets them: rendered by kustomize, or as files.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize as _;
use serde_json::Value;

use crate::pintle::Answer;
use crate::{kubectl, workspace_dir};

/// The namespace of the Kustomize base.
pub const NAMESPACE: &str = "pintle-system";

/// The files that `pintle rbac` makes, and its arguments for each.
pub const ROLES: [(&str, &[&str]); 10] = [
    ("kustomize/overlays/instead/rbac.yaml", &["--service-account=pintle-system/pintle"]),
    (
        "kustomize/overlays/beside/rbac.yaml",
        &[
            "--service-account=pintle-system/pintle",
            "--controllers=deployment,replicaset",
            "--beside-kube-controller-manager",
        ],
    ),
    ("chart/files/rbac/instead.yaml", &[]),
    ("chart/files/rbac/deployment-controller.yaml", &["--controllers=deployment-controller", BESIDE]),
    ("chart/files/rbac/garbage-collector-controller.yaml", &["--controllers=garbage-collector-controller", BESIDE]),
    ("chart/files/rbac/namespace-controller.yaml", &["--controllers=namespace-controller", BESIDE]),
    ("chart/files/rbac/replicaset-controller.yaml", &["--controllers=replicaset-controller", BESIDE]),
    (
        "chart/files/rbac/replicationcontroller-controller.yaml",
        &["--controllers=replicationcontroller-controller", BESIDE],
    ),
    (
        "chart/files/rbac/root-ca-certificate-publisher-controller.yaml",
        &["--controllers=root-ca-certificate-publisher-controller", BESIDE],
    ),
    ("chart/files/rbac/serviceaccount-controller.yaml", &["--controllers=serviceaccount-controller", BESIDE]),
];

const BESIDE: &str = "--beside-kube-controller-manager";

/// A file or folder of `host/deploy`.
pub fn path(name: &str) -> PathBuf {
    workspace_dir().join("host/deploy").join(name)
}

/// The objects of a text of YAML.
///
/// # Errors
/// It is not YAML.
pub fn documents(yaml: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for document in serde_norway::Deserializer::from_str(yaml) {
        let object = Value::deserialize(document).context("read YAML")?;
        if !object.is_null() {
            all.push(object);
        }
    }
    Ok(all)
}

/// What `kubectl kustomize` makes of a folder.
///
/// # Errors
/// It fails; the message is what it says.
pub fn kustomize(folder: &std::path::Path) -> Result<String> {
    let words = kubectl::program()?;
    let (program, rest) = words.split_first().context("an empty command")?;
    let mut command = std::process::Command::new(program);
    Answer::of(command.args(rest).arg("kustomize").arg(folder))?.success().context("kubectl kustomize")
}

/// The object of a kind; there must be one.
///
/// # Errors
/// There is none, or there are several.
pub fn only<'a>(objects: &'a [Value], kind: &str) -> Result<&'a Value> {
    let found: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
    match found[..] {
        [one] => Ok(one),
        _ => anyhow::bail!("{} objects are {kind}s", found.len()),
    }
}
