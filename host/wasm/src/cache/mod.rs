//! Compiled code on disk, so that each version of the host compiles a plugin only once per machine.
//!
//! *Flow*: component -> key (its digest, wasmtime's settings and version) -> `<key>.cwasm` and `<key>.sha256`.
//!
//! *Invariants*
//! 1. Compiled code has the rights of the host. It is loaded only from files of the host's user, in a folder that
//!    belongs to this user, is closed to all others and is held open, and only if the bytes have the recorded digest.
//! 2. A file is created by a rename and never changed: running plugins have it mapped.
//! 3. The cache never makes loading fail: after any error the component is compiled again.

mod folder;
mod functions;
mod native;

use std::ffi::OsString;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use self::folder::Folder;
pub(crate) use self::functions::Functions;
use crate::compile::Compiler;
use crate::error::EngineError;
use crate::inspect::hex;

/// Maximum entries; the oldest are removed first. A Rust plugin takes 200 KB, a Python one 32 MB.
const MAX_ENTRIES: usize = 64;

/// Maximum files being written. Excess files are from processes that have ended.
const MAX_PARTIAL: usize = 16;

/// File suffixes: code, its digest, and partially written files.
const CODE: &str = ".cwasm";
const PARTIAL: &str = ".partial";
const DIGEST: &str = ".sha256";

/// wasmtime's version is also part of its compatibility hash; it is included here in case that changes.
const WASMTIME: &str = "48.0.8";

/// The user's cache folder, from the environment; `None` without a folder that belongs to the user. Never the temporary
/// folder, where any user can take the name first. `variable` reads an environment variable.
pub fn user_cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let of_user = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = of_user("XDG_CACHE_HOME").or_else(|| Some(of_user("HOME")?.join(".cache")));
    Some(base?.join("pintle"))
}

/// A folder of compiled code.
#[derive(Debug)]
pub(crate) struct CodeCache {
    folder: Folder,
    /// Digest of the settings that compiled code depends on, in addition to the component.
    settings: [u8; 32],
    functions: Option<Arc<Functions>>,
}

impl CodeCache {
    /// Opens a folder; creates it if it is missing. `functions`: the function cache that the engine was created with,
    /// if any.
    pub(crate) fn open(folder: &Path, engine: &Engine, functions: Option<Arc<Functions>>) -> Result<Self, EngineError> {
        let folder = Folder::open(folder)?;
        let mut hasher = ShaHasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        WASMTIME.hash(&mut hasher);
        Ok(Self { folder, settings: hasher.0.finalize().into(), functions })
    }

    /// Loads the component from the cache, or compiles and stores it.
    pub(crate) fn component(&self, engine: &Engine, compiler: &Compiler, bytes: &[u8]) -> wasmtime::Result<Component> {
        let key = hex(&Sha256::new().chain_update(self.settings).chain_update(bytes).finalize());
        let (code, digest) = (format!("{key}{CODE}"), format!("{key}{DIGEST}"));
        if let Some(component) = self.load(engine, &code, &digest) {
            return Ok(component);
        }
        let compile = || compiler.compile(engine, bytes);
        let component = match &self.functions {
            Some(functions) => functions.with(&self.folder, compile),
            None => compile(),
        }?;
        let compiled = component.serialize()?;
        if let Err(error) = self.store(&code, &digest, &compiled).and_then(|()| self.prune()) {
            tracing::warn!(folder = %self.folder.path.display(), %error, "compiled code is not cached");
            return Ok(component);
        }
        // The mapped file takes less memory than the compiler's output.
        Ok(self.load(engine, &code, &digest).unwrap_or(component))
    }

    fn store(&self, file: &str, digest: &str, bytes: &[u8]) -> io::Result<()> {
        self.folder.replace(file, bytes)?;
        self.folder.replace(digest, hex(&Sha256::digest(bytes)).as_bytes())
    }

    /// Removes the oldest entries.
    fn prune(&self) -> io::Result<()> {
        let entries = self.folder.by_age(CODE)?;
        let n_surplus = entries.len().saturating_sub(MAX_ENTRIES);
        for file in entries.into_iter().take(n_surplus) {
            self.folder.remove(&file)?;
            // A digest without its file is harmless.
            let _ = self.folder.remove(&file.replace(CODE, DIGEST));
        }
        let partial = self.folder.by_age(PARTIAL)?;
        let n_surplus = partial.len().saturating_sub(MAX_PARTIAL);
        for file in partial.into_iter().take(n_surplus) {
            // Another process may have removed it.
            let _ = self.folder.remove(&file);
        }
        Ok(())
    }

    fn load(&self, engine: &Engine, code: &str, digest: &str) -> Option<Component> {
        let shown = || self.folder.path.join(code).display().to_string();
        let file = match self.folder.file(code) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(file = shown(), %error, "compiled code is not used; it is compiled again");
                return None;
            }
            Ok(file) => file,
        };
        let found = digest_of(&file).ok()?;
        if found != self.recorded(digest).unwrap_or_default() {
            tracing::warn!(file = shown(), "compiled code is damaged; it is compiled again");
            return None;
        }
        native::component(engine, &folder::path_of(&file))
            .map_err(|error| tracing::warn!(file = shown(), %error, "compiled code cannot be loaded"))
            .ok()
    }

    /// The recorded digest.
    fn recorded(&self, digest: &str) -> io::Result<String> {
        let mut text = String::new();
        self.folder.file(digest)?.take(1024).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// SHA-256 of a file, read in pieces.
fn digest_of(file: &File) -> io::Result<String> {
    let mut reader = BufReader::with_capacity(1 << 16, file);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_left_half_written_is_removed() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("code");
        let cache = CodeCache { folder: Folder::open(&path).unwrap(), settings: [0; 32], functions: None };
        let n_left = || std::fs::read_dir(&path).unwrap().count();
        for (n_files, expected) in [(MAX_PARTIAL, MAX_PARTIAL), (MAX_PARTIAL + 5, MAX_PARTIAL)] {
            for i in 0..n_files {
                std::fs::write(path.join(format!("a.cwasm.1-{i}.partial")), "").unwrap();
            }
            cache.prune().unwrap();
            assert_eq!(n_left(), expected);
        }
    }
}
