//! kubectl works on the embedded cluster as it does on a real one: every command of `src/kubectl/script.txt`. `kubectl pintle` asks the
//! host that leads.
//!
//! `KUBECTL_BLESS=1` writes what the embedded cluster printed into the scripts, for review.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use pintle_tests::kubectl::cluster::Dev;
use pintle_tests::kubectl::normalize::without_notices;
use pintle_tests::kubectl::play::{EMBEDDED, SCRIPT, diff, path, play, script};
use pintle_tests::kubectl::script::{Action, Step, matches};
use pintle_tests::kubectl::session::Printed;
use pintle_tests::kubectl::{kubectl, program};
use pintle_tests::pintle::{self, Answer};

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_cluster_serves_kubectl() -> Result<()> {
    check(SCRIPT).await
}

/// What simulated Pods cannot do is refused with a reason.
#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_cluster_says_what_it_has_not() -> Result<()> {
    check(EMBEDDED).await
}

async fn check(file: &str) -> Result<()> {
    let steps = script(file)?;
    let cluster = Dev::start().await?;
    let mut printed = play(cluster.kubeconfig(), &steps).await?;
    if file == SCRIPT {
        for printed in &mut printed {
            printed.lines = without_notices(std::mem::take(&mut printed.lines));
        }
    }
    if std::env::var_os("KUBECTL_BLESS").is_some() {
        bless(file, &steps, &printed)?;
    }
    let mut report = String::new();
    for (step, printed) in steps.iter().zip(&printed) {
        if let Some(failure) = &printed.failure {
            writeln!(report, "line {}: {}\n{failure}\n{}\n", step.line, printed.step, printed.lines.join("\n"))?;
        } else if !matches(&step.expected, &printed.lines) {
            let diff = diff(&step.expected, &printed.lines);
            writeln!(report, "line {}: {} (- wanted, + printed)\n{diff}", step.line, printed.step)?;
        }
    }
    assert!(report.is_empty(), "\n{report}");
    Ok(())
}

/// Of a command of kubectl that runs in a Pod, the command runs here: nothing runs in the Pods of this cluster.
fn write_kubectl(folder: &Path) -> Result<()> {
    let real = shlex::try_join(program()?.iter().map(String::as_str))?;
    let exec = "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' exec '*) echo \"$@\" > {}/asked; {exec};; esac\nexec {real} \"$@\"\n",
        folder.display()
    );
    let file = folder.join("kubectl");
    std::fs::write(&file, text)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).context("make it a program")
}

/// What the script of bash runs for `pintle plugin disable gar<TAB>`.
#[tokio::test(flavor = "multi_thread")]
async fn shells_complete_the_names_of_the_plugins_of_the_host() -> Result<()> {
    let cluster = Dev::start().await?;
    let ask = |socket: &Path| {
        let mut command = pintle::command(["--", "pintle", "plugin", "disable", "gar"])?;
        command.env("PINTLE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3").env("PINTLE_ADMIN_SOCKET", socket);
        Answer::of(&mut command)?.success()
    };
    assert_eq!(ask(&cluster.admin_socket())?, "garbage-collector-controller");
    assert_eq!(ask(Path::new("/nowhere"))?, "", "no host, no names and no error");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_pintle_asks_the_pod_that_leads() -> Result<()> {
    let cluster = Dev::start().await?;
    let kubeconfig = cluster.kubeconfig();
    let folder = tempfile::tempdir()?;
    let binary = std::path::absolute(pintle::binary()?)?;
    for name in ["pintle", "kubectl-pintle"] {
        symlink(&binary, folder.path().join(name))?;
    }
    let ask = |line: &str| {
        let mut command = Command::new(folder.path().join("kubectl-pintle"));
        command.args(line.split(' ')).arg("--kubeconfig").arg(&kubeconfig);
        command.env("PINTLE_ADMIN_SOCKET", cluster.admin_socket()).env("HOME", folder.path());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.path().to_owned()).chain(std::env::split_paths(&path));
        Answer::of(command.env("PATH", std::env::join_paths(folders)?))
    };
    let apply = async |object: serde_json::Value| {
        let file = folder.path().join("object.json");
        std::fs::write(&file, object.to_string())?;
        kubectl(&kubeconfig, &["apply", "-f", &file.display().to_string()]).await
    };
    write_kubectl(folder.path())?;
    let refused = ask("plugin list")?;
    assert!(!refused.is_good() && refused.errors.contains("pintle: no Pintle leads: "), "{refused:?}");

    let metadata = serde_json::json!({"namespace": "kube-system", "name": "pintle", "annotations": {"pintle.dev/holder": "pintle-0_5b1c"}});
    let (api, spec) = ("coordination.k8s.io/v1", serde_json::json!({"holderIdentity": "pintle-0_5b1c"}));
    apply(serde_json::json!({"apiVersion": api, "kind": "Lease", "metadata": metadata, "spec": spec})).await?;
    let refused = ask("plugin list")?;
    assert!(refused.errors.contains("pintle-0 leads, and is no Pod of the namespace pintle-system"), "{refused:?}");

    kubectl(&kubeconfig, &["create", "namespace", "pintle-system"]).await?;
    kubectl(&kubeconfig, &["run", "pintle-0", "-n", "pintle-system", "--image=pintle:0.1.0"]).await?;
    let listed = ask("plugin list -o json")?.json()?;
    let names = listed["items"].as_array().context("no list")?.iter().filter_map(|plugin| plugin["name"].as_str());
    assert!(names.collect::<Vec<_>>().contains(&"deployment-controller"), "{listed}");
    let asked = std::fs::read_to_string(folder.path().join("asked"))?;
    let config = kubeconfig.display();
    let expected = "exec -n pintle-system pintle-0 -c pintle -- pintle plugin list -o json";
    assert_eq!(asked.trim(), format!("--kubeconfig={config} {expected}"));
    // The exit code is that of the command in the Pod.
    let unknown = ask("plugin describe nobody")?;
    assert!(unknown.code == Some(1) && unknown.errors.contains("nobody"), "{unknown:?}");

    std::fs::remove_file(folder.path().join("kubectl"))?;
    let mut alone = Command::new(folder.path().join("kubectl-pintle"));
    let alone = Answer::of(alone.arg("top").env("PATH", folder.path()))?;
    assert_eq!((alone.code, alone.errors.trim()), (Some(1), "pintle: there is no kubectl on the PATH: install it"));
    Ok(())
}

/// Puts what was printed into the script, except where a step waits for what it says.
fn bless(file: &str, steps: &[Step], printed: &[Printed]) -> Result<()> {
    let text = std::fs::read_to_string(path(file))?;
    let mut out = String::new();
    let mut blessed = false;
    for (i, line) in text.lines().enumerate() {
        let place = steps.iter().position(|step| step.line == i + 1);
        if let Some(place) = place {
            blessed = !matches!(steps[place].action, Action::Poll(_))
                && !matches(&steps[place].expected, &printed[place].lines);
        }
        if !(blessed && line.starts_with('|')) {
            writeln!(out, "{line}")?;
        }
        // The output follows the last line of the command.
        let ends = steps.iter().zip(printed).find(|(step, _)| step.line + step.action.shown().lines().count() == i + 2);
        if let Some((_, printed)) = ends
            && blessed
        {
            for line in &printed.lines {
                writeln!(out, "{}", format!("| {line}").trim_end())?;
            }
        }
    }
    std::fs::write(path(file), out).with_context(|| format!("write {file}"))
}
