//! The bytes that the host holds for the runs of one plugin: needs and their answers, outcomes in progress, read logs,
//! unwritten events, failures for the next run, and queued keys that the plugin's mapping can have invented.
//!
//! Each of them is bounded, but a plugin has thousands of workers and keys. The account bounds their sum.
//!
//! Not here: the memory of instances (`pintle-wasm`), keyed state, metrics, which have bounds per plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum bytes that the host holds for the runs of one plugin.
pub const MAX_HELD_BYTES: u64 = 256 << 20;

/// The account of one plugin.
#[derive(Debug)]
pub struct Account {
    max_bytes: u64,
    n_bytes: AtomicU64,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub struct Held {
    account: Arc<Account>,
    n_bytes: u64,
}

impl Account {
    /// Creates an empty account.
    pub fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self { max_bytes, n_bytes: AtomicU64::new(0) })
    }

    /// The bound of the account.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Bytes held in total.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Ordering::Relaxed)
    }

    /// Opens an entry that holds nothing yet.
    pub fn open(self: &Arc<Self>) -> Held {
        Held { account: self.clone(), n_bytes: 0 }
    }
}

impl Held {
    /// The account of this entry.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Holds `n_bytes` more bytes; returns false if there is no room.
    #[must_use]
    pub fn grow(&mut self, n_bytes: u64) -> bool {
        let account = &self.account;
        let grown = account.n_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(n_bytes).filter(|held| *held <= account.max_bytes)
        });
        if grown.is_ok() {
            self.n_bytes += n_bytes;
        }
        grown.is_ok()
    }

    /// Sets the held bytes to `n_bytes`, if there is room; returns whether there was.
    #[must_use]
    pub fn resize(&mut self, n_bytes: u64) -> bool {
        if n_bytes > self.n_bytes {
            return self.grow(n_bytes - self.n_bytes);
        }
        self.set(n_bytes);
        true
    }

    /// Takes over the bytes of another entry.
    pub fn join(&mut self, mut other: Self) {
        self.n_bytes += std::mem::take(&mut other.n_bytes);
    }

    /// Sets the held bytes to `n_bytes` even if there is no room, because the memory is already in use.
    pub fn set(&mut self, n_bytes: u64) {
        if n_bytes > self.n_bytes {
            self.account.n_bytes.fetch_add(n_bytes - self.n_bytes, Ordering::Relaxed);
        } else {
            self.account.n_bytes.fetch_sub(self.n_bytes - n_bytes, Ordering::Relaxed);
        }
        self.n_bytes = n_bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.n_bytes.fetch_sub(self.n_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_full_until_something_is_dropped() {
        let account = Account::new(10);
        let (mut one, mut other) = (account.open(), account.open());
        assert!(one.grow(6) && other.grow(4));
        assert!(!other.grow(1) && !one.grow(u64::MAX));
        assert_eq!(account.n_bytes(), 10);
        drop(one);
        assert_eq!(account.n_bytes(), 4);
        assert!(other.grow(6) && !other.grow(1));
        assert!(!other.resize(11) && other.resize(7) && other.resize(9) && !other.resize(11));
        assert_eq!(account.n_bytes(), 9);
        let mut joined = account.open();
        joined.join(other);
        assert_eq!(account.n_bytes(), 9, "it is held as before");
        let mut other = joined;
        other.set(12);
        assert_eq!(account.n_bytes(), 12, "what is there counts");
        assert!(!account.open().grow(1) && other.resize(12) && other.resize(3));
        drop(other);
        assert_eq!(account.n_bytes(), 0);
    }
}
