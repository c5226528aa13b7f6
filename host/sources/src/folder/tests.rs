//! Files come and go, on a real folder.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::control::testing::{FakeLoader, FakePlugins};

struct Stage {
    root: TempDir,
    plugins: Arc<FakePlugins>,
    control: Arc<Control>,
    folder: PluginFolder,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let plugins = FakePlugins::new();
        let control = Arc::new(Control::new(plugins.clone(), Arc::new(FakeLoader), pintle_oci::Trust::default()));
        let folder = PluginFolder::new(root.path().to_owned(), control.clone(), signal::Sender::new(0));
        Self { root, plugins, control, folder }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at("new"), text).unwrap();
        fs::rename(self.at("new"), self.at(name)).unwrap();
    }

    /// Looks until nothing is left to do, and says what was done.
    async fn settle(&mut self) -> Vec<String> {
        loop {
            self.folder.pass();
            match self.folder.tasks.join_next().await {
                Some(done) => self.folder.end(done),
                None => break,
            }
        }
        let root = self.root.path().display().to_string();
        self.plugins.done().into_iter().map(|line| line.replace(&root, "$DIR")).collect()
    }

    fn problems(&self) -> Vec<String> {
        let root = self.root.path().display().to_string();
        let problems = self.control.listing().problems;
        problems
            .into_iter()
            .map(|problem| format!("{}: {}", problem.reason, problem.message.replace(&root, "$DIR")))
            .collect()
    }
}

#[tokio::test]
async fn files_are_loaded_swapped_configured_and_unloaded() {
    let mut stage = Stage::new();
    stage.write("p.wasm", "p 1");
    assert_eq!(stage.settle().await, ["apply p 1 from $DIR/p.wasm"]);
    assert!(stage.settle().await.is_empty(), "nothing has changed");
    stage.write("p.wasm", "p 2");
    assert_eq!(stage.settle().await, ["apply p 2 from $DIR/p.wasm"]);
    stage.write("p.yaml", "disabled: true");
    assert_eq!(stage.settle().await, ["apply p 2 from $DIR/p.wasm"]);
    assert!(stage.plugins.spec("p").disabled);
    fs::remove_file(stage.at("p.yaml")).unwrap();
    assert_eq!(stage.settle().await, ["apply p 2 from $DIR/p.wasm"]);
    assert!(!stage.plugins.spec("p").disabled);
    fs::remove_file(stage.at("p.wasm")).unwrap();
    assert_eq!(stage.settle().await, ["remove p"]);
    assert!(stage.problems().is_empty());
}

#[tokio::test]
async fn what_is_refused_leaves_what_runs_and_is_tried_again_when_it_has_changed() {
    let mut stage = Stage::new();
    stage.write("p.wasm", "p 1");
    stage.settle().await;
    // Half a file.
    stage.write("p.wasm", "p");
    assert!(stage.settle().await.is_empty());
    assert_eq!(stage.problems(), ["Invalid: $DIR/p.wasm: this is not WebAssembly"]);
    assert_eq!(stage.plugins.versions(), ["p 1"]);
    stage.write("p.wasm", "p 2");
    assert_eq!(stage.settle().await, ["apply p 2 from $DIR/p.wasm"]);
    assert!(stage.problems().is_empty());

    stage.write("p.yaml", "digest: other");
    assert!(stage.settle().await.is_empty());
    assert_eq!(stage.problems(), ["DigestMismatch: another component than expected"]);
    stage.write("p.yaml", "colour: red");
    stage.settle().await;
    assert_eq!(stage.problems().len(), 1);
    assert!(stage.problems()[0].starts_with("Invalid: $DIR/p.yaml: "), "{:?}", stage.problems());
    fs::remove_file(stage.at("p.yaml")).unwrap();
    stage.settle().await;

    // A link whose file is gone, and a folder in the place of a file.
    for make in
        [|at: &Path| std::os::unix::fs::symlink("nowhere", at).unwrap(), |at: &Path| fs::create_dir(at).unwrap()]
    {
        fs::remove_file(stage.at("p.wasm")).unwrap();
        make(&stage.at("p.wasm"));
        assert!(stage.settle().await.is_empty());
        assert!(stage.problems()[0].starts_with("Unreadable: read $DIR/p.wasm: "), "{:?}", stage.problems());
    }
    assert_eq!(stage.plugins.versions(), ["p 2"]);
}

#[tokio::test]
async fn a_files_name_is_the_plugins() {
    let mut stage = Stage::new();
    stage.write("q.wasm", "p 1");
    stage.write("r.yaml", "{}");
    assert!(stage.settle().await.is_empty());
    assert_eq!(stage.problems(), ["NameMismatch: this is plugin p", "Invalid: there is no r.wasm beside r.yaml"]);
    fs::remove_file(stage.at("q.wasm")).unwrap();
    fs::remove_file(stage.at("r.yaml")).unwrap();
    assert!(stage.settle().await.is_empty(), "what never ran is not unloaded");
    assert!(stage.problems().is_empty());
}

#[tokio::test]
async fn a_folder_that_is_gone_changes_nothing() {
    let mut stage = Stage::new();
    stage.write("p.wasm", "p 1");
    stage.settle().await;
    let away = tempfile::tempdir().unwrap();
    fs::rename(stage.root.path(), away.path().join("moved")).unwrap();
    assert!(stage.settle().await.is_empty());
    assert_eq!(stage.plugins.versions(), ["p 1"]);
    fs::rename(away.path().join("moved"), stage.root.path()).unwrap();
    assert!(stage.settle().await.is_empty());
}

#[tokio::test]
async fn a_file_waits_below_a_resource_and_is_taken_when_that_is_gone() {
    let mut stage = Stage::new();
    let (overrides, evidence) = (&Overrides::NONE, Evidence::Own);
    let wanted = Wanted { origin: "cr".into(), bytes: b"p 9".to_vec(), spec: None, overrides, evidence };
    stage.control.apply(Way::Resource, "p", wanted).await.unwrap();
    stage.plugins.done();
    stage.write("p.wasm", "p 1");
    assert!(stage.settle().await.is_empty());
    assert!(stage.problems()[0].starts_with("Claimed: "));
    stage.control.release(Way::Resource, "p").await.unwrap();
    assert_eq!(stage.settle().await, ["apply p 1 from $DIR/p.wasm"]);
    assert!(stage.problems().is_empty());
}
