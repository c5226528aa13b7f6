//! The config-replicator of `sdk/go/examples` as a process of its own, built with controller-runtime: what plugins are compared with.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{target_dir, workspace_dir};

/// Builds the program, or finds that it is built; Go knows which. The first build takes minutes. Other processes wait for it.
///
/// # Errors
/// Go is not installed, or the build fails.
pub fn ensure_binary() -> Result<PathBuf> {
    let dir = target_dir().join("operator-go");
    fs::create_dir_all(&dir).context("make target/operator-go")?;
    let lock = File::create(dir.join("build.lock")).context("open the build lock")?;
    lock.lock().context("take the build lock")?;
    let binary = dir.join("manager");
    // As kubebuilder's Dockerfile has it.
    let built = Command::new("go")
        .current_dir(workspace_dir().join("tests/operator-go"))
        .env("CGO_ENABLED", "0")
        .args(["build", "-o"])
        .arg(&binary)
        .arg(".")
        .stdin(Stdio::null())
        .output()
        .context("run go (the operator is built with Go 1.26 or newer)")?;
    ensure!(built.status.success(), "go build: {}\n{}", built.status, String::from_utf8_lossy(&built.stderr));
    Ok(binary)
}
