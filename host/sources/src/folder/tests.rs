//! File changes in a real folder.

use std::fs;
use std::path::Path;

use pintle_core::lifecycle::Phase;
use tempfile::TempDir;

use super::*;
use crate::control::testing::Fixture;

struct TestFolder {
    root: TempDir,
    host: Fixture,
    folder: PluginFolder,
}

impl TestFolder {
    fn new() -> Self {
        Self::over(Fixture::new())
    }

    /// The folder of a host that may have claims and plugins already.
    fn over(host: Fixture) -> Self {
        let root = tempfile::tempdir().unwrap();
        let folder = PluginFolder::new(root.path().to_owned(), host.control.clone(), signal::Sender::new(0));
        Self { root, host, folder }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at("new"), text).unwrap();
        fs::rename(self.at("new"), self.at(name)).unwrap();
    }

    fn shown(&self, text: &str) -> String {
        text.replace(&self.root.path().display().to_string(), "$DIR")
    }

    /// Runs passes until it settles; returns the loaded components.
    async fn settle(&mut self) -> Vec<String> {
        loop {
            self.folder.pass(scan(self.root.path(), false));
            match self.folder.plugins.ended().await {
                Some(done) => self.folder.plugins.end(done),
                None => break,
            }
        }
        self.host.loaded().iter().map(|line| self.shown(line)).collect()
    }

    fn problems(&self) -> Vec<String> {
        let problems = self.host.control.listing().problems;
        problems.iter().map(|problem| format!("{}: {}", problem.reason, self.shown(&problem.message))).collect()
    }
}

#[tokio::test]
async fn files_are_loaded_swapped_configured_and_unloaded() {
    let mut test = TestFolder::new();
    test.write("p.wasm", "p 1");
    assert_eq!(test.settle().await, ["p 1 from $DIR/p.wasm"]);
    assert!(test.settle().await.is_empty(), "nothing has changed");
    test.write("p.wasm", "p 2");
    assert_eq!(test.settle().await, ["p 2 from $DIR/p.wasm"]);
    test.write("p.yaml", "disabled: true");
    assert_eq!(test.settle().await, ["p 2 from $DIR/p.wasm"]);
    assert!(test.host.spec("p").disabled);
    fs::remove_file(test.at("p.yaml")).unwrap();
    assert_eq!(test.settle().await, ["p 2 from $DIR/p.wasm"]);
    assert!(!test.host.spec("p").disabled);
    fs::remove_file(test.at("p.wasm")).unwrap();
    assert!(test.settle().await.is_empty());
    assert!(test.host.versions().is_empty());
    assert!(test.problems().is_empty());
}

#[tokio::test]
async fn a_rejected_file_leaves_the_running_version_and_is_tried_again_when_it_has_changed() {
    let mut test = TestFolder::new();
    test.write("p.wasm", "p 1");
    test.settle().await;
    // A partially written file.
    test.write("p.wasm", "p");
    assert!(test.settle().await.is_empty());
    assert_eq!(test.problems(), ["BadComponent: $DIR/p.wasm: this is not WebAssembly"]);
    assert_eq!(test.host.versions(), ["p 1"]);
    test.write("p.wasm", "p 2");
    assert_eq!(test.settle().await, ["p 2 from $DIR/p.wasm"]);
    assert!(test.problems().is_empty());

    test.write("p.yaml", &format!("digest: {}", "0".repeat(64)));
    assert!(test.settle().await.is_empty());
    assert!(test.problems()[0].starts_with("DigestMismatch: "), "{:?}", test.problems());
    test.write("p.yaml", "digest: sha256:00");
    assert!(test.settle().await.is_empty());
    assert!(
        test.problems()[0].starts_with("BadSpec: digest: \"sha256:00\" is not a SHA-256; write its 64"),
        "{:?}",
        test.problems()
    );
    test.write("p.yaml", "colour: red");
    test.settle().await;
    assert_eq!(test.problems().len(), 1);
    assert!(test.problems()[0].starts_with("Invalid: $DIR/p.yaml: "), "{:?}", test.problems());
    fs::remove_file(test.at("p.yaml")).unwrap();
    test.settle().await;

    // A misnamed spec.
    test.write("p.yml", "disabled: true");
    test.settle().await;
    assert_eq!(test.problems(), ["Invalid: $DIR/p.yml is not read; rename it to p.yaml"]);
    assert_eq!(test.host.versions(), ["p 2"]);
    fs::remove_file(test.at("p.yml")).unwrap();
    test.settle().await;
    assert!(test.problems().is_empty());

    // A broken link, and a folder in the place of a file.
    for make in
        [|at: &Path| std::os::unix::fs::symlink("nowhere", at).unwrap(), |at: &Path| fs::create_dir(at).unwrap()]
    {
        fs::remove_file(test.at("p.wasm")).unwrap();
        make(&test.at("p.wasm"));
        assert!(test.settle().await.is_empty());
        assert!(test.problems()[0].starts_with("Unreadable: read $DIR/p.wasm: "), "{:?}", test.problems());
    }
    assert_eq!(test.host.versions(), ["p 2"]);
}

