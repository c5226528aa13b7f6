//! The manager with whole plugins, on the real caches and a fake API server.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod apply;
mod deletions;
mod deny;
mod health;
mod manager;
mod numbers;
