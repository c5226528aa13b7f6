//! The socket of the admin API: its path and its owner.
//!
//! *Invariant*: a running host holds a lock next to its socket. The lock distinguishes the socket of a dead host from
//! that of a live one, without a race between two starting hosts.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use tokio::net::UnixListener;

/// Longest socket path (`sockaddr_un`), without the terminating zero.
const MAX_PATH_BYTES: usize = 107;

/// The listen address of the admin API, from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// No socket.
    Off,
    /// A socket at this path.
    Path(PathBuf),
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "off" { Self::Off } else { Self::Path(text.into()) })
    }
}

/// The default path of the socket.
pub fn default_path() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    default_for(uid, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), &std::env::temp_dir())
}

fn default_for(uid: u32, runtime_dir: Option<PathBuf>, temp: &Path) -> PathBuf {
    let folder = match runtime_dir.filter(|folder| folder.is_absolute()) {
        Some(folder) => folder.join("pintle"),
        None if uid == 0 => "/run/pintle".into(),
        None => temp.join(format!("pintle-{uid}")),
    };
    folder.join("admin.sock")
}

/// A bound socket.
pub struct AdminSocket {
    pub(super) listener: UnixListener,
    pub(super) guard: Guard,
}

/// Owns the socket's file and its lock; dropping it releases both.
pub struct Guard {
    path: PathBuf,
    _lock: File,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The file may have been removed already.
        let _ = fs::remove_file(&self.path);
    }
}

impl AdminSocket {
    /// Listens at the configured path, or at the default one. A host without an explicit path runs even if the default one is
    /// unusable (the file system is read-only, say); the log reports that.
    ///
    /// # Errors
    /// The configured path is unusable, or another running host listens at the path, so that commands would reach that
    /// host. The message has the cause and the next step.
    pub fn open(place: Option<&Place>) -> anyhow::Result<Option<Self>> {
        let (is_required, path) = match place {
            Some(Place::Off) => return Ok(None),
            Some(Place::Path(path)) => (true, path.clone()),
            None => (false, default_path()),
        };
        Self::open_at(&path, is_required)
    }

    fn open_at(path: &Path, is_required: bool) -> anyhow::Result<Option<Self>> {
        match Self::bind(path) {
            Ok(socket) => Ok(Some(socket)),
            Err(why) if is_required || why.is::<Taken>() => Err(why.context(HINT)),
            Err(why) => {
                tracing::warn!("no admin API: {why:#}; give it a socket with --admin-socket PATH");
                Ok(None)
            }
        }
    }

