//! The traits through which the crates of the host meet, and the types that cross them.

pub mod api;
pub mod guest;
pub mod outside;
pub mod review;
pub mod trace;
pub mod view;
