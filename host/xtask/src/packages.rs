//! Installs missing programs of the distribution for tests, all together.

use std::path::Path;

use anyhow::bail;
use xtask::process;

/// A program, and its Debian package; the Debian release pins the version.
const NEEDED: [(&str, &str); 4] = [
    // A real browser, for the web page of a host.
    ("chromium", "chromium"),
    // A real registry, for pushing and pulling.
    ("docker-registry", "docker-registry"),
    // It scrapes hosts and evaluates the rules and the dashboard; `promtool` is in the same package.
    ("prometheus", "prometheus"),
    // It validates the systemd unit of a host.
    ("systemd-analyze", "systemd"),
];

/// Installs missing programs, which requires root.
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
