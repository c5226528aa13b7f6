//! Mirrors of built-in controllers, by a watcher with a real manager, against an API server that shows what it writes.

use std::sync::OnceLock;

use pintle_core::lifecycle::Phase;
use pintle_core::policy::election::GroupId;
use pintle_core::ports::api::{ApiResource, ApiWriter, WriteRequest, WriteVerb};
use pintle_oci::{ConnectOptions, Options};
use pintle_testing::server::eventually;
use pintle_testing::{FakeServer, FakeWriter, refusal};
use tokio_util::task::AbortOnDropHandle;

use super::super::mirrors::object;
use super::super::spec::DEFAULT_CLASS;
use super::*;
use crate::control::testing::Fixture;

const PLURAL: &str = "controllerplugins";

/// Longer than all pauses between writes.
const LONG: Duration = Duration::from_secs(3600);

/// A host with a watcher, and what it has written.
struct Cluster {
    host: Fixture,
    writer: Arc<FakeWriter>,
    _watcher: AbortOnDropHandle<()>,
}

impl Cluster {
    /// A server that answers what the closure refuses, and takes the rest.
    fn new(host: Fixture, refused: Option<u16>) -> Self {
        for (kind, plural) in [(resource_kind(), PLURAL), (crd::definition_kind(), "customresourcedefinitions")] {
            let resource = pintle_testing::resource(&kind);
            let verbs = ["list", "watch"].map(String::from).into();
            let resource = ApiResource { plural: plural.into(), namespaced: false, verbs, ..(*resource).clone() };
            host.server.state().resources.push(resource);
        }
        let server = host.server.clone();
        let writer = FakeWriter::onto(&server.clone(), move |_, request| match refused {
            Some(code) => Err(refusal(code)),
            None => {
                show_status(&server, request);
                Ok(())
            }
        });
        let own: Arc<dyn ApiWriter> = writer.clone();
        static FOLDER: OnceLock<watch::Sender<u64>> = OnceLock::new();
        let watcher = Watcher::new(Parts {
            caches: host.manager.caches().clone(),
            writers: Arc::new(move |_| own.clone()),
            control: host.control.clone(),
            folder: None,
            folder_changed: FOLDER.get_or_init(|| watch::Sender::new(0)).subscribe(),
            builtins: [("p".to_owned(), b"p 1".as_slice())].into(),
            fetcher: Fetcher::new(
                Options { connect: ConnectOptions::default(), ..Options::default() },
                None,
                pintle_oci::log,
            )
            .unwrap(),
            allow_unpinned: false,
            class: DEFAULT_CLASS.to_owned(),
        });
        Self { host, writer, _watcher: AbortOnDropHandle::new(tokio::spawn(watcher.follow())) }
    }

    fn n_writes(&self, line: &str) -> usize {
        self.writer.log().iter().filter(|written| *written == line).count()
    }

    async fn until_written(&self, line: &str, n: usize) {
        eventually(&format!("{n} times {line:?}"), || self.n_writes(line) >= n).await;
        assert_eq!(self.n_writes(line), n, "{line}");
    }

    /// Nothing more is written, however long it takes.
    async fn is_quiet(&self) {
        tokio::time::sleep(LONG).await;
        let before = self.writer.log();
        tokio::time::sleep(LONG).await;
        assert_eq!(self.writer.log(), before);
    }

    /// The last status that was written.
    fn status(&self) -> Value {
        let bodies = self.writer.bodies();
        let status = |body: &Value| body.as_array()?.last().map(|last| last["value"].clone());
        bodies.iter().rev().find_map(status).unwrap_or_default()
    }

    /// Source and phase of the plugin.
    fn runs(&self) -> (String, Phase) {
        let listing = self.host.control.listing();
        (listing.items[0].source.clone(), listing.items[0].phase)
    }

    async fn until_runs(&self, source: &str, phase: Phase) {
        eventually(&format!("{source}, {phase:?}"), || self.runs() == (source.to_owned(), phase)).await;
    }
}

