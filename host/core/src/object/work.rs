//! A bound on the work of one cache read.
//!
//! Work is counted in units rather than in time, so that the same read of the same objects always has the same result.

use std::cell::Cell;

/// The remaining units of work of a read. One unit is about one comparison of short texts: a few nanoseconds.
#[derive(Debug)]
pub struct Work {
    left: Cell<u64>,
    is_exhausted: Cell<bool>,
}

impl Work {
    /// Allows this many units.
    pub fn new(units: u64) -> Self {
        Self { left: Cell::new(units), is_exhausted: Cell::new(false) }
    }

    /// Charges units; returns whether the read may continue. After a rejected charge, all later ones are rejected.
    pub fn charge(&self, units: u64) -> bool {
        match self.left.get().checked_sub(units).filter(|_| !self.is_exhausted.get()) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => {
                self.is_exhausted.set(true);
                false
            }
        }
    }

    /// Whether a charge was rejected.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_charge_ends_the_work() {
        let work = Work::new(3);
        assert!(work.charge(1) && work.charge(2) && work.charge(0));
        assert!(!work.is_exhausted());
        assert!(!work.charge(1));
        assert!(work.is_exhausted() && !work.charge(0));
    }
}
