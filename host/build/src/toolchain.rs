//! Compiles guests to core modules with any available compiler for `wasm32-unknown-unknown`.
//!
//! Tried in this order:
//! 1. the active toolchain, if it has the target;
//! 2. `rustup target add`;
//! 3. Debian's `rustc-web`, which has no library for the target but the library's source, which is built too.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::bail;

use crate::process;

const TARGET: &str = "wasm32-unknown-unknown";

/// Timeout for rustup's download of 20 MB. Without access to its server, it usually fails immediately.
const RUSTUP_LIMIT: Duration = Duration::from_secs(120);

/// Debian packages with a compiler for the target.
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-22"];

enum Toolchain {
    /// The active one has the target.
    Active,
    /// Debian's, with this linker.
    Debian { linker: PathBuf },
}

/// Parameters of a compilation.
#[derive(Clone, Copy, Debug)]
pub struct Compiling<'a> {
    /// Target folder of cargo.
    pub work: &'a Path,
    /// Folder that panic messages omit from file names, with its replacement.
    pub sources: (&'a Path, &'a str),
    /// Whether to install a missing compiler.
    pub install: bool,
}

/// Compiles packages of a workspace; returns the folder of the `.wasm` files. Cargo's output goes to standard error.
///
/// # Errors
/// If there is no compiler for the target (the message has the installation), or the packages do not compile.
pub fn compile(workspace: &Path, packages: &[&str], how: &Compiling<'_>) -> anyhow::Result<PathBuf> {
    let work = how.work;
    let toolchain = Toolchain::find(how.install)?;
    let mut cargo = match &toolchain {
        Toolchain::Active => process::cargo(workspace),
        Toolchain::Debian { linker } => debian_cargo(linker),
    };
    // Settings of the host's own build must not affect the guests.
    for name in ["RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_BUILD_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
    {
        cargo.env_remove(name);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", path_flags(how.sources).join("\u{1f}"));
    cargo.env("CARGO_TARGET_DIR", work).current_dir(workspace);
    cargo.args(["build", "--release", "--target", TARGET]);
    if matches!(toolchain, Toolchain::Debian { .. }) {
        cargo.arg("-Zbuild-std=std,panic_abort");
    }
    for package in packages {
        cargo.args(["--package", package]);
    }
    process::run(&mut cargo)?;
    Ok(work.join(TARGET).join("release"))
}

/// Panic messages contain paths of source files; without these flags, absolute ones of the build machine.
fn path_flags((sources, name): (&Path, &str)) -> Vec<String> {
    let mut flags = vec![format!("--remap-path-prefix={}={name}", sources.display())];
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    flags.push(format!("--remap-path-prefix={}=cargo", cargo_home.display()));
    flags
}

impl Toolchain {
    fn find(install: bool) -> anyhow::Result<Self> {
        if active_has_target() {
            return Ok(Self::Active);
        }
        let rustup = install && Command::new("rustup").arg("--version").output().is_ok();
        if rustup {
            eprintln!("adding target {TARGET} to the toolchain (rustup target add {TARGET})");
            let added = process::succeeds_within(Command::new("rustup").args(["target", "add", TARGET]), RUSTUP_LIMIT);
            if added && active_has_target() {
                return Ok(Self::Active);
            }
        }
        if let Some(debian) = Self::debian() {
            return Ok(debian);
        }
        if install
            && process::install_debian_packages(&DEBIAN_PACKAGES)
            && let Some(debian) = Self::debian()
        {
            return Ok(debian);
        }
        bail!(
            "no compiler for {TARGET}: run `rustup target add {TARGET}`, or on Debian, as root, `apt-get install {}`",
            DEBIAN_PACKAGES.join(" ")
        )
    }

    fn debian() -> Option<Self> {
        let library = Path::new("/usr/lib/rustlib/src/rust/library/std/Cargo.toml");
        let complete = library.exists() && Path::new("/usr/bin/cargo").exists() && Path::new("/usr/bin/rustc").exists();
        let linker = fs::read_dir("/usr/bin").ok()?.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("wasm-ld"))
        })?;
        complete.then_some(Self::Debian { linker })
    }
}

fn active_has_target() -> bool {
    let Ok(output) = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output() else {
        return false;
    };
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    output.status.success()
        && fs::read_dir(folder).is_ok_and(|entries| {
            entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
        })
}

fn debian_cargo(linker: &Path) -> Command {
    let mut cargo = Command::new("/usr/bin/cargo");
    let rest = env::var("PATH").unwrap_or_default();
    cargo.env("PATH", format!("/usr/bin:{rest}"));
    cargo.env("RUSTC", "/usr/bin/rustc");
    // -Zbuild-std is not stable.
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    // Set by the outer cargo for its own toolchain, whose libraries are incompatible with this one.
    for name in ["LD_LIBRARY_PATH", "RUSTUP_TOOLCHAIN", "CARGO", "RUSTDOC"] {
        cargo.env_remove(name);
    }
    cargo
}
