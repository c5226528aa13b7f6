//! The port over real sockets: who may read what, and clients that want too much.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod access;
mod bounds;
mod client;
