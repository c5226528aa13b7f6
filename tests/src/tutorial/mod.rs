//! Tutorials that are followed to the letter, on a machine with nothing but the base tools.
//!
//! ```text
//! sdk/docs/tutorial-go.md -> page (steps) -> player ──> terminal (bash) ──> printed, compared with the page
//!                                              └──────> files: excerpts compared, changes and new files written
//! ```
//!
//! What a page may hold, and what is done with it, is said in [`page`]; what the machine has, in [`machine`].
//!
//! Invariants:
//! 1. A code block that is not understood is an error, so nothing that a page shows goes unchecked.
//! 2. Commands run as they are written, in the order of the page.
//!
//! Not here: how pages are made (`cargo xtask generate`), and which there are (`tests/tests/long/tutorials.rs`,
//! `tests/tests/system/{first_hour,pages}.rs`, `tests/tests/long/recipes.rs`).

pub mod machine;
pub mod page;
pub mod player;
pub mod terminal;

pub use machine::Machine;
pub use page::Page;
pub use player::{Player, Timed};

/// Held by whoever follows a page with a port of this machine in it.
pub static PORTS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
