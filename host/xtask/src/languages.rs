//! Installs the tools of the SDKs in other languages than Rust, and runs their tests.
//!
//! Go and Node.js must be installed. The rest is installed here: libraries of Node.js next to the SDK, and a Python
//! environment below `target/tools`. Versions are pinned here, or in the SDK's own files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use xtask::{examples, process, root};

/// Files that list the required Python libraries.
const PYTHON_INPUTS: [&str; 2] = ["sdk/python/requirements-dev.txt", "sdk/python/pyproject.toml"];

/// The Python environment, for `VIRTUAL_ENV`.
pub(crate) fn python() -> PathBuf {
    root().join("target/tools/python")
}

/// Installs missing tools.
pub(crate) fn install() -> anyhow::Result<()> {
    ensure!(
        process::succeeds(Command::new("go").arg("version")),
        "there is no Go: install 1.26 or newer (https://go.dev/dl)"
    );
    install_node()?;
    install_python().context("install what the SDK of Python is tested with")
}

/// Installs the libraries of the JavaScript SDK.
pub(crate) fn install_node() -> anyhow::Result<()> {
    ensure!(
        process::succeeds(Command::new("node").arg("--version")),
        "there is no Node.js: install 20 or newer (https://nodejs.org)"
    );
    // Not `npm ci`: no lock file can be complete, because a library refers to packages for other systems that were
    // never published.
    let mut npm = Command::new("npm");
    npm.current_dir(root().join("sdk/js")).args([
        "install",
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--loglevel=error",
    ]);
    process::run(&mut npm).context("install the libraries of sdk/js")
}

fn install_python() -> anyhow::Result<()> {
    let environment = python();
    let mut wanted = String::new();
    for file in PYTHON_INPUTS {
        wanted += &fs::read_to_string(root().join(file)).with_context(|| format!("read {file}"))?;
    }
    let installed = environment.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    // An incomplete environment is useless.
    if environment.exists() {
        fs::remove_dir_all(&environment).with_context(|| format!("remove {}", environment.display()))?;
    }
    process::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.current_dir(root().join("sdk/python")).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        "requirements-dev.txt",
    ]);
    process::run(&mut pip)?;
    fs::write(installed, wanted).context("note what is installed")
}

/// Tests of the SDKs themselves, and the cases of their examples.
pub(crate) fn test() -> anyhow::Result<()> {
    let sdk = root().join("sdk");
    // The packages below `internal` are for WebAssembly only; a build of the example compiles them.
    go(&sdk.join("go"), &[".", "./pintletest"])?;
    for example in examples::of("go")? {
        go(&example, &["."])?;
    }
    process::run(Command::new("npm").current_dir(sdk.join("js")).arg("test"))?;
    let unittest = |folder: PathBuf, more: &[&str]| {
        let mut python = Command::new(python().join("bin/python"));
        // Files next to the sources would look like changed sources.
        python.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(folder).args(["-m", "unittest"]).args(more);
        process::run(&mut python)
    };
    unittest(sdk.join("python"), &["discover", "-s", "tests", "-t", "."])?;
    unittest(sdk.join("python/examples/downscaler"), &[])?;
    for language in ["go", "js", "python"] {
        examples::of(language)?.iter().try_for_each(|example| cases(example))?;
    }
    Ok(())
}

/// Builds an example, and runs its cases in the component.
fn cases(example: &Path) -> anyhow::Result<()> {
    let mut test = Command::new(crate::chores::pintle());
    test.arg("test").arg(example).arg("--cases").arg(examples::cases(example)).env("VIRTUAL_ENV", python());
    process::run(&mut test).with_context(|| format!("test {}", example.display()))
}

fn go(folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let unformatted = process::output(Command::new("gofmt").current_dir(folder).args(["-l", "."]))?;
    ensure!(unformatted.is_empty(), "gofmt would change, in {}: {unformatted}", folder.display());
    process::run(Command::new("go").current_dir(folder).arg("vet").args(packages))?;
    process::run(Command::new("go").current_dir(folder).arg("test").args(packages))
}
