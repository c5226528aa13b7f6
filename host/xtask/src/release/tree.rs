//! Files of an archive: by name, with modes and owners, without times.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A file or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    /// Of user and group.
    owner: u64,
    /// None for a folder.
    bytes: Option<Vec<u8>>,
}

/// Files and folders by name. The same ones give the same archive.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Adds a file of root.
    pub fn add(&mut self, name: &str, mode: u32, bytes: Vec<u8>) {
        self.entries.insert(name.to_owned(), Entry { mode, owner: 0, bytes: Some(bytes) });
    }

    /// Adds a folder of a user and group.
    pub fn add_empty(&mut self, name: &str, mode: u32, owner: u64) {
        self.entries.insert(format!("{name}/"), Entry { mode, owner, bytes: None });
    }

    /// Adds all files below a folder under another name, without the modes that they have.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn add_folder(&mut self, name: &str, folder: &Path) -> anyhow::Result<()> {
        for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            let file = path.file_name().context("a file without a name")?.to_string_lossy().into_owned();
            let name = format!("{name}/{file}");
            if path.is_dir() {
                self.add_folder(&name, &path)?;
            } else {
                self.add(&name, 0o644, fs::read(&path).with_context(|| format!("read {}", path.display()))?);
            }
        }
        Ok(())
    }

    /// As a tar archive.
    ///
    /// # Errors
    /// A name is too long.
    pub fn archived(&self) -> anyhow::Result<Vec<u8>> {
        let mut archive = Builder::new(Vec::new());
        for (name, Entry { mode, owner, bytes }) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(if bytes.is_some() { EntryType::Regular } else { EntryType::Directory });
            header.set_mode(*mode);
            header.set_uid(*owner);
            header.set_gid(*owner);
            header.set_mtime(0);
            let bytes = bytes.as_deref().unwrap_or_default();
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, bytes).with_context(|| format!("add {name} to the archive"))?;
        }
        archive.into_inner().context("end the archive")
    }

    /// As a tar archive that is compressed with gzip.
    ///
    /// # Errors
    /// As [`Tree::archived`].
    pub fn compressed(&self) -> anyhow::Result<Vec<u8>> {
        compressed(&self.archived()?)
    }
}

/// Compresses with gzip, without time and name.
///
/// # Errors
/// Never, in memory.
pub fn compressed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6));
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive_in_any_order() -> anyhow::Result<()> {
        let (mut one, mut other) = (Tree::default(), Tree::default());
        one.add("a/b", 0o644, b"1".to_vec());
        one.add("a/c", 0o755, b"2".to_vec());
        other.add("a/c", 0o755, b"2".to_vec());
        other.add("a/b", 0o644, b"1".to_vec());
        assert_eq!(one.compressed()?, other.compressed()?);
        other.add("a/b", 0o600, b"1".to_vec());
        assert_ne!(one.compressed()?, other.compressed()?);
        Ok(())
    }
}
