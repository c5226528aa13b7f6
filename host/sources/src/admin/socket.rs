//! The socket of the admin API: where it is, and who has it.
//!
//! *Invariant*: beside the socket lies a lock that its host holds as long as it lives. So a socket that a dead host left behind is
//! told from that of a live one without a race between two hosts that start at once.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use tokio::net::UnixListener;

/// Longest path that the system takes for a socket (`sockaddr_un`), its last zero aside.
const MAX_PATH_BYTES: usize = 107;

/// Where the admin API listens, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    Off,
    /// At this path.
    Path(PathBuf),
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "off" { Self::Off } else { Self::Path(text.into()) })
    }
}

/// Where the socket is if nobody says otherwise.
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

/// A socket that is listened at.
pub struct AdminSocket {
    pub(super) listener: UnixListener,
    pub(super) guard: Guard,
}

/// Holds the socket's file and its lock; both are free again when it is dropped.
pub struct Guard {
    path: PathBuf,
    _lock: File,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = fs::remove_file(&self.path);
    }
}

impl AdminSocket {
    /// Listens where the command line says, or at the default path. Who did not ask for a socket is not kept from running without
    /// one (another host was first, a file system that is read-only): that is logged.
    ///
    /// # Errors
    /// The path that was asked for cannot be used; the text says why and what to do.
    pub fn open(place: Option<&Place>) -> anyhow::Result<Option<Self>> {
        match place {
            Some(Place::Off) => Ok(None),
            Some(Place::Path(path)) => Self::bind(path).map(Some).map_err(|why| why.context(HINT)),
            None => Ok(Self::bind(&default_path())
                .inspect_err(|why| tracing::warn!("no admin API: {why:#}; give it a socket with --admin-socket PATH"))
                .ok()),
        }
    }

    /// Listens at a path. To be called within a tokio runtime.
    fn bind(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if path.as_os_str().len() > MAX_PATH_BYTES {
            bail!("the path {shown} is too long for a socket, which takes {MAX_PATH_BYTES} bytes");
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        own_folder(parent)?;
        let lock_path = path.with_extension("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .with_context(|| format!("open {}", lock_path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Taken(path.to_owned()).into()),
            Err(TryLockError::Error(why)) => {
                return Err(why).with_context(|| format!("lock {}", lock_path.display()));
            }
        }
        match fs::symlink_metadata(path) {
            // Its host is dead, or the lock would be held.
            Ok(there) if there.file_type().is_socket() => {
                fs::remove_file(path).with_context(|| format!("remove the socket of an ended host at {shown}"))?;
            }
            Ok(_) => bail!("{shown} is there already, and is no socket"),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(why).with_context(|| format!("look at {shown}")),
        }
        let listener = UnixListener::bind(path).with_context(|| format!("listen at {shown}"))?;
        let guard = Guard { path: path.to_owned(), _lock: lock };
        // Until here the folder, and all the time the check of each caller, keep others out.
        fs::set_permissions(path, Permissions::from_mode(0o600)).with_context(|| format!("close {shown} to others"))?;
        Ok(Self { listener, guard })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.guard.path
    }
}

const HINT: &str = "open the socket of the admin API; choose another one with --admin-socket PATH";

/// Another host listens there.
#[derive(Debug, thiserror::Error)]
#[error("another host, which runs, listens at {}", .0.display())]
struct Taken(PathBuf);

/// Makes the folder for us alone. One that is there already must not be open to others' writing, unless they cannot remove what is
/// not theirs (as in /tmp).
fn own_folder(folder: &Path) -> anyhow::Result<()> {
    const STICKY: u32 = 0o1000;
    let shown = folder.display();
    DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(|| format!("make the folder {shown}"))?;
    let there = fs::metadata(folder).with_context(|| format!("look at {shown}"))?;
    let us = rustix::process::geteuid().as_raw();
    if there.uid() != us && there.uid() != 0 {
        bail!("the folder {shown} belongs to uid {}, who could take the socket's place", there.uid());
    }
    if there.mode() & 0o022 != 0 && there.mode() & STICKY == 0 {
        bail!("others may write to the folder {shown}, and could take the socket's place");
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
    async fn a_live_socket_is_left_alone_and_a_dead_one_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pintle/admin.sock");
        let open = || AdminSocket::open(Some(&Place::Path(path.clone())));
        let first = open().unwrap().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let why = format!("{:#}", open().err().unwrap());
        assert!(why.contains("another host, which runs, listens at"), "{why}");
        drop(first);
        assert!(!path.exists());
        // As a host leaves it that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(open().unwrap().unwrap());
        fs::write(&path, "").unwrap();
        let why = format!("{:#}", open().err().unwrap());
        assert!(why.contains("is there already, and is no socket"), "{why}");
        assert!(AdminSocket::open(Some(&Place::Off)).unwrap().is_none());
    }

    #[tokio::test]
    async fn a_folder_of_others_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let why = AdminSocket::open(Some(&Place::Path(folder.join("s")))).err().unwrap();
        assert!(format!("{why:#}").contains("others may write"), "{why:#}");
        fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
        assert!(AdminSocket::open(Some(&Place::Path(folder.join("s")))).unwrap().is_some());
        let long = folder.join("x".repeat(120));
        let why = AdminSocket::open(Some(&Place::Path(long))).err().unwrap();
        assert!(format!("{why:#}").contains("too long"), "{why:#}");
    }
}
