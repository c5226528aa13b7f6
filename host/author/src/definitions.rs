//! `pintle dev`: applies the CustomResourceDefinitions of a folder to the cluster, and again whenever a file changes.
//!
//! *Invariants*:
//! 1. A definition that is unreadable, or rejected by the API server, changes nothing: the previous one stays.
//! 2. A definition whose file is removed stays, because its removal would delete the objects of its kind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use pintle_build::crds::{self, shown};
use pintle_sources::folder::FolderWatch;
use serde_json::Value;

/// Applies one definition to a cluster.
pub type Apply = Arc<dyn Fn(Value) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

/// A folder of definitions, and those applied from it.
pub struct Definitions {
    folder: PathBuf,
    apply: Apply,
    /// The text of each file, or why it is unreadable; and the names of its definitions.
    seen: BTreeMap<PathBuf, (Result<String, String>, BTreeSet<String>)>,
    /// Why the last read of the folder failed.
    unreadable: Option<String>,
    /// The definitions applied from this folder.
    applied: BTreeSet<String>,
}

impl Definitions {
    /// The folder `crds` of a plugin: in its folder, or next to its component.
    pub fn of_plugin(plugin: &Path, apply: Apply) -> Self {
        Self::new(crds::beside(plugin), apply)
    }

    /// The folder in `--crds`.
    ///
    /// # Errors
    /// It is not a folder.
    pub fn of_folder(folder: &Path, apply: Apply) -> anyhow::Result<Self> {
        let shown = folder.display();
        let found = std::fs::metadata(folder).with_context(|| format!("read --crds {shown}"))?;
        if !found.is_dir() {
            bail!("--crds {shown} is not a directory: name the folder of the definitions");
        }
        Ok(Self::new(folder.to_owned(), apply))
    }

    fn new(folder: PathBuf, apply: Apply) -> Self {
        // Messages show the same path whatever its origin.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self { folder, apply, seen: BTreeMap::new(), unreadable: None, applied: BTreeSet::new() }
    }

    /// The folder, absolute. It need not exist.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies the definitions of changed files. Returns a message for each definition and each problem.
    ///
    /// # Cancel safety
    /// A file whose definitions were being applied is read again only after it changes.
    pub async fn sync(&mut self) -> Vec<String> {
        let files = match crds::files(&self.folder) {
            Ok(files) => files,
            Err(error) => {
                let line = format!("{} cannot be read, its definitions stay: {error}", self.folder.display());
                let is_new = self.unreadable.replace(line.clone()).is_none_or(|before| before != line);
                return if is_new { vec![line] } else { Vec::new() };
            }
        };
        self.unreadable = None;
        let mut lines = Vec::new();
        for file in &files {
            let text = crds::read(file).map_err(|error| format!("{error:#}"));
            if self.seen.get(file).is_some_and(|(before, _)| *before == text) {
                continue;
            }
            let (mut done, names) = self.sync_file(file, &text).await;
            lines.append(&mut done);
            self.seen.insert(file.clone(), (text, names));
        }
        lines.extend(self.forget(&files));
        lines
    }

