//! Caches the last component of a project with a slow build: unchanged sources are not built again.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::inputs;

/// Prefix of the file name, before the digest of the inputs.
const PREFIX: &str = "kept-";

/// The cache entry of a component.
pub(crate) struct Kept {
    folder: PathBuf,
    name: String,
}

impl Kept {
    /// The entry in this folder for this digest of all inputs.
    pub(crate) fn new(folder: PathBuf, made_of: Sha256) -> Self {
        Self { folder, name: format!("{PREFIX}{}.wasm", inputs::hex(made_of)) }
    }

    /// The component, if cached.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        fs::read(self.folder.join(&self.name)).ok()
    }

    /// Replaces the cached component.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn write(&self, component: &[u8]) -> anyhow::Result<()> {
        let what = || format!("keep the component in {}", self.folder.display());
        let mut file = NamedTempFile::new_in(&self.folder).with_context(what)?;
        file.write_all(component).with_context(what)?;
        for entry in fs::read_dir(&self.folder).with_context(what)?.filter_map(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                // Another build may have removed it.
                let _ = fs::remove_file(entry.path());
            }
        }
        file.persist(self.folder.join(&self.name)).map(drop).with_context(what)
    }
}

/// Adds the names, sizes and times of the files of an installed library, which a tool installs together.
///
/// # Errors
/// Something cannot be read.
pub(crate) fn add_installed(hasher: &mut Sha256, path: &Path) -> anyhow::Result<()> {
    let what = || format!("read {}", path.display());
    let about = fs::metadata(path).with_context(what)?;
    hasher.update(path.as_os_str().as_encoded_bytes());
    if about.is_dir() {
        let entries = fs::read_dir(path).with_context(what)?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        paths.retain(|path| path.file_name() != Some(OsStr::new("__pycache__")));
        paths.sort();
        return paths.iter().try_for_each(|path| add_installed(hasher, path));
    }
    let [size, time, part] =
        [about.size().to_le_bytes(), about.mtime().to_le_bytes(), about.mtime_nsec().to_le_bytes()];
    hasher.update([size, time, part].concat());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_component_is_kept_and_only_for_what_it_was_made_of() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |of: &str| Kept::new(folder.path().to_owned(), Sha256::new().chain_update(of));
        assert_eq!(kept("a").read(), None);
        kept("a").write(b"component").unwrap();
        assert_eq!((kept("a").read(), kept("b").read()), (Some(b"component".to_vec()), None));
        kept("b").write(b"another").unwrap();
        assert_eq!((kept("a").read(), kept("b").read()), (None, Some(b"another".to_vec())));
    }

    #[test]
    fn a_library_that_is_installed_again_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let digest = || {
            let mut hasher = Sha256::new();
            add_installed(&mut hasher, folder.path()).unwrap();
            inputs::hex(hasher)
        };
        fs::create_dir_all(folder.path().join("lib/__pycache__")).unwrap();
        fs::write(folder.path().join("lib/a.py"), "1").unwrap();
        let before = digest();
        fs::write(folder.path().join("lib/__pycache__/a.pyc"), "1").unwrap();
        assert_eq!(digest(), before);
        fs::write(folder.path().join("lib/a.py"), "12").unwrap();
        assert_ne!(digest(), before);
    }
}
