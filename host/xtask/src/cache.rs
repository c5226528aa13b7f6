//! Tools that are built once for all checkouts of a user: in `$PINTLE_BUILD_CACHE`, or `pintle-build` in the user's
//! cache folder.
//!
//! *Invariants*
//! 1. The name of an entry contains the digest of its inputs, so that checkouts with different versions do not
//!    interfere.
//! 2. An entry appears under its name atomically; a lock file next to it makes other processes wait.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::root;

/// The folder; it need not exist.
pub fn folder() -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("PINTLE_BUILD_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("pintle-build")))
        .or_else(|| Some(set("HOME")?.join(".cache/pintle-build")))
        .unwrap_or_else(|| root().join("target/tools"))
}

/// A short digest of an entry's inputs.
pub fn digest<'i>(inputs: impl IntoIterator<Item = &'i [u8]>) -> String {
    let mut hash = Sha256::new();
    for input in inputs {
        hash.update(input.len().to_le_bytes());
        hash.update(input);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The entry with this name. A missing one is created by `make` at the given path.
///
/// # Errors
/// The folder cannot be written, or the error of `make`.
pub fn entry(name: &str, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<PathBuf> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let lock = File::create(folder.join(format!("{name}.lock"))).context("open the lock of a tool")?;
    lock.lock().context("take the lock of a tool")?;
    let entry = folder.join(name);
    if entry.exists() {
        return Ok(entry);
    }
    let partial = folder.join(format!("{name}.partial"));
    remove(&partial)?;
    make(&partial)?;
    fs::rename(&partial, &entry).with_context(|| format!("rename {}", partial.display()))?;
    Ok(entry)
}

fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(why).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
