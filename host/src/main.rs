//! The `pintle` binary.
fn main() {}
