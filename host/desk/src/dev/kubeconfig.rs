//! The file with the kubeconfig of one run of `pintle dev`.
//!
//! With `pintle run` and kubectl, the same option is a file to read, so it may refer to a user's file with other
//! clusters.
//!
//! Invariants:
//! 1. A file is replaced or removed only if `pintle dev` has written it and it contains nothing else.
//! 2. It is never replaced while the run that wrote it continues: that run holds a lock on the file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use pintle_oci::{open, read_opened};
use serde_json::{Value, json};

/// Marks a file of `pintle dev`. It is an extension, not a comment, because kubectl drops comments when it changes a
/// kubeconfig.
const MARK: &str = "dev.pintle.dev";

/// The only cluster and user of this file.
pub(super) const NAME: &str = "pintle";

/// Largest file to examine.
const MAX_BYTES: usize = 1 << 20;

/// A kubeconfig written by this process. Dropping it removes the file if it is unchanged and contains nothing else.
pub(super) struct Kubeconfig {
    path: PathBuf,
    /// Locked.
    file: File,
}

/// `extensions` of a kubeconfig that [`Kubeconfig::write`] may replace.
pub(super) fn mark() -> Value {
    json!([{"name": MARK, "extension": {"writtenBy": "pintle dev"}}])
}

impl Kubeconfig {
    /// Checks that the file can be written later.
    ///
    /// # Errors
    /// The file exists and must not be replaced, or the folder does not permit new files. One line with the next step.
    pub(super) fn check(path: &Path) -> anyhow::Result<()> {
        may_replace(path)?;
        temporary(path).map(drop).with_context(|| cannot_write(path))
    }

    /// Writes a file that only its owner can read (mode 0600), atomically.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<Self> {
        may_replace(path)?;
        let written = || {
            let mut file = temporary(path)?;
            file.as_file_mut().write_all(text.as_bytes())?;
            // Some file systems have no locks.
            let _ = file.as_file().try_lock();
            file.persist(path).map_err(|why| why.error)
        };
        let file = written().with_context(|| cannot_write(path))?;
        let path = std::path::absolute(path).with_context(|| cannot_write(path))?;
        Ok(Self { path, file })
    }

    fn is_unchanged(&self) -> io::Result<bool> {
        let (there, ours) = (fs::symlink_metadata(&self.path)?, self.file.metadata()?);
        if (there.dev(), there.ino()) != (ours.dev(), ours.ino()) {
            return Ok(false);
        }
        Ok(fs::read_to_string(&self.path).is_ok_and(|text| is_ours(&text)))
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        match self.is_unchanged() {
            // Another process may have removed it already.
            Ok(true) => drop(fs::remove_file(&self.path)),
            Ok(false) => {
                tracing::warn!(file = %self.path.display(), "the kubeconfig has changed since it was written, and is left in place");
            }
            Err(_) => {}
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("write {}; choose another file with --kubeconfig", path.display())
}

/// A new file next to this one, readable by its owner. Unlike those of `tempfile_in`, its errors do not contain its
/// name.
fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile<File>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let create = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    tempfile::Builder::new().prefix(".pintle-").make_in(folder, create)
}

/// # Errors
/// The existing file must not be replaced.
fn may_replace(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let about = match fs::symlink_metadata(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        about => about.with_context(|| cannot_write(path))?,
    };
    // The target of a link may not exist yet.
    if !about.is_file() {
        bail!(
            "{shown} is not a regular file; `pintle dev` writes its own kubeconfig: choose another file with --kubeconfig"
        );
    }
    let file = open(path)?;
    let text = read_opened(&file, path, MAX_BYTES).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if !text.is_ok_and(|text| is_ours(&text)) {
        bail!(
            "{shown} contains what `pintle dev` has not written, and would be lost: it writes the kubeconfig of its own cluster there. Choose another file with --kubeconfig, or move this one away"
        );
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!(
                "{shown} is the kubeconfig of another `pintle dev` that is running; choose another file with --kubeconfig"
            )
        }
        // Some file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Whether a kubeconfig was written by `pintle dev`, without additional clusters and users.
fn is_ours(text: &str) -> bool {
    let Ok(config) = serde_norway::from_str::<Value>(text) else { return false };
    let names = |field: &str| -> Vec<&str> {
        config[field].as_array().into_iter().flatten().map(|entry| entry["name"].as_str().unwrap_or_default()).collect()
    };
    names("extensions").contains(&MARK) && names("clusters") == [NAME] && names("users") == [NAME]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn text(clusters: &[&str]) -> String {
        let clusters: Vec<Value> = clusters.iter().map(|name| json!({ "name": name })).collect();
        json!({"extensions": mark(), "clusters": clusters, "users": [{"name": NAME}]}).to_string()
    }

    fn why(path: &Path) -> String {
        let why = format!("{:#}", Kubeconfig::check(path).unwrap_err());
        assert!(Kubeconfig::write(path, "lost").is_err());
        assert!(why.contains("hoose another file with --kubeconfig"), "{why}");
        why
    }

    #[test]
    fn a_file_of_somebody_else_is_neither_replaced_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let others = [
            "# mine\n".to_owned(),
            String::new(),
            text(&["production"]),
            text(&[NAME, "production"]),
            text(&[NAME]).replace(MARK, "minikube"),
            text(&[NAME]).replace("users", "people"),
            "x".repeat(MAX_BYTES + 1),
        ];
        for other in others {
            fs::write(&file, &other).unwrap();
            assert!(why(&file).contains("would be lost"), "{other}");
            assert_eq!(fs::read_to_string(&file).unwrap(), other);
        }
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &file).unwrap();
        assert!(why(&file).contains("is not a regular file"));
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        assert!(why(&folder.path().join("pipe")).contains("is not a regular file"));
        assert!(why(Path::new("/dev/null")).contains("is not a regular file"));
        assert!(why(&folder.path().join("gone/config")).contains("No such file"));
    }

    #[test]
    fn the_file_of_an_ended_run_is_replaced_and_that_of_a_running_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let first = Kubeconfig::write(&file, &text(&[NAME])).unwrap();
        let about = fs::metadata(&file).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        assert!(why(&file).contains("another `pintle dev` that is running"));
        drop(first);
        assert!(!file.exists());
        // The state that a killed process leaves.
        fs::write(&file, text(&[NAME])).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        Kubeconfig::check(&file).unwrap();
        let second = Kubeconfig::write(&file, &text(&[NAME])).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        drop(second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_replaced_the_file_or_was_added_to_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let ours = Kubeconfig::write(&file, &text(&[NAME])).unwrap();
        fs::write(folder.path().join("new"), text(&[NAME])).unwrap();
        fs::rename(folder.path().join("new"), &file).unwrap();
        drop(ours);
        assert!(file.exists(), "it is another file");

        let ours = Kubeconfig::write(&file, &text(&[NAME])).unwrap();
        fs::write(&file, text(&[NAME, "production"])).unwrap();
        drop(ours);
        assert!(file.exists(), "a cluster was added");

        fs::remove_file(&file).unwrap();
        let ours = Kubeconfig::write(&file, &text(&[NAME])).unwrap();
        // In the format of kubectl.
        fs::write(&file, text(&[NAME]).replace('{', "{ ")).unwrap();
        drop(ours);
        assert!(!file.exists());
        drop(Kubeconfig::write(&file, &text(&[NAME])).map(|_| fs::remove_file(&file)).unwrap());
    }
}
