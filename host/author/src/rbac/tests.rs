use std::collections::BTreeSet;

use super::*;

fn manifest(name: &str, watched: &str, written: &str) -> Manifest {
    let manifest = json!({
        "name": name, "version": "1.0.0", "contract": "0.2", "events": false,
        "watches": [{"kind": watched}, {"kind": "v1/Secret", "namespace": "a"}], "queues": [{"name": name}],
        "grants": [{"verbs": ["delete"], "kinds": [written]}],
    });
    Manifest::parse(manifest.to_string().as_bytes()).unwrap()
}

fn host(own_accounts: bool) -> Host {
    let leases = vec!["pintle".to_owned()];
    Host {
        account: Account { namespace: "kube-system".into(), name: "pintle".into() },
        own_accounts,
        election: Some(ElectionNames { namespace: "kube-system".into(), leases, coordinated: false }),
        looks_for_kube_controller_manager: false,
    }
}

fn printed(manifests: &[&Manifest], own_accounts: bool) -> Vec<Value> {
    objects(manifests, &Names::default(), &host(own_accounts), &Accounts::default()).unwrap()
}

/// The objects of a plugin; those of the host without a name.
fn labelled<'a>(objects: &'a [Value], plugin: Option<&str>) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["metadata"]["labels"][CONTROLLER].as_str() == plugin).collect()
}

#[test]
fn the_objects_of_a_plugin_and_of_the_host_do_not_depend_on_other_plugins() {
    let (one, two) = (manifest("one", "v1/Pod", "v1/Node"), manifest("two", "apps/v1/ReplicaSet", "v1/Pod"));
    for own_accounts in [false, true] {
        let both = printed(&[&one, &two], own_accounts);
        let parts = [None, Some("one"), Some("two")].map(|plugin| labelled(&both, plugin));
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), both.len());
        for (name, manifest) in [("one", &one), ("two", &two)] {
            let alone = printed(&[manifest], own_accounts);
            assert_eq!(labelled(&alone, None), labelled(&both, None));
            assert_eq!(labelled(&alone, Some(name)), labelled(&both, Some(name)));
            assert!(!labelled(&alone, Some(name)).is_empty());
        }
        let names: BTreeSet<String> =
            both.iter().map(|object| format!("{} {}", object["kind"], object["metadata"])).collect();
        assert_eq!(names.len(), both.len(), "an object takes the place of another: {both:#?}");
    }
}

/// `ROLE [NAMESPACE] of SUBJECT: RULE` of the roles of a plugin.
fn lines(objects: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for role in objects.iter().filter(|object| !object["rules"].is_null()) {
        let is_of =
            |binding: &&Value| binding["roleRef"]["kind"] == role["kind"] && binding["metadata"] == role["metadata"];
        let bindings: Vec<&Value> = objects.iter().filter(is_of).collect();
        assert_eq!(bindings.len(), 1, "{role:#}");
        let (metadata, subject) = (&role["metadata"], &bindings[0]["subjects"][0]["name"]);
        let place = metadata["namespace"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().unwrap() {
            let name = metadata["name"].as_str().unwrap();
            lines.push(format!("{name} {place:?} of {subject}: {} {}", rule["verbs"], rule["resources"]));
        }
    }
    lines.retain(|line| !line.starts_with("pintle:host \""));
    lines
}

#[test]
fn the_host_reads_and_a_plugin_writes() {
    let widgets = manifest("widgets", "v1/Pod", "v1/Node");
    assert_eq!(
        lines(&printed(&[&widgets], false)),
        [
            r#"pintle:controller:pintle-widgets "" of "pintle": ["delete"] ["nodes"]"#,
            r#"pintle:controller:pintle-widgets "" of "pintle": ["list","watch"] ["pods"]"#,
            r#"pintle:controller:pintle-widgets "a" of "pintle": ["list","watch"] ["secrets"]"#,
        ]
    );
    assert_eq!(
        lines(&printed(&[&widgets], true)),
        [
            r#"pintle:host:pintle-widgets "" of "pintle": ["list","watch"] ["pods"]"#,
            r#"pintle:host:pintle-widgets "a" of "pintle": ["list","watch"] ["secrets"]"#,
            r#"pintle:host:pintle-widgets "kube-system" of "pintle": ["create"] ["serviceaccounts/token"]"#,
            r#"pintle:controller:pintle-widgets "" of "pintle-widgets": ["delete"] ["nodes"]"#,
        ]
    );
}
