use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::contract::manifest::Manifest;

fn grants(asked: Value, given: Option<Value>) -> Grants {
    let asked: Vec<Grant> = serde_json::from_value(asked).unwrap();
    let given: Option<Vec<Grant>> = given.map(|given| serde_json::from_value(given).unwrap());
    Grants::new(&asked, given.as_deref())
}

/// `VERB KIND[:SUBRESOURCE] [NAMESPACE/NAME]`
fn allows(grants: &Grants, request: &str) -> bool {
    let words: Vec<&str> = request.split(' ').collect();
    let (kind, subresource) = match words[1].split_once(':') {
        Some((kind, subresource)) => (kind, Some(subresource)),
        None => (words[1], None),
    };
    let (namespace, name) = words.get(2).and_then(|object| object.split_once('/')).unwrap_or(("", ""));
    let kind: Kind = kind.parse().unwrap();
    grants.allow(&Access { verb: words[0], kind: &kind, subresource, namespace, name, signer: None })
}

#[test]
fn nothing_is_allowed_by_default() {
    assert!(!allows(&Grants::default(), "get v1/Pod a/b"));
    assert!(!Grants::default().allow_path("/version"));
}

#[test]
fn each_part_of_a_grant_must_match() {
    let grants = grants(
        json!([
            {"verbs": ["create", "delete"], "kinds": ["v1/Pod"]},
            {"verbs": ["update"], "kinds": ["apps/v1/ReplicaSet"], "subresources": ["status"]},
            {"verbs": ["*"], "kinds": ["v1/ConfigMap"], "namespaces": ["kube-system"], "names": ["one", "two"]},
            {"verbs": ["patch"], "kinds": ["v1/Pod"], "subresources": ["*"]},
        ]),
        None,
    );
    let cases = [
        ("create v1/Pod a/b", true),
        ("create v1/Pod a/", true),
        ("create apps/v1/Pod a/b", false),
        ("update v1/Pod a/b", false),
        ("create v1/Pod:eviction a/b", false),
        ("update apps/v1/ReplicaSet:status a/b", true),
        ("update apps/v1/ReplicaSet a/b", false),
        ("update apps/v1/ReplicaSet:scale a/b", false),
        ("patch v1/Pod:status a/b", true),
        ("patch v1/Pod a/b", false),
        ("patch v1/ConfigMap kube-system/one", true),
        ("patch v1/ConfigMap kube-system/three", false),
        ("create v1/ConfigMap kube-system/", false),
        ("patch v1/ConfigMap default/one", false),
        ("deletecollection v1/ConfigMap /", false),
    ];
    for (request, expected) in cases {
        assert_eq!(allows(&grants, request), expected, "{request}");
    }
}

#[test]
fn all_never_includes_what_gives_rights_to_others() {
    const ROLE: &str = "rbac.authorization.k8s.io/v1/Role";
    let all = json!([{"verbs": ["*"], "kinds": ["*"]}, {"verbs": ["*"], "kinds": ["*"], "subresources": ["*"]}]);
    let special = json!([
        {"verbs": ["*", "escalate", "bind"], "kinds": ["*"]},
        {"verbs": ["create"], "kinds": ["v1/ServiceAccount"], "subresources": ["*", "token"]},
        {"verbs": ["get"], "kinds": ["v1/Pod"], "subresources": ["*"]},
    ]);
    let requests = [
        (format!("patch {ROLE} a/b"), true, true),
        (format!("escalate {ROLE} a/b"), false, true),
        (format!("bind {ROLE} a/b"), false, true),
        (format!("sign {ROLE} a/b"), false, false),
        ("create v1/ServiceAccount:token a/b".to_owned(), false, true),
        ("create v1/ServiceAccount:other a/b".to_owned(), true, true),
        ("get v1/Pod:status a/b".to_owned(), true, true),
        ("get v1/Pod:log a/b".to_owned(), false, false),
    ];
    for (request, of_all, of_special) in requests {
        assert_eq!(allows(&grants(all.clone(), None), &request), of_all, "{request}");
        assert_eq!(allows(&grants(special.clone(), None), &request), of_special, "{request}");
        // The same for the operator's grants.
        assert_eq!(allows(&grants(special.clone(), Some(all.clone())), &request), of_all && of_special, "{request}");
    }
    let asked = manifest(
        json!([]),
        json!([
            {"verbs": ["escalate", "patch"], "kinds": [ROLE]},
            {"verbs": ["create"], "kinds": ["v1/ServiceAccount"], "subresources": ["token"]},
        ]),
    );
    expect!["plugin widgets asks for more than it is given; add `- {verbs: [escalate], kinds: [rbac.authorization.k8s.io/v1/Role]}` and `- {verbs: [create], kinds: [v1/ServiceAccount], subresources: [token]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"]
        .assert_eq(&missing(&asked, all));
    assert_eq!(missing(&asked, special), "");
}

