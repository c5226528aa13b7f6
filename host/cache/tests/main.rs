//! The caches on a fake API server.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
mod informer;
mod sharing;
mod views;
