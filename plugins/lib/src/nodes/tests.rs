use super::*;

fn labels(text: &str) -> BTreeMap<String, String> {
    text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn placement(spec: &str) -> Placement {
    serde_json::from_str(spec).unwrap()
}

/// A Pod that requires these terms.
fn requiring(terms: &str) -> String {
    format!(
        r#"{{"affinity": {{"nodeAffinity": {{"requiredDuringSchedulingIgnoredDuringExecution": {{"nodeSelectorTerms": {terms}}}}}}}}}"#
    )
}

/// As `TestPodMatchesNodeSelectorAndAffinityTerms`, and `TestNodeSelectorMatch`, of nodeaffinity_test.go.
#[test]
fn selectors_and_required_terms_match_as_upstream() {
    let expression = |text: &str| requiring(&format!(r#"[{{"matchExpressions": [{text}]}}]"#));
    let foo = |operator: &str, values: &str| {
        expression(&format!(r#"{{"key": "foo", "operator": "{operator}", "values": {values}}}"#))
    };
    let by_name = |operator: &str, name: &str| {
        format!(r#"{{"matchFields": [{{"key": "metadata.name", "operator": "{operator}", "values": ["{name}"]}}]}}"#)
    };
    let exists = r#"{"matchExpressions": [{"key": "foo", "operator": "Exists"}]}"#;
    let both = r#"{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                   "matchExpressions": [{"key": "foo", "operator": "In", "values": ["bar"]}]}"#;
    for (rule, spec, node, expected) in [
        ("no selector", "{}".to_owned(), "", true),
        ("missing labels", r#"{"nodeSelector": {"foo": "bar"}}"#.into(), "", false),
        ("same labels", r#"{"nodeSelector": {"foo": "bar"}}"#.into(), "foo=bar", true),
        ("more labels", r#"{"nodeSelector": {"foo": "bar"}}"#.into(), "foo=bar,baz=blah", true),
        ("fewer labels", r#"{"nodeSelector": {"foo": "bar", "baz": "blah"}}"#.into(), "foo=bar", false),
        ("in", foo("In", r#"["bar", "value2"]"#), "foo=bar", true),
        ("not in the list", foo("In", r#"["value1"]"#), "foo=bar", false),
        ("above", foo("Gt", r#"["0204"]"#), "foo=0206", true),
        ("not above", foo("Gt", r#"["206"]"#), "foo=206", false),
        ("below", foo("Lt", r#"["207"]"#), "foo=206", true),
        ("no number", foo("Gt", r#"["1"]"#), "foo=bar", false),
        ("two bounds", foo("Gt", r#"["1", "2"]"#), "foo=5", false),
        ("a negative bound is not a label", foo("Gt", r#"["-1"]"#), "foo=5", false),
        ("not in", foo("NotIn", r#"["value1", "value2"]"#), "foo=bar", true),
        ("not in, absent", foo("NotIn", r#"["value1"]"#), "", true),
        ("exists", foo("Exists", "[]"), "foo=bar", true),
        ("does not exist", foo("DoesNotExist", "[]"), "foo=bar", false),
        ("exists takes no values", foo("Exists", r#"["bar"]"#), "foo=bar", false),
        ("in needs values", foo("In", "[]"), "foo=bar", false),
        ("an operator that does not exist", foo("Like", r#"["bar"]"#), "foo=bar", false),
        ("a value that is not valid", foo("NotIn", r#"["invalid value: ___@#$%^"]"#), "foo=bar", false),
        ("a key that is not valid", expression(r#"{"key": "a b", "operator": "DoesNotExist"}"#), "foo=bar", false),
        ("a key with a prefix", expression(r#"{"key": "a.b-c/D_e", "operator": "DoesNotExist"}"#), "", true),
        ("a prefix that is not valid", expression(r#"{"key": "A/d", "operator": "DoesNotExist"}"#), "", false),
        ("no terms", requiring("null"), "foo=bar", false),
        ("an empty list of terms", requiring("[]"), "foo=bar", false),
        ("a term without requirements", requiring(r#"[{"matchExpressions": []}]"#), "foo=bar", false),
        ("affinity without a selector", r#"{"affinity": {"nodeAffinity": {}}}"#.into(), "foo=bar", true),
        ("no node affinity", r#"{"affinity": {"nodeAffinity": null}}"#.into(), "foo=bar", true),
        ("one of two terms", requiring(&format!("[{}, {exists}]", by_name("In", "n2"))), "foo=bar", true),
        ("none of two terms", requiring(&format!("[{}, {exists}]", by_name("In", "n2"))), "", false),
        (
            "a broken term beside a good one",
            requiring(&format!(
                r#"[{{"matchFields": [{{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}}]}}, {exists}]"#
            )),
            "foo=bar",
            true,
        ),
        ("by name", requiring(&format!("[{}]", by_name("In", "n1"))), "", true),
        ("not that name", requiring(&format!("[{}]", by_name("NotIn", "n1"))), "", false),
        ("fields have two operators", requiring(&format!("[{}]", by_name("Exists", "n1"))), "", false),
        (
            "another field",
            requiring(r#"[{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n1"]}]}]"#),
            "",
            false,
        ),
        (
            "not another field",
            requiring(r#"[{"matchFields": [{"key": "spec.x", "operator": "NotIn", "values": ["n1"]}]}]"#),
            "",
            true,
        ),
        ("name and label", requiring(&format!("[{both}]")), "foo=bar", true),
        ("name without label", requiring(&format!("[{both}]")), "foo=x", false),
    ] {
        let labels = labels(node);
        let target = Target { name: "n1", labels: &labels, taints: &[] };
        assert_eq!(placement(&spec).required().matches(&target), expected, "{rule}");
    }
}

fn taint(text: &str) -> Taint {
    let (rest, effect) = text.split_once(':').unwrap();
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

/// As `TestTolerationToleratesTaint` of toleration_test.go.
#[test]
fn tolerations_tolerate_as_upstream() {
    for (toleration, of, comparisons, expected) in [
        (r#"{"key": "foo", "operator": "Exists", "effect": "NoSchedule"}"#, "foo=bar:NoSchedule", false, true),
        (r#"{"key": "foo", "operator": "Exists", "effect": "NoSchedule"}"#, "foobar=bar:NoSchedule", false, false),
        (r#"{"key": "foo", "operator": "Exists"}"#, "foo=bar:NoExecute", false, true),
        (r#"{"operator": "Exists"}"#, "any=thing:NoExecute", false, true),
        (r#"{"key": "foo", "operator": "Exists", "effect": "NoExecute"}"#, "foo=bar:NoSchedule", false, false),
        (r#"{"key": "foo", "operator": "Equal", "value": "bar"}"#, "foo=bar:NoSchedule", false, true),
        (r#"{"key": "foo", "value": "bar"}"#, "foo=bar:NoSchedule", false, true),
        (r#"{"key": "foo", "value": "bar"}"#, "foo=baz:NoSchedule", false, false),
        (r#"{"key": "foo", "operator": "Like", "value": "bar"}"#, "foo=bar:NoSchedule", true, false),
        (r#"{"key": "sla", "operator": "Lt", "value": "200"}"#, "sla=100:NoSchedule", true, true),
        (r#"{"key": "sla", "operator": "Lt", "value": "200"}"#, "sla=200:NoSchedule", true, false),
        (r#"{"key": "sla", "operator": "Gt", "value": "950"}"#, "sla=999:NoSchedule", true, true),
        (r#"{"key": "sla", "operator": "Gt", "value": "950"}"#, "sla=999:NoSchedule", false, false),
        (r#"{"key": "sla", "operator": "Gt", "value": "-10"}"#, "sla=-5:NoSchedule", true, true),
        (r#"{"key": "sla", "operator": "Gt", "value": "0950"}"#, "sla=999:NoSchedule", true, false),
        (r#"{"key": "sla", "operator": "Gt", "value": "0"}"#, "sla=+9:NoSchedule", true, false),
        (r#"{"key": "sla", "operator": "Lt", "value": "99999999999999999999"}"#, "sla=1:NoSchedule", true, false),
        (r#"{"key": "sla", "operator": "Lt", "value": "5"}"#, "sla=-0:NoSchedule", true, false),
    ] {
        let toleration: Toleration = serde_json::from_str(toleration).unwrap();
        assert_eq!(toleration.tolerates(&taint(of), comparisons), expected, "{toleration:?} {of}");
    }
}

/// As `TestNodeShouldRunDaemonPod`, without the scheduler's checks.
#[test]
fn daemons_run_where_upstream_runs_them() {
    let production = |value: &str| {
        requiring(&format!(r#"[{{"matchExpressions": [{{"key": "type", "operator": "In", "values": ["{value}"]}}]}}]"#))
    };
    let tolerating = r#"{"tolerations": [{"key": "gpu", "operator": "Exists"}]}"#;
    for (rule, spec, taints, expected) in [
        ("plain", "{}".to_owned(), &[][..], (true, true)),
        ("another node", r#"{"nodeName": "other"}"#.into(), &[], (false, false)),
        ("this node", r#"{"nodeName": "n1"}"#.into(), &[], (true, true)),
        ("selector does not match", r#"{"nodeSelector": {"type": "test"}}"#.into(), &[], (false, false)),
        ("selector matches", r#"{"nodeSelector": {"type": "production"}}"#.into(), &[], (true, true)),
        ("affinity does not match", production("test"), &[], (false, false)),
        ("affinity matches", production("production"), &[], (true, true)),
        ("unschedulable", "{}".into(), &["node.kubernetes.io/unschedulable:NoSchedule"], (true, true)),
        ("not ready", "{}".into(), &["node.kubernetes.io/not-ready:NoExecute"], (true, true)),
        ("no network", "{}".into(), &["node.kubernetes.io/network-unavailable:NoSchedule"], (false, true)),
        (
            "on the host's network",
            r#"{"hostNetwork": true}"#.into(),
            &["node.kubernetes.io/network-unavailable:NoSchedule"],
            (true, true),
        ),
        ("out of disk", "{}".into(), &["node.kubernetes.io/out-of-disk:NoSchedule"], (false, true)),
        ("kept out", "{}".into(), &["gpu=yes:NoSchedule"], (false, true)),
        ("evicted", "{}".into(), &["gpu=yes:NoExecute"], (false, false)),
        ("tolerated", tolerating.into(), &["gpu=yes:NoSchedule", "gpu=yes:NoExecute"], (true, true)),
        ("only preferred", "{}".into(), &["gpu=yes:PreferNoSchedule"], (true, true)),
    ] {
        let labels = labels("type=production");
        let taints: Vec<_> = taints.iter().map(|text| taint(text)).collect();
        let node = Target { name: "n1", labels: &labels, taints: &taints };
        let fit = placement(&spec).for_daemon().daemon_fit(&node, false);
        assert_eq!((fit.should_run, fit.should_continue), expected, "{rule}");
    }
}

#[test]
fn daemon_tolerations_replace_those_for_the_same_taint() {
    let mut limited = Toleration::exists("node.kubernetes.io/not-ready", "NoExecute");
    limited.toleration_seconds = Some(300);
    let other = Toleration::exists("node.kubernetes.io/not-ready", "NoSchedule");
    let mut tolerations = vec![limited.clone(), other.clone(), limited];
    add_daemon_tolerations(&mut tolerations, false);
    assert_eq!((tolerations[0].toleration_seconds, tolerations[2].toleration_seconds), (None, None));
    assert_eq!((tolerations.len(), &tolerations[1]), (8, &other));
    add_daemon_tolerations(&mut tolerations, true);
    assert_eq!(tolerations.len(), 9);
    assert_eq!(
        serde_json::to_string(&tolerations[8]).unwrap(),
        r#"{"key":"node.kubernetes.io/network-unavailable","operator":"Exists","effect":"NoSchedule"}"#
    );
}

/// As `TestReplaceDaemonSetPodNodeNameNodeAffinity` and `TestGetTargetNodeName`.
#[test]
fn a_pinned_pod_keeps_what_it_prefers_and_names_its_node() {
    let mut affinity = serde_json::json!({
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [1],
                         "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]}},
    });
    pin_to_node(&mut affinity, "n1");
    assert_eq!(affinity["podAntiAffinity"]["x"], 1);
    assert_eq!(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0], 1);
    let mut fresh = serde_json::Value::Null;
    pin_to_node(&mut fresh, "n1");
    for affinity in [affinity, fresh] {
        let affinity: Affinity = serde_json::from_value(affinity).unwrap();
        assert_eq!(pinned_node("", affinity.node_affinity.as_ref()).unwrap(), "n1");
        assert_eq!(pinned_node("n2", affinity.node_affinity.as_ref()).unwrap(), "n2");
    }
    assert!(pinned_node("", None).unwrap_err().to_string().contains("neither"));
    let two = placement(&requiring(
        r#"[{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}]"#,
    ));
    assert!(pinned_node("", two.affinity.node_affinity.as_ref()).unwrap_err().to_string().contains("exactly one"));
}

/// As `TestGetZoneKey`.
#[test]
fn a_zone_has_a_region() {
    for (of, expected) in [
        ("a=b", ""),
        ("topology.kubernetes.io/zone=z", ":\0:z"),
        ("topology.kubernetes.io/region=r", "r:\0:"),
        ("topology.kubernetes.io/region=r,topology.kubernetes.io/zone=z", "r:\0:z"),
        ("topology.kubernetes.io/zone=new,failure-domain.beta.kubernetes.io/zone=old", ":\0:old"),
    ] {
        assert_eq!(zone_key(&labels(of)), expected, "{of}");
    }
}
