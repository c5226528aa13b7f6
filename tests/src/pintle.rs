//! The `pintle` binary under test, and what its commands print.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::target_dir;

/// The binary: `PINTLE_BIN` of the environment, or the one of this workspace.
///
/// # Errors
/// There is none.
pub fn binary() -> Result<PathBuf> {
    let binary = std::env::var_os("PINTLE_BIN").map_or_else(|| target_dir().join("debug/pintle"), PathBuf::from);
    ensure!(binary.exists(), "there is no {}; run `cargo xtask build` first", binary.display());
    Ok(binary)
}

/// The binary of the build for clusters, which is beside the other one.
///
/// # Errors
/// There is none.
pub fn host_binary() -> Result<PathBuf> {
    let binary = binary()?.with_file_name("pintle-host");
    ensure!(binary.exists(), "there is no {}; run `cargo build --workspace --bins` first", binary.display());
    Ok(binary)
}

/// A command of the binary with these arguments.
///
/// # Errors
/// There is no binary.
pub fn command(arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<Command> {
    let mut command = Command::new(binary()?);
    command.args(arguments);
    Ok(command)
}

/// The result of a command.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Answer {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn of(command: &mut Command) -> Result<Answer> {
        let output = command.output().with_context(|| format!("run {command:?}"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Answer { code: output.status.code(), output: text(output.stdout), errors: text(output.stderr) })
    }

    /// Whether the command succeeded.
    pub fn is_good(&self) -> bool {
        self.code == Some(0)
    }

    /// Standard output and standard error.
    pub fn text(&self) -> String {
        format!("{}{}", self.output, self.errors)
    }

    /// Standard output of a command that succeeded.
    ///
    /// # Errors
    /// It failed. The message is what it printed, without surrounding space.
    pub fn success(self) -> Result<String> {
        ensure!(self.is_good(), "{}", self.text().trim());
        Ok(self.output)
    }

    /// Standard output of a command that succeeded, as JSON.
    ///
    /// # Errors
    /// It failed, or printed something else.
    pub fn json(self) -> Result<Value> {
        let output = self.success()?;
        serde_json::from_str(&output).with_context(|| format!("not JSON: {output}"))
    }
}

/// Runs the binary with these arguments; the answer is what it prints.
///
/// # Errors
/// It fails.
pub fn run(arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Result<String> {
    Answer::of(&mut command(arguments)?)?.success()
}