#[test]
fn the_operator_can_only_restrict() {
    let asked = json!([{"verbs": ["create", "delete"], "kinds": ["v1/Pod"]}]);
    let given = json!([{"verbs": ["*"], "kinds": ["*"], "namespaces": ["a"]}]);
    let grants = grants(asked.clone(), Some(given));
    assert!(allows(&grants, "create v1/Pod a/b"));
    assert!(!allows(&grants, "create v1/Pod b/b"));
    assert!(!allows(&grants, "create v1/Secret a/b"));
    assert!(!allows(&super::tests::grants(asked, Some(json!([]))), "create v1/Pod a/b"));
}

#[test]
fn a_path_that_streams_or_leads_into_a_pod_must_be_spelled_out() {
    let with = |path: &str| grants(json!([{"verbs": ["get"], "kinds": [], "paths": [path]}]), None);
    let all = with("/*");
    for path in [
        "/api/v1/namespaces/a/pods/p/log",
        "/api/v1/namespaces/a/pods/p/exec?command=sh",
        "/api/v1/namespaces/a/pods/p/attach",
        "/api/v1/namespaces/a/pods/p/portforward",
        "/api/v1/namespaces/a/services/s/proxy/admin",
        "/api/v1/nodes/n/proxy",
        "/api/v1/pods?watch=true",
        "/api/v1/pods?limit=1&watch",
        "/api/v1/pods?w%61tch=1",
        "/logs/x?follow=true",
        "/api/v1/pods?timeoutSeconds=3600",
    ] {
        assert!(!all.allow_path(path), "{path}");
        assert!(with(path).allow_path(path), "{path} is spelled out");
        assert!(with(&format!("{path}*")).allow_path(&format!("{path}&a=b")), "{path} with a star behind it");
    }
    for path in ["/api/v1/pods?limit=5", "/logs", "/apis/x/proxies", "/api/v1/pods?labelSelector=watch%3Dtrue"] {
        assert!(all.allow_path(path), "{path}");
    }
    let why = all.check_path("/api/v1/namespaces/a/pods/p/log?tailLines=5").unwrap_err().message("widgets");
    assert!(why.contains(r#"add `- {verbs: [get], paths: ["/api/v1/namespaces/a/pods/p/log*"]}`"#), "{why}");
}

#[test]
fn discovery_and_events_are_the_operators_to_give() {
    let manifest = |discovery: bool| {
        let manifest = json!({
            "name": "widgets", "version": "1", "contract": "0.2", "queues": [{"name": "q"}], "watches": [], "discovery": discovery,
        });
        Manifest::parse(manifest.to_string().as_bytes()).unwrap()
    };
    let given = |grants: Value| serde_json::from_value::<Vec<Grant>>(grants).unwrap();
    let missing = |given: &[Grant]| Missing::message(&Grants::missing(&manifest(true), given), "widgets");
    assert_eq!(
        missing(&[]),
        "plugin widgets asks for more than it is given; add `- {verbs: [get], paths: [/api, /apis]}` to \
         `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"
    );
    assert_eq!(Missing::message(&Grants::missing(&manifest(false), &[]), "widgets"), "", "events are not required");
    let discovery = given(json!([{"verbs": ["get"], "paths": ["/api", "/apis"]}]));
    assert_eq!(missing(&discovery), "");
    assert!(gives_discovery(&discovery) && !gives_discovery(&given(json!([{"verbs": ["get"], "paths": ["/api"]}]))));

    let withholds = |grants: Value| Grants::new(&[], Some(&given(grants))).withholds_events();
    assert!(!Grants::new(&[], None).withholds_events());
    assert!(!withholds(json!([{"verbs": ["create", "patch"], "kinds": ["v1/Event"]}])));
    assert!(!withholds(json!([{"verbs": ["*"], "kinds": ["*"]}])));
    assert!(withholds(json!([])));
    assert!(withholds(json!([{"verbs": ["create"], "kinds": ["v1/Event"]}])));
    assert!(withholds(json!([{"verbs": ["create", "patch"], "kinds": ["v1/Event"], "namespaces": ["a"]}])));
    assert_eq!(
        events_line("widgets"),
        "add `- {verbs: [create, patch], kinds: [v1/Event]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file"
    );
    assert_eq!(asked_by(&manifest(true)).len(), 2);
}

#[test]
fn paths_that_normalise_to_another_path_are_rejected() {
    let grants =
        grants(json!([{"verbs": ["get"], "kinds": [], "paths": ["/version", "/apis/metrics.k8s.io/*"]}]), None);
    for path in ["/version", "/apis/metrics.k8s.io/v1beta1/pods?limit=5&labelSelector=a%3Db"] {
        assert!(grants.allow_path(path), "{path}");
    }
    for path in [
        "/versions",
        "version",
        "/apis/metrics.k8s.io/../../api/v1/secrets",
        "/apis/metrics.k8s.io/%2e%2e/x",
        "/apis/metrics.k8s.io//x",
        "/apis/metrics.k8s.io/x#y",
        "/apis/metrics.k8s.io/x y",
        "/apis/metrics.k8s.io/x\r\nHost: y",
    ] {
        assert!(!grants.allow_path(path), "{path}");
    }
    assert!(!allows(&grants, "get v1/Pod a/b"));
}

#[test]
fn names_stay_within_their_segment() {
    let long = "a".repeat(10_000);
    for name in
        ["a", "a.b-c", "system:node", "kube-root-ca.crt", "...", "a?b", "a#b", "a\\b", "a b", "ä", "a\nb", &long]
    {
        assert!(is_path_segment(name), "{name}");
    }
    for name in ["", ".", "..", "a/b", "a%2fb", "/", "%"] {
        assert!(!is_path_segment(name), "{name}");
    }
}

#[test]
fn ownership_decides_only_where_nothing_else_does() {
    let pod: Kind = "v1/Pod".parse().unwrap();
    let access = |verb| Access { verb, kind: &pod, subresource: None, namespace: "a", name: "b", signer: None };
    let asked = json!([
        {"verbs": ["create", "delete"], "kinds": ["v1/Pod"], "of": "controlled"},
        {"verbs": ["delete"], "kinds": ["v1/Pod"], "of": "key"},
        {"verbs": ["patch"], "kinds": ["v1/Pod"]},
    ]);
    let owned = |which: &'static [Of]| {
        move |Relation { of, .. }| if which.contains(&of) { Ok(()) } else { Err(format!("{of:?} does not hold")) }
    };
    let all = grants(asked.clone(), None);
    assert_eq!(all.check(&access("create"), owned(&[Of::Controlled])), Ok(Allowed::Owned));
    assert_eq!(all.check(&access("delete"), owned(&[Of::Key])), Ok(Allowed::Owned));
    let mut n_asked = 0;
    let counting = |_: Relation| {
        n_asked += 1;
        Err(String::new())
    };
    assert_eq!(all.check(&access("patch"), counting), Ok(Allowed::Freely));
    assert_eq!(n_asked, 0);
    assert!(!all.allow(&access("create")) && all.allow(&access("patch")));
    let why = all.check(&access("delete"), owned(&[])).unwrap_err().message("widgets");
    assert!(why.contains("Key does not hold; Controlled does not hold"), "{why}");
    // The operator's limit applies as well as the manifest's.
    let narrowed = grants(asked, Some(json!([{"verbs": ["*"], "kinds": ["*"], "of": "key"}])));
    assert_eq!(narrowed.check(&access("patch"), owned(&[Of::Key])), Ok(Allowed::Owned));
    assert!(narrowed.check(&access("patch"), owned(&[])).is_err());
    assert!(narrowed.check(&access("create"), owned(&[Of::Controlled])).is_err());
    assert_eq!(narrowed.check(&access("create"), owned(&[Of::Key, Of::Controlled])), Ok(Allowed::Owned));
}

#[test]
fn a_relation_is_that_of_one_grant_and_the_widest_of_several() {
    let pod: Kind = "v1/Pod".parse().unwrap();
    let access = Access { verb: "patch", kind: &pod, subresource: None, namespace: "a", name: "b", signer: None };
    let relations = |asked: serde_json::Value| {
        let mut relations = Vec::new();
        let record = |relation: Relation| {
            relations.push((relation.adopt, relation.in_namespaces));
            Err(String::new())
        };
        assert!(grants(asked, None).check(&access, record).is_err());
        relations
    };
    let grant = |adopt: bool, namespaces: &[&str]| json!({"verbs": ["patch"], "kinds": ["*"], "namespaces": namespaces, "of": "controlled", "adopt": adopt});
    assert_eq!(relations(json!([grant(false, &[])])), [(false, false)]);
    assert_eq!(relations(json!([grant(false, &[]), grant(true, &[])])), [(true, false)]);
    assert_eq!(relations(json!([grant(true, &["a"]), grant(true, &[]), grant(false, &["*"])])), [(true, true)]);
    // One grant adopts in the namespace of the key, another one reaches other namespaces without adoption.
    assert_eq!(relations(json!([grant(true, &[]), grant(false, &["*"])])), [(false, true), (true, false)]);
    assert_eq!(relations(json!([grant(false, &[]), grant(true, &["other"])])), [(false, false)]);
}

#[test]
fn a_denial_names_the_grant_and_where_to_add_it() {
    let asked = json!([
        {"verbs": ["*"], "kinds": ["v1/Pod"], "subresources": ["status"]},
        {"verbs": ["delete"], "kinds": ["v1/Secret"], "of": "controlled"},
        {"verbs": ["get"], "kinds": ["v1/Node"], "of": "key"},
        {"verbs": ["update"], "kinds": ["v1/Node"], "of": "controlled"},
    ]);
    let grants = grants(asked, Some(json!([{"verbs": ["delete"], "kinds": ["v1/Secret"]}])));
    let message = |verb, kind: &str, subresource| {
        let kind: Kind = kind.parse().unwrap();
        let access = Access { verb, kind: &kind, subresource, namespace: "a", name: "b", signer: None };
        grants.check(&access, |_| Err("nobody controls it".into())).unwrap_err().message("widgets")
    };
    expect![[r#"delete v1/ConfigMap a/b is not granted to plugin widgets: its manifest does not ask for it; add `- {verbs: [delete], kinds: [v1/ConfigMap]}` to `grants` of the manifest"#]]
        .assert_eq(&message("delete", "v1/ConfigMap", None));
    expect![[r#"update v1/Pod (status) a/b is not granted to plugin widgets: its operator does not give it; add `- {verbs: [update], kinds: [v1/Pod], subresources: [status], namespaces: [a]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file"#]]
        .assert_eq(&message("update", "v1/Pod", Some("status")));
    expect![[r#"delete v1/Secret a/b is not granted to plugin widgets, whose manifest asks for objects of the key only: nobody controls it; for all objects add `- {verbs: [delete], kinds: [v1/Secret]}` to `grants` of the manifest"#]]
        .assert_eq(&message("delete", "v1/Secret", None));
    // No wider than the manifest's requests for the kind.
    expect![[r#"patch v1/Secret a/b is not granted to plugin widgets: its manifest does not ask for it; add `- {verbs: [patch], kinds: [v1/Secret], of: controlled}` to `grants` of the manifest"#]]
        .assert_eq(&message("patch", "v1/Secret", None));
    expect![[r#"update v1/Node a/b is not granted to plugin widgets: its operator does not give it; add `- {verbs: [update], kinds: [v1/Node], namespaces: [a], of: controlled}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file"#]]
        .assert_eq(&grants.check(&Access { verb: "update", kind: &"v1/Node".parse().unwrap(), subresource: None, namespace: "a", name: "b", signer: None }, |_| Ok(())).unwrap_err().message("widgets"));
    let path = |path| grants.check_path(path).unwrap_err().message("widgets");
    expect![[r#"get /apis/x?limit=1 is not granted to plugin widgets: its manifest does not ask for it; add `- {verbs: [get], paths: ["/apis/x*"]}` to `grants` of the manifest"#]]
        .assert_eq(&path("/apis/x?limit=1"));
    expect![[r#"get /apis/../x is not granted to plugin widgets: no grant allows a path that a server could read as another one"#]]
        .assert_eq(&path("/apis/../x"));
}

fn manifest(watches: serde_json::Value, grants: Value) -> Manifest {
    let manifest = json!({
        "name": "widgets", "version": "1.0.0", "contract": "0.2",
        "watches": watches, "queues": [{"name": "widgets"}], "grants": grants,
    });
    Manifest::parse(manifest.to_string().as_bytes()).unwrap()
}

fn missing(manifest: &Manifest, given: serde_json::Value) -> String {
    let given: Vec<Grant> = serde_json::from_value(given).unwrap();
    Missing::message(&Grants::missing(manifest, &given), "widgets")
}

#[test]
fn missing_grants_can_be_pasted() {
    let manifest = manifest(
        json!([
            {"kind": "v1/Secret"},
            {"kind": "v1/ConfigMap", "namespace": "kube-system", "fieldSelector": "metadata.name=ca"},
        ]),
        json!([
            {"verbs": ["create", "delete"], "kinds": ["v1/Pod", "v1/Service"], "of": "controlled"},
            {"verbs": ["update"], "kinds": ["v1/Pod"], "subresources": ["status"]},
            {"verbs": ["get"], "paths": ["/apis/metrics.k8s.io/*"]},
        ]),
    );
    expect![[r#"plugin widgets asks for more than it is given; add `- {verbs: [list, watch], kinds: [v1/Secret]}` and `- {verbs: [list, watch], kinds: [v1/ConfigMap], namespaces: [kube-system], names: [ca]}` and `- {verbs: [create, delete], kinds: [v1/Pod, v1/Service], of: controlled}` and `- {verbs: [update], kinds: [v1/Pod], subresources: [status]}` and `- {verbs: [get], paths: ["/apis/metrics.k8s.io/*"]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"#]]
        .assert_eq(&missing(&manifest, json!([])));
    let mut given = json!([
        {"verbs": ["list", "watch"], "kinds": ["v1/Secret", "v1/ConfigMap"]},
        {"verbs": ["create"], "kinds": ["*"]},
        {"verbs": ["delete"], "kinds": ["v1/Service", "v1/Pod"], "of": "controlled"},
        {"verbs": ["*"], "kinds": ["v1/Pod"], "subresources": ["*"]},
        {"verbs": ["get"], "paths": ["/apis/*"]},
    ]);
    assert_eq!(missing(&manifest, given.clone()), "");
    given[2]["of"] = json!("key");
    given[0]["namespaces"] = json!(["kube-system"]);
    expect!["plugin widgets asks for more than it is given; add `- {verbs: [list, watch], kinds: [v1/Secret]}` and `- {verbs: [delete], kinds: [v1/Pod, v1/Service], of: controlled}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"]
        .assert_eq(&missing(&manifest, given));
}

#[test]
fn what_is_missing_of_long_lists_is_one_part_for_each_list_and_not_each_combination() {
    let values = |list: &str, n: usize| (0..n).map(|i| format!("{list}{i}")).collect::<Value>();
    let product = |n: usize| json!({"verbs": ["get"], "kinds": ["v1/Pod"], "subresources": values("s", n), "namespaces": values("ns", n), "names": values("a", n)});
    let asked = manifest(json!([]), json!([product(16)]));
    let missing =
        |given: &Value| Grants::missing(&asked, &serde_json::from_value::<Vec<Grant>>(given.clone()).unwrap());
    let of = |grant: &Grant| [&grant.subresources, &grant.namespaces, &grant.names].map(Vec::len);
    let parts = |given: Value| missing(&given).iter().map(|one| of(&one.grant)).collect::<Vec<_>>();
    assert_eq!(parts(json!([])), [[16, 16, 16]]);
    assert_eq!(parts(json!([product(15)])), [[1, 16, 16], [15, 1, 16], [15, 15, 1]]);
    assert_eq!(parts(json!([product(16)])), [[0; 3]; 0]);
    // Each value that is given separately leaves one part.
    let alone = |i: usize| json!({"verbs": ["*"], "kinds": ["*"], "subresources": [format!("s{i}")], "namespaces": [format!("ns{i}")], "names": [format!("a{i}")]});
    let given = (0..16).map(alone).collect::<Value>();
    assert!(parts(given.clone()).len() <= 3 * 16, "{:?}", parts(given));
    assert_eq!(parts(given.clone()).iter().map(|[a, b, c]| a * b * c).sum::<usize>(), 16 * 16 * 16 - 16);
}

#[test]
fn the_message_about_missing_grants_is_bounded() {
    let grants: Value =
        (0..200).map(|i| json!({"verbs": ["get"], "kinds": [format!("v1/K{}{i}", "x".repeat(100))]})).collect();
    let message = missing(&manifest(json!([]), grants), json!([]));
    assert!((8_000..9_000).contains(&message.len()), "{}", message.len());
    assert!(message.contains(" and 140 more, which `pintle inspect` shows, to `grants` of"), "{message}");
}

#[test]
fn a_missing_adoption_can_be_pasted() {
    let controlled = |verbs: &[&str], adopt: bool| json!({"verbs": verbs, "kinds": ["v1/Pod"], "names": if adopt { vec!["*"] } else { Vec::new() }, "of": "controlled", "adopt": adopt});
    let manifest = manifest(json!([]), json!([controlled(&["create", "patch", "delete"], true)]));
    expect![[r#"plugin widgets asks for more than it is given; add `- {verbs: [create, patch, delete], kinds: [v1/Pod], names: ["*"], of: controlled, adopt: true}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"#]]
        .assert_eq(&missing(&manifest, json!([])));
    expect![[r#"plugin widgets asks for more than it is given; add `- {verbs: [patch], kinds: [v1/Pod], names: ["*"], of: controlled, adopt: true}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"#]]
        .assert_eq(&missing(&manifest, json!([controlled(&["create", "patch", "delete"], false)])));
    expect!["plugin widgets asks for more than it is given; add `- {verbs: [create, delete], kinds: [v1/Pod], of: controlled}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"]
        .assert_eq(&missing(&manifest, json!([controlled(&["patch"], true)])));
    assert_eq!(missing(&manifest, json!([{"verbs": ["*"], "kinds": ["v1/Pod"]}])), "");
}

#[test]
fn an_adoption_of_any_name_is_asked_for_as_such() {
    let adopting = |names: &[&str]| json!([{"verbs": ["patch"], "kinds": ["v1/Pod"], "names": names, "of": "controlled", "adopt": true}]);
    let manifest = manifest(json!([]), adopting(&["*"]));
    expect![[r#"plugin widgets asks for more than it is given; add `- {verbs: [patch], kinds: [v1/Pod], names: ["*"], of: controlled, adopt: true}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"#]]
        .assert_eq(&missing(&manifest, json!([])));
    assert_eq!(missing(&manifest, adopting(&["*"])), "");
    assert!(!missing(&manifest, adopting(&["a"])).is_empty());
}

#[test]
fn all_namespaces_of_controlled_objects_are_more_than_no_list() {
    let controlled = |namespaces: &[&str]| json!([{"verbs": ["patch"], "kinds": ["v1/Pod"], "namespaces": namespaces, "of": "controlled"}]);
    let asked = |namespaces: &[&str]| manifest(json!([]), controlled(namespaces));
    expect![[r#"plugin widgets asks for more than it is given; add `- {verbs: [patch], kinds: [v1/Pod], namespaces: ["*"], of: controlled}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"#]]
        .assert_eq(&missing(&asked(&["*"]), controlled(&[])));
    expect!["plugin widgets asks for more than it is given; add `- {verbs: [patch], kinds: [v1/Pod], namespaces: [a], of: controlled}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"]
        .assert_eq(&missing(&asked(&["a"]), controlled(&[])));
    for (of_manifest, of_operator) in [(&["*"][..], &["*"][..]), (&["a"], &["*"]), (&[], &["*"]), (&[], &[])] {
        assert_eq!(missing(&asked(of_manifest), controlled(of_operator)), "");
    }
    assert_eq!(missing(&asked(&["*"]), json!([{"verbs": ["patch"], "kinds": ["v1/Pod"]}])), "");
}

#[test]
fn only_all_covers_all() {
    let manifest = manifest(json!([{"every": {"verbs": ["delete"]}}]), json!([{"verbs": ["*"], "kinds": ["v1/Pod"]}]));
    let found = Grants::missing(&manifest, &[]);
    assert_eq!(found.iter().map(|one| one.watch).collect::<Vec<_>>(), [true, false]);
    assert_eq!(found[1].grant.verbs, Grant::VERBS);
    assert_eq!(
        missing(&manifest, json!([{"verbs": ["*"], "kinds": ["v1/Pod", "v1/Secret"]}])),
        r#"plugin widgets asks for more than it is given; add `- {verbs: [list, watch], kinds: ["*"]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"#
    );
}

#[test]
fn a_grant_with_signers_limits_the_verbs_that_are_for_a_signer() {
    const REQUEST: &str = "certificates.k8s.io/v1/CertificateSigningRequest";
    let signing = |signers: &[&str]| json!([{"verbs": ["sign", "update"], "kinds": [REQUEST], "subresources": ["status"], "signers": signers}]);
    let allows = |signers: &[&str], given: Option<Value>, verb: &str, signer: Option<&str>| {
        let kind: Kind = REQUEST.parse().unwrap();
        let access = Access { verb, kind: &kind, subresource: Some("status"), namespace: "", name: "a", signer };
        grants(signing(signers), given).allow(&access)
    };
    for (signer, is_listed) in
        [(Some("example.com/a"), true), (Some("example.com/b"), false), (Some(""), false), (None, false)]
    {
        assert_eq!(allows(&["example.com/a"], None, "sign", signer), is_listed, "{signer:?}");
        assert_eq!(allows(&[], Some(signing(&["example.com/a"])), "sign", signer), is_listed, "{signer:?}");
        assert!(allows(&["example.com/a"], None, "update", signer) && !allows(&[], None, "attest", signer));
        assert!(allows(&[], None, "sign", signer) && allows(&["*"], None, "sign", signer));
    }
    let asked = |signers: &[&str]| manifest(json!([]), signing(signers));
    expect!["plugin widgets asks for more than it is given; add `- {verbs: [sign], kinds: [certificates.k8s.io/v1/CertificateSigningRequest], subresources: [status], signers: [example.com/b]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"]
        .assert_eq(&missing(&asked(&["example.com/a", "example.com/b"]), signing(&["example.com/a"])));
    expect!["plugin widgets asks for more than it is given; add `- {verbs: [sign], kinds: [certificates.k8s.io/v1/CertificateSigningRequest], subresources: [status]}` to `grants` of ControllerPlugin/widgets or of the plugin's spec file: `pintle scaffold COMPONENT` prints one with all of them"]
        .assert_eq(&missing(&asked(&[]), signing(&["example.com/a"])));
    for (of_manifest, of_operator) in
        [(&["a"][..], &["a", "b"][..]), (&["a"], &["*"]), (&["a"], &[]), (&["*"], &[]), (&[], &["*"])]
    {
        assert_eq!(missing(&asked(of_manifest), signing(of_operator)), "", "{of_manifest:?} {of_operator:?}");
    }
}

/// Values for the property below; no grant names the last value of each.
const KINDS: [&str; 3] = ["v1/Pod", "v1/Secret", "v1/Other"];
const SUBRESOURCES: [Option<&str>; 4] = [None, Some("status"), Some("token"), Some("other")];
const NAMES: [&str; 3] = ["a", "b", "other"];
const SIGNERS: [Option<&str>; 3] = [Some("a"), Some("b"), Some("other")];
/// The relation of the object to the key, whether the write adopts it, and whether the object has a namespace and the
/// key has none.
const RELATIONS: [(Of, bool, bool); 6] = [
    (Of::Any, false, false),
    (Of::Key, false, false),
    (Of::Controlled, false, false),
    (Of::Controlled, true, false),
    (Of::Controlled, false, true),
    (Of::Controlled, true, true),
];

fn any_grant() -> impl Strategy<Value = Grant> {
    let some = |values: &'static [&'static str]| {
        proptest::sample::subsequence(values, 0..=values.len())
            .prop_map(|values| values.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let or_all = |values: Vec<String>| if values.is_empty() { vec!["*".to_owned()] } else { values };
    let of = prop_oneof![Just(Of::Any), Just(Of::Key), Just(Of::Controlled)];
    let parts = (
        some(&["get", "create", "patch", "delete", "escalate", "sign"]),
        some(&["v1/Pod", "v1/Secret"]),
        some(&["status", "token", "*"]),
        some(&["a", "b", "*"]),
        some(&["a", "b"]),
        some(&["a", "b"]),
        (of, any::<bool>()),
    );
    parts.prop_map(move |(verbs, kinds, subresources, namespaces, names, signers, (of, adopt))| {
        let (verbs, kinds, paths) = (or_all(verbs), or_all(kinds), Vec::new());
        let plain = Grant { verbs, kinds, subresources, namespaces, names, paths, signers, of, adopt: false };
        let adopting = Grant { adopt, ..plain.clone() };
        if adopting.check().is_ok() { adopting } else { plain }
    })
}

proptest! {
    /// No grant is missing exactly if the operator's grants allow every request that the manifest's grants allow.
    #[test]
    fn missing_grants_agree_with_denials(
        asked in proptest::collection::vec(any_grant(), 1..3),
        given in proptest::collection::vec(any_grant(), 0..5),
    ) {
        let manifest = Manifest { grants: asked.clone(), ..manifest(json!([]), json!([])) };
        let (alone, narrowed) = (Grants::new(&asked, None), Grants::new(&asked, Some(&given)));
        let mut refused = None;
        let verbs = Grant::VERBS.iter().chain(&Grant::SPECIAL_VERBS);
        for (verb, kind) in verbs.flat_map(|verb| KINDS.map(|kind| (*verb, kind))) {
            let kind: Kind = kind.parse().unwrap();
            for subresource in SUBRESOURCES {
                for (namespace, name) in NAMES.iter().flat_map(|namespace| NAMES.map(|name| (*namespace, name))) {
                    for (holds, adopts, is_far) in RELATIONS {
                        if holds != Of::Any && Grant::OF_MANY.contains(&verb) || adopts && verb != "patch" {
                            continue;
                        }
                        let owned = |Relation { of, adopt, in_namespaces, named: _ }| {
                            let is_so = of == holds && (adopt || !adopts) && (in_namespaces || !is_far);
                            if is_so { Ok(()) } else { Err(String::new()) }
                        };
                        let signers = if verb == "sign" { &SIGNERS[..] } else { &[None] };
                        for signer in signers.iter().copied() {
                            let access = Access { verb, kind: &kind, subresource, namespace, name, signer };
                            if alone.check(&access, owned).is_ok() && narrowed.check(&access, owned).is_err() {
                                refused = Some(format!("{access} for {signer:?} of {holds:?}, {adopts}, {is_far}"));
                            }
                        }
                    }
                }
            }
        }
        let missing = Grants::missing(&manifest, &given);
        prop_assert_eq!(missing.is_empty(), refused.is_none(), "{:?} {:?}", missing, refused);
    }
}
