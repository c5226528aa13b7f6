//! The control plane for tests: `tests/controlplane`, built with Go.
//!
//! One binary contains etcd, kube-apiserver, kube-controller-manager and kubectl. It is stored in the user's cache
//! ([`cache`]), because a build takes minutes and its sources rarely change.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use pintle_core::kubernetes;

use crate::{cache, process, root};

/// The sources of the program.
const SOURCES: [&str; 3] = ["facts.go", "guard.go", "main.go"];

/// The modules that they import, besides Kubernetes and the modules published with it.
const OTHERS: [&str; 2] = ["github.com/spf13/cobra", "go.etcd.io/etcd/server/v3"];

/// Linker flags, with the version that the parts report.
fn linker_flags(version: &str) -> String {
    const PACKAGE: &str = "k8s.io/component-base/version";
    let mut numbers = version.split('.').skip(1);
    let minor = numbers.next().unwrap_or_default();
    format!("-s -w -X {PACKAGE}.gitVersion=v{version} -X {PACKAGE}.gitMajor=1 -X {PACKAGE}.gitMinor={minor}")
}

/// Without DWARF, which the linker would drop.
const COMPILER_FLAGS: &str = "all=-dwarf=false";

/// Number of compiled packages per line of progress. The whole build has about 1,900.
const PACKAGES_PER_LINE: usize = 200;

/// Returns the path of the binary of the followed version, building it first if these sources have not been built.
///
/// The first build takes minutes and reports its progress on standard error, bypassing the capture of the test harness.
/// Other processes wait for it.
///
/// # Errors
/// Go is not installed, or the build failed.
pub fn ensure() -> Result<PathBuf> {
    ensure_version(kubernetes::VERSION)
}

/// As [`ensure`], for any version of the module proxy, such as `1.35.4`.
///
/// # Errors
/// As for [`ensure`], or the modules cannot be downloaded.
pub fn ensure_version(version: &str) -> Result<PathBuf> {
    let entry = format!("controlplane-{}", digest(version, &linker_flags(version))?);
    cache::entry(&entry, |output| build(&module(version)?, version, output))
}

/// The inputs of a binary or a module. The version of the Go toolchain is ignored: a newer one builds the same program.
fn digest(version: &str, flags: &str) -> Result<String> {
    let read = |source: &&str| fs::read(folder().join(source)).with_context(|| format!("read {source}"));
    let mut inputs = SOURCES.iter().map(read).collect::<Result<Vec<_>>>()?;
    inputs
        .extend([version, flags, COMPILER_FLAGS, include_str!("controlplane.rs")].map(|text| text.as_bytes().to_vec()));
    Ok(cache::digest(inputs.iter().map(Vec::as_slice)))
}

fn folder() -> PathBuf {
    root().join("tests/controlplane")
}

/// The module of a version: the sources of `tests/controlplane`, and the requirements of Kubernetes in that version.
/// All of it is derived from the version; the checksum database verifies the downloads. Returns its folder.
///
/// # Errors
/// A file cannot be written, or the modules cannot be downloaded.
pub fn module(version: &str) -> Result<PathBuf> {
    cache::entry(&format!("controlplane-module-{}", digest(version, "")?), |module| {
        fs::create_dir_all(module).with_context(|| format!("create {}", module.display()))?;
        for source in SOURCES {
            fs::copy(folder().join(source), module.join(source)).with_context(|| format!("copy {source}"))?;
        }
        let path = sources(version)?.join("go.mod");
        let upstream = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        fs::write(module.join("go.mod"), go_mod(version, &upstream)?).context("write go.mod")?;
        process::run(Command::new("go").args(["mod", "tidy"]).current_dir(module))
    })
}

/// The folder of Kubernetes' own sources.
///
/// # Errors
/// Go is not installed, or the module proxy does not have the version.
pub fn sources(version: &str) -> Result<PathBuf> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", &format!("k8s.io/kubernetes@v{version}")]).current_dir(root());
    let module: serde_json::Value = serde_json::from_str(&process::output(&mut download)?)?;
    Ok(module["Dir"].as_str().context("the module has no folder")?.into())
}

/// Our requirements, in the versions of Kubernetes' own `go.mod`, and a replacement for each module published with it.
/// `go mod tidy` adds the rest.
fn go_mod(version: &str, upstream: &str) -> Result<String> {
    let lines = || upstream.lines().map(str::trim);
    let of = |word: &str| lines().find(|line| line.starts_with(word)).with_context(|| format!("no line {word:?}"));
    let staging = format!("v0{}", version.strip_prefix('1').context("a version is 1.MINOR.PATCH")?);
    let mut text =
        format!("module pintle.dev/tests/controlplane\n\n{}\n\n{}\n\nrequire (\n", of("go ")?, of("godebug ")?);
    for other in OTHERS {
        text += &format!("\t{}\n", of(&format!("{other} "))?.trim_end_matches(" // indirect"));
    }
    for (module, version) in
        [("component-base", &staging), ("kubectl", &staging), ("kubernetes", &format!("v{version}"))]
    {
        text += &format!("\tk8s.io/{module} {version}\n");
    }
    text += ")\n\nreplace (\n";
    for module in lines().filter_map(|line| line.split_once(" => ./staging/")).map(|(module, _)| module) {
        text += &format!("\t{module} => {module} {staging}\n");
    }
    Ok(text + ")\n")
}

fn build(folder: &Path, version: &str, output: &Path) -> Result<()> {
    say(&format!("building the control plane {version} (first time: several minutes; cached afterwards)"));
    // At low priority, because it competes with work that others wait for.
    let mut child = Command::new("nice")
        .args(["-n", "10", "go", "build", "-v", "-p", "2", "-trimpath", "-gcflags", COMPILER_FLAGS])
        .args(["-ldflags", &linker_flags(version), "-o"])
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
