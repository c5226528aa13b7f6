//! The control plane that tests run against: `tests/controlplane`, built with Go.
//!
//! One binary holds etcd, kube-apiserver, kube-controller-manager and kubectl. It is kept in the user's cache ([`cache`]), because a build
//! takes minutes and its sources rarely change.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use pintle_core::kubernetes;

use crate::{cache, root};

/// The sources that decide what the binary is. The version of the Go toolchain does not count: a newer one builds the same program.
const SOURCES: [&str; 4] = ["go.mod", "go.sum", "guard.go", "main.go"];

/// Flags of the linker, with the version that the parts report.
fn linker_flags() -> String {
    const VERSION: &str = "k8s.io/component-base/version";
    let (major, minor) = kubernetes::minor().split_once('.').unwrap_or_default();
    let version = kubernetes::VERSION;
    format!("-s -w -X {VERSION}.gitVersion=v{version} -X {VERSION}.gitMajor={major} -X {VERSION}.gitMinor={minor}")
}

/// Without DWARF, which the linker would drop.
const COMPILER_FLAGS: &str = "all=-dwarf=false";

/// How many compiled packages make one line of progress. The whole build has about 1,900.
const PACKAGES_PER_LINE: usize = 200;

/// Returns the path of the binary, building it first if there is none of these sources.
///
/// The first build takes minutes and reports its progress on standard error, past the capture of the test harness. Other processes wait
/// for it.
///
/// # Errors
/// Go is not installed, or the build failed.
pub fn ensure() -> Result<PathBuf> {
    let folder = root().join("tests/controlplane");
    let read = |source: &str| fs::read(folder.join(source)).with_context(|| format!("read {source}"));
    let sources = SOURCES.iter().map(|source| read(source)).collect::<Result<Vec<_>>>()?;
    let linker_flags = linker_flags();
    let flags = [linker_flags.as_bytes(), COMPILER_FLAGS.as_bytes()];
    let digest = cache::digest(sources.iter().map(Vec::as_slice).chain(flags));
    cache::entry(&format!("controlplane-{digest}"), |output| build(&folder, output))
}

fn build(folder: &Path, output: &Path) -> Result<()> {
    say("building the control plane (first time: several minutes; cached afterwards)");
    // At low priority: it shares the processors with what is waited for.
    let mut child = Command::new("nice")
        .args(["-n", "10", "go", "build", "-v", "-p", "2", "-trimpath", "-gcflags", COMPILER_FLAGS])
        .args(["-ldflags", &linker_flags(), "-o"])
        .arg(output)
        .arg(".")
        .current_dir(folder)
        .env("CGO_ENABLED", "0")
        // The compiler collects its garbage less often: a fifth less processor time.
        .env("GOGC", "400")
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
