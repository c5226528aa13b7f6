//! Programs of the distribution that tests need, installed where they are missing.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use xtask::process;

/// A program, and the package of Debian that has it; the release of Debian pins the version.
const NEEDED: [(&str, &str); 1] = [
    // A real registry, for what is pushed and pulled.
    ("docker-registry", "docker-registry"),
];

/// Installs what is missing, which only root can.
///
/// # Errors
/// Something is missing and cannot be installed.
pub(crate) fn ensure() -> anyhow::Result<()> {
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = || format!("install {0} by hand: apt-get install {0}", missing.join(" "));
    eprintln!("installing {}", missing.join(" "));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command
    };
    process::run(apt().arg("update")).with_context(by_hand)?;
    process::run(apt().args(["install", "-y", "--no-install-recommends"]).args(&missing)).with_context(by_hand)?;
    match NEEDED.iter().find(|(program, _)| !is_there(program)) {
        Some((program, _)) => bail!("{program} is still not on PATH; {}", by_hand()),
        None => Ok(()),
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
