//! The control plane binary: built from `tests/controlplane` when its sources have changed.
//!
//! Not here: what is started from it (the parent module).

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::{target_dir, workspace_dir};

/// The sources that decide what the binary is. The Go toolchain's own version does not count: a
/// newer one builds the same program.
const SOURCES: [&str; 4] = ["go.mod", "go.sum", "guard.go", "main.go"];

/// The version that the parts report of themselves; the same as `k8s.io/kubernetes` in `go.mod`.
const VERSION_FLAGS: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=36";

/// How many compiled packages make one line of progress. The whole build has about 1,900.
const PACKAGES_PER_LINE: usize = 100;

/// Returns the path of the binary, building it first if it is missing or older than its sources.
///
/// The first build takes minutes and says so on standard error, past the capture of the test
/// harness. Other processes wait for it.
///
/// # Errors
/// Go is not installed, or the build failed.
pub fn ensure() -> Result<PathBuf> {
    let dir = target_dir().join("controlplane");
    fs::create_dir_all(&dir).context("make target/controlplane")?;
    let lock = File::create(dir.join("build.lock")).context("open the build lock")?;
    lock.lock().context("take the build lock")?;

    let binary = dir.join("controlplane");
    let stamp = dir.join("controlplane.stamp");
    let wanted = fingerprint()?;
    if binary.exists() && fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(binary);
    }
    // Built beside its place and renamed, so that an interrupted build leaves nothing half done.
    let fresh = dir.join("controlplane.new");
    build(&fresh)?;
    fs::rename(&fresh, &binary).context("put the binary in its place")?;
    fs::write(&stamp, wanted).context("write the stamp")?;
    Ok(binary)
}

fn fingerprint() -> Result<String> {
    let mut hash = Sha256::new();
    for source in SOURCES {
        let path = workspace_dir().join("tests/controlplane").join(source);
        let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        hash.update(source.as_bytes());
        hash.update([0]);
        hash.update(text.len().to_le_bytes());
        hash.update(&text);
    }
    hash.update(VERSION_FLAGS.as_bytes());
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn build(output: &PathBuf) -> Result<()> {
    say("building the control plane (first time: several minutes; cached afterwards)");
    let mut child = Command::new("go")
        .current_dir(workspace_dir().join("tests/controlplane"))
        .env("CGO_ENABLED", "0")
        .args(["build", "-v", "-p", "2", "-trimpath", "-ldflags"])
        .arg(VERSION_FLAGS)
        .arg("-o")
        .arg(output)
        .arg(".")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run go (the real control plane is built with Go 1.26 or newer)")?;
    let mut lines = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines() {
            lines.push(line.context("read from go")?);
            if lines.len().is_multiple_of(PACKAGES_PER_LINE) {
                say(&format!("building the control plane: {} packages", lines.len()));
            }
        }
    }
    let status = child.wait().context("wait for go")?;
    if !status.success() {
        let from = lines.len().saturating_sub(40);
        bail!("go build: {status}\n{}", lines[from..].join("\n"));
    }
    Ok(())
}

/// Writes to standard error itself, which the test harness does not capture: a build of minutes must
/// not look like a hang.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
