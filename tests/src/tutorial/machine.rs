//! A machine with nothing but the base tools, one language's own, kubectl and pintle.
//!
//! The `PATH` is one folder, with a script for each program that may be used. The home folder is new, so caches are empty: cargo's
//! registry, Go's modules and builds, npm's and pip's downloads, and pintle's compiled code.
//!
//! Two things of the real machine pass, as no registry could be reached without them on some: the variables of [`PASSED`], and the
//! files of [`SETTINGS`] (as links) that say which proxy, certificates and mirror to use.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_build::Language;
use tempfile::TempDir;

use crate::{kubectl, pintle, process, target_dir};

/// What any Debian has, apart from languages.
const BASE: [&str; 38] = [
    "awk", "base64", "basename", "bash", "cat", "chmod", "cp", "cut", "date", "diff", "dirname", "env", "expr", "find",
    "grep", "head", "id", "ln", "ls", "mkdir", "mktemp", "mv", "printf", "pwd", "readlink", "realpath", "rm", "sed",
    "sh", "sleep", "sort", "tail", "tee", "touch", "tr", "uname", "wc", "xargs",
];

/// What links programs for this machine, for whoever compiles.
const LINKER: [&str; 4] = ["ar", "as", "cc", "ld"];

/// Variables, or beginnings of them, that say how registries are reached.
const PASSED: [&str; 22] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_",
    "npm_config_",
    "PIP_",
    "GOPROXY",
    "GOSUMDB",
    "GONOSUMDB",
    "GOFLAGS",
    "CARGO_HTTP_",
    "CARGO_REGISTRIES_",
];

/// Files in the home folder that do.
const SETTINGS: [&str; 5] = [".npmrc", ".config/pip/pip.conf", ".config/go/env", ".cargo/config.toml", ".cargo/config"];

/// A home folder, a `PATH`, and what else programs are given.
#[derive(Debug)]
pub struct Machine {
    folder: TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl Machine {
    /// Sets one up for a language.
    ///
    /// # Errors
    /// A program is missing on the real machine.
    pub fn new(language: Language) -> Result<Machine> {
        let machine = Machine::plain()?;
        for name in tools(language) {
            machine.add_real(name)?;
        }
        match language {
            Language::Rust => machine.add_toolchain()?,
            Language::Go | Language::JavaScript | Language::TypeScript | Language::Python => {}
        }
        Ok(machine)
    }

    /// Sets one up without any language.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn plain() -> Result<Machine> {
        fs::create_dir_all(target_dir()).context("make the target folder")?;
        let folder = tempfile::Builder::new().prefix("tutorial-").tempdir_in(target_dir())?;
        for name in ["bin", "home", "run"] {
            fs::create_dir(folder.path().join(name)).with_context(|| format!("make the folder {name}"))?;
        }
        let machine = Machine { variables: variables(folder.path()), folder };
        machine.link_settings()?;
        for name in BASE {
            machine.add_real(name)?;
        }
        machine.add("pintle", &[&pintle::binary()?.display().to_string()])?;
        let kubectl = kubectl::program()?;
        machine.add("kubectl", &kubectl.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(machine)
    }

    /// With a program of the real machine that the page needs.
    ///
    /// # Errors
    /// There is none.
    pub fn with_program(self, name: &str) -> Result<Machine> {
        self.add_real(name)?;
        Ok(self)
    }

    /// With a variable that the page tells to set.
    pub fn with_variable(mut self, name: &str, value: impl Into<OsString>) -> Machine {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Where shells begin.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A program of this machine, in its home folder.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.path().join("bin").join(name));
        command.env_clear().envs(self.variables.iter().cloned()).current_dir(self.home());
        command
    }

    fn add_real(&self, name: &str) -> Result<()> {
        let program = on_path(name).with_context(|| format!("there is no {name} on this machine"))?;
        self.add(name, &[&program.display().to_string()])
    }

    /// A script that starts the real program. A link would not do: some look for their libraries beside the name that they are
    /// started by.
    fn add(&self, name: &str, words: &[&str]) -> Result<()> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        let file = self.folder.path().join("bin").join(name);
        process::write_program(&file, &format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" ")))
    }

    fn link_settings(&self) -> Result<()> {
        let real = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        for file in SETTINGS.iter().filter(|file| real.join(file).is_file()) {
            let link = self.home().join(file);
            let folder = link.parent().context("a file without a folder")?;
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
            symlink(real.join(file), &link).with_context(|| format!("link {}", link.display()))?;
        }
        Ok(())
    }

    /// The programs of the toolchain itself: rustup's of the same names look for it in the home folder.
    fn add_toolchain(&self) -> Result<()> {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("run rustc")?;
        ensure!(output.status.success(), "rustc --print sysroot: {}", String::from_utf8_lossy(&output.stderr));
        let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        for name in ["cargo", "rustc", "rustdoc"] {
            self.add(name, &[&sysroot.join("bin").join(name).display().to_string()])?;
        }
        Ok(())
    }
}

/// Programs of one language that belong to none of the others.
pub fn own(language: Language) -> &'static [&'static str] {
    match language {
        Language::Rust => &["cargo", "rustc"],
        Language::Go => &["go", "gofmt"],
        Language::JavaScript | Language::TypeScript => &["node", "npm", "npx"],
        Language::Python => &["python3", "pip3", "componentize-py"],
    }
}

/// What a language needs from the `PATH` of the real machine.
fn tools(language: Language) -> &'static [&'static str] {
    match language {
        Language::Rust => &LINKER,
        Language::Go => &["go"],
        Language::JavaScript | Language::TypeScript => &["node", "npm"],
        Language::Python => &["python3"],
    }
}

fn variables(folder: &Path) -> Vec<(OsString, OsString)> {
    let is_passed =
        |name: &str| PASSED.iter().any(|passed| name == *passed || passed.ends_with('_') && name.starts_with(passed));
    let mut all: Vec<_> = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed)).collect();
    all.extend(
        [("PATH", "bin"), ("HOME", "home"), ("XDG_RUNTIME_DIR", "run")]
            .map(|(name, part)| (name.into(), folder.join(part).into())),
    );
    all.push(("LANG".into(), "C.UTF-8".into()));
    all
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
}
