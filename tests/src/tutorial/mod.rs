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

use std::fs::File;

use anyhow::{Context, Result};

use crate::target_dir;

pub mod machine;
pub mod page;
pub mod player;
pub mod terminal;

pub use machine::Machine;
pub use page::Page;
pub use player::{Player, Timed};

/// Held while a page is followed that names ports of this machine, until it is dropped: tests of other files run in other processes.
///
/// # Errors
/// The file of the lock cannot be opened or locked.
pub async fn ports() -> Result<File> {
    let locked = tokio::task::spawn_blocking(|| {
        let path = target_dir().join("ports.lock");
        let file = File::options().create(true).write(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        file.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(file)
    });
    locked.await?
}
