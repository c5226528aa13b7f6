//! The components that a resource may start, their grants, and the recorded state.

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_core::lifecycle::Phase;
use pintle_core::ports::guest::Loader as _;
use pintle_oci::{About, Artifact, ConnectOptions, Digest, Options, SigningKey, Trust, generate};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::super::spec::ConfigMapKey;
use super::*;
use crate::control::testing::Fixture;

fn source_of(host: &Fixture, allow_unpinned: bool, plain_http: &[&str]) -> ResourceSource {
    let plain_http = plain_http.iter().map(|registry| (*registry).to_owned()).collect();
    let options = Options { connect: ConnectOptions { plain_http, ..ConnectOptions::default() }, ..Options::default() };
    ResourceSource {
        control: host.control.clone(),
        fetcher: Fetcher::new(options, None, pintle_oci::log).unwrap(),
        builtins: BTreeMap::new(),
        pins: Arc::default(),
        floors: Arc::default(),
        proven: Arc::default(),
        files: FileWork::default(),
        allow_unpinned,
    }
}

/// A component, and its signature, in a ConfigMap. Without a component, the ConfigMap does not exist.
fn config_map(component: Option<&str>, signature: Option<String>, more: Value) -> Asked {
    let mut spec = json!({"source": {"configMap": {"namespace": "n", "name": "m", "key": "k"}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let key = ConfigMapKey { namespace: "n".into(), name: "m".into(), key: "k".into() };
    let value = component.map(|component| STANDARD.encode(component).into());
    Asked { uid: "u".into(), spec, found: Some(Found::ConfigMap(key, value, signature)) }
}

fn reason_of(result: Result<String, Refusal>) -> String {
    result.err().map(|why| why.reason).unwrap_or_default()
}

#[tokio::test]
async fn a_component_that_others_can_change_needs_a_digest_or_the_word_of_the_operator_and_inherits_no_grants() {
    let host = Fixture::new();
    let (strict, lenient) = (source_of(&host, false, &[]), source_of(&host, true, &[]));
    let apply =
        |source: &ResourceSource, name, more| source.apply(name, config_map(Some(&format!("{name} 1")), None, more));
    let why = apply(&strict, "p", json!({})).await.unwrap_err();
    assert_eq!(why.reason, reason::UNPINNED);
    assert!(why.message.contains("set spec.digest") && why.message.contains("--allow-unpinned"), "{why}");
    assert!(host.versions().is_empty());

    apply(&strict, "p", json!({"digest": "p 1"})).await.unwrap();
    assert_eq!(host.spec("p").grants, None, "whoever sets the digest decides");
    apply(&lenient, "q", json!({})).await.unwrap();
    assert_eq!(host.spec("q").grants, Some(Vec::new()), "another component gets nothing from its predecessor");
    apply(&lenient, "r", json!({"digest": "r 1"})).await.unwrap();
    assert_eq!(host.spec("r").grants, None);
    assert_eq!(host.versions(), ["p 1", "q 1", "r 1"]);
}

#[tokio::test]
async fn where_signatures_are_required_a_signed_component_needs_no_digest() {
    let keys = tempfile::tempdir().unwrap();
    let (private, public) = generate(&keys.path().join("k")).unwrap();
    let host = Fixture::trusting(Trust::read(&[public]).unwrap());
    let source = source_of(&host, false, &[]);
    let signature = SigningKey::read(&private).unwrap().sign(b"p 1").unwrap();
    let signature = Some(STANDARD.encode(signature));
    source.apply("p", config_map(Some("p 1"), signature.clone(), json!({}))).await.unwrap();
    assert_eq!(host.spec("p").grants, None, "whoever has the key decides");
    assert_eq!(reason_of(source.apply("p", config_map(Some("p 2"), signature, json!({}))).await), "Untrusted");
    assert_eq!(reason_of(source.apply("p", config_map(Some("p 2"), None, json!({}))).await), "Unsigned");
    assert_eq!(host.versions(), ["p 1"]);
}

#[tokio::test]
async fn what_runs_is_disabled_without_the_component() {
    let host = Fixture::with_base("p 1").await;
    let source = source_of(&host, false, &[]);
    let phase = || host.manager.status()[0].phase;
    let is_rejected = |result: Result<String, Refusal>| assert_eq!(reason_of(result), "Unreadable");
    is_rejected(source.apply("p", config_map(None, None, json!({"digest": "p 2"}))).await);
    assert_ne!(phase(), Phase::Disabled);
    is_rejected(source.apply("p", config_map(None, None, json!({"digest": "p 2", "disabled": true}))).await);
    assert_eq!(phase(), Phase::Disabled);
}

#[tokio::test]
async fn a_signature_alone_does_not_bring_an_older_version_back() {
    let keys = tempfile::tempdir().unwrap();
    let (private, public) = generate(&keys.path().join("k")).unwrap();
    let host = Fixture::trusting(Trust::read(&[public]).unwrap());
    let key = SigningKey::read(&private).unwrap();
    let signed = |component: &str, more| {
        let signature = STANDARD.encode(key.sign(component.as_bytes()).unwrap());
        config_map(Some(component), Some(signature), more)
    };
    let source = source_of(&host, false, &[]);
    source.apply("p", signed("p 2.0.0", json!({}))).await.unwrap();
    let why = source.apply("p", signed("p 1.9.0", json!({}))).await.unwrap_err();
    assert_eq!(why.reason, reason::DOWNGRADE);
    assert!(why.message.contains("version 1.9.0 is older than 2.0.0"), "{why}");
    assert_eq!(host.versions(), ["p 2.0.0"]);
    source.apply("p", signed("p 2.0.1", json!({}))).await.unwrap();

    // After a restart, the floor comes from the status.
    let restarted = source_of(&host, false, &[]);
    restarted.floors.seen("p", &json!({"current": {"version": "2.0.1"}}));
    assert_eq!(reason_of(restarted.apply("p", signed("p 2.0.0", json!({}))).await), reason::DOWNGRADE);
    // The operator's permission: the digest, or the flag of the host.
    restarted.apply("p", signed("p 2.0.0", json!({"digest": "p 2.0.0"}))).await.unwrap();
    assert_eq!(host.versions(), ["p 2.0.0"]);
    restarted.apply("p", signed("p 2.0.0", json!({}))).await.unwrap();
    let lenient = ResourceSource { allow_unpinned: true, ..restarted };
    lenient.apply("p", signed("p 1.0.0", json!({}))).await.unwrap();
    assert_eq!(host.versions(), ["p 1.0.0"]);
}

/// A registry with the component `p 1` as `a:1`, and its server.
async fn registry(host: &Fixture) -> (String, AbortOnDropHandle<()>) {
    let component = b"p 1";
    let manifest = host.loader.inspect("a", component).unwrap().manifest;
    let about = About { manifest: &manifest, imports: &[], exports: &[] };
    let manifest = Artifact::new(component.to_vec(), about, None, jiff::Timestamp::UNIX_EPOCH, false).unwrap().manifest;
    let answers: BTreeMap<String, Vec<u8>> = [
        ("/v2/a/manifests/1".to_owned(), manifest.clone()),
        (format!("/v2/a/manifests/{}", Digest::of(&manifest)), manifest),
        (format!("/v2/a/blobs/{}", Digest::of(component)), component.to_vec()),
    ]
    .into();
    let answers = Arc::new(answers);
    let answer = async move |uri: Uri| match answers.get(uri.path()) {
        Some(bytes) => {
            let media_type = "application/vnd.oci.image.manifest.v1+json";
            (StatusCode::OK, [(header::CONTENT_TYPE, media_type)], bytes.clone())
        }
        None => (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "text/plain")], Vec::new()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Router::new().fallback(answer);
    let serving = tokio::spawn(async move { axum::serve(listener, server).await.unwrap() });
    (address, AbortOnDropHandle::new(serving))
}

#[tokio::test]
async fn what_a_tag_led_to_is_recorded_once_it_runs() {
    let host = Fixture::new();
    let (address, _serving) = registry(&host).await;
    let source = source_of(&host, true, &[&address]);
    let tag: ArtifactRef = format!("oci://{address}/a:1").parse().unwrap();
    let start = source.pins.start("p", &tag, &Value::Null);
    let asked =
        Asked { uid: "u".into(), spec: json!({"source": {"oci": tag.to_string()}}), found: Some(Found::Oci(start)) };
    assert_eq!(source.pins.status("p"), Value::Null);
    source.apply("p", asked.clone()).await.unwrap();
    assert_eq!(host.versions(), ["p 1"]);
    let status = json!({"artifact": source.pins.status("p")});
    let restarted = Pins::default().start("p", &tag, &status);
    assert_eq!(host.manager.status()[0].current.origin, format!("ControllerPlugin p ({restarted})"));
    assert!(!restarted.is_by_tag_only());
    assert_eq!(reason_of(source_of(&host, false, &[&address]).apply("p", asked).await), reason::UNPINNED);
}
