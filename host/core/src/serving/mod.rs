//! Decisions about the clients of the host's HTTPS port: whether it is healthy, who may read what, and which connections stay open.

pub mod access;
pub mod connections;
pub mod decisions;
pub mod exposition;
pub mod health;
pub mod identity;
pub mod metrics;
pub mod zpages;
