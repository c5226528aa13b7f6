use serde_json::json;

use super::*;

const TEMPLATE: &str = r#"{"metadata":{"labels":{"b":"1","a":"2"}},"spec":{"containers":[{"name":"c","image":"i","args":["<a> & b","\u2028\u2029\u0001\b\f\n\r\t\"\\\u007fé/"]}]}}"#;

fn revision(name: &str, number: i64, data: &str) -> ControllerRevision {
    serde_json::from_str(&format!(r#"{{"metadata":{{"name":"{name}"}},"revision":{number},"data":{data}}}"#)).unwrap()
}

fn patch(template: &str) -> String {
    template_patch(&serde_json::from_str::<Value>(template).unwrap()).unwrap()
}

fn names<'a>(revisions: &[&'a ControllerRevision]) -> Vec<&'a str> {
    revisions.iter().map(|revision| revision.metadata.name.as_str()).collect()
}

/// Made with Go's encoding/json, hash/fnv, and apimachinery 0.36.3.
#[test]
fn patches_and_hashes_are_byte_for_byte_those_of_upstream() {
    let escaped = "{\"spec\":{\"template\":{\"$patch\":\"replace\",\"metadata\":{\"labels\":{\"a\":\"2\",\"b\":\"1\"}},\
                   \"spec\":{\"containers\":[{\"args\":[\"\\u003ca\\u003e \\u0026 b\",\
                   \"\\u2028\\u2029\\u0001\\b\\f\\n\\r\\t\\\"\\\\\u{7f}é/\"],\"image\":\"i\",\"name\":\"c\"}]}}}}";
    let numbers = r#"{"spec":{"n":9007199254740993,"m":1000000,"z":-0,"f":1.50,"big":1e21,"e":123456789012345678901234567890,"small":0.0000001,"s2":0.000001,"t":100000000000000000000,"nil":null,"l":[],"o":{},"b":true,"é":1,"Z":2,"~":3},"metadata":{}}"#;
    let numbers_patch = r#"{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{"Z":2,"b":true,"big":1e+21,"e":1.2345678901234568e+29,"f":1.5,"l":[],"m":1000000,"n":9007199254740992,"nil":null,"o":{},"s2":0.000001,"small":1e-7,"t":100000000000000000000,"z":-0,"~":3,"é":1}}}}"#;
    let least = r#"{"spec":{"template":{"$patch":"replace","spec":{"containers":[]}}}}"#;
    for (template, wanted, hashes) in [
        (TEMPLATE, escaped, ["cf5c4dccc", "cf5c4dccb", "6fc9ddc686", "66f8975999"]),
        (numbers, numbers_patch, ["94ff9887c", "94ff9887b", "59bcd444b6", "6fdfc77459"]),
        (r#"{"spec":{"containers":[]}}"#, least, ["66d7f8b979", "66d7f8b978", "5f88fdb4d4", "68487f6f85"]),
    ] {
        let data = patch(template);
        assert_eq!(data, wanted);
        assert_eq!([Some(0), Some(1), Some(12), None].map(|count| hash(&data, count)), hashes);
    }
    assert!(template_patch(&json!([1])).is_err());
}

#[test]
fn a_name_has_at_most_253_bytes() {
    assert_eq!(name("web", "abc"), "web-abc");
    assert_eq!(name(&"a".repeat(253), "1234567890").len(), 234);
    assert_eq!(name(&"a".repeat(223), "x"), format!("{}-x", "a".repeat(223)));
}

/// As `TestSortControllerRevisions`.
#[test]
fn revisions_are_sorted_by_number_time_and_name() {
    let at = |name: &str, number: i64, seconds: Option<i64>| {
        let mut revision = revision(name, number, "{}");
        revision.metadata.creation_timestamp = seconds.map(|s| pintle_sdk::time::Timestamp::from_micros(s * 1_000_000));
        revision
    };
    let mut all = [at("d", 2, Some(2)), at("c", 2, Some(1)), at("b", 1, None), at("a", 2, Some(2)), at("e", 2, None)];
    sort(&mut all);
    assert_eq!(names(&all.iter().collect::<Vec<_>>()), ["b", "e", "c", "a", "d"]);
    assert_eq!((next_number(&all), next_number(&[])), (3, 1));
}

#[test]
fn the_newest_equal_revision_is_the_update_revision() {
    let (a, b) = (patch(r#"{"spec":{"a":"<"}}"#), patch(r#"{"spec":{"b":[]}}"#));
    let proposal = |data: &str, history: &[ControllerRevision]| {
        Proposal::new("web", data.to_owned(), next_number(history), Some(0))
    };
    let describe = |history: &[ControllerRevision], data: &str| match change(history, proposal(data, history)) {
        Change::None(revision) => format!("none {}", revision.metadata.name),
        Change::Renumber(revision, number) => format!("{} becomes {number}", revision.metadata.name),
        Change::Create(proposal) => format!("create {} {}", proposal.number, proposal.name),
    };
    let history = [revision("one", 1, &a), revision("two", 2, &b)];
    assert_eq!(describe(&[], &a), format!("create 1 {}", name("web", &hash(&a, Some(0)))));
    assert_eq!(describe(&history, &b), "none two");
    assert_eq!(describe(&history, &a), "one becomes 3");
    assert!(describe(&history, &patch("{}")).starts_with("create 3 web-"));
    // Two are identical: the newest counts.
    assert_eq!(describe(&[revision("one", 1, &a), revision("same", 2, &a)], &a), "none same");
    // Other bytes, the same template. Only the newest is compared this way.
    let spaced = r#"{"spec": {"template": {"spec": {"b": null}, "$patch": "replace"}}}"#;
    assert_eq!(describe(&[revision("one", 1, &a), revision("two", 2, spaced)], &b), "none two");
    assert!(describe(&[revision("one", 1, spaced), revision("two", 2, &a)], &b).starts_with("create 3"));
}

#[test]
fn a_revision_without_fields_that_have_defaults_is_that_of_the_template() {
    let served = patch(
        r#"{"spec":{"containers":[{"name":"c","image":"web:1","imagePullPolicy":"IfNotPresent","resources":{},
            "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst",
            "restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}"#,
    );
    let stored = |template: &str| is_equivalent(&revision("one", 1, &patch(template)), &served);
    assert!(stored(r#"{"spec":{"containers":[{"name":"c","image":"web:1"}],"restartPolicy":"Always"}}"#));
    for other in [
        r#"{"spec":{"containers":[{"name":"c","image":"web:1"}],"restartPolicy":"Never"}}"#,
        r#"{"spec":{"containers":[{"name":"c","image":"web"}]}}"#,
        r#"{"spec":{"containers":[{"name":"c","image":"web:1"}],"hostNetwork":true}}"#,
        r#"{"spec":{"containers":[]}}"#,
        "{}",
    ] {
        assert!(!stored(other), "{other}");
    }
}

#[test]
fn live_revisions_stay_and_count_only_for_daemon_sets() {
    let history: Vec<_> = ["a", "b", "c", "d", "e"].iter().zip(1..).map(|(n, i)| revision(n, i, "{}")).collect();
    let is_live = |revision: &ControllerRevision| matches!(revision.metadata.name.as_str(), "a" | "c");
    for (limit, stateful, daemon) in [
        (-1, &[][..], &["b", "d", "e"][..]),
        (0, &["b", "d", "e"], &["b", "d", "e"]),
        (1, &["b", "d"], &["b", "d", "e"]),
        (3, &[], &["b", "d"]),
        (4, &[], &["b"]),
        (5, &[], &[]),
    ] {
        assert_eq!(names(&surplus(&history, limit, is_live)), stateful, "{limit}");
        assert_eq!(names(&surplus_with_live(&history, limit, is_live)), daemon, "{limit}");
    }
}

#[test]
fn a_revision_is_created_as_it_is_and_brings_its_template_back() {
    let data = patch(TEMPLATE);
    let proposal = Proposal::new("web", data.clone(), 7, None);
    let owner = ObjectMeta { name: "web".into(), namespace: "ns".into(), uid: "u".into(), ..ObjectMeta::default() };
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let kind = Kind::new("apps", "v1", "StatefulSet");
    let object = proposal.object(&kind, &owner, HASH_LABEL, &labels, &BTreeMap::new()).unwrap();
    assert!(object.contains(&format!(r#""data":{data},"revision":7"#)), "{object}");

    let created: ControllerRevision = serde_json::from_str(&object).unwrap();
    assert_eq!(created.metadata.labels[HASH_LABEL], proposal.hash);
    assert_eq!((created.metadata.labels["app"].as_str(), created.metadata.name.as_str()), ("web", &*proposal.name));
    assert!(!proposal.collides_with(&created) && proposal.collides_with(&revision("x", 1, "{}")));
    assert_eq!(template(&created).unwrap(), serde_json::from_str::<Value>(TEMPLATE).unwrap());
    assert!(template(&revision("x", 1, r#"{"spec":{}}"#)).is_err());
}
