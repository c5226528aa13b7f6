//! Creates the source of the book from the pages of the repository.
//!
//! mdBook takes pages of one folder only, and would copy everything else in it. So the pages in `SUMMARY.md` are
//! copied, with their paths in the repository; links between them stay unchanged.
//!
//! *Invariants*: 1. The copy contains only pages, and the images and files that they show. 2. A link to a file that is
//! not a page of the book keeps its text and loses its target.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Tag};

use super::links::{self, Link};

/// The folder of the book's configuration, its list of pages and its style.
const BOOK: &str = "host/docs";

/// Files of [`BOOK`] that mdBook expects next to `src`.
const FILES: [&str; 2] = ["book.toml", "site.css"];

/// Writes the source of the book to a folder, replacing its content.
///
/// # Errors
/// If a page cannot be read, or a link of a page is broken.
pub(super) fn stage(root: &Path, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let summary = Path::new(BOOK).join("SUMMARY.md");
    let pages = listed(root, &summary)?;
    for file in FILES {
        copy(&root.join(BOOK).join(file), &folder.join(file))?;
    }
    let source = folder.join("src");
    let mut shown = BTreeSet::new();
    for page in &pages {
        let text = adapt(root, page, page, &pages, &mut shown)?;
        write(&source.join(renamed(page)), &text)?;
    }
    // The list is at the top of the copy, where mdBook expects it.
    write(&source.join("SUMMARY.md"), &adapt(root, &summary, Path::new("SUMMARY.md"), &pages, &mut shown)?)?;
    shown.iter().try_for_each(|file| copy(&root.join(file), &source.join(file)))
}

/// The pages of the book, relative to the root of the repository.
fn listed(root: &Path, summary: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    let broken = links::broken(root, summary)?;
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    let text = links::read(root, summary)?;
    let pages: Vec<PathBuf> =
        links::links(&text).iter().filter_map(|link| Some(links::resolve(summary, &link.target)?.0)).collect();
    let n_pages = pages.len();
    let pages: BTreeSet<PathBuf> = pages.into_iter().collect();
    ensure!(pages.len() == n_pages, "{} lists a page twice", summary.display());
    Ok(pages)
}

/// mdBook renders a `README.md` as `index.html` and leaves links to it unchanged; the copy is therefore called `index.md`.
fn renamed(page: &Path) -> PathBuf {
    if page.file_name() == Some(OsStr::new("README.md")) { page.with_file_name("index.md") } else { page.to_owned() }
}

/// The text of a page in the book. `at`: its path in the copy. Adds the images that it shows to `shown`.
fn adapt(
    root: &Path,
    page: &Path,
    at: &Path,
    pages: &BTreeSet<PathBuf>,
    shown: &mut BTreeSet<PathBuf>,
) -> anyhow::Result<String> {
    let mut text = links::read(root, page)?;
    let mut edits = info_strings(&text);
    for link in links::links(&text) {
        let place = || format!("{}:{}: {}", page.display(), links::line(&text, link.range.start), link.target);
        let (target, anchor) = links::resolve(page, &link.target).with_context(place)?;
        ensure!(root.join(&target).exists(), "{} does not exist", place());
        if link.is_image {
            shown.insert(target);
            continue;
        }
        let Some(label) = label(&text, &link) else { bail!("{}: write it as [text](target)", place()) };
        let new = if pages.contains(&target) {
            if at == page && renamed(&target) == target {
                continue;
            }
            let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
            format!("[{label}]({}{anchor})", relative(at, &renamed(&target)).display())
        } else {
            label.to_owned()
        };
        edits.push((link.range.clone(), new));
    }
    // From the end, so that earlier positions stay valid.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    Ok(text)
}

/// The text of an inline link.
fn label<'t>(text: &'t str, link: &Link) -> Option<&'t str> {
    let source = text.get(link.range.clone())?;
    let (label, target) = source.strip_prefix('[')?.rsplit_once("](")?;
    target.ends_with(')').then_some(label)
}

/// Info strings of code blocks, shortened to the language: mdBook interprets the other words, which are for tests, as
/// classes.
fn info_strings(text: &str) -> Vec<(Range<usize>, String)> {
    let shortened = |(event, range): (Event<'_>, Range<usize>)| {
        let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) = event else { return None };
        let (language, _) = info.split_once(' ')?;
        let start = range.start + text[range].find(&*info)?;
        Some((start..start + info.len(), language.to_owned()))
    };
    links::parser(text).into_offset_iter().filter_map(shortened).collect()
}

/// The path of a page relative to the folder of another.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let folder: Vec<_> = from.parent().into_iter().flat_map(Path::components).collect();
    let target: Vec<_> = to.components().collect();
    let n_common = folder.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n(Path::new(".."), folder.len() - n_common);
    up.chain(target[n_common..].iter().map(|component| Path::new(component.as_os_str()))).collect()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().context("a page without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let folder = to.parent().context("a file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
