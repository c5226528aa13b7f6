//! Reads whole files of limited size, and writes files atomically.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::OFlags;

use crate::error::{Error, Reason};

/// Largest component that a host accepts from any source: 64 MiB. The largest known language runtimes for controllers
/// have a third of that.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;

/// Opens a regular file for reading. Follows links. Anything else is rejected immediately: opening a pipe would block
/// until another process writes to it, and a device is endless.
///
/// # Errors
/// The file is unreadable, or not a regular file. A retry helps only after the file changes.
pub fn open(path: &Path) -> Result<File, Error> {
    let unreadable = |why: &str| Error::new(Reason::Unreadable, format!("read {}: {why}", path.display()));
    // Opening a device may have side effects. The file may be replaced before it is opened, so the opened file is
    // checked as well.
    let is_file = |about: io::Result<Metadata>| match about.map_err(|why| unreadable(&why.to_string()))? {
        about if about.is_file() => Ok(()),
        _ => Err(unreadable("it is not a regular file")),
    };
    is_file(fs::metadata(path))?;
    // With this flag, opening a pipe does not block; for regular files it has no effect.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|why| unreadable(&why.to_string()))?;
    is_file(file.metadata())?;
    Ok(file)
}

/// Reads a regular file of at most `limit_bytes`.
///
/// # Errors
/// As [`open`]; also if the file is longer.
pub fn read(path: &Path, limit_bytes: usize) -> Result<Vec<u8>, Error> {
    let file = open(path)?;
    read_opened(&file, path, limit_bytes)
}

/// Reads an opened file of at most `limit_bytes`, whatever its reported size. Errors contain `path`.
///
/// # Errors
/// As [`read`].
pub fn read_opened(file: &File, path: &Path, limit_bytes: usize) -> Result<Vec<u8>, Error> {
    let shown = path.display();
    let unreadable = |why: io::Error| Error::new(Reason::Unreadable, format!("read {shown}: {why}"));
    let length = file.metadata().map_err(unreadable)?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).min(limit_bytes));
    file.take(limit_bytes as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit_bytes {
        return Err(Error::new(Reason::TooLarge, format!("{shown} has more than {limit_bytes} bytes")));
    }
    Ok(bytes)
}

/// Reads a component.
///
/// # Errors
/// As [`read`].
pub fn read_component(path: &Path) -> Result<Vec<u8>, Error> {
    read(path, MAX_COMPONENT_BYTES)
}

/// Writes a file atomically, because a host may be watching it.
///
/// # Errors
/// It cannot be written.
pub fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_file = || format!("write {}", file.display());
    let mut whole = tempfile::Builder::new().prefix(".pintle-").tempfile_in(folder).with_context(in_file)?;
    whole.write_all(bytes).with_context(in_file)?;
    // A temporary file is accessible to its owner only.
    let readable = Permissions::from_mode(0o644);
    whole.as_file().set_permissions(readable).with_context(in_file)?;
    whole.persist(file).with_context(in_file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.wasm"), "a.wasm").unwrap();
        fs::create_dir(at("e.wasm")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("f.wasm")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        let text = |name: &str| {
            let why = read(&at(name), 5).unwrap_err();
            format!("{}: {}", why.reason, why.message.replace(&folder.path().display().to_string(), "$DIR"))
        };
        assert_eq!(text("e.wasm"), "Unreadable: read $DIR/e.wasm: it is not a regular file");
        assert_eq!(text("pipe"), "Unreadable: read $DIR/pipe: it is not a regular file");
        assert!(read(Path::new("/dev/zero"), 5).unwrap_err().message.contains("it is not a regular file"));
        assert_eq!(text("f.wasm"), "Unreadable: read $DIR/f.wasm: No such file or directory (os error 2)");
        assert_eq!(text("a.wasm"), "TooLarge: $DIR/a.wasm has more than 5 bytes");
        assert_eq!(read(&at("a.wasm"), 6).unwrap(), b"a.wasm");
    }
}
