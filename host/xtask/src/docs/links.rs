//! Links of Markdown pages to repository files and headings.
//!
//! *Invariants*: 1. Links with other schemes, such as `https:`, are not followed. 2. Links in code blocks and code
//! spans are ignored.
//! 3. Anchors are GitHub's: the heading in lower case without punctuation, spaces as `-`, repeated ones with `-1`, `-2`.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// Folders without pages: output, dependencies, and parts of generated pages, whose links are checked in the result.
const WITHOUT_PAGES: [&str; 3] = ["target", "node_modules", "sdk/docs/tutorial"];

/// A link, or an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Bytes of the page that contain it, brackets included.
    pub range: Range<usize>,
    /// Target as written.
    pub target: String,
    /// Whether it is an image.
    pub is_image: bool,
}

/// A parser of pages.
pub(super) fn parser(page: &str) -> Parser<'_> {
    Parser::new_ext(page, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH)
}

/// The links of a page to files or headings, in their order.
pub fn links(page: &str) -> Vec<Link> {
    let link = |(event, range)| {
        let (kind, target, is_image) = match event {
            Event::Start(Tag::Link { link_type, dest_url, .. }) => (link_type, dest_url, false),
            Event::Start(Tag::Image { link_type, dest_url, .. }) => (link_type, dest_url, true),
            _ => return None,
        };
        let is_ours = !matches!(kind, LinkType::Autolink | LinkType::Email) && !has_scheme(&target);
        is_ours.then(|| Link { range, target: target.into_string(), is_image })
    };
    parser(page).into_offset_iter().filter_map(link).collect()
}

/// Whether a target is outside of the repository.
pub(super) fn has_scheme(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b))
    })
}

/// The anchors of a page's headings.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parser(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => heading.iter_mut().for_each(|heading| heading.push_str(&text)),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let repeated = (1..).map(|n| format!("{anchor}-{n}"));
                let free = std::iter::once(anchor.clone()).chain(repeated).find(|anchor| !anchors.contains(anchor));
                anchors.extend(free);
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let text = heading.trim().to_lowercase();
    let letter = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    };
    text.chars().filter_map(letter).collect()
}

/// The repository path of a link's file or folder, and its anchor. `None` if it is outside of the repository.
pub fn resolve(page: &Path, target: &str) -> Option<(PathBuf, Option<String>)> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let mut resolved = PathBuf::new();
    for component in page.parent()?.join(path).components() {
        match component {
            Component::ParentDir => resolved.pop().then_some(())?,
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some((resolved, anchor))
}

/// The broken links of a page, one line each. `page`: its path from the root of the repository.
///
/// # Errors
/// If the page or a linked one cannot be read.
pub fn broken(root: &Path, page: &Path) -> anyhow::Result<Vec<String>> {
    let text = read(root, page)?;
    let mut broken = Vec::new();
    for link in links(&text) {
        let problem = match resolve(page, &link.target) {
            None => Some("is outside of the repository"),
            Some((path, _)) if !root.join(&path).exists() => Some("does not exist"),
            Some((path, Some(anchor))) => {
                let is_page = path.extension().is_some_and(|extension| extension == "md");
                let has_anchor = is_page && anchors(&read(root, &path)?).contains(&anchor);
                (!has_anchor).then_some("has no heading of this name")
            }
            Some((_, None)) => None,
        };
        if let Some(problem) = problem {
            broken.push(format!("{}:{}: {} {problem}", page.display(), line(&text, link.range.start), link.target));
        }
    }
    Ok(broken)
}

/// The number, from 1, of the line that contains a byte.
pub(super) fn line(text: &str, byte: usize) -> usize {
    text[..byte].matches('\n').count() + 1
}

pub(super) fn read(root: &Path, page: &Path) -> anyhow::Result<String> {
    fs::read_to_string(root.join(page)).with_context(|| format!("read {}", page.display()))
}

/// All pages of the repository, from its root, in their order.
///
/// # Errors
/// If a folder cannot be read.
pub fn pages(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder)).with_context(|| format!("read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if entry.file_type()?.is_dir() {
                let is_left_out = WITHOUT_PAGES.iter().any(|left_out| path.ends_with(left_out));
                folders.extend((!is_hidden && !is_left_out).then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}
