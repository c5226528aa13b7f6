//! Build and test chores.
fn main() {}
