//! The controller of `tests/toolchains`, built by the command lines of toolchains that know nothing of Pintle, of the contract alone.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask::bindings::{self, Language};
use xtask::{process, toolchains};

use crate::{languages, target_dir, workspace_dir};

/// A toolchain that makes components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// `cargo build --target wasm32-wasip2`.
    Rust,
    /// `go build` for `wasip1`, and the adapter of `jco new`.
    Go,
    /// `jco componentize`.
    JavaScript,
    /// `componentize-py componentize`.
    Python,
    /// `zig build-exe`, and the adapter of `jco new`.
    Zig,
    /// `zig cc`, and the adapter of `jco new`.
    C,
}

impl Toolchain {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Rust, Self::Go, Self::JavaScript, Self::Python, Self::Zig, Self::C];

    /// The folder of its sources below `tests/toolchains`.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::JavaScript => "javascript",
            Self::Python => "python",
            Self::Zig => "zig",
            Self::C => "c",
        }
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}

/// Builds the controller, and adds the manifest with `pintle package`; answers the file of the plugin.
///
/// # Errors
/// The toolchain cannot be installed, or does not build it.
pub fn build(toolchain: Toolchain) -> Result<PathBuf> {
    let sources = workspace_dir().join("tests/toolchains").join(toolchain.folder());
    let work = tempfile::tempdir()?;
    let component = match toolchain {
        Toolchain::Rust => rust(&sources),
        Toolchain::Go => go(&sources, work.path()),
        Toolchain::JavaScript => javascript(&sources, work.path()),
        Toolchain::Python => python(&sources, work.path()),
        Toolchain::Zig => zig(&sources, work.path()),
        Toolchain::C => c(&sources, work.path()),
    };
    let component = component.with_context(|| format!("build the controller in {}", sources.display()))?;
    let plugin = target_dir().join("toolchains").join(format!("{toolchain}.wasm"));
    std::fs::create_dir_all(plugin.parent().context("no folder")?)?;
    let manifest = workspace_dir().join("tests/toolchains/manifest.yaml");
    let [package, with, to] = ["package", "--manifest", "-o"].map(Path::new);
    languages::pintle(&[package, &component, with, &manifest, to, &plugin])?;
    Ok(plugin)
}

fn contract() -> PathBuf {
    workspace_dir().join("wit/controller.wit")
}

fn rust(sources: &Path) -> Result<PathBuf> {
    toolchains::rust()?;
    let target = target_dir().join("toolchains/rust");
    let mut cargo = process::cargo(sources);
    cargo.args(["build", "--release", "--locked", "--target", toolchains::RUST_TARGET]);
    process::run(cargo.env("CARGO_TARGET_DIR", &target).env_remove("RUSTFLAGS").env_remove("RUSTC_WORKSPACE_WRAPPER"))?;
    Ok(target.join(toolchains::RUST_TARGET).join("release/badge.wasm"))
}

fn python(sources: &Path, work: &Path) -> Result<PathBuf> {
    let packages = toolchains::python()?;
    copy(sources, work)?;
    let component = work.join("component.wasm");
    let mut tool = Command::new(packages.join("bin/componentize-py"));
    tool.current_dir(work).env("PYTHONPATH", &packages).arg("-d").arg(contract());
    process::run(tool.args(["-w", "controller", "componentize", "app", "-o"]).arg(&component))?;
    keep(&component, Toolchain::Python)
}

fn javascript(sources: &Path, work: &Path) -> Result<PathBuf> {
    let component = work.join("component.wasm");
    let mut jco = Command::new(toolchains::jco()?);
    jco.current_dir(work).arg("componentize").arg(sources.join("plugin.js")).arg("-w").arg(contract());
    process::run(jco.args(["-n", "controller", "-o"]).arg(&component))?;
    keep(&component, Toolchain::JavaScript)
}

fn zig(sources: &Path, work: &Path) -> Result<PathBuf> {
    bindings::write_plain(Language::C, work)?;
    copy(sources, work)?;
    const TARGET: [&str; 3] = ["-target", "wasm32-wasi", "-lc"];
    let translated = process::output(zig_in(work)?.arg("translate-c").args(TARGET).arg("controller.h"))?;
    std::fs::write(work.join("controller.zig"), translated)?;
    let mut build = zig_in(work)?;
    build.arg("build-exe").args(TARGET).args(["-mexec-model=reactor", "-O", "ReleaseSmall", "--name", "badge"]);
    build.args(["controller.c", "controller_component_type.o", "--dep", "controller", "-Mroot=badge.zig", "-lc"]);
    process::run(build.arg("-Mcontroller=controller.zig"))?;
    adapted(&work.join("badge.wasm"), work, Toolchain::Zig)
}

/// The command `zig` in a folder.
fn zig_in(folder: &Path) -> Result<Command> {
    let mut zig = Command::new("python3");
    zig.current_dir(folder).env("PYTHONPATH", toolchains::python()?).args(["-m", "ziglang"]);
    Ok(zig)
}

fn c(sources: &Path, work: &Path) -> Result<PathBuf> {
    bindings::write_plain(Language::C, work)?;
    copy(sources, work)?;
    let mut cc = zig_in(work)?;
    cc.args(["cc", "-target", "wasm32-wasi", "-mexec-model=reactor", "-Os", "-Wall", "-Wextra", "-Werror"]);
    process::run(cc.args(["badge.c", "controller.c", "controller_component_type.o", "-o", "badge.wasm"]))?;
    adapted(&work.join("badge.wasm"), work, Toolchain::C)
}

fn go(sources: &Path, work: &Path) -> Result<PathBuf> {
    bindings::write_plain(Language::Go, work)?;
    copy(sources, work)?;
    let mut go = Command::new("go");
    go.current_dir(work).env("GOOS", "wasip1").env("GOARCH", "wasm").env_remove("GOFLAGS");
    process::run(go.args(["build", "-buildmode=c-shared", "-ldflags=-s -w -checklinkname=0", "-o", "core.wasm", "."]))?;
    // `jco embed` takes a package with one world only.
    let wit = work.join("wit");
    std::fs::create_dir_all(wit.join("deps"))?;
    std::fs::copy(contract(), wit.join("deps/controller.wit"))?;
    let version = "include pintle:controller/controller@0.2.0;";
    std::fs::write(wit.join("plugin.wit"), format!("package example:badge;\n\nworld plugin {{\n  {version}\n}}\n"))?;
    let embedded = work.join("embedded.wasm");
    let mut jco = Command::new(toolchains::jco()?);
    jco.current_dir(work).args(["embed", "core.wasm", "--wit"]).arg(&wit).arg("-o").arg(&embedded);
    process::run(&mut jco)?;
    adapted(&embedded, work, Toolchain::Go)
}

/// Makes a component of a module for WASI 0.1 that declares its world.
fn adapted(module: &Path, work: &Path, toolchain: Toolchain) -> Result<PathBuf> {
    let component = work.join("component.wasm");
    let mut jco = Command::new(toolchains::jco()?);
    jco.current_dir(work).arg("new").arg(module).args(["--wasi-reactor", "-o"]).arg(&component);
    process::run(&mut jco)?;
    keep(&component, toolchain)
}

/// Copies a component out of a temporary folder.
fn keep(component: &Path, toolchain: Toolchain) -> Result<PathBuf> {
    let kept = target_dir().join("toolchains").join(format!("{toolchain}-without-manifest.wasm"));
    std::fs::create_dir_all(kept.parent().context("no folder")?)?;
    std::fs::copy(component, &kept).with_context(|| format!("copy {}", component.display()))?;
    Ok(kept)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
