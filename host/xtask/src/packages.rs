//! Programs of the distribution that tests need, installed where they are missing, all at once.

use std::path::Path;

use anyhow::bail;
use xtask::process;

/// A program, and the package of Debian that has it; the release of Debian pins the version.
const NEEDED: [(&str, &str); 4] = [
    // A real browser, for the web page of a host.
    ("chromium", "chromium"),
    // A real registry, for what is pushed and pulled.
    ("docker-registry", "docker-registry"),
    // It scrapes hosts and evaluates the rules and the dashboard; `promtool` is in the same package.
    ("prometheus", "prometheus"),
    // It reads the unit of a host.
    ("systemd-analyze", "systemd"),
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
    process::install_debian_packages(&missing);
    match NEEDED.iter().find(|(program, _)| !is_there(program)) {
        Some((program, package)) => {
            bail!("there is no {program}, which tests need: on Debian, as root, apt-get install {package}")
        }
        None => Ok(()),
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
