//! Runs other programs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Polling interval of a program with a time limit.
const POLL: Duration = Duration::from_millis(50);

/// Cargo in a folder, as started by a user.
///
/// `cargo xtask` itself sets variables such as `CARGO_MANIFEST_DIR` for this process. Build scripts that depend on them
/// (as `ring`'s does) would run again whenever a user's `cargo build` alternates with a chore, and so would all
/// dependents.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let ours =
            name.to_str().is_some_and(|name| ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|set| name.starts_with(set)));
        if ours {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs a command to its end. Its output goes to standard error, because standard output belongs to the caller.
///
/// # Errors
/// If it cannot be started or fails; the message has the command line.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdout(std::io::stderr()).status().with_context(|| format!("start {}", line(command)))?;
    check(command, status)
}

fn check(command: &Command, status: ExitStatus) -> anyhow::Result<()> {
    ensure!(status.success(), "{} failed: {status}", line(command));
    Ok(())
}

/// Runs a command and returns its output; standard error passes through.
///
/// # Errors
/// As for [`run`].
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("start {}", line(command)))?;
    check(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The output of a failed command.
#[derive(Debug)]
pub struct Failed {
    /// The error with the command line.
    pub why: anyhow::Error,
    /// Standard error.
    pub errors: String,
}

/// Runs a command quietly, and returns its standard output.
///
/// # Errors
/// If it cannot be started or fails; with its standard error.
pub fn told(command: &mut Command) -> Result<String, Failed> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("start {}", line(command)));
    let done = done.map_err(|why| Failed { why, errors: String::new() })?;
    let checked = check(command, done.status);
    checked.map(|()| text(done.stdout)).map_err(|why| Failed { why, errors: text(done.stderr) })
}

/// As [`run`], but its standard output is shown only if it fails.
///
/// # Errors
/// As for [`run`].
pub fn run_silently(command: &mut Command) -> anyhow::Result<()> {
    let done = command.stderr(Stdio::inherit()).output().with_context(|| format!("start {}", line(command)))?;
    check(command, done.status).inspect_err(|_| drop(std::io::stderr().write_all(&done.stdout)))
}

/// Runs a command quietly. Returns whether it succeeded.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a command quietly, for at most `limit`. Returns whether it succeeded.
pub fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else { return false };
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            Ok(None) | Err(_) => {
                // A child that can neither be waited for nor stopped is ignored.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Installs Debian packages, if this is Debian and the user is root. Returns whether they are installed; errors go to
/// standard error.
pub fn install_debian_packages(packages: &[&str]) -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if !root || !Path::new("/usr/bin/apt-get").exists() {
        return false;
    }
    eprintln!("installing {}", packages.join(", "));
    let install = || -> anyhow::Result<()> {
        run(Command::new("apt-get").args(["-qq", "update"]))?;
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "install", "--yes", "--no-install-recommends"]);
        run(apt.args(packages)).context("install packages of Debian")
    };
    install().map_err(|error| eprintln!("{error:#}")).is_ok()
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
