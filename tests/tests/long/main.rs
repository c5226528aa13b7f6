//! Whole-system tests of the long tier: `cargo xtask test --long` runs all of them, CI a share that the commit selects.
//!
//! The shares are listed in `host/xtask/src/tiers.rs`; a test there compares them with this file.

mod attacks;
mod contention;
mod crash_everywhere;
mod embedded_scenarios;
mod faults;
mod histories;
mod hostile_objects;
mod install;
mod kinds;
mod kubectl_real;
mod languages;
mod life;
mod mistakes;
mod monitoring;
mod recipes;
mod recordings;
mod silence;
mod skew;
mod snippets;
mod storm;
mod takeover;
mod test_programs;
mod together;
mod toolchains;
mod trouble;
mod tutorials;
mod types;
mod upgrade;
mod webapp;
