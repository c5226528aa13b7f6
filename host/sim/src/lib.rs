//! Pintle: sim.

pub mod patch;
pub mod schema;
