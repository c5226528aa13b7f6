//! Builds the documentation site: one book of the pages for operators and authors, with a search.
//!
//! *Flow*: `host/docs/SUMMARY.md` lists the pages -> [`stage`] copies them to `target/docs/src`, with their paths in
//! the repository, and adapts their links -> mdBook renders `target/docs/site` -> [`site`] checks links and searches of
//! the result.
//!
//! *Invariants*: 1. A broken link is an error, in the repository ([`links`]) and on the site. 2. Nothing is fetched.
//!
//! *Not here*: whether the pages are correct (`tests/tests/system/documentation.rs`, `tests/tests/long/tutorials.rs`).

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::{root, tools};

pub mod links;
mod site;
mod stage;

/// Searches of readers, with the page that must be among the first results ([`site::FIRST_RESULTS`]).
const SEARCHES: [(&str, &str); 6] = [
    ("leader election", "host/docs/high-availability.html"),
    ("grants", "host/docs/recipes.html"),
    ("CRD", "sdk/docs/custom-resources.html"),
    ("rollback", "host/docs/recipes.html"),
    ("kubeadm", "host/docs/install.html"),
    ("projection", "sdk/docs/fields-and-children.html"),
];

/// Builds the site and checks it. Returns the folder with its `index.html`.
///
/// # Errors
/// If mdBook cannot be installed, warns or fails; if a page is missing, a link is broken, or a search does not find its page.
pub fn build() -> anyhow::Result<PathBuf> {
    let folder = root().join("target/docs");
    stage::stage(&root(), &folder)?;
    let mut mdbook = Command::new(tools::mdbook()?);
    let output = mdbook.arg("build").arg(&folder).stdin(Stdio::null()).output().context("start mdbook")?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    // It reports unclosed HTML tags and similar errors as warnings, and succeeds.
    let is_clean = output.status.success() && !printed.contains("WARN") && !printed.contains("ERROR");
    ensure!(is_clean, "mdbook build: {}\n{printed}", output.status);
    let site = folder.join("site");
    let broken = site::broken_links(&site)?;
    ensure!(
        broken.is_empty(),
        "broken links on the site (host/docs/SUMMARY.md lists its pages):\n{}",
        broken.join("\n")
    );
    for (words, page) in SEARCHES {
        let found = site::search(&site, words)?;
        ensure!(
            found.iter().any(|url| url.split('#').next() == Some(page)),
            "a search for {words:?} finds {found:?}, not {page}"
        );
    }
    Ok(site)
}
