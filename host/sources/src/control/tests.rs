//! Source precedence, and the release of names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_core::contract::manifest::Grant;
use pintle_core::lifecycle::Phase;
use pintle_core::policy::election::GroupId;
use pintle_oci::{Proof, SigningKey, generate};
use pintle_testing::until;
use serde_json::json;

use super::testing::Fixture;
use super::*;

fn wanted(component: &str) -> Wanted<'static> {
    Wanted {
        origin: format!("{}.wasm", component.replace(' ', "-")),
        bytes: component.into(),
        spec: Some(Spec::default()),
        overrides: &Overrides::NONE,
        evidence: Evidence::Own,
    }
}

/// A host with a plugin `p` that runs from the start, with these command-line settings.
async fn start(component: &'static str, settings: Value) -> Fixture {
    let host = Fixture::with_base(component).await;
    let settings = settings.as_object().cloned().unwrap_or_default();
    host.control.started("p", Base { settings, ..Fixture::base(component) });
    host
}

fn reason<T>(result: Result<T, Refusal>) -> String {
    result.err().map(|why| why.reason).unwrap_or_default()
}

/// Loads a component under the name in its manifest.
async fn load(control: &Control, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
    let name = control.name_of(&wanted).await?;
    control.load(&name, wanted).await
}

#[tokio::test]
async fn a_name_that_the_command_line_excludes_is_loaded_by_no_source() {
    let host = Fixture::excluding(&["p"]);
    let control = &host.control;
    control.in_folder("p", true);
    for source in [PluginSource::Folder, PluginSource::Resource] {
        let why = control.apply(source, "p", wanted("p 1")).await.unwrap_err();
        assert_eq!(why.reason, "Excluded");
        assert!(why.message.contains("--controllers") && why.message.contains("--plugin-class"), "{why}");
        control.apply(source, "q", wanted("q 1")).await.unwrap();
        control.release(source, "q").await.unwrap();
    }
    let operator = control.operator(None);
    assert_eq!(reason(operator.load(wanted("p 1")).await), "Excluded");
    let built_in = control.built_in("p", &Overrides::NONE).unwrap();
    assert_eq!(reason(operator.load(built_in).await), "Excluded");
    assert!(host.versions().is_empty());
    operator.load(wanted("q 1")).await.unwrap();
    assert_eq!(host.versions(), ["q 1"]);
}

#[tokio::test]
async fn a_standby_refuses_what_would_change_nothing() {
    let host = Fixture::standby().await;
    let operator = host.control.operator(None);
    for refused in
        [operator.disable("p", ""), operator.enable("p"), operator.approve("p"), operator.rollback("p").await.map(drop)]
    {
        let why = refused.unwrap_err();
        assert_eq!(why.reason, "Standby");
        assert!(why.message.contains("this host is a standby, so p does not run here (no host leads)"), "{why}");
    }
    assert_eq!(reason(operator.disable("q", "")), "NotFound");
    host.manager.lead(GroupId::REST);
    operator.disable("p", "").unwrap();
    operator.enable("p").unwrap();
}

