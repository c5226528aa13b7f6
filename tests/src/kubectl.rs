//! kubectl as a child process.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs kubectl with `kubeconfig` and returns what it printed on standard output.
///
/// The home folder is empty, so neither a user's configuration nor a discovery cache of another
/// server takes part.
///
/// # Errors
/// kubectl is not installed, or it ended with another exit code than 0 (its standard error is in the
/// message).
pub async fn kubectl(kubeconfig: &Path, args: &[&str]) -> Result<String> {
    let home = tempfile::tempdir().context("make a home folder for kubectl")?;
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(args).env("HOME", home.path()).stdin(Stdio::null());
    let printed = args.join(" ");
    let output =
        tokio::task::spawn_blocking(move || command.output()).await?.context("run kubectl (is it installed?)")?;
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