    /// Applies the definitions of one file. Returns messages, and the names of its definitions.
    async fn sync_file(&mut self, file: &Path, text: &Result<String, String>) -> (Vec<String>, BTreeSet<String>) {
        let mut names = BTreeSet::new();
        let shown = shown(file);
        let documents = text.clone().and_then(|text| crds::documents(&text).map_err(|error| format!("{error:#}")));
        let documents = match documents {
            Ok(documents) => documents,
            Err(error) => {
                // The file may have contained definitions that were applied.
                if let Some((_, before)) = self.seen.get(file) {
                    names.clone_from(before);
                }
                let stays = if names.is_empty() { "" } else { "; the previous definition stays" };
                return (vec![format!("{shown}: not applied: {error}{stays}")], names);
            }
        };
        let mut lines = Vec::new();
        for document in documents {
            let name = document["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
            if !crds::is_definition(&document) {
                let kind = document["kind"].as_str().unwrap_or("an object");
                lines.push(format!("{shown}: not applied: {kind} {name} is not a CustomResourceDefinition of v1"));
                continue;
            }
            match (self.apply)(document).await {
                Ok(()) => {
                    lines.push(format!("{shown}: applied {name}"));
                    self.applied.insert(name.clone());
                    names.insert(name);
                }
                Err(error) => {
                    let stays = if self.applied.contains(&name) {
                        names.insert(name.clone());
                        "; the previous definition stays"
                    } else {
                        ""
                    };
                    lines.push(format!("{shown}: {name} is not applied: {error:#}{stays}"));
                }
            }
        }
        (lines, names)
    }

    /// Drops removed files. Returns a message for each definition that no file has any more.
    fn forget(&mut self, files: &[PathBuf]) -> Vec<String> {
        let mut gone = BTreeSet::new();
        self.seen.retain(|file, (_, names)| {
            let is_there = files.contains(file);
            if !is_there {
                gone.append(names);
            }
            is_there
        });
        let left: BTreeSet<&String> = self.seen.values().flat_map(|(_, names)| names).collect();
        let orphaned = gone.into_iter().filter(|name| !left.contains(name));
        orphaned
            .map(|name| {
                format!(
                    "{}: no file defines {name} any more; it stays, because its objects would go with it: \
                     `kubectl delete crd {name}` deletes both",
                    shown(&self.folder)
                )
            })
            .collect()
    }

    /// Applies changes while polled, and reports them in lines. Never returns.
    pub fn follow(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> BoxFuture<'static, ()> {
        async move {
            let mut watch = FolderWatch::of_entries(&self.folder);
            loop {
                for line in self.sync().await {
                    report(&line);
                }
                watch.changed().await;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use anyhow::anyhow;

    use super::*;

    const TEAM: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.example.org}
spec: {group: example.org}
";

    /// A folder, its definitions, and the applied groups. The group `bad` is rejected.
    struct Fixture {
        folder: tempfile::TempDir,
        definitions: Definitions,
        applied: Arc<Mutex<Vec<String>>>,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let applied = Arc::new(Mutex::new(Vec::new()));
        let log = applied.clone();
        let apply: Apply = Arc::new(move |definition| {
            let group = definition["spec"]["group"].as_str().unwrap_or_default().to_owned();
            let result = if group == "bad" { Err(anyhow!("spec.group: wrong")) } else { Ok(()) };
            log.lock().unwrap().push(group);
            std::future::ready(result).boxed()
        });
        let definitions = Definitions::of_plugin(folder.path(), apply);
        std::fs::create_dir(folder.path().join("crds")).unwrap();
        Fixture { folder, definitions, applied }
    }

    impl Fixture {
        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join("crds").join(name), text).unwrap();
        }

        /// The messages, without the path of the folder.
        async fn sync(&mut self) -> Vec<String> {
            let root = format!("{}/", self.folder.path().display());
            self.definitions.sync().await.iter().map(|line| line.replace(&root, "")).collect()
        }

        fn n_applied(&self) -> usize {
            self.applied.lock().unwrap().len()
        }
    }

    #[tokio::test]
    async fn a_definition_is_applied_once_and_again_when_its_file_changes() {
        let mut fixture = fixture();
        assert_eq!(fixture.sync().await, Vec::<String>::new());
        fixture.write("team.yaml", TEAM);
        fixture.write("notes.txt", "nothing");
        fixture.write(".team.yaml.swp.yaml", "a: [");
        assert_eq!(fixture.sync().await, ["crds/team.yaml: applied teams.example.org"]);
        assert_eq!(fixture.sync().await, Vec::<String>::new());
        assert_eq!(fixture.n_applied(), 1);
        fixture.write("team.yaml", &TEAM.replace("group: example.org", "group: example.net"));
        assert_eq!(fixture.sync().await, ["crds/team.yaml: applied teams.example.org"]);
        assert_eq!(*fixture.applied.lock().unwrap(), ["example.org", "example.net"]);
    }

    #[tokio::test]
    async fn a_broken_or_rejected_definition_is_reported_once_and_the_previous_one_stays() {
        let mut fixture = fixture();
        fixture.write("team.yaml", &TEAM.replace("group: example.org", "group: bad"));
        assert_eq!(fixture.sync().await, ["crds/team.yaml: teams.example.org is not applied: spec.group: wrong"]);
        fixture.write("team.yaml", TEAM);
        assert_eq!(fixture.sync().await, ["crds/team.yaml: applied teams.example.org"]);
        fixture.write("team.yaml", &TEAM.replace("group: example.org", "group: bad"));
        let line = "crds/team.yaml: teams.example.org is not applied: spec.group: wrong; the previous definition stays";
        assert_eq!(fixture.sync().await, [line]);
        assert_eq!(fixture.sync().await, Vec::<String>::new());
        fixture.write("team.yaml", "a: [");
        let lines = fixture.sync().await;
        assert!(lines[0].starts_with("crds/team.yaml: not applied: "), "{lines:?}");
        assert!(lines[0].ends_with("; the previous definition stays"), "{lines:?}");
        fixture.write("team.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        let line = "crds/team.yaml: not applied: ConfigMap a is not a CustomResourceDefinition of v1";
        assert_eq!(fixture.sync().await, [line]);
    }

    #[tokio::test]
    async fn one_bad_file_does_not_keep_others_from_being_applied() {
        let mut fixture = fixture();
        fixture.write("a.yaml", "a: [");
        fixture.write("b.yaml", &format!("{TEAM}---\n---\n{}", TEAM.replace("teams", "clubs")));
        let lines = fixture.sync().await;
        assert!(lines[0].starts_with("crds/a.yaml: not applied: "), "{lines:?}");
        assert_eq!(
            lines[1..],
            ["crds/b.yaml: applied teams.example.org", "crds/b.yaml: applied clubs.example.org"].map(str::to_owned)
        );
    }

    #[tokio::test]
    async fn a_definition_whose_file_is_gone_stays() {
        let mut fixture = fixture();
        fixture.write("team.yaml", TEAM);
        fixture.sync().await;
        // Another file name for the same definition.
        let folder = fixture.folder.path().join("crds");
        std::fs::rename(folder.join("team.yaml"), folder.join("other.yaml")).unwrap();
        assert_eq!(fixture.sync().await, ["crds/other.yaml: applied teams.example.org"]);
        std::fs::remove_dir_all(&folder).unwrap();
        let lines = fixture.sync().await;
        assert!(lines[0].contains("no file defines teams.example.org any more; it stays"), "{lines:?}");
        assert_eq!((lines.len(), fixture.n_applied()), (1, 2));
    }

    #[tokio::test]
    async fn a_pipe_or_a_huge_file_is_not_read() {
        let mut fixture = fixture();
        let folder = fixture.folder.path().join("crds");
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe.yaml")).status().unwrap();
        assert!(made.success());
        std::fs::File::create(folder.join("huge.yaml")).unwrap().set_len(4 << 20).unwrap();
        let line = "crds/huge.yaml: not applied: it has 4194304 bytes; at most 3145728 are read";
        assert_eq!(fixture.sync().await, [line]);
    }

    #[test]
    fn a_folder_that_is_named_must_exist() {
        let apply: Apply = Arc::new(|_| std::future::ready(Ok(())).boxed());
        let root = tempfile::tempdir().unwrap();
        let why = |path: &Path| format!("{:#}", Definitions::of_folder(path, apply.clone()).err().unwrap());
        let why = |path: &str| why(&root.path().join(path)).replace(&root.path().display().to_string(), "$DIR");
        assert_eq!(why("none"), "read --crds $DIR/none: No such file or directory (os error 2)");
        std::fs::write(root.path().join("a.yaml"), "").unwrap();
        assert_eq!(why("a.yaml"), "--crds $DIR/a.yaml is not a directory: name the folder of the definitions");
    }
}
