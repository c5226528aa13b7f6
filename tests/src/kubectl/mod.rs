//! kubectl as a child process: single commands, and a script of commands that is played on any cluster.
//!
//! ```text
//! script.txt -> script -> session (shell, kubectl, kubeconfig) -> normalize -> equal to what the script says
//! ```
//!
//! Not here: the clusters that the script is played on (`cluster`).

pub mod cluster;
pub mod normalize;
pub mod play;
pub mod script;
pub mod session;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::controlplane;

/// How kubectl is called: the one on the `PATH`, or the control plane binary's, which is built when there is none.
///
/// # Errors
/// There is none, and it cannot be built.
pub fn program() -> Result<Vec<String>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed: Option<PathBuf> =
        std::env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file());
    Ok(match installed {
        Some(file) => vec![file.display().to_string()],
        None => vec![controlplane::ensure_binary()?.display().to_string(), "kubectl".to_owned()],
    })
}

/// Runs kubectl with `kubeconfig` and returns what it printed on standard output.
///
/// The home folder is empty, so neither a user's configuration nor a discovery cache of another
/// server takes part.
///
/// # Errors
/// There is no kubectl, or it ended with another exit code than 0 (its standard error is in the message).
pub async fn kubectl(kubeconfig: &Path, args: &[&str]) -> Result<String> {
    let home = tempfile::tempdir().context("make a home folder for kubectl")?;
    let program = tokio::task::spawn_blocking(program).await??;
    let (first, rest) = program.split_first().context("an empty command")?;
    let mut command = Command::new(first);
    command.args(rest).arg("--kubeconfig").arg(kubeconfig).args(args).env("HOME", home.path()).stdin(Stdio::null());
    let printed = args.join(" ");
    let output = tokio::task::spawn_blocking(move || command.output()).await?.context("run kubectl")?;
    if !output.status.success() {
        bail!(
            "kubectl {printed}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
