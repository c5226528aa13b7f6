//! A digest of a component's inputs.

use std::fs;
use std::path::Path;

use anyhow::Context;
use pintle_build::inputs::{add, hex};
use sha2::{Digest, Sha256};

/// Changes when this program builds components differently.
const FORMAT: &[u8] = b"2";

/// Digest of the common inputs of a workspace's guests: the SDK, the contract, the workspace's settings and its
/// libraries.
pub(super) fn shared(workspace: &Path) -> anyhow::Result<Sha256> {
    let root = crate::root();
    let mut hasher = Sha256::new();
    hasher.update(FORMAT);
    // The last one is a library shared by test guests and plugins.
    for input in
        ["sdk/rust", "wit", "host/core/src/contract/manifest.rs", "host/core/src/contract/manifest", "plugins/lib"]
    {
        add(&mut hasher, &root, &root.join(input))?;
    }
    add(&mut hasher, workspace, &workspace.join("Cargo.toml"))?;
    let mut libraries = Vec::new();
    for entry in fs::read_dir(workspace).with_context(|| format!("read {}", workspace.display()))? {
        let folder = entry?.path();
        if folder.join("Cargo.toml").is_file() && !folder.join("manifest.yaml").is_file() {
            libraries.push(folder);
        }
    }
    libraries.sort();
    for library in libraries {
        add(&mut hasher, workspace, &library)?;
    }
    Ok(hasher)
}

/// The digest including the guest's own folder.
pub(super) fn of_guest(shared: &Sha256, folder: &Path) -> anyhow::Result<Sha256> {
    let mut hasher = shared.clone();
    add(&mut hasher, folder, folder)?;
    Ok(hasher)
}

/// The finished digest, including the current versions of dependencies.
pub(super) fn with_lock(digest: &Sha256, workspace: &Path) -> String {
    let mut hasher = digest.clone();
    hasher.update(fs::read(workspace.join("Cargo.lock")).unwrap_or_default());
    hex(hasher)
}
