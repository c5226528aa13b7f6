//! The keyed state of a plugin: small values that survive runs.
//!
//! Invariants:
//! 1. Names and values together never exceed the plugin's limit; an outcome that would exceed it changes nothing.
//! 2. A run sees the state at its start: snapshots share structure, so they are cheap.

use std::sync::Arc;

use imbl::OrdMap;

/// The state of one plugin.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyedState {
    values: OrdMap<Arc<str>, Arc<str>>,
    n_bytes: u64,
}

impl KeyedState {
    pub(crate) fn snapshot(&self) -> OrdMap<Arc<str>, Arc<str>> {
        self.values.clone()
    }

    /// Writes all changes or none.
    ///
    /// # Errors
    /// The fault's message if the limit is exceeded.
    pub(crate) fn write(&mut self, changes: &[(String, Option<String>)], limit_bytes: u64) -> Result<(), String> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut after = self.clone();
        for (name, value) in changes {
            if let Some(old) = after.values.remove(name.as_str()) {
                after.n_bytes -= (name.len() + old.len()) as u64;
            }
            if let Some(value) = value {
                after.n_bytes += (name.len() + value.len()) as u64;
                after.values.insert(name.as_str().into(), value.as_str().into());
            }
        }
        if after.n_bytes > limit_bytes {
            return Err(format!(
                "the keyed state would have {} bytes, more than the limit of {limit_bytes}",
                after.n_bytes
            ));
        }
        *self = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> (String, Option<String>) {
        (name.into(), Some(value.into()))
    }

    #[test]
    fn values_are_kept_replaced_and_forgotten() {
        let mut state = KeyedState::default();
        state.write(&[set("a", "1"), set("b", "2")], 100).unwrap();
        let before = state.snapshot();
        state.write(&[set("a", "3"), ("b".into(), None), ("c".into(), None)], 100).unwrap();
        assert_eq!(state.snapshot().get("a").map(|value| &**value), Some("3"));
        assert_eq!((state.snapshot().len(), state.n_bytes), (1, 2));
        assert_eq!(before.len(), 2);
    }

    #[test]
    fn a_write_over_the_limit_changes_nothing() {
        let mut state = KeyedState::default();
        state.write(&[set("a", "123456789")], 10).unwrap();
        assert!(state.write(&[("a".into(), None), set("b", "1234567890")], 10).is_err());
        assert_eq!(state.snapshot().len(), 1);
        state.write(&[("a".into(), None), set("b", "123456789")], 10).unwrap();
    }
}
