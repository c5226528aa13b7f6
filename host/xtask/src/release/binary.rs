//! Static binaries: targets, builds, and a test that they need no other file of the machine.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

use crate::guests::{self, Set};
use crate::{process, root};

/// The target of a binary. The C library is musl, because glibc loads parts of itself at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `x86_64-unknown-linux-musl`
    X86,
    /// `aarch64-unknown-linux-musl`
    Arm,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.triple())
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::triple).join(", ");
        Self::ALL
            .into_iter()
            .find(|target| target.triple() == text)
            .ok_or_else(|| format!("not a target; known are {known}"))
    }
}

impl Target {
    /// All.
    pub const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// Rust's name.
    pub fn triple(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-unknown-linux-musl",
            Self::Arm => "aarch64-unknown-linux-musl",
        }
    }

    /// The name of the architecture in file names and images.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// The target whose binaries run on this machine.
    pub fn of_this_machine() -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.is_of_this_machine())
    }

    /// Whether its binaries run on this machine.
    pub fn is_of_this_machine(self) -> bool {
        cfg!(target_os = "linux") && self.triple().starts_with(std::env::consts::ARCH)
    }

    /// The C compiler, and its Debian package.
    fn compiler(self) -> (&'static str, &'static [&'static str]) {
        match (self, self.is_of_this_machine()) {
            (_, true) => ("musl-gcc", &["musl-tools"]),
            (Self::X86, false) => ("x86_64-linux-gnu-gcc", &["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"]),
            (Self::Arm, false) => ("aarch64-linux-gnu-gcc", &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]),
        }
    }

    /// Installs the requirements of a build.
    ///
    /// # Errors
    /// Rust's standard library or a C compiler cannot be installed.
    pub fn prepare(self) -> anyhow::Result<()> {
        process::run(Command::new("rustup").args(["target", "add", self.triple()]).current_dir(root()))
            .context("install the standard library of Rust")?;
        let (compiler, packages) = self.compiler();
        let is_there = || process::succeeds(Command::new(compiler).arg("--version"));
        ensure!(
            is_there() || (process::install_debian_packages(packages) && is_there()),
            "there is no {compiler}; on Debian, as root, apt-get install {}",
            packages.join(" ")
        );
        Ok(())
    }

    /// Builds the cluster `pintle` with its components; returns the binary. It is built separately, so that no
    /// dependency has a feature that only another package of the workspace uses.
    ///
    /// # Errors
    /// It does not build.
    pub fn build(self, profile: &str, features: &[&str]) -> anyhow::Result<PathBuf> {
        guests::build_named(&[Set::Plugins], &[])?;
        let (compiler, _) = self.compiler();
        let mut build = process::cargo(&root());
        build.args(["build", "--package", "pintle-host", "--profile", profile, "--target", self.triple()]);
        if !features.is_empty() {
            build.arg("--features").arg(features.join(","));
        }
        let name = self.triple().replace('-', "_");
        build.env(format!("CC_{name}"), compiler);
        if !self.is_of_this_machine() {
            build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), compiler);
        }
        process::run(&mut build)?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = if profile == "dev" { "debug" } else { profile };
        Ok(target.join(self.triple()).join(folder).join("pintle-host"))
    }
}

/// Runs `pintle version` in an empty root.
///
/// # Errors
/// It fails there, or this user may not change the root of a process.
pub(super) fn runs_alone(binary: &Path) -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    fs::copy(binary, root.path().join("pintle")).with_context(|| format!("copy {}", binary.display()))?;
    let mut alone = Command::new("unshare");
    alone.args(["--map-root-user", "--root"]).arg(root.path()).args(["/pintle", "version"]).env_clear();
    let printed = process::output(alone.env("PATH", std::env::var_os("PATH").unwrap_or_default()));
    let printed = printed.context("run the binary without any other file")?;
    if !printed.contains(super::VERSION) {
        bail!("without any other file, `pintle version` prints {printed}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_the_machine_do_not_run_alone() -> anyhow::Result<()> {
        let why = runs_alone(&std::env::current_exe()?).unwrap_err();
        assert_eq!(why.to_string(), "run the binary without any other file");
        Ok(())
    }

    #[test]
    fn targets_have_their_names() {
        assert_eq!("aarch64-unknown-linux-musl".parse(), Ok(Target::Arm));
        assert!("x86_64-unknown-linux-gnu".parse::<Target>().unwrap_err().contains("x86_64-unknown-linux-musl"));
    }
}
