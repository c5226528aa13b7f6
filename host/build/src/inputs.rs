//! A digest of a component's inputs.

use std::fs::{self, File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

/// Device and inode of a file.
type FileId = (u64, u64);

/// Digest of a plugin's own folder. It excludes outside dependencies, and files that this process prints to: otherwise
/// `pintle dev --plugin . > dev.log` would detect a change after each of its own lines.
///
/// # Errors
/// If something in it cannot be read.
pub fn of_folder(folder: &Path) -> anyhow::Result<String> {
    of_folder_without(folder, &printed_to())
}

fn of_folder_without(folder: &Path, outputs: &[FileId]) -> anyhow::Result<String> {
    let mut hasher = Sha256::new();
    add_all(&mut hasher, folder, folder, outputs)?;
    Ok(hex(hasher))
}

/// The files of standard output and standard error.
fn printed_to() -> Vec<FileId> {
    let (output, errors) = (std::io::stdout(), std::io::stderr());
    let opened = [output.as_fd().try_clone_to_owned(), errors.as_fd().try_clone_to_owned()];
    let files = opened.into_iter().filter_map(|opened| File::from(opened.ok()?).metadata().ok());
    files.filter(Metadata::is_file).map(|file| id(&file)).collect()
}

fn id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
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
    add_all(hasher, base, path, &[])
}

fn add_all(hasher: &mut Sha256, base: &Path, path: &Path, without: &[FileId]) -> anyhow::Result<()> {
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(|| format!("read {}", path.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !is_no_input(&name) {
                add_all(hasher, base, &path, without)?;
            }
        }
    } else if fs::metadata(path).is_ok_and(|file| file.is_file() && !without.contains(&id(&file))) {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned();
        for part in [name.as_bytes(), &bytes] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(())
}

/// Whether this name in a plugin's folder is unrelated to its component: output of tools, fixtures, native tests.
fn is_no_input(name: &str) -> bool {
    let put_there = ["target", "node_modules", "__pycache__", "Cargo.lock"];
    let for_tests = ["cases", "tests", "fixtures"];
    name.starts_with('.') || name.ends_with(".wasm") || put_there.contains(&name) || for_tests.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_prints_to_is_not_an_input() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("main.go"), "package main").unwrap();
        let before = of_folder(folder.path()).unwrap();
        let log = folder.path().join("dev.log");
        fs::write(&log, "one line").unwrap();
        let output = [id(&fs::metadata(&log).unwrap())];
        assert_eq!(of_folder_without(folder.path(), &output).unwrap(), before);
        fs::write(&log, "another line").unwrap();
        assert_eq!(of_folder_without(folder.path(), &output).unwrap(), before);
        assert_ne!(of_folder(folder.path()).unwrap(), before, "a file of somebody else");
    }

    #[test]
    fn what_tools_and_tests_put_into_a_folder_is_no_input() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        };
        put("src/main.go");
        let before = of_folder(folder.path()).unwrap();
        for name in ["web.wasm", ".venv/a.py", ".pintle/build/x/entry.py", "node_modules/a/b.js", "cases/a.yaml"] {
            put(name);
            assert_eq!(of_folder(folder.path()).unwrap(), before, "{name}");
        }
        for name in ["src/other.go", "go.sum", "package-lock.json"] {
            let before = of_folder(folder.path()).unwrap();
            put(name);
            assert_ne!(of_folder(folder.path()).unwrap(), before, "{name}");
        }
    }
}
