//! `cargo xtask generate`: every generated file of the repository, so that nobody needs to know which there are.
//!
//! *Invariants*: 1. What is committed is what [`Group::files`] answers (`committed_files_are_up_to_date`, and a test of the SDK of JavaScript). 2. `--check` writes nothing.
//!
//! *Not here*: how a file is made (the library); other files that tests record (`UPDATE_EXPECT=1`, `cargo xtask record`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use xtask::guests::{self, Set};
use xtask::{bindings, embedded, process, reference, root, schema, tutorials};

use crate::{checks, chores, languages};

/// Files that are generated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// References, tutorials, and what pages say about controllers: seconds.
    Pages,
    /// What the SDK of Go carries of the contract, Kubernetes' API types, and the tables of the embedded cluster; needs Go.
    Bindings,
    /// The type declarations of the SDK of JavaScript; needs Node.js.
    Declarations,
    /// What the host prints: the tables of host/docs/configuration.md, roles and definitions in host/deploy. Builds it, which takes
    /// minutes.
    Host,
}

/// The files of [`Group::Host`], and the test that writes them: its target, its name.
const OF_HOST: [(&[&str], &[&str], &str); 2] = [
    (&["host/docs/configuration.md"], &["--lib"], "config::tests::the_page_lists_every_field"),
    (
        &[
            "host/deploy/chart/files/roles.yaml",
            "host/deploy/chart/crds/controllerplugins.yaml",
            "host/deploy/kustomize/base/controllerplugins.yaml",
        ],
        &["--test", "system"],
        "deploy::committed_roles_and_definitions_are_what_pintle_prints",
    ),
];

const SDK_OF_JS: &str = "sdk/js";

/// A file below the root of the repository, with its text; without one, it must not exist.
#[derive(Debug, PartialEq, Eq)]
struct Generated {
    path: PathBuf,
    text: Option<String>,
}

impl Generated {
    fn is_old(&self, root: &Path) -> bool {
        fs::read_to_string(root.join(&self.path)).ok() != self.text
    }

    fn write(&self, root: &Path) -> anyhow::Result<()> {
        let path = root.join(&self.path);
        let write = || match &self.text {
            None => fs::remove_file(&path),
            Some(text) => fs::create_dir_all(path.parent().unwrap_or(root)).and_then(|()| fs::write(&path, text)),
        };
        write().with_context(|| format!("write {}", path.display()))
    }
}

impl Group {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The files that this program makes itself.
    ///
    /// # Errors
    /// A source of a file is missing or wrong.
    fn files(self) -> anyhow::Result<Vec<Generated>> {
        let file = |(path, text): (String, String)| Generated { path: path.into(), text: Some(text) };
        match self {
            Self::Pages => {
                let pages = reference::generate()?.into_iter().map(|(page, text)| (page.to_owned(), text));
                Ok(pages.chain(tutorials::generate()?).map(file).collect())
            }
            Self::Bindings => {
                let mut files = vec![file((schema::PATH.to_owned(), schema::generate()?))];
                files.extend(embedded::generate()?.map(file));
                files.extend(replaced(&bindings::folder(), bindings::generate()?)?);
                Ok(files)
            }
            Self::Declarations => replaced(&root().join(SDK_OF_JS).join("types"), declarations()?),
            Self::Host => Ok(Vec::new()),
        }
    }

    /// Writes the files of the group that are old; answers their paths. With `check`, writes none.
    fn update(self, check: bool) -> anyhow::Result<Vec<PathBuf>> {
        if self == Self::Host {
            return of_host(check);
        }
        let mut old = self.files()?;
        old.retain(|file| file.is_old(&root()));
        if !check {
            old.iter().try_for_each(|file| file.write(&root()))?;
        }
        Ok(old.into_iter().map(|file| file.path).collect())
    }
}

/// The files of a folder that contains only generated ones: these, and no others.
fn replaced(folder: &Path, generated: BTreeMap<PathBuf, String>) -> anyhow::Result<Vec<Generated>> {
    let mut existing = Vec::new();
    list(folder, &mut existing)?;
    let root = root();
    let of = |name: PathBuf, text| {
        let path = folder.join(name);
        Generated { path: path.strip_prefix(&root).unwrap_or(&path).to_owned(), text }
    };
    let names = existing.iter().filter_map(|path| path.strip_prefix(folder).ok());
    let others = names.filter(|name| !generated.contains_key(*name)).map(|name| of(name.to_owned(), None));
    let mut files: Vec<Generated> = others.collect();
    files.extend(generated.into_iter().map(|(name, text)| of(name, Some(text))));
    Ok(files)
}

