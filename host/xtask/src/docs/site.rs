//! Checks of the rendered site: its links, and its search.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use html5gum::{Token, Tokenizer};

use super::links;
use crate::process;

/// Number of search results that must include the page.
pub(super) const FIRST_RESULTS: usize = 5;

/// Runs a search with the index and the library of the site, as its `searcher.js` does, and prints the pages found.
const SEARCH: &str = "
const [site, words] = process.argv.slice(1), fs = require('fs'), path = require('path');
const file = name => path.join(site, fs.readdirSync(site).find(file => file.startsWith(name) && file.endsWith('.js')));
globalThis.window = {search: {}};
(0, eval)(fs.readFileSync(file('searchindex'), 'utf8'));
const {index, doc_urls, search_options} = window.search;
const results = require(file('elasticlunr')).Index.load(index).search(words, search_options);
console.log(results.map(result => doc_urls[result.ref]).join('\\n'));
";

/// The content of a page of the site.
#[derive(Debug, Default)]
struct Page {
    ids: BTreeSet<String>,
    targets: BTreeSet<String>,
}

/// Links of all pages of a site to missing files or elements, one line each. Other hosts are not checked.
///
/// # Errors
/// If a page cannot be read, or there is none.
pub(super) fn broken_links(site: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read_folder(site, Path::new(""), &mut pages)?;
    ensure!(!pages.is_empty(), "there is no page in {}", site.display());
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for target in page.targets.iter().filter(|target| !links::has_scheme(target)) {
            let leads_to = links::resolve(path, target).map(|(to, anchor)| {
                let to = if site.join(&to).is_dir() { to.join("index.html") } else { to };
                (to, anchor)
            });
            let is_there = leads_to.is_some_and(|(to, anchor)| match (pages.get(&to), anchor) {
                (Some(page), Some(anchor)) => anchor.is_empty() || page.ids.contains(&anchor),
                (None, Some(_)) => false,
                (_, None) => site.join(to).is_file(),
            });
            if !is_there {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    Ok(broken)
}

fn read_folder(site: &Path, folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> anyhow::Result<()> {
    for entry in fs::read_dir(site.join(folder)).with_context(|| format!("read {}", folder.display()))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            read_folder(site, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(site.join(&path)).with_context(|| format!("read {}", path.display()))?;
            pages.insert(path, read_page(&text));
        }
    }
    Ok(())
}

fn read_page(html: &str) -> Page {
    let mut page = Page::default();
    for Ok(token) in Tokenizer::new(html) {
        let Token::StartTag(tag) = token else { continue };
        let attribute = |name: &[u8]| tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
        page.ids.extend(attribute(b"id"));
        page.targets.extend([attribute(b"href"), attribute(b"src")].into_iter().flatten());
    }
    page
}

/// The first pages of a search on the site, with their headings.
///
/// # Errors
/// If there is no Node.js, or the site has no search index.
pub(super) fn search(site: &Path, words: &str) -> anyhow::Result<Vec<String>> {
    let mut node = Command::new("node");
    let found = process::output(node.args(["-e", SEARCH]).arg(site).arg(words)).context("search with Node.js")?;
    Ok(found.lines().take(FIRST_RESULTS).map(str::to_owned).collect())
}
