//! Files that are reloaded when they change.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

/// Largest file: 1 MiB, the limit of the Secrets from which such files are mounted.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Minimum interval between two reads of a file.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A failed binding, in one line with the file and the remedy. A retry helps after a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BindError(pub(crate) String);

/// Reads a regular file of limited size.
fn read(path: &Path) -> Result<Vec<u8>, BindError> {
    let shown = path.display();
    let unreadable = |why: &dyn std::fmt::Display| BindError(format!("read {shown}: {why}"));
    // A pipe or a device could return endless text, or block. The opened file may differ from the one found before.
    let is_file = |about: io::Result<Metadata>| match about {
        Ok(about) if about.is_file() => Ok(()),
        Ok(_) => Err(unreadable(&"it is not a regular file")),
        Err(why) => Err(unreadable(&why)),
    };
    is_file(fs::metadata(path))?;
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(|why| unreadable(&why))?;
    is_file(file.metadata())?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|why| unreadable(&why))?;
    match bytes.len() <= MAX_FILE_BYTES {
        true => Ok(bytes),
        false => Err(BindError(format!("{shown} has more than {MAX_FILE_BYTES} bytes"))),
    }
}

/// Parses a value from the contents of files. The error does not contain them.
type Parse<T> = dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync;

/// A value from files that may change.
pub(crate) struct Followed<T> {
    files: Vec<PathBuf>,
    parse: Box<Parse<T>>,
    state: Mutex<State<T>>,
}

struct State<T> {
    current: Arc<T>,
    /// Hash of the last contents that were tried.
    seen: [u8; 32],
    looked: Instant,
    /// Whether the last read failed, so that one warning is logged.
    is_unreadable: bool,
}

impl<T> Followed<T> {
    /// Reads the files.
    ///
    /// # Errors
    /// A file is unreadable or too large, or the contents are invalid.
    pub(crate) fn open(
        files: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, BindError> {
        let contents = read_all(&files)?;
        let current = parse(&contents).map_err(|why| BindError(format!("{}: {why}", shown(&files))))?;
        let state =
            State { current: Arc::new(current), seen: hash(&contents), looked: Instant::now(), is_unreadable: false };
        Ok(Self { files, parse: Box::new(parse), state: Mutex::new(state) })
    }

    /// The value of the current files, or of the last usable ones. It blocks while it reads.
    pub(crate) fn current(&self) -> Arc<T> {
        self.current_at(Instant::now())
    }

    fn current_at(&self, now: Instant) -> Arc<T> {
        {
            let mut state = self.state.lock();
            if now.saturating_duration_since(state.looked) < LOOK_INTERVAL {
                return state.current.clone();
            }
            // Other callers use the last value in the meantime.
            state.looked = now;
        }
        let contents = read_all(&self.files);
        let mut state = self.state.lock();
        match contents {
            Err(why) => {
                if !std::mem::replace(&mut state.is_unreadable, true) {
                    tracing::warn!(error = %why, "a bound file cannot be read; its last contents stay in use");
                }
            }
            Ok(contents) => {
                state.is_unreadable = false;
                let seen = hash(&contents);
                if seen != std::mem::replace(&mut state.seen, seen) {
                    match (self.parse)(&contents) {
                        Ok(current) => {
                            state.current = Arc::new(current);
                            tracing::info!(files = shown(&self.files), "bound files have changed and are in use");
                        }
                        Err(why) => tracing::warn!(
                            files = shown(&self.files),
                            error = why,
                            "bound files have changed and cannot be used; their last contents stay in use"
                        ),
                    }
                }
            }
        }
        state.current.clone()
    }

    /// The names of the files, for humans.
    pub(crate) fn shown(&self) -> String {
        shown(&self.files)
    }
}

fn shown(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" and ")
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, BindError> {
    files.iter().map(|file| read(file)).collect()
}

/// Contents are compared by hash, so that no second copy of a key is kept.
fn hash(contents: &[Vec<u8>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for bytes in contents {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_is_used_and_what_cannot_be_used_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let number = |contents: &[Vec<u8>]| {
            let text = std::str::from_utf8(&contents[0]).map_err(|why| why.to_string())?;
            text.trim().parse::<u32>().map_err(|why| why.to_string())
        };
        let open = || Followed::open(vec![path.clone()], number);
        assert!(open().err().unwrap().to_string().contains("No such file"));
        fs::write(&path, "one").unwrap();
        let why = open().err().unwrap().to_string();
        assert_eq!(why, format!("{}: invalid digit found in string", path.display()));
        fs::write(&path, "1").unwrap();
        let followed = open().unwrap();
        let start = followed.state.lock().looked;
        let at = |n_intervals: u32| *followed.current_at(start + n_intervals * LOOK_INTERVAL);
        fs::write(&path, "2").unwrap();
        assert_eq!((at(0), at(1)), (1, 2));
        for (n, contents) in [(2, Some("broken")), (3, None), (4, Some("2"))] {
            match contents {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            assert_eq!(at(n), 2, "{contents:?}");
        }
        fs::write(&path, "3").unwrap();
        assert_eq!(at(5), 3);
    }

    #[test]
    fn only_regular_files_of_limited_length_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("most"), vec![b'x'; MAX_FILE_BYTES]).unwrap();
        fs::write(at("long"), vec![b'x'; MAX_FILE_BYTES + 1]).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(read(&at("most")).unwrap().len(), MAX_FILE_BYTES);
        assert!(read(&at("long")).unwrap_err().0.ends_with("has more than 1048576 bytes"));
        for other in [at("pipe"), folder.path().to_owned(), PathBuf::from("/dev/zero")] {
            assert!(read(&other).unwrap_err().0.ends_with("it is not a regular file"), "{other:?}");
        }
    }
}
