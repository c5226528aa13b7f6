//! Access to the plugin folder: only root and the host's user may change it and its files, because the specs there
//! grant permissions.
//!
//! A folder on a read-only mount, and the root of a volume (a separate file system owned by root), may have any mode:
//! in a container, volumes of ConfigMaps and empty directories have open modes, and access depends on the mount.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use pintle_core::policy::file_access::FileAccess;
use pintle_oci::{open, read_opened};
use rustix::fs::{StatVfs, StatVfsMountFlags, fstatvfs, statvfs};

use crate::wire::{Refusal, reason};

/// Only the owners of its entries may rename them.
const STICKY: u32 = 0o1000;

/// Checks the folder and its parents.
///
/// # Errors
/// Other users may change it; one line with the next step.
pub fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    let path = fs::canonicalize(folder).with_context(|| format!("read the plugin folder {shown}"))?;
    if !fs::metadata(&path).with_context(|| format!("read the plugin folder {shown}"))?.is_dir() {
        bail!("--plugin-dir {shown} is not a directory");
    }
    let user = user();
    for (n, place) in path.ancestors().enumerate() {
        let about = fs::symlink_metadata(place).with_context(|| format!("read {}", place.display()))?;
        let access = access(&about);
        let allowed = if n == 0 { access.check(user) } else { access.check_ancestor(user) };
        let Err(why) = allowed else { continue };
        let is_volume = is_volume(place, &about).with_context(|| format!("read {}", place.display()))?;
        if !is_volume && !statvfs(place).is_ok_and(|found| is_read_only(&found)) {
            bail!(
                "--plugin-dir {shown}: whoever writes there decides what the host runs, and {}: {why}",
                place.display()
            );
        }
    }
    Ok(())
}

/// Reads a file of at most `limit_bytes` that only root and the host's user may change.
///
/// # Errors
/// It cannot be read, or other users may change it.
pub fn read_own(path: &Path, limit_bytes: usize) -> Result<Vec<u8>, Refusal> {
    let file = open(path)?;
    check_file(&file).map_err(|why| Refusal::new(reason::UNREADABLE, format!("{}: {why}", path.display())))?;
    Ok(read_opened(&file, path, limit_bytes)?)
}

fn check_file(file: &File) -> Result<(), String> {
    let about = file.metadata().map_err(|why| why.to_string())?;
    match access(&about).check(user()) {
        Err(_) if fstatvfs(file).is_ok_and(|found| is_read_only(&found)) => Ok(()),
        checked => checked.map_err(|why| format!("whoever writes there decides what the host runs, and {why}")),
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn access(about: &Metadata) -> FileAccess {
    FileAccess { owner: about.uid(), mode: about.mode() }
}

fn is_read_only(found: &StatVfs) -> bool {
    found.f_flag.contains(StatVfsMountFlags::RDONLY)
}

fn is_volume(folder: &Path, about: &Metadata) -> io::Result<bool> {
    let Some(parent) = folder.parent() else { return Ok(false) };
    let is_root = fs::symlink_metadata(parent)?.dev() != about.dev();
    Ok(is_root && about.uid() == 0 && about.mode() & STICKY == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_the_hosts_user_may_change_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("plugins");
        fs::create_dir(&folder).unwrap();
        assert!(check_folder(&folder).is_ok());
        let why = |path: &Path| check_folder(path).unwrap_err().to_string();
        for mode in [0o770, 0o707, 0o1777] {
            chmod(&folder, mode);
            assert!(why(&folder).contains(&format!("other users may write to it (mode {mode:o})")), "{mode:o}");
        }
        chmod(&folder, 0o755);
        chmod(outer.path(), 0o777);
        assert!(
            why(&folder).contains(&format!("{}: other users", outer.path().display())),
            "the folder could be moved"
        );
        let link = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&folder, link.path().join("to")).unwrap();
        assert!(check_folder(&link.path().join("to")).is_err(), "what a link leads through counts as well");
        let file = link.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(why(&file).contains("is not a directory"));
    }

    #[test]
    fn only_files_that_nobody_else_may_change_are_read() {
        let outer = tempfile::tempdir().unwrap();
        let file = outer.path().join("p.wasm");
        fs::write(&file, "x").unwrap();
        assert_eq!(read_own(&file, 1).unwrap(), b"x");
        assert_eq!(read_own(&file, 0).unwrap_err().reason, "TooLarge");
        chmod(&file, 0o664);
        let why = read_own(&file, 1).unwrap_err();
        assert!(why.reason == "Unreadable" && why.message.contains("`chmod go-w` it"), "{why:?}");
        // A link does not change the owner of the file.
        std::os::unix::fs::symlink(&file, outer.path().join("link")).unwrap();
        assert!(read_own(&outer.path().join("link"), 1).is_err());
        chmod(&file, 0o644);
        assert!(read_own(&outer.path().join("link"), 1).is_ok());
    }
}
