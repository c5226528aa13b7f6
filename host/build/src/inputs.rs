//! What a component is made of, as a digest.

use std::fs;
use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

/// Digest of a plugin's own folder. What it depends on outside is not in it.
///
/// # Errors
/// If something in it cannot be read.
pub fn of_folder(folder: &Path) -> anyhow::Result<String> {
    let mut hasher = Sha256::new();
    add(&mut hasher, folder, folder)?;
    Ok(hex(hasher))
}

/// The finished digest.
pub fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds a file, or all files of a folder with their names relative to `base`.
///
/// # Errors
/// If something cannot be read.
pub fn add(hasher: &mut Sha256, base: &Path, path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(|| format!("read {}", path.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Fixtures and native tests of a plugin are no part of its component.
            if !name.starts_with('.') && !matches!(&*name, "target" | "tests" | "fixtures" | "Cargo.lock") {
                add(hasher, base, &path)?;
            }
        }
    } else if path.is_file() {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned();
        for part in [name.as_bytes(), &bytes] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(())
}
