//! Compiled code on disk, so that each version of the host compiles a plugin once per machine.
//!
//! *Flow*: component -> key (its digest, wasmtime's settings and version) -> `<key>.cwasm` and `<key>.sha256`.
//!
//! *Invariants*
//! 1. Compiled code has the rights of the host. It is loaded only from a folder that belongs to the host's user and is closed
//!    to all others, and only if the bytes have the recorded digest.
//! 2. A file is created by a rename and never changed: running plugins have it mapped.
//! 3. The cache never makes loading fail: after any error the component is compiled again.

mod native;

use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compile::Compiler;
use crate::error::EngineError;
use crate::inspect::hex;

/// Maximum entries; the oldest are removed first. A Rust plugin takes 200 KB, a Python one 32 MB.
const MAX_ENTRIES: usize = 64;

/// wasmtime's version is part of its compatibility hash as well; it is explicit in case that changes.
const WASMTIME: &str = "48.0.8";

/// A folder of compiled code.
#[derive(Debug)]
pub(crate) struct CodeCache {
    folder: PathBuf,
    /// Digest of the settings that compiled code depends on, besides the component.
    settings: [u8; 32],
}

impl CodeCache {
    /// Opens a folder; creates it if it is missing.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Self, EngineError> {
        let failed = |source| EngineError::CacheFolder { folder: folder.to_path_buf(), source };
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let metadata = fs::metadata(folder).map_err(failed)?;
        let user = rustix::process::geteuid().as_raw();
        if !metadata.is_dir() || metadata.uid() != user || metadata.mode() & 0o077 != 0 {
            return Err(EngineError::CacheNotPrivate { folder: folder.to_path_buf(), user });
        }
        let mut hasher = ShaHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        WASMTIME.hash(&mut hasher);
        Ok(Self { folder: folder.to_path_buf(), settings: hasher.0.finalize().into() })
    }

    /// Loads the component from the cache, or compiles and stores it.
    pub(crate) fn component(&self, engine: &Engine, compiler: &Compiler, bytes: &[u8]) -> wasmtime::Result<Component> {
        let key = hex(&Sha256::new().chain_update(self.settings).chain_update(bytes).finalize());
        let code = self.folder.join(&key).with_extension("cwasm");
        let digest = self.folder.join(&key).with_extension("sha256");
        if let Some(component) = load(engine, &code, &digest) {
            return Ok(component);
        }
        let component = compiler.compile(engine, bytes)?;
        let compiled = component.serialize()?;
        let stored = replace(&code, &compiled)
            .and_then(|()| replace(&digest, hex(&Sha256::digest(&compiled)).as_bytes()))
            .and_then(|()| self.prune());
        if let Err(error) = stored {
            tracing::warn!(folder = %self.folder.display(), %error, "compiled code is not cached");
            return Ok(component);
        }
        // The mapped file takes less memory than the compiler's output.
        Ok(load(engine, &code, &digest).unwrap_or(component))
    }

    fn prune(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "cwasm") {
                let modified = fs::metadata(&path).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
                entries.push((modified, path));
            }
        }
        entries.sort();
        let n_surplus = entries.len().saturating_sub(MAX_ENTRIES);
        for (_, path) in entries.into_iter().take(n_surplus) {
            fs::remove_file(&path)?;
            // A digest without code is harmless.
            let _ = fs::remove_file(path.with_extension("sha256"));
        }
        Ok(())
    }
}

fn load(engine: &Engine, code: &Path, digest: &Path) -> Option<Component> {
    let found = digest_of(code).ok()?;
    let recorded = fs::read_to_string(digest).unwrap_or_default();
    if found != recorded {
        tracing::warn!(file = %code.display(), "compiled code is damaged; it is compiled again");
        return None;
    }
    native::component(engine, code)
        .map_err(|error| tracing::warn!(file = %code.display(), %error, "compiled code cannot be loaded"))
        .ok()
}

/// SHA-256 of a file, read in pieces.
fn digest_of(file: &Path) -> io::Result<String> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(file)?);
    let mut hasher = Sha256::new();
    loop {
        let part = reader.fill_buf()?;
        if part.is_empty() {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(part);
        let n_bytes = part.len();
        reader.consume(n_bytes);
    }
}

/// Writes a file atomically: readers see the old or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    fs::write(&partial, bytes)?;
    fs::rename(&partial, path)
}

/// `Hash` over SHA-256: the standard library's hashers may change between versions.
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0.clone().finalize()[..8]);
        u64::from_le_bytes(first)
    }
}
