//! What is decided about clients of the port without waiting: whether the host is healthy, who may read what, and which connections stay
//! open.

pub mod access;
pub mod connections;
pub mod decisions;
pub mod exposition;
pub mod health;
pub mod identity;
pub mod zpages;
