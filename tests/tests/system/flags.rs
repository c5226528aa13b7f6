//! The command line of the binary, beside that of kube-controller-manager.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use pintle_core::kubernetes::{VERSION, minor_number};
use pintle_tests::controlplane::ensure_binary;
use pintle_tests::pintle::binary;
use pintle_tests::{ControlPlane, workspace_dir};
use serde_json::Value;
use xtask::controlplane;
use xtask::upstream::Upstream;

fn pintle(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.args(arguments).output().with_context(|| format!("run pintle {arguments:?}"))
}

/// `--help` of kube-controller-manager.
fn upstream_help() -> Result<String> {
    let output = Command::new(ensure_binary()?).args(["kube-controller-manager", "--help"]).output()?;
    ensure!(output.status.success(), "kube-controller-manager --help failed");
    Ok(String::from_utf8(output.stdout)?)
}

/// The flags of a help text in pflag's form.
fn flags(help: &str) -> BTreeSet<String> {
    let of_line = |line: &str| {
        let line = line.trim_start();
        // `-v, --v Level`.
        let line = line.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(line, |(_, long)| long);
        let name: String =
            line.strip_prefix("--")?.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        Some(name)
    };
    help.lines().filter_map(of_line).collect()
}

#[test]
fn every_flag_of_kube_controller_manager_is_accepted_or_refused_with_what_to_do() -> Result<()> {
    let upstream = flags(&upstream_help()?);
    ensure!(upstream.len() > 100, "{} flags of kube-controller-manager were found", upstream.len());
    for flag in &upstream {
        // The value is none of any flag, and no cluster is there: no command goes further than its arguments.
        let nowhere = format!("--{flag}={}", if flag == "kubeconfig" { "/does/not/exist" } else { "?" });
        let elsewhere = if flag == "kubeconfig" { "--context=x" } else { "--kubeconfig=/does/not/exist" };
        // Only the error: components may have to be compiled first.
        let output = pintle(&["run", "--log=error", elsewhere, &nowhere])?;
        let error = String::from_utf8_lossy(&output.stderr);
        // A certificate needs a key, for example.
        let needs_another = error.contains("required arguments were not provided");
        let is_usage =
            flag == "help" || needs_another || error.contains("invalid value") || error.contains("unexpected value");
        let is_known = is_usage
            || error.contains("/does/not/exist")
            || error.contains("--controllers")
            || error.contains("--root-ca-file");
        let is_refused = error.contains("leave it out") || error.contains(": write ") || error.contains(": set ");
        ensure!(is_known || (is_refused && error.contains(&format!("--{flag} is a flag of"))), "--{flag}: {error}");
        // On a busy machine without compiled code the host reports what it waits for.
        let n_lines = error.lines().filter(|line| !line.contains(" INFO compiling component ")).count();
        ensure!(n_lines == 1 || flag == "help", "--{flag}: {error}");
    }
    let list = Upstream::read()?;
    let of_controllers = list.controllers().flat_map(|controller| &controller.flags);
    for flag in of_controllers.chain(list.flags.iter().flat_map(|general| &general.names)) {
        ensure!(upstream.contains(flag), "kube-controller-manager has no flag --{flag}, which upstream.yaml lists");
    }
    Ok(())
}

#[test]
fn every_controller_of_kube_controller_manager_can_be_disabled_and_those_that_are_missing_are_named() -> Result<()> {
    let help = upstream_help()?;
    let (_, names) = help.split_once("All controllers: ").context("no list of controllers")?;
    let names: BTreeSet<&str> = names
        .split([',', '\n', ' '])
        .take_while(|word| *word != "Disabled-by-default")
        .filter(|word| word.ends_with("-controller"))
        .collect();
    ensure!(names.len() >= 49, "{names:?}");
    let mut n_missing = 0;
    for name in names {
        let without = pintle(&["rbac", "--controllers", &format!("*,-{name}")])?;
        ensure!(without.status.success(), "-{name}: {}", String::from_utf8_lossy(&without.stderr));
        let with = pintle(&["rbac", "--controllers", name])?;
        let error = String::from_utf8_lossy(&with.stderr);
        let missing = format!("{name} of kube-controller-manager is not part of this Pintle yet");
        n_missing += usize::from(error.contains(&missing));
        ensure!(with.status.success() || error.contains(&missing), "{name}: {error}");
    }
    ensure!(n_missing > 0, "no controller is missing: remove the list");
    Ok(())
}

#[test]
fn feature_gates_have_their_defaults_since_the_versions_of_upstream() -> Result<()> {
    let source = controlplane::sources(VERSION)?.join("pkg/features/kube_features.go");
    let source = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    // Versions before these cannot be emulated.
    let oldest = minor_number(VERSION).context("no minor version")? - 2;
    let mut n = 0;
    for folder in fs::read_dir(workspace_dir().join("plugins"))? {
        let Ok(text) = fs::read_to_string(folder?.path().join("manifest.yaml")) else { continue };
        let manifest: Value = serde_norway::from_str(&text)?;
        for gate in manifest["builtIn"]["featureGates"].as_array().into_iter().flatten() {
            let name = gate["name"].as_str().context("no name")?;
            // `	HPAScaleToZero: {`, then `{Version: version.MustParse("1.37"), Default: true, PreRelease: ...},` in each line.
            let specs = source.split_once(&format!("\n\t{name}: {{\n")).and_then(|(_, rest)| rest.split_once("\n\t},"));
            let (specs, _) = specs.with_context(|| format!("upstream has no gate {name}"))?;
            let specs: Vec<_> =
                specs.lines().filter_map(|line| line.split_once("MustParse(\"")?.1.split_once('"')).collect();
            let is_on = |(_, rest): &&(&str, &str)| rest.contains("Default: true");
            let first = specs.iter().rev().take_while(is_on).last().map(|(version, _)| *version);
            let since = first.filter(|version| minor_number(version) >= Some(oldest));
            ensure!(gate["default"] == first.is_some(), "{name}: {specs:?}");
            ensure!(gate["since"].as_str() == since, "{name}: {since:?}, and the manifest has {}", gate["since"]);
            n += usize::from(since.is_some());
        }
    }
    ensure!(n > 0, "no gate is new");
    Ok(())
}

#[tokio::test]
async fn the_version_of_kubernetes_that_is_followed_is_printed_with_that_of_the_cluster() -> Result<()> {
    let plane = ControlPlane::shared().await?;
    let kubeconfig = plane.kubeconfig();
    let output = pintle(&["version", "--kubeconfig", kubeconfig.to_str().context("no path")?])?;
    let text = String::from_utf8(output.stdout)?;
    ensure!(
        text.contains(&format!(", Kubernetes {VERSION},")) && text.contains(&format!("\nAPI server v{VERSION}\n")),
        "{text}"
    );
    Ok(())
}

#[test]
fn what_is_missing_or_wrong_is_one_sentence() -> Result<()> {
    let error = |arguments: &[&str]| -> Result<String> { Ok(String::from_utf8(pintle(arguments)?.stderr)?) };
    let missing =
        "pintle: the following required arguments were not provided: <NAME>; see `pintle plugin describe --help`\n";
    ensure!(error(&["plugin", "describe"])? == missing, "{}", error(&["plugin", "describe"])?);
    for arguments in [["help", "run"], ["run", "--help"]] {
        let output = pintle(&arguments)?;
        ensure!(
            output.status.success() && String::from_utf8(output.stdout)?.contains("--beside-kube-controller-manager")
        );
    }
    Ok(())
}
