//! Compiled functions on disk, for components that mostly stay the same between builds, such as a language runtime.
//!
//! *Flow*: one file, read before a compilation and written after one that found functions missing.
//!
//! *Invariants*
//! 1. The key of a function is Cranelift's: a SHA-256 over the function's code and the compiler's settings. So the
//!    cached code equals the compiled code of the function, even if it came from another component.
//! 2. The file is trusted like compiled code: see [`super`]. It begins with the digest of the rest.
//! 3. Its size is at most [`MAX_BYTES`]: the functions of the last compilation come first, then those of earlier ones.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::ops::Range;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use wasmtime::CacheStore;

use super::folder::Folder;

/// Name of the file.
const FILE: &str = "functions.pack";

/// Largest size of the file. The functions of a Python component take about 60 MB.
const MAX_BYTES: usize = 256 << 20;

/// Bytes of the digest before the rest.
const DIGEST_BYTES: usize = 32;

/// The functions during a compilation; empty otherwise.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of running compilations.
    n_active: usize,
    /// The file's contents after the digest.
    file: Vec<u8>,
    /// Key -> range of the function in the file.
    places: HashMap<Vec<u8>, Range<usize>>,
    /// Keys that were requested and found in the file.
    used: HashSet<Vec<u8>>,
    added: HashMap<Vec<u8>, Vec<u8>>,
}

impl Functions {
    /// Compiles with the functions in the file.
    pub(super) fn with<T>(&self, folder: &Folder, compile: impl FnOnce() -> T) -> T {
        self.begin(folder);
        let compiled = compile();
        self.end(folder);
        compiled
    }

    fn begin(&self, folder: &Folder) {
        let mut state = self.state.lock();
        state.n_active += 1;
        if state.n_active == 1 {
            // If it cannot be read, everything is compiled.
            state.file = read(folder).unwrap_or_default();
            state.places = places(&state.file);
        }
    }

    fn end(&self, folder: &Folder) {
        let mut state = self.state.lock();
        state.n_active -= 1;
        if state.n_active > 0 {
            return;
        }
        let State { file, places, used, added, .. } = std::mem::take(&mut *state);
        drop(state);
        if added.is_empty() {
            return;
        }
        let of_file = |wanted: bool| {
            let used = &used;
            let entries = places.iter().filter(move |(key, _)| used.contains(*key) == wanted);
            entries.map(|(key, place)| (key.as_slice(), &file[place.clone()]))
        };
        let added = added.iter().map(|(key, function)| (key.as_slice(), function.as_slice()));
        let contents = packed(added.chain(of_file(true)).chain(of_file(false)), MAX_BYTES);
        if let Err(error) = folder.replace(FILE, &contents) {
            tracing::warn!(folder = %folder.path.display(), %error, "compiled functions are not cached");
        }
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut state = self.state.lock();
        if let Some(function) = state.added.get(key) {
            return Some(Cow::Owned(function.clone()));
        }
        let function = state.file.get(state.places.get(key)?.clone())?.to_vec();
        state.used.insert(key.to_vec());
        Some(Cow::Owned(function))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        self.state.lock().added.insert(key.to_vec(), value);
        true
    }
}

/// The contents of the file after the digest; `None` if it is missing, belongs to another user, or is damaged.
fn read(folder: &Folder) -> Option<Vec<u8>> {
    let mut contents = Vec::new();
    let limit = (MAX_BYTES + DIGEST_BYTES) as u64;
    folder.file(FILE).ok()?.take(limit).read_to_end(&mut contents).ok()?;
    let (digest, rest) = contents.split_at_checked(DIGEST_BYTES)?;
    if *Sha256::digest(rest) != *digest {
        tracing::warn!(folder = %folder.path.display(), "compiled functions are damaged; they are compiled again");
        return None;
    }
    contents.drain(..DIGEST_BYTES);
    Some(contents)
}

/// Format: the digest, then per function the lengths of key and code, the key and the code.
fn packed<'a>(functions: impl Iterator<Item = (&'a [u8], &'a [u8])>, max_bytes: usize) -> Vec<u8> {
    let mut contents = vec![0; DIGEST_BYTES];
    for (key, function) in functions {
        let (Ok(n_key), Ok(n_function)) = (u32::try_from(key.len()), u32::try_from(function.len())) else { continue };
        if contents.len() + 8 + key.len() + function.len() > max_bytes + DIGEST_BYTES {
            break;
        }
        for part in [&n_key.to_le_bytes(), &n_function.to_le_bytes(), key, function] {
            contents.extend_from_slice(part);
        }
    }
    let digest = Sha256::digest(&contents[DIGEST_BYTES..]);
    contents[..DIGEST_BYTES].copy_from_slice(&digest);
    contents
}

/// The range of each function.
fn places(file: &[u8]) -> HashMap<Vec<u8>, Range<usize>> {
    let number = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?) as usize);
    let mut found = HashMap::new();
    let mut at = 0;
    while let (Some(n_key), Some(n_function)) = (number(at), number(at + 4)) {
        let start = at + 8 + n_key;
        let Some(key) = file.get(at + 8..start) else { break };
        found.insert(key.to_vec(), start..start + n_function);
        at = start + n_function;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(functions: &Functions, folder: &Folder, keys: &[&[u8]]) -> Vec<&'static str> {
        functions.with(folder, || {
            let one = |key: &&[u8]| match functions.get(key) {
                Some(found) if *found == [*key, b" code"].concat() => "found",
                Some(_) => "wrong",
                None => {
                    assert!(functions.insert(key, [*key, b" code"].concat()));
                    "compiled"
                }
            };
            keys.iter().map(one).collect()
        })
    }

    #[test]
    fn a_function_is_compiled_once_per_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = Folder::open(&outer.path().join("code")).unwrap();
        let functions = Functions::default();
        assert_eq!(compiled(&functions, &folder, &[b"one", b"two"]), ["compiled", "compiled"]);
        assert_eq!(compiled(&functions, &folder, &[b"two", b"three"]), ["found", "compiled"]);
        assert_eq!(compiled(&Functions::default(), &folder, &[b"one", b"two", b"three"]), ["found"; 3]);
        assert_eq!(functions.state.lock().places.len(), 0, "they take memory only while something is compiled");
    }

    #[test]
    fn a_damaged_file_is_not_used() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("code");
        let folder = Folder::open(&path).unwrap();
        let functions = Functions::default();
        compiled(&functions, &folder, &[b"one"]);
        let mut bytes = std::fs::read(path.join(FILE)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(path.join(FILE), &bytes).unwrap();
        assert_eq!(compiled(&functions, &folder, &[b"one"]), ["compiled"]);
        assert_eq!(compiled(&functions, &folder, &[b"one"]), ["found"]);
    }

    #[test]
    fn the_file_is_bounded_and_keeps_what_comes_first() {
        let functions: [(&[u8], &[u8]); 3] = [(b"a", &[1; 50]), (b"b", &[2; 50]), (b"c", &[3; 50])];
        let contents = packed(functions.into_iter(), 2 * 59);
        let mut keys: Vec<Vec<u8>> = places(&contents[DIGEST_BYTES..]).into_keys().collect();
        keys.sort();
        assert_eq!(keys, [b"a", b"b"]);
    }
}