/// The mirror of `p` with another spec.
fn edited(change: Value) -> Value {
    let mut object = object("p", DEFAULT_CLASS);
    object["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    object
}

/// Shows the status of a mirror. Those of declarations are not shown.
fn show_status(server: &FakeServer, request: &WriteRequest) {
    let WriteVerb::Patch { body, .. } = &request.verb else { return };
    let patch: Value = serde_json::from_str(body).unwrap();
    if patch[1]["value"]["conditions"][0]["reason"] == "BuiltIn" {
        let mut object = object(&request.name, DEFAULT_CLASS);
        object["status"] = patch[1]["value"].clone();
        server.put(PLURAL, "", &request.name, object);
    }
}

const CREATE: &str = "create controllerplugins /p";
const DELETE: &str = "delete controllerplugins /p";

#[tokio::test(start_paused = true)]
async fn a_built_in_controller_has_a_resource_that_takes_effect_once_it_is_edited() {
    let cluster = Cluster::new(Fixture::with_base("p 1").await, None);
    let host = &cluster.host;
    cluster.until_written(CREATE, 1).await;
    eventually("the status", || cluster.status()["current"]["version"] == "1").await;
    cluster.is_quiet().await;
    let status = cluster.status();
    assert_eq!(status["phase"], "Running");
    assert_eq!(
        (&status["conditions"][0]["reason"], &status["conditions"][1]["type"]),
        (&json!("BuiltIn"), &json!("Ready"))
    );
    assert_eq!(host.loaded(), Vec::<String>::new(), "nothing is applied from it");
    assert_eq!(cluster.runs(), ("built-in".to_owned(), Phase::Running));

    host.server.put(PLURAL, "", "p", edited(json!({"disabled": true})));
    cluster.until_runs("resource", Phase::Disabled).await;
    // The same spec as before is a mirror again.
    host.server.put(PLURAL, "", "p", edited(json!({})));
    cluster.until_runs("built-in", Phase::Running).await;
    cluster.is_quiet().await;
    assert_eq!(cluster.status()["conditions"][0]["reason"], "BuiltIn");

    host.server.delete(PLURAL, "", "p");
    cluster.until_written(CREATE, 2).await;
    cluster.is_quiet().await;
    assert_eq!((cluster.n_writes(CREATE), cluster.n_writes(DELETE)), (2, 0));

    // It is listed as long as the plugin is.
    host.control.unload("p", "").await.unwrap();
    cluster.until_written(DELETE, 1).await;
    assert_eq!(cluster.writer.bodies().last().unwrap()["uid"], "uid-p");
    let builtin = host.control.built_in("p", &Overrides::NONE).unwrap();
    host.control.load(builtin).await.unwrap();
    cluster.until_written(CREATE, 3).await;
    cluster.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn resources_of_other_classes_and_declarations_stay_as_they_are() {
    let host = Fixture::with_base("p 1").await;
    let resource = |name: &str, spec: Value| json!({"metadata": object(name, "blue")["metadata"], "spec": spec});
    host.server.put(PLURAL, "", "p", edited(json!({"class": "blue"})));
    host.server.put(PLURAL, "", "q", resource("q", json!({"source": {"builtin": "q"}, "class": "blue"})));
    host.server.put(PLURAL, "", "r", resource("r", json!({"source": {"file": "r.wasm"}, "class": DEFAULT_CLASS})));
    let cluster = Cluster::new(host, None);
    cluster.is_quiet().await;
    let log = cluster.writer.log();
    assert!(log.iter().all(|line| line == "patch controllerplugins /r") && !log.is_empty(), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn the_mirror_of_a_controller_that_the_host_no_longer_runs_is_deleted_once() {
    let host = Fixture::with_base("p 1").await;
    host.server.put(PLURAL, "", "gone", object("gone", DEFAULT_CLASS));
    let cluster = Cluster::new(host, None);
    cluster.until_written("delete controllerplugins /gone", 1).await;
    // By another host of the class.
    cluster.host.server.put(PLURAL, "", "gone", object("gone", DEFAULT_CLASS));
    cluster.is_quiet().await;
    let of_it: Vec<String> = cluster.writer.log().into_iter().filter(|line| line.ends_with("/gone")).collect();
    assert_eq!(of_it, ["delete controllerplugins /gone"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_on_standby_writes_nothing_until_it_leads() {
    let host = Fixture::on_standby().and_base("p 1").await;
    host.server.put(PLURAL, "", "gone", object("gone", DEFAULT_CLASS));
    let cluster = Cluster::new(host, None);
    cluster.is_quiet().await;
    assert_eq!(cluster.writer.log(), Vec::<String>::new());
    cluster.host.manager.lead(GroupId::REST);
    cluster.until_written(CREATE, 1).await;
    cluster.until_written("delete controllerplugins /gone", 1).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_permission_requests_are_rare() {
    let cluster = Cluster::new(Fixture::with_base("p 1").await, Some(403));
    tokio::time::sleep(LONG).await;
    // After 1, 2, 4 and so on up to 256 s, and every 300 s from then on.
    let n_requests = cluster.writer.log().len();
    assert_eq!(n_requests, 1 + 9 + (3600 - 511) / 300);
    assert_eq!(cluster.runs(), ("built-in".to_owned(), Phase::Running));
}