#[tokio::test]
async fn a_files_name_is_the_plugins() {
    let mut test = TestFolder::new();
    test.write("q.wasm", "p 1");
    test.write("r.yaml", "{}");
    assert!(test.settle().await.is_empty());
    let problems = [
        "OtherPlugin: the component is plugin \"p\" according to its manifest, not \"q\"",
        "Invalid: there is no r.wasm beside r.yaml",
    ];
    assert_eq!(test.problems(), problems);
    fs::remove_file(test.at("q.wasm")).unwrap();
    fs::remove_file(test.at("r.yaml")).unwrap();
    assert!(test.settle().await.is_empty(), "what never ran is not unloaded");
    assert!(test.problems().is_empty());
}

#[tokio::test]
async fn a_file_with_an_excluded_name_is_not_read() {
    let mut test = TestFolder::over(Fixture::excluding(&["p"]));
    test.write("p.wasm", "p 1");
    assert!(test.settle().await.is_empty());
    assert!(
        test.problems()[0].starts_with("Excluded: --controllers of this host leaves out p"),
        "{:?}",
        test.problems()
    );
    fs::remove_file(test.at("p.wasm")).unwrap();
    test.settle().await;
    assert!(test.problems().is_empty());
}

#[tokio::test]
async fn a_folder_that_is_gone_changes_nothing() {
    let mut test = TestFolder::new();
    test.write("p.wasm", "p 1");
    test.settle().await;
    let away = tempfile::tempdir().unwrap();
    fs::rename(test.root.path(), away.path().join("moved")).unwrap();
    assert!(test.settle().await.is_empty());
    assert_eq!(test.host.versions(), ["p 1"]);
    fs::rename(away.path().join("moved"), test.root.path()).unwrap();
    assert!(test.settle().await.is_empty());
}

#[tokio::test]
async fn a_file_waits_below_a_resource_and_is_applied_when_that_is_gone() {
    let mut test = TestFolder::new();
    let (overrides, evidence) = (&Overrides::NONE, Evidence::Own);
    let wanted = Wanted { origin: "cr".into(), bytes: b"p 9".to_vec(), spec: None, overrides, evidence };
    test.host.control.apply(PluginSource::Resource, "p", wanted).await.unwrap();
    test.host.loaded();
    test.write("p.wasm", "p 1");
    assert!(test.settle().await.is_empty());
    assert!(test.problems()[0].starts_with("Claimed: "));
    test.host.control.release(PluginSource::Resource, "p").await.unwrap();
    assert_eq!(test.settle().await, ["p 1 from $DIR/p.wasm"]);
    assert!(test.problems().is_empty());
}

#[tokio::test]
async fn a_spec_disables_a_plugin_whose_component_is_not_available() {
    let mut test = TestFolder::over(Fixture::with_base("p 1").await);
    let phase = |test: &TestFolder| test.host.manager.status()[0].phase;
    assert_eq!(claimed(test.root.path()).unwrap(), Vec::<String>::new());
    test.write("p.yaml", "disabled: true");
    assert_eq!(claimed(test.root.path()).unwrap(), ["p"]);
    assert!(test.settle().await.is_empty());
    assert_eq!(test.problems(), ["Invalid: there is no p.wasm beside p.yaml"]);
    assert_eq!(phase(&test), Phase::Disabled, "the base does not run");
    test.write("p.wasm", "half");
    test.settle().await;
    assert_eq!(phase(&test), Phase::Disabled, "what cannot be loaded changes nothing");
    fs::remove_file(test.at("p.wasm")).unwrap();
    fs::remove_file(test.at("p.yaml")).unwrap();
    test.settle().await;
    assert_ne!(phase(&test), Phase::Disabled);
    assert_eq!(test.host.versions(), ["p 1"]);
}

#[tokio::test]
async fn a_claimed_base_starts_when_the_claim_is_gone_and_not_before() {
    let host = Fixture::new();
    host.control.started("p", Fixture::base("p 1"));
    host.control.claim("p", PluginSource::Folder);
    let mut test = TestFolder::over(host);
    test.write("p.wasm", "half");
    assert!(test.settle().await.is_empty());
    assert!(test.host.versions().is_empty(), "a replacement that is not available keeps the base from running");
    test.write("p.wasm", "p 2");
    assert_eq!(test.settle().await, ["p 2 from $DIR/p.wasm"]);
    fs::remove_file(test.at("p.wasm")).unwrap();
    assert_eq!(test.settle().await, ["p 1 from built-in"]);

    // The file is removed before the first scan.
    let host = Fixture::new();
    host.control.started("p", Fixture::base("p 1"));
    host.control.claim("p", PluginSource::Folder);
    let mut test = TestFolder::over(host);
    assert_eq!(test.settle().await, ["p 1 from built-in"]);
}
