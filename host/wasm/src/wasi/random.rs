//! Random numbers that are a function of the run: of the plugin, the key and the resourceVersion of the key's object.
//!
//! A retry gets the same numbers as the previous run, as long as the object is the same: a child with a random name is
//! created only once. Another run of the same key with the same object gets the same numbers as well.
//!
//! The numbers during the creation of an instance are the same in every instance. `insecure-seed` always has the same
//! value: programs read it once, and use the result (the order of hash maps) in all runs of an instance.

use rand::rngs::ChaCha12Rng;
use rand::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use wasmtime::Result;
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

use super::Wasi;
use crate::fault::HostTrap;

/// Maximum bytes per call.
const MAX_BYTES: u64 = 1 << 20;
/// The value of `insecure-seed`: digits of pi.
const SEED: (u64, u64) = (0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);

/// The generator of a run; without parts, of the creation of an instance. The output of its algorithm is the same in
/// every version of the host.
pub(super) fn generator(parts: &[&str]) -> ChaCha12Rng {
    let mut digest = Sha256::new();
    for part in parts {
        // Lengths are included, so that different lists never have the same input.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    ChaCha12Rng::from_seed(digest.finalize().into())
}

impl Wasi<'_> {
    fn random_bytes(&mut self, n: u64) -> Result<Vec<u8>> {
        if n > MAX_BYTES {
            return Err(HostTrap::RandomBytes { wanted: n, limit: MAX_BYTES }.into());
        }
        let mut bytes = vec![0; usize::try_from(n)?];
        self.random()?.fill_bytes(&mut bytes);
        Ok(bytes)
    }
}

impl random::Host for Wasi<'_> {
    fn get_random_bytes(&mut self, n: u64) -> Result<Vec<u8>> {
        self.random_bytes(n)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        Ok(self.random()?.next_u64())
    }
}

impl insecure::Host for Wasi<'_> {
    fn get_insecure_random_bytes(&mut self, n: u64) -> Result<Vec<u8>> {
        self.random_bytes(n)
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        Ok(self.random()?.next_u64())
    }
}

impl insecure_seed::Host for Wasi<'_> {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        self.count()?;
        Ok(SEED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_run_in_every_version_of_the_host() {
        let first = |parts: &[&str]| generator(parts).next_u64();
        assert_eq!(first(&["p", "q/a/b", "7"]), first(&["p", "q/a/b", "7"]));
        assert_ne!(first(&["p", "q/a/b", "7"]), first(&["p", "q/a/b", "8"]));
        assert_ne!(first(&["p", "q/a/b", "7"]), first(&["p", "q/a/b7", ""]));
        assert_eq!(first(&[]), 13_566_691_232_273_806_268);
    }
}
