//! The folder of compiled code. It is held open, so that reads and writes stay in it even if its path changes.
//!
//! *Invariants*: 1. The folder belongs to the host's user and is closed to all others; no other user can replace a
//! parent folder. 2. A file is read only if it is a regular file of the host's user, not writable by other users, and
//! not a link.
//!
//! The file system is accessed through `rustix`, which has `openat` with its flags; the standard library lacks it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pintle_core::policy::file_access::FileAccess;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, renameat, statat, unlinkat};

use crate::error::EngineError;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder {
    handle: OwnedFd,
    /// For messages.
    pub(super) path: PathBuf,
    user: u32,
}

impl Folder {
    /// Opens a folder; creates it and missing parents.
    pub(super) fn open(folder: &Path) -> Result<Self, EngineError> {
        let failed = |source| EngineError::CacheFolder { folder: folder.to_path_buf(), source };
        let user = rustix::process::geteuid().as_raw();
        // Parent folders are closed to other users, too, regardless of the umask.
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        // Links in the path are resolved here, once; the resolved parent folders are checked.
        let path = fs::canonicalize(folder).map_err(failed)?;
        for ancestor in path.ancestors().skip(1) {
            let about = fs::symlink_metadata(ancestor).map_err(failed)?;
            let access = FileAccess { owner: about.uid(), mode: about.mode() };
            if let Err(why) = access.check_ancestor(user)
                && !is_volume(ancestor, &about).map_err(failed)?
            {
                let (folder, ancestor) = (folder.to_path_buf(), ancestor.to_path_buf());
                return Err(EngineError::CacheAncestor { folder, ancestor, why });
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty()).map_err(|why| failed(why.into()))?;
        let about = fstat(&handle).map_err(|why| failed(why.into()))?;
        if about.st_uid != user || about.st_mode & 0o077 != 0 {
            return Err(EngineError::CacheNotPrivate { folder: folder.to_path_buf(), user });
        }
        Ok(Self { handle, path, user })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// If the file does not exist, is a link or not a regular file, or another user may change it.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::empty())?;
        let about = fstat(&file)?;
        let access = FileAccess { owner: about.st_uid, mode: about.st_mode };
        let is_regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        if !is_regular || about.st_uid != self.user {
            return Err(io::Error::other("it is not a regular file of the host's user"));
        }
        access.check(self.user).map_err(io::Error::other)?;
        Ok(file.into())
    }

    /// Writes a file atomically: readers see the old or the new file.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = format!("{name}.{}-{count}.partial", std::process::id());
        // A process with the same process id may have left one.
        let _ = unlinkat(&self.handle, &partial, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, &partial, flags, Mode::RUSR | Mode::WUSR)?;
        let written =
            File::from(file).write_all(bytes).and_then(|()| Ok(renameat(&self.handle, &partial, &self.handle, name)?));
        if written.is_err() {
            // It may have been renamed.
            let _ = unlinkat(&self.handle, &partial, AtFlags::empty());
        }
        written
    }

    /// Removes a file.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// The files with this suffix, the oldest first.
    pub(super) fn by_age(&self, end: &str) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_owned();
            if let Some(text) = name.to_str().ok().filter(|text| text.ends_with(end)) {
                // It may have been deleted already.
                let modified = statat(&self.handle, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW).ok();
                found.push((modified.map(|about| (about.st_mtime, about.st_mtime_nsec)), text.to_owned()));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

/// The path of an open file by its descriptor, because its own path may lead to another file by now.
pub(super) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Whether a folder is a mount point owned by root, like a volume of a container: its mode lets every process in the
/// container write to it, and other access was decided by the mount.
fn is_volume(folder: &Path, about: &fs::Metadata) -> io::Result<bool> {
    let Some(parent) = folder.parent() else { return Ok(false) };
    Ok(about.uid() == 0 && fs::symlink_metadata(parent)?.dev() != about.dev())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_was_moved_away_is_still_the_one_that_is_read() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("code");
        let folder = Folder::open(&path).unwrap();
        folder.replace("a.cwasm", b"ours").unwrap();
        fs::rename(&path, outer.path().join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a.cwasm"), "planted").unwrap();
        assert_eq!(io::read_to_string(folder.file("a.cwasm").unwrap()).unwrap(), "ours");
        folder.replace("b.cwasm", b"new").unwrap();
        assert!(!path.join("b.cwasm").exists());
        assert_eq!(folder.by_age(".cwasm").unwrap().len(), 2);
        folder.remove("a.cwasm").unwrap();
        assert_eq!(folder.by_age(".cwasm").unwrap(), ["b.cwasm"]);
        assert_eq!(fs::read_to_string(path.join("a.cwasm")).unwrap(), "planted");
    }

    #[test]
    fn only_regular_files_that_nobody_else_may_write_to_are_read() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("code");
        let folder = Folder::open(&path).unwrap();
        for name in ["good", "open"] {
            fs::write(path.join(name), "x").unwrap();
        }
        chmod(&path.join("open"), 0o666);
        symlink("good", path.join("link")).unwrap();
        fs::create_dir(path.join("folder")).unwrap();
        rustix::fs::mkfifoat(&folder.handle, "pipe", Mode::RUSR).unwrap();
        assert!(folder.file("good").is_ok());
        for name in ["open", "link", "folder", "pipe", "none", "../code/good/x"] {
            assert!(folder.file(name).is_err(), "{name}");
        }
    }

    #[test]
    fn nobody_else_may_move_what_leads_to_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let open = outer.path().join("open");
        fs::create_dir(&open).unwrap();
        chmod(&open, 0o777);
        let why = Folder::open(&open.join("code")).unwrap_err().to_string();
        assert!(why.contains(&format!("{}: other users may write to it (mode 777)", open.display())), "{why}");
        symlink(open.join("code"), outer.path().join("link")).unwrap();
        assert!(Folder::open(&outer.path().join("link")).is_err(), "by way of a link");
        chmod(&open, 0o1777);
        assert!(Folder::open(&open.join("code")).is_ok(), "entries of a sticky folder belong to their owners");
        chmod(&open.join("code"), 0o750);
        assert!(matches!(Folder::open(&open.join("code")), Err(EngineError::CacheNotPrivate { .. })));
    }
}
