//! Decisions about clients of the port, without I/O: health, authorization, and open connections.

pub mod access;
pub mod connections;
pub mod decisions;
pub mod exposition;
pub mod health;
pub mod identity;
pub mod zpages;
