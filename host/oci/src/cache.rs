//! Cache of pulled blobs by digest, so that a host can start while the registry is down.
//!
//! *Invariants*: 1. A returned blob has the requested digest, whatever the folder contains. 2. The folder does not exceed its
//! limit; the least recently used blobs are removed first. 3. The cache is optional: a failed write never fails a pull.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::digest::Digest;
use crate::signature::Signature;

/// Most bytes that are kept: eight components of the largest size.
const MAX_BYTES: u64 = 512 << 20;

/// A folder of blobs, and of signatures by the digest of the manifest that they sign.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    max_bytes: u64,
}

impl Cache {
    /// The cache below the host's cache folder.
    pub fn new(cache_dir: PathBuf) -> Self {
        Self { folder: cache_dir.join("oci"), max_bytes: MAX_BYTES }
    }

    /// The blob with this digest and at most this size.
    pub(crate) fn blob(&self, digest: Digest, max_bytes: u64) -> Option<Vec<u8>> {
        let path = self.folder.join(digest.hex());
        let file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        (&file).take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).ok()?;
        if Digest::of(&bytes) != digest {
            tracing::warn!(path = %path.display(), "the cached blob does not match the digest in its name; it is pulled again");
            // If the removal fails, the next read detects the mismatch again.
            let _ = fs::remove_file(&path);
            return None;
        }
        used(&file);
        Some(bytes)
    }

    /// Stores a blob.
    pub(crate) fn keep_blob(&self, digest: Digest, bytes: &[u8]) {
        self.keep(&digest.hex(), bytes);
    }

    /// The last known signatures of the manifest with this digest. Callers verify them again.
    pub(crate) fn signatures(&self, manifest: Digest) -> Vec<Signature> {
        let Ok(file) = File::open(self.folder.join(of_signatures(manifest))) else { return Vec::new() };
        used(&file);
        let mut text = String::new();
        let read = file.take(MAX_BYTES).read_to_string(&mut text);
        read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Stores signatures.
    pub(crate) fn keep_signatures(&self, manifest: Digest, signatures: &[Signature]) {
        if let Ok(text) = serde_json::to_vec(signatures) {
            self.keep(&of_signatures(manifest), &text);
        }
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        if bytes.len() as u64 > self.max_bytes {
            return;
        }
        if let Err(why) = self.write(name, bytes).and_then(|()| self.trim()) {
            tracing::warn!(folder = %self.folder.display(), "cannot write to the cache: {why}");
        }
    }

    /// Writes atomically: readers never get a partial blob.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = self.folder.join(format!(".{}-{count}.partial", std::process::id()));
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&partial, self.folder.join(name)));
        if written.is_err() {
            // The file may not exist.
            let _ = fs::remove_file(&partial);
        }
        written
    }

    /// Removes the least recently used blobs until the rest is within the limit.
    fn trim(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another host may remove files at the same time.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() {
                files.push((about.modified()?, about.len(), entry.path()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if total <= self.max_bytes {
                break;
            }
            match fs::remove_file(&path) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => total -= len,
            }
        }
        Ok(())
    }
}

fn of_signatures(manifest: Digest) -> String {
    format!("{}.signatures", manifest.hex())
}

fn used(file: &File) {
    // In a read-only folder, the oldest blobs are removed first instead of the least recently used.
    let _ = file.set_modified(SystemTime::now());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn age(cache: &Cache, digest: Digest, seconds: u64) {
        let file = File::options().write(true).open(cache.folder.join(digest.hex())).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_blob_is_returned_only_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        let digest = Digest::of(b"blob");
        assert_eq!(cache.blob(digest, 100), None);
        cache.keep_blob(digest, b"blob");
        assert_eq!(cache.blob(digest, 4).as_deref(), Some(b"blob".as_slice()));
        fs::write(cache.folder.join(digest.hex()), "blub").unwrap();
        assert_eq!(cache.blob(digest, 100), None);
        assert!(!cache.folder.join(digest.hex()).exists());
    }

    #[test]
    fn the_least_recently_used_blob_is_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { max_bytes: 25, ..Cache::new(folder.path().to_owned()) };
        let blobs = [[1_u8; 10], [2; 10], [3; 10]];
        let digests = blobs.map(|blob| Digest::of(&blob));
        cache.keep_blob(digests[0], &blobs[0]);
        cache.keep_blob(digests[1], &blobs[1]);
        age(&cache, digests[0], 20);
        age(&cache, digests[1], 10);
        // Used, so it stays.
        assert!(cache.blob(digests[0], 100).is_some());
        cache.keep_blob(digests[2], &blobs[2]);
        assert_eq!(digests.map(|digest| cache.blob(digest, 100).is_some()), [true, false, true]);
        cache.keep_blob(Digest::of(&[0; 26]), &[0; 26]);
        assert_eq!(digests.map(|digest| cache.blob(digest, 100).is_some()), [true, false, true], "too large to keep");
    }

    #[test]
    fn a_read_only_folder_does_not_fail_a_pull() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("oci"), "a file").unwrap();
        let cache = Cache::new(folder.path().to_owned());
        cache.keep_blob(Digest::of(b"blob"), b"blob");
        assert_eq!(cache.blob(Digest::of(b"blob"), 100), None);
        assert_eq!(cache.signatures(Digest::of(b"blob")), []);
    }
}
