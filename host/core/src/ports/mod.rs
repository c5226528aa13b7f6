//! The traits between the crates of the host, and the types that they use.

pub mod api;
pub mod guest;
pub mod outside;
pub mod review;
pub mod trace;
pub mod view;
