//! The port over real sockets: authorization, and clients that exceed bounds.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod access;
mod bounds;
mod client;