    /// Listens at a path. Call it within a tokio runtime.
    fn bind(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if path.as_os_str().len() > MAX_PATH_BYTES {
            bail!("the path {shown} is too long for a socket, which takes {MAX_PATH_BYTES} bytes");
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        own_folder(parent)?;
        let lock_path = path.with_extension("lock");
        let user = rustix::process::geteuid().as_raw();
        let lock = open_lock(&lock_path, user).with_context(|| format!("open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Taken(path.to_owned()).into()),
            Err(TryLockError::Error(why)) => {
                return Err(why).with_context(|| format!("lock {}", lock_path.display()));
            }
        }
        match fs::symlink_metadata(path) {
            // Its host is dead: otherwise the lock would be held.
            Ok(there) if there.file_type().is_socket() => {
                fs::remove_file(path).with_context(|| format!("remove the socket of a dead host at {shown}"))?;
            }
            Ok(_) => bail!("{shown} exists and is not a socket"),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(why).with_context(|| format!("read {shown}")),
        }
        let listener = UnixListener::bind(path).with_context(|| format!("listen at {shown}"))?;
        let guard = Guard { path: path.to_owned(), _lock: lock };
        // Before this call the folder's permissions protect the socket; the check of each caller always does.
        fs::set_permissions(path, Permissions::from_mode(0o600))
            .with_context(|| format!("restrict {shown} to its owner"))?;
        Ok(Self { listener, guard })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.guard.path
    }
}

/// Opens the lock, or creates it. A link is an error: in a folder that others may write to, it could point anywhere.
fn open_lock(path: &Path, user: u32) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let lock = File::options().create(true).truncate(false).write(true).mode(0o600).custom_flags(flags).open(path)?;
    let about = lock.metadata()?;
    if !about.is_file() || about.uid() != user {
        return Err(io::Error::other("it is not a file of the host's user; remove it"));
    }
    Ok(lock)
}

const HINT: &str =
    "open the socket of the admin API; choose another one with --admin-socket PATH, or none with --admin-socket off";

/// Another host listens at the path.
#[derive(Debug, thiserror::Error)]
#[error("another running host listens at {}", .0.display())]
struct Taken(PathBuf);

/// Creates the folder with access for this user only. An existing one must not be writable for others, unless they cannot
/// remove files of other users (as in /tmp).
fn own_folder(folder: &Path) -> anyhow::Result<()> {
    const STICKY: u32 = 0o1000;
    let shown = folder.display();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("create the folder {shown}"))?;
    let there = fs::metadata(folder).with_context(|| format!("read {shown}"))?;
    let us = rustix::process::geteuid().as_raw();
    if there.uid() != us && there.uid() != 0 {
        bail!("the folder {shown} belongs to uid {}, which could replace the socket", there.uid());
    }
    if there.mode() & 0o022 != 0 && there.mode() & STICKY == 0 {
        bail!("the folder {shown} is writable for other users, which could replace the socket");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_path_is_the_users_own() {
        let path = |uid, runtime: Option<&str>| {
            default_for(uid, runtime.map(PathBuf::from), Path::new("/tmp")).display().to_string()
        };
        assert_eq!(path(7, Some("/run/user/7")), "/run/user/7/pintle/admin.sock");
        assert_eq!(path(0, None), "/run/pintle/admin.sock");
        assert_eq!(path(7, None), "/tmp/pintle-7/admin.sock");
        assert_eq!(path(7, Some("relative")), "/tmp/pintle-7/admin.sock");
    }

    #[tokio::test]
    async fn a_live_socket_is_kept_and_a_dead_one_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pintle/admin.sock");
        let open = || AdminSocket::open(Some(&Place::Path(path.clone())));
        let first = open().unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let why = format!("{:#}", open().err().unwrap());
        assert!(why.contains("another running host listens at"), "{why}");
        let why = format!("{:#}", AdminSocket::open_at(&path, false).err().unwrap());
        assert!(why.contains("another running host listens at") && why.contains("--admin-socket PATH"), "{why}");
        drop(first);
        assert!(!path.exists());
        // The state that a killed host leaves.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(open().unwrap().unwrap());
        fs::write(&path, "").unwrap();
        let why = format!("{:#}", open().err().unwrap());
        assert!(why.contains("exists and is not a socket"), "{why}");
        assert!(AdminSocket::open_at(&path, false).unwrap().is_none(), "the host runs without");
        assert!(AdminSocket::open(Some(&Place::Off)).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_link_in_the_place_of_the_lock_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (path, target) = (root.path().join("admin.sock"), root.path().join("target"));
        std::os::unix::fs::symlink(&target, path.with_extension("lock")).unwrap();
        let why = AdminSocket::open(Some(&Place::Path(path.clone()))).err().unwrap();
        assert!(format!("{why:#}").contains("admin.lock"), "{why:#}");
        assert!(!target.exists(), "a file was created through the link");
        fs::remove_file(path.with_extension("lock")).unwrap();
        assert!(AdminSocket::open(Some(&Place::Path(path))).unwrap().is_some());
    }

    #[test]
    fn only_a_file_of_the_hosts_user_is_a_lock() {
        let root = tempfile::tempdir().unwrap();
        let (path, user) = (root.path().join("admin.lock"), rustix::process::geteuid().as_raw());
        for of in [user, user] {
            assert!(open_lock(&path, of).is_ok());
        }
        // Only root may change the owner of a file, so another user opens it.
        let why = |path: &Path, user: u32| open_lock(path, user).unwrap_err().to_string();
        assert_eq!(why(&path, user + 1), "it is not a file of the host's user; remove it");
        assert_eq!(why(Path::new("/dev/null"), 0), "it is not a file of the host's user; remove it");
    }

    #[tokio::test]
    async fn a_folder_that_others_can_write_to_is_rejected() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let why = AdminSocket::open(Some(&Place::Path(folder.join("s")))).err().unwrap();
        assert!(format!("{why:#}").contains("is writable for other users"), "{why:#}");
        fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
        assert!(AdminSocket::open(Some(&Place::Path(folder.join("s")))).unwrap().is_some());
        let long = folder.join("x".repeat(120));
        let why = AdminSocket::open(Some(&Place::Path(long))).err().unwrap();
        assert!(format!("{why:#}").contains("too long"), "{why:#}");
    }
}