#[tokio::test]
async fn a_plugin_is_called_by_its_alias_if_no_other_one_has_it() {
    let host = Fixture::new();
    let control = &host.control;
    load(control, wanted("p 1")).await.unwrap();
    let resolve = |name: &str| control.resolve(name.to_owned()).map_err(|why| why.message);
    assert_eq!(resolve("alias-of-p").as_deref(), Ok("p"));
    assert_eq!(resolve("nobody").as_deref(), Ok("nobody"));
    // A plugin's own name takes precedence over an alias of another one.
    load(control, wanted("alias-of-p 1")).await.unwrap();
    assert_eq!(resolve("alias-of-p").as_deref(), Ok("alias-of-p"));
    load(control, wanted("twin 1")).await.unwrap();
    load(control, wanted("twin-2 1")).await.unwrap();
    let why = resolve("alias-of-twins").unwrap_err();
    assert_eq!(why, r#""alias-of-twins" is an alias of twin and of twin-2; write the name"#);
}

#[tokio::test]
async fn a_resource_takes_precedence_over_a_file_and_a_file_over_built_in_plugins() {
    let host = start("p 1", Value::Null).await;
    let control = &host.control;
    let source = || control.listing().items[0].source.clone();
    assert_eq!(source(), "built-in");
    control.in_folder("p", true);
    control.apply(PluginSource::Folder, "p", wanted("p 2")).await.unwrap();
    assert_eq!((host.versions(), source()), (vec!["p 2".into()], "folder".into()));
    control.apply(PluginSource::Resource, "p", wanted("p 3")).await.unwrap();
    assert_eq!((host.versions(), source()), (vec!["p 3".into()], "resource".into()));

    assert_eq!(reason(control.apply(PluginSource::Folder, "p", wanted("p 4")).await), "Claimed");
    assert_eq!(host.versions(), ["p 3"]);

    let mut freed = control.freed();
    control.release(PluginSource::Resource, "p").await.unwrap();
    assert!(freed.has_changed().unwrap(), "the folder is scanned again");
    freed.mark_unchanged();
    assert_eq!(host.versions(), ["p 3"], "it runs on until the file is taken");
    control.apply(PluginSource::Folder, "p", wanted("p 2")).await.unwrap();

    control.release(PluginSource::Folder, "p").await.unwrap();
    assert_eq!((host.versions(), source()), (vec!["p 1".into()], "built-in".into()));
    host.loaded();
    control.release(PluginSource::Folder, "p").await.unwrap();
    control.release(PluginSource::Resource, "p").await.unwrap();
    assert!(host.loaded().is_empty(), "who has no say takes nothing away");
}

#[tokio::test]
async fn a_rejected_source_is_not_the_owner_and_a_released_plugin_is_unloaded() {
    let host = Fixture::new();
    let control = &host.control;
    assert_eq!(reason(control.apply(PluginSource::Resource, "p", wanted("broken")).await), "BadComponent");
    control.apply(PluginSource::Folder, "p", wanted("p 1")).await.unwrap();
    control.release(PluginSource::Resource, "p").await.unwrap();
    assert_eq!(host.versions(), ["p 1"]);
    assert_eq!(reason(control.unload("p", "a test").await), "Claimed");
    control.release(PluginSource::Folder, "p").await.unwrap();
    assert!(host.versions().is_empty());
    assert_eq!(reason(control.unload("p", "a test").await), "NotFound");
}

#[tokio::test]
async fn an_untrusted_component_is_refused_before_it_is_parsed() {
    let keys = tempfile::tempdir().unwrap();
    let (private, public) = generate(&keys.path().join("k")).unwrap();
    let host = Fixture::trusting(Trust::read(&[public]).unwrap());
    let control = &host.control;
    // It does not parse.
    let broken = |signature: Option<&[u8]>| {
        let proof = Proof::of_itself(signature.map(|signature| STANDARD.encode(signature)));
        Wanted { evidence: Evidence::Shown(proof), ..wanted("broken") }
    };
    let key = SigningKey::read(&private).unwrap();
    let of_other = key.sign(b"another").unwrap();
    for (signature, expected) in [(None, "Unsigned"), (Some(&of_other[..]), "Untrusted")] {
        let wanted = broken(signature);
        assert_eq!(reason(control.name_of(&wanted).await), expected);
        assert_eq!(reason(control.version_of(&wanted.origin, &wanted.bytes, &wanted.evidence).await), expected);
        assert_eq!(reason(control.apply(PluginSource::Folder, "p", wanted).await), expected);
    }
    let own = key.sign(b"broken").unwrap();
    assert_eq!(reason(control.name_of(&broken(Some(&own[..]))).await), "Invalid");
    assert!(host.loaded().is_empty() && host.versions().is_empty());
}

#[tokio::test]
async fn a_plugin_that_was_unloaded_manually_is_not_loaded_again() {
    let host = start("p 1", Value::Null).await;
    let control = &host.control;
    control.unload("p", "a test").await.unwrap();
    control.apply(PluginSource::Folder, "p", wanted("p 2")).await.unwrap();
    control.release(PluginSource::Folder, "p").await.unwrap();
    assert!(host.versions().is_empty());
}

/// Reason and message of the condition about an operator's changes.
fn overridden(host: &Fixture) -> Option<(String, String)> {
    let conditions = host.control.listing().items[0].conditions.clone();
    let found = conditions.into_iter().find(|condition| condition.kind == OVERRIDDEN)?;
    assert_eq!(found.status, "True");
    Some((found.reason, found.message))
}

fn reason_of(host: &Fixture) -> String {
    overridden(host).map(|(reason, _)| reason).unwrap_or_default()
}

#[tokio::test]
async fn a_change_that_the_source_does_not_declare_is_a_condition_until_the_source_changes() {
    for (source, declaration) in [
        (PluginSource::Resource, "ControllerPlugin p declares"),
        (PluginSource::Folder, "in the plugin folder declares"),
    ] {
        let host = Fixture::new();
        let control = &host.control;
        let operator = control.operator(Some(7));
        let apply = async || drop(control.apply(source, "p", wanted("p 1")).await.unwrap());
        apply().await;
        assert_eq!(overridden(&host), None);

        operator.disable("p", "").unwrap();
        let (reason, message) = overridden(&host).unwrap();
        assert_eq!(reason, "Disabled");
        assert!(message.contains("uid 7 ran `pintle plugin disable`") && message.contains(declaration), "{message}");
        operator.enable("p").unwrap();
        assert_eq!(overridden(&host), None, "as declared");

        operator.swap("p", wanted("p 2")).await.unwrap();
        assert_eq!(reason_of(&host), "Swapped");
        operator.rollback("p").await.unwrap();
        assert_eq!((overridden(&host), host.versions()), (None, vec!["p 1".to_owned()]));
        operator.rollback("p").await.unwrap();
        assert_eq!((reason_of(&host), host.versions()), ("RolledBack".to_owned(), vec!["p 2".to_owned()]));
        operator.disable("p", "for now").unwrap();
        assert_eq!(reason_of(&host), "Disabled");

        apply().await;
        assert_eq!((overridden(&host), host.versions()), (None, vec!["p 1".to_owned()]));
        assert_ne!(host.manager.status()[0].phase, Phase::Disabled, "what is declared wins");

        operator.disable("p", "").unwrap();
        control.release(source, "p").await.unwrap();
        load(control, wanted("p 1")).await.unwrap();
        assert_eq!(overridden(&host), None);
    }
}

#[tokio::test]
async fn enabling_what_is_declared_disabled_lasts_until_the_source_is_applied_again() {
    let host = Fixture::new();
    let control = &host.control;
    let apply = async || {
        control.disable_for(PluginSource::Resource, "p");
        let spec = Some(Spec { disabled: true, ..Spec::default() });
        control.apply(PluginSource::Resource, "p", Wanted { spec, ..wanted("p 1") }).await.unwrap();
    };
    apply().await;
    assert_eq!(overridden(&host), None);
    let operator = control.operator(None);
    operator.disable("p", "").unwrap();
    assert_eq!(overridden(&host), None, "it is declared");
    operator.enable("p").unwrap();
    let (reason, message) = overridden(&host).unwrap();
    assert!(reason == "Enabled" && message.contains("an unknown uid"), "{message}");
    assert_ne!(host.manager.status()[0].phase, Phase::Disabled);
    apply().await;
    assert_eq!((overridden(&host), host.manager.status()[0].phase), (None, Phase::Disabled));
}

#[tokio::test]
async fn an_operator_deviates_from_the_command_line_and_not_from_the_admin_api() {
    let host = start("p 1", Value::Null).await;
    let operator = host.control.operator(Some(0));
    operator.disable("p", "").unwrap();
    assert!(overridden(&host).unwrap().1.contains("the host was started with"));
    operator.enable("p").unwrap();
    operator.swap("p", wanted("p 2")).await.unwrap();
    assert_eq!(reason_of(&host), "Swapped");
    operator.rollback("p").await.unwrap();
    assert_eq!(overridden(&host), None);

    let host = Fixture::new();
    let operator = host.control.operator(Some(0));
    operator.load(wanted("q 1")).await.unwrap();
    operator.disable("q", "").unwrap();
    operator.swap("q", wanted("q 2")).await.unwrap();
    assert_eq!(overridden(&host), None, "nothing else declares it");
}

#[tokio::test]
async fn a_built_in_plugin_is_loaded_again_as_if_it_had_not_been_unloaded() {
    let host = start("p 1", json!({"a": "x"})).await;
    let control = &host.control;
    control.unload("p", "a test").await.unwrap();
    let why = control.swap("p", wanted("p 2")).await.unwrap_err();
    assert!(why.message.contains("`pintle plugin load builtin:p`"), "{why}");
    let operator = control.operator(Some(0));
    operator.load(control.built_in("p", &Overrides::NONE).unwrap()).await.unwrap();
    assert_eq!((host.versions(), control.listing().items[0].source.as_str()), (vec!["p 1".into()], "built-in"));
    assert_eq!(host.spec("p").config, json!({"a": "x"}), "with the settings of the command line");
    control.apply(PluginSource::Folder, "p", wanted("p 2")).await.unwrap();
    control.release(PluginSource::Folder, "p").await.unwrap();
    assert_eq!(host.versions(), ["p 1"], "it is the base again");

    let host = Fixture::new();
    let built_in = host.control.built_in("p", &Overrides::NONE).unwrap();
    load(&host.control, built_in).await.unwrap();
    assert_eq!(host.control.listing().items[0].source, "admin", "the command line did not start it");
    assert_eq!(reason(host.control.built_in("q", &Overrides::NONE).map(drop)), "NotFound");
}

#[tokio::test]
async fn loading_needs_a_new_name_and_swapping_a_known_one() {
    let host = Fixture::new();
    let control = &host.control;
    assert_eq!(reason(control.swap("p", wanted("p 2")).await), "NotFound");
    load(control, wanted("p 1")).await.unwrap();
    assert_eq!(reason(load(control, wanted("p 2")).await), "AlreadyLoaded");
    assert_eq!(reason(control.swap("p", wanted("q 2")).await), "OtherPlugin");
    control.swap("p", wanted("p 2")).await.unwrap();
    assert_eq!((host.versions(), control.listing().items[0].source.as_str()), (vec!["p 2".into()], "admin"));
    control.unload("p", "a test").await.unwrap();
    assert!(host.versions().is_empty());
}

#[tokio::test]
async fn a_swap_without_a_spec_keeps_the_running_versions_spec() {
    let host = Fixture::new();
    let control = &host.control;
    let spec = Spec { digest: Some("p 1".into()), config: json!({"a": "x"}), ..Spec::default() };
    load(control, Wanted { spec: Some(spec), ..wanted("p 1") }).await.unwrap();
    let overrides = Overrides { probation_runs: Some(3), ..Overrides::default() };
    control.swap("p", Wanted { spec: None, overrides: &overrides, ..wanted("p 2") }).await.unwrap();
    let now = host.spec("p");
    assert_eq!((now.digest, now.config, now.strategy.probation.runs), (None, json!({"a": "x"}), 3));
    control.swap("p", Wanted { spec: None, ..wanted("p 3") }).await.unwrap();
    assert_eq!(host.spec("p").strategy.probation.runs, 100, "overrides are for one swap");
}

#[tokio::test]
async fn settings_of_the_command_line_apply_where_the_spec_has_none() {
    let host = start("p 1", json!({"a": "host", "gone": 1})).await;
    let control = &host.control;
    control.apply(PluginSource::Folder, "p", wanted("p 2")).await.unwrap();
    assert_eq!(host.spec("p").config, json!({"a": "host"}), "a setting that the component does not know is left out");
    let spec = Spec { config: json!({"a": "file"}), ..Spec::default() };
    control.apply(PluginSource::Folder, "p", Wanted { spec: Some(spec), ..wanted("p 3") }).await.unwrap();
    assert_eq!(host.spec("p").config, json!({"a": "file"}));
}

#[tokio::test]
async fn a_problem_is_listed_until_it_is_solved() {
    let control = Fixture::new().control;
    assert_eq!(reason(control.describe("p").map(drop)), "NotFound");
    control.problem("p.wasm", "p", &Refusal::new("Invalid", "no good"));
    let described = control.describe("p").unwrap();
    assert_eq!((described.plugin, described.problems.len()), (None, 1));
    assert_eq!(described.problems[0].message, "no good");
    control.solved("p.wasm");
    assert!(control.listing().problems.is_empty());
}

#[tokio::test]
async fn a_plugin_that_a_source_disables_runs_again_when_the_source_says_so_or_is_gone() {
    let host = start("p 1", Value::Null).await;
    let control = &host.control;
    let is_disabled = || host.manager.status()[0].phase == Phase::Disabled;
    control.disable_for(PluginSource::Resource, "p");
    assert!(is_disabled());
    control.release(PluginSource::Folder, "p").await.unwrap();
    assert!(is_disabled(), "another source does not decide");
    control.release(PluginSource::Resource, "p").await.unwrap();
    assert!(!is_disabled());

    control.disable_for(PluginSource::Resource, "p");
    let disabled = Spec { disabled: true, ..Spec::default() };
    control.apply(PluginSource::Resource, "p", Wanted { spec: Some(disabled), ..wanted("p 2") }).await.unwrap();
    assert!(is_disabled());
    control.apply(PluginSource::Resource, "p", wanted("p 3")).await.unwrap();
    assert!(!is_disabled());
    control.disable_for(PluginSource::Folder, "p");
    assert!(!is_disabled(), "a weaker source does not decide");
}

#[tokio::test]
async fn a_component_that_others_may_change_does_not_inherit_grants() {
    let host = Fixture::new();
    let asked = Spec::default();
    assert_eq!(host.control.without_inherited_grants(asked.clone()).grants, Some(Vec::new()));
    let given = Spec { grants: Some(vec![Grant::default()]), ..asked };
    assert_eq!(host.control.without_inherited_grants(given.clone()), given, "grants of the spec stay");
}

/// The events: object, its uid, and message.
fn events(host: &Fixture) -> Vec<String> {
    let (log, bodies) = (host.writer.log(), host.writer.bodies());
    let created = log.iter().zip(bodies).filter(|(line, _)| line.starts_with("create events"));
    let text = |event: &Value, field: &str| event["involvedObject"][field].as_str().unwrap_or_default().to_owned();
    created
        .map(|(_, event)| {
            let object = ["kind", "name", "uid"].map(|field| text(&event, field)).join(" ");
            format!("{object}: {} {}", event["reason"].as_str().unwrap(), event["message"].as_str().unwrap())
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_applied_is_an_event_about_the_resource_whether_or_not_the_plugin_runs() {
    let host = start("p 1", Value::Null).await;
    let control = &host.control;
    control.set_resource_uid("new", "uid-7");
    let refusal = Refusal::new("Unpinned", "set spec.digest");
    for _ in 0..2 {
        control.problem("ControllerPlugin new", "new", &refusal);
    }
    let told = "ControllerPlugin new uid-7: NotApplied ControllerPlugin new: Unpinned: set spec.digest";
    until("one event", || events(&host) == [told]).await;

    // The manager has reported its own errors.
    let bad = control.apply(PluginSource::Resource, "p", wanted("nonsense")).await.unwrap_err();
    control.problem("ControllerPlugin p", "p", &bad);
    until("another event", || events(&host).len() > 1).await;
    assert_eq!(events(&host).len(), 2, "{:?}", events(&host));
    assert!(events(&host)[1].contains("SwapRefused"), "{:?}", events(&host));
}