/// What the compiler of TypeScript makes of the sources in JavaScript: path below `sdk/js/types` -> text.
fn declarations() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    languages::install_node()?;
    let folder = tempfile::tempdir()?;
    let mut compile = Command::new("node");
    compile.current_dir(root().join(SDK_OF_JS)).args([
        "node_modules/typescript/bin/tsc",
        "--project",
        "tsconfig.types.json",
    ]);
    process::run(compile.arg("--outDir").arg(folder.path()))?;
    let mut paths = Vec::new();
    list(folder.path(), &mut paths)?;
    let read = |path: PathBuf| Ok((path.strip_prefix(folder.path())?.to_owned(), fs::read_to_string(&path)?));
    paths.into_iter().map(read).collect()
}

/// Every file below a folder.
fn list(folder: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

/// Has tests write the files, which follow from a host with its components.
fn of_host(check: bool) -> anyhow::Result<Vec<PathBuf>> {
    guests::build(Set::Plugins)?;
    process::run(checks::linted(process::cargo(&root()).args(["build", "--workspace", "--bins", "--tests"])))?;
    let mut old = Vec::new();
    for (files, target, name) in OF_HOST {
        old.extend(written_by_test(files, target, name, check)?);
    }
    Ok(old)
}

/// Runs a test that compares files with what the host prints. With `check`, a failure means that they are old.
fn written_by_test(files: &[&str], target: &[&str], name: &str, check: bool) -> anyhow::Result<Vec<PathBuf>> {
    let read = || -> anyhow::Result<Vec<String>> {
        let text = |file: &&str| fs::read_to_string(root().join(file)).with_context(|| format!("read {file}"));
        files.iter().map(text).collect()
    };
    let before = read()?;
    let mut test = process::cargo(&root());
    // The whole workspace, so that dependencies have the features that they have in other builds.
    checks::linted(test.args(["test", "--quiet", "--workspace"]).args(target).arg(name));
    test.env("PINTLE_BIN", chores::pintle());
    let passed = process::output(if check { test.env_remove("UPDATE_EXPECT") } else { test.env("UPDATE_EXPECT", "1") });
    if let Ok(printed) = &passed {
        ensure!(printed.contains("1 passed"), "there is no test {name}");
    }
    match passed {
        // The reason: which file is old.
        Err(why) if check => {
            eprintln!("{why:#}");
            Ok(files.iter().map(PathBuf::from).collect())
        }
        Err(why) => Err(why),
        Ok(_) => {
            let after = read()?;
            let all = files.iter().zip(before.iter().zip(&after));
            Ok(all.filter(|(_, (before, after))| before != after).map(|(file, _)| file.into()).collect())
        }
    }
}

/// Writes the files of these groups, or of all; prints those that it has changed. With `check`, only reads.
///
/// # Errors
/// A file cannot be made or written; with `check`, also if a file is old.
pub(crate) fn run(groups: &[Group], check: bool) -> anyhow::Result<()> {
    let groups = if groups.is_empty() { Group::value_variants() } else { groups };
    let mut old = Vec::new();
    for group in groups {
        for path in group.update(check).with_context(|| format!("generate {}", group.name()))? {
            if !check {
                println!("{}", path.display());
            }
            old.push(line(&path, *group));
        }
    }
    if check && !old.is_empty() {
        bail!("generated files are old:\n{}", old.join("\n"));
    }
    Ok(())
}

fn line(path: &Path, group: Group) -> String {
    format!("  {}: run `cargo xtask generate {}`", path.display(), group.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_files_are_up_to_date() -> anyhow::Result<()> {
        let mut old = Vec::new();
        for group in [Group::Pages, Group::Bindings] {
            let files = group.files()?;
            assert!(files.len() > 5, "{group:?} has only {} files", files.len());
            old.extend(files.iter().filter(|file| file.is_old(&root())).map(|file| line(&file.path, group)));
        }
        assert!(old.is_empty(), "generated files are old:\n{}", old.join("\n"));
        Ok(())
    }

    #[test]
    fn a_file_is_old_until_it_is_written_or_removed() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let new = Generated { path: "a/b.md".into(), text: Some("text\n".into()) };
        assert!(new.is_old(folder.path()));
        new.write(folder.path())?;
        assert!(!new.is_old(folder.path()));
        let gone = Generated { path: "a/b.md".into(), text: None };
        assert!(gone.is_old(folder.path()));
        gone.write(folder.path())?;
        assert!(!gone.is_old(folder.path()) && new.is_old(folder.path()));
        Ok(())
    }

    #[test]
    fn the_command_for_a_file_is_one_of_this_program() {
        assert_eq!(line(Path::new("README.md"), Group::Pages), "  README.md: run `cargo xtask generate pages`");
    }
}
