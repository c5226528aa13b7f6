//! The manifests of `host/deploy`, as an operator gets them: rendered by kustomize, or as files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize as _;
use serde_json::Value;

use crate::pintle::Answer;
use crate::scenarios::subject;
use crate::{kubectl, pintle, workspace_dir};

/// The namespace of the Kustomize base.
pub const NAMESPACE: &str = "pintle-system";

/// The roles of a host with all built-in controllers, which the chart and the overlays take parts of: what `pintle rbac` prints with
/// [`roles_args`].
pub const ROLES: &str = "chart/files/roles.yaml";

/// The arguments of `pintle` for [`ROLES`]: those of a host that also runs what is off by default.
///
/// # Errors
/// The manifests of the controllers cannot be read.
pub fn roles_args() -> Result<Vec<String>> {
    let all: Vec<String> = std::iter::once("*".to_owned()).chain(subject::off_by_default()?).collect();
    let controllers = format!("--controllers={}", all.join(","));
    let rest = ["rbac", "--service-account=pintle-system/pintle", "--use-service-account-credentials"];
    Ok(rest.map(str::to_owned).into_iter().chain([controllers]).collect())
}

/// The label of the objects that one controller needs.
pub const CONTROLLER: &str = "pintle.dev/controller";

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

/// The controllers that objects are for, in order.
pub fn controllers(objects: &[Value]) -> BTreeSet<&str> {
    objects.iter().filter_map(|object| object["metadata"]["labels"][CONTROLLER].as_str()).collect()
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

/// The configuration file that the Pods of manifests see where `--config` looks for it.
///
/// # Errors
/// There is no such flag, mount, volume or ConfigMap.
pub fn configuration(objects: &[Value]) -> Result<&str> {
    let deployment = only(objects, "Deployment")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let find = |list: &'static str, within: &'_ Value, field: &str, wanted: &Value| {
        let found = within[list].as_array().into_iter().flatten().find(|entry| entry[field] == *wanted).cloned();
        found.with_context(|| format!("none of the {list} has the {field} {wanted}"))
    };
    let container = &pod["containers"][0];
    let args: Vec<&str> = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let file = args.iter().find_map(|arg| arg.strip_prefix("--config=")).context("no --config")?;
    let mount = find("volumeMounts", container, "mountPath", &file.into())?;
    let volume = find("volumes", pod, "name", &mount["name"])?;
    let map = only(objects, "ConfigMap")?;
    for field in ["name", "namespace"] {
        let wanted = [&volume["configMap"]["name"], &deployment["metadata"]["namespace"]];
        let wanted = if field == "name" { wanted[0] } else { wanted[1] };
        ensure!(!wanted.is_null() && map["metadata"][field] == *wanted, "{field}: {map:#}");
    }
    let key = mount["subPath"].as_str().context("no subPath")?;
    map["data"][key].as_str().with_context(|| format!("no {key} in {map:#}"))
}

/// What `pintle run --check` prints for the Pods of manifests with a configuration file: the configuration that takes effect.
///
/// # Errors
/// As of [`configuration`], or the host refuses the file or the arguments.
pub fn effective_configuration(objects: &[Value]) -> Result<Value> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let file = folder.path().join("host.yaml");
    std::fs::write(&file, configuration(objects)?).context("write the configuration")?;
    let args = &only(objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0]["args"];
    let args: Vec<String> = serde_json::from_value(args.clone()).context("no arguments")?;
    let args = args.into_iter().map(|arg| match arg.strip_prefix("--config=") {
        Some(_) => format!("--config={}", file.display()),
        None => arg,
    });
    let mut command = pintle::command(args.chain(["--check".to_owned()]))?;
    let printed = Answer::of(command.env_remove("KUBECONFIG"))?.success()?;
    Ok(documents(&printed)?.remove(0))
}
