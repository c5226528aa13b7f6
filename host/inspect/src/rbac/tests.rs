use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn manifest(name: &str, watched: &str, written: &str) -> Manifest {
    let manifest = json!({
        "name": name, "version": "1.0.0", "contract": "0.2", "events": false,
        "watches": [{"kind": watched}, {"kind": "v1/Secret", "namespace": "a"}], "queues": [{"name": name}],
        "grants": [{"verbs": ["delete"], "kinds": [written]}],
    });
    Manifest::parse(manifest.to_string().as_bytes()).unwrap()
}

fn account(namespace: &str, name: &str) -> Account {
    Account { namespace: namespace.into(), name: name.into() }
}

fn host(own_accounts: bool) -> Host {
    let leases = vec!["pintle".to_owned()];
    Host {
        account: account("kube-system", "pintle"),
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
fn the_objects_of_a_plugin_do_not_depend_on_other_plugins() {
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
    }
}

#[test]
fn plugins_with_one_account_have_roles_of_their_own() {
    let built_in = |name: &str, written: &str| {
        let mut manifest = manifest(name, "v1/Pod", written);
        manifest.built_in = serde_json::from_value(json!({"serviceAccount": "shared"})).unwrap();
        manifest
    };
    let (one, two) = (built_in("one", "v1/Node"), built_in("two", "v1/Secret"));
    let accounts = Accounts::of_built_ins([&one, &two]);
    let printed = |manifests: &[&Manifest]| objects(manifests, &Names::default(), &host(true), &accounts).unwrap();
    let both = printed(&[&one, &two]);
    let ids = |objects: &[Value]| {
        let id = |object: &Value| {
            (object["kind"].clone(), object["metadata"]["name"].clone(), object["metadata"]["namespace"].clone())
        };
        objects.iter().map(|object| format!("{:?}", id(object))).collect::<BTreeSet<_>>()
    };
    assert_eq!(ids(&both).len(), both.len(), "each object is printed once");
    for manifest in [&one, &two] {
        let alone = printed(&[manifest]);
        assert!(alone.iter().all(|object| both.contains(object)), "{alone:#?}");
        let role = format!("pintle:controller:{}", manifest.name);
        assert!(alone.iter().any(|object| object["metadata"]["name"] == role), "{alone:#?}");
    }
}

/// Otherwise `kubectl apply` of the objects of one host would remove permissions of another one, or of the same one
/// with other flags.
#[test]
fn an_object_is_the_same_whatever_the_flags() {
    let leases = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let elections = [
        None,
        Some((leases(&["pintle"]), false)),
        Some((leases(&["kube-controller-manager"]), false)),
        Some((leases(&["blue-a", "blue-b"]), false)),
        Some((leases(&["kube-controller-manager"]), true)),
    ];
    let accounts = [account("kube-system", "pintle"), account("pintle-system", "pintle"), account("kube-system", "b")];
    let (one, two) = (manifest("one", "v1/Pod", "v1/Node"), manifest("two", "apps/v1/ReplicaSet", "v1/Pod"));
    let mut seen = BTreeMap::new();
    for election in &elections {
        for account in &accounts {
            for (own_accounts, looks_for_kube_controller_manager) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let election = election.clone().map(|(leases, coordinated)| ElectionNames {
                    namespace: "kube-system".into(),
                    leases,
                    coordinated,
                });
                let host = Host { account: account.clone(), own_accounts, election, looks_for_kube_controller_manager };
                let printed = objects(&[&one, &two], &Names::default(), &host, &Accounts::default()).unwrap();
                let count = printed.len();
                let id = |object: &Value| {
                    let metadata = &object["metadata"];
                    format!("{} {}/{}", object["kind"], metadata["namespace"], metadata["name"])
                };
                assert_eq!(printed.iter().map(id).collect::<BTreeSet<_>>().len(), count, "{printed:#?}");
                for object in printed {
                    let first = seen.entry(id(&object)).or_insert_with(|| object.clone());
                    assert_eq!(*first, object, "{host:?}");
                }
            }
        }
    }
}

/// `ROLE [NAMESPACE] of SUBJECT: RULE` of the roles of a plugin.
fn lines(objects: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for role in objects.iter().filter(|object| !object["rules"].is_null()) {
        let is_of = |binding: &&Value| {
            let (of, metadata) = (&binding["roleRef"], &role["metadata"]);
            of["kind"] == role["kind"]
                && of["name"] == metadata["name"]
                && binding["metadata"]["namespace"] == metadata["namespace"]
        };
        let bindings: Vec<&Value> = objects.iter().filter(is_of).collect();
        assert_eq!(bindings.len(), 1, "{role:#}");
        let (metadata, subject) = (&role["metadata"], &bindings[0]["subjects"][0]["name"]);
        let place = metadata["namespace"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().unwrap() {
            let name = metadata["name"].as_str().unwrap();
            lines.push(format!("{name} {place:?} of {subject}: {} {}", rule["verbs"], rule["resources"]));
        }
    }
    lines.retain(|line| line.contains("pintle-widgets"));
    lines
}

#[test]
fn the_host_reads_and_a_plugin_writes() {
    let widgets = manifest("widgets", "v1/Pod", "v1/Node");
    assert_eq!(
        lines(&printed(&[&widgets], false)),
        [
            r#"pintle:host:pintle-widgets "" of "pintle": ["list","watch"] ["pods"]"#,
            r#"pintle:host:pintle-widgets "a" of "pintle": ["list","watch"] ["secrets"]"#,
            r#"pintle:controller:pintle-widgets "" of "pintle": ["delete"] ["nodes"]"#,
        ]
    );
    assert_eq!(
        lines(&printed(&[&widgets], true)),
        [
            r#"pintle:host:pintle-widgets "" of "pintle": ["list","watch"] ["pods"]"#,
            r#"pintle:host:pintle-widgets "a" of "pintle": ["list","watch"] ["secrets"]"#,
            r#"pintle:token:pintle-widgets "kube-system" of "pintle": ["create"] ["serviceaccounts/token"]"#,
            r#"pintle:controller:pintle-widgets "" of "pintle-widgets": ["delete"] ["nodes"]"#,
        ]
    );
}
