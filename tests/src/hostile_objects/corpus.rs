//! The corpus: objects that a user may create, and what becomes of each.
//!
//! The ends follow from the rules of upstream's controllers.

use serde_json::{Value, json};

use super::{End, Entry, Object};

/// Where workloads are.
const WORK: &str = "hostile-work";
/// Where dependents and owners are.
const OWNED: &str = "hostile-owned";
/// Where many large orphans are.
const LARGE: &str = "hostile-large";

/// The namespaces of the corpus.
pub(super) const NAMESPACES: [&str; 3] = [WORK, OWNED, LARGE];

/// Every entry. `scale` divides the numbers of objects in crowds and families, 1 for all of them.
pub fn corpus(scale: usize) -> Vec<Entry> {
    let mut all = Vec::new();
    all.extend(large());
    all.extend(names());
    all.extend(odd_specs());
    all.extend(odd_texts());
    all.extend(histories());
    all.extend(owners());
    all.extend(owner_names());
    all.extend(roles());
    all.extend(cascades(scale));
    all.extend(published());
    all.extend(crowds(scale));
    all
}

/// Entries that kube-controller-manager 1.37.2 never brings to their ends, and why.
pub const UPSTREAM_LEAVES: [(&str, &str); 3] = [
    ("a surge of the largest number", "replicas and surge overflow 32 bits, so it creates no Pod"),
    ("an owner whose name has a dot", "its client rejects the name, so it never learns that the owner is absent"),
    (
        "an owner whose name has a per cent sign",
        "its client rejects the name, so it never learns that the owner is absent",
    ),
];

fn entry(what: impl Into<String>, objects: Vec<Object>, ends: Vec<End>) -> Entry {
    Entry { what: what.into(), objects, ends }
}

/// The collection of a kind in a namespace.
fn of(kind: &str, namespace: &str) -> String {
    let base = match kind {
        "deployments" | "replicasets" => "apis/apps/v1",
        "roles" | "rolebindings" => "apis/rbac.authorization.k8s.io/v1",
        _ => "api/v1",
    };
    format!("/{base}/namespaces/{namespace}/{kind}")
}

fn object(kind: &str, namespace: &str, body: Value) -> Object {
    Object { collection: of(kind, namespace), body, then: None }
}

/// The path of an object, with its name escaped.
fn path(kind: &str, namespace: &str, name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        b'.' if name.bytes().any(|other| other != b'.') => ".".to_owned(),
        _ => format!("%{byte:02X}"),
    };
    format!("{}/{}", of(kind, namespace), name.bytes().map(escape).collect::<String>())
}

/// A Pod template of this app that no node runs.
fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    })
}

/// A workload of one kind, with changes of its spec.
fn workload(kind: &str, name: &str, replicas: u64, change: impl FnOnce(&mut Value)) -> Object {
    let app = &name[..name.len().min(63)].trim_end_matches(['.', '-']).to_owned();
    let selector =
        if kind == "replicationcontrollers" { json!({"app": app}) } else { json!({"matchLabels": {"app": app}}) };
    let mut body = json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template(app)},
    });
    change(&mut body);
    object(kind, WORK, body)
}

/// A workload that ends with so many Pods.
fn runs(what: &str, kind: &str, name: &str, replicas: u64, change: impl FnOnce(&mut Value)) -> Entry {
    let ends = vec![End::Replicas { path: path(kind, WORK, name), n: replicas }];
    entry(what, vec![workload(kind, name, replicas, change)], ends)
}

/// A Deployment of two Pods with a change of its Pod template's spec.
fn with_pod(what: &str, name: &str, change: impl FnOnce(&mut Value)) -> Entry {
    runs(what, "deployments", name, 2, |d| change(&mut d["spec"]["template"]["spec"]))
}

fn annotate_pods(workload: &mut Value, n_bytes: usize) {
    workload["spec"]["template"]["metadata"]["annotations"] = json!({"a": "x".repeat(n_bytes)});
}

fn large() -> Vec<Entry> {
    let mut all = vec![
        runs("500 Pods of 20 KB", "deployments", "many-and-large", 500, |d| annotate_pods(d, 20_000)),
        runs("ReplicationController with 200 KB a Pod", "replicationcontrollers", "large-rc", 60, |rc| {
            annotate_pods(rc, 200_000);
        }),
        runs("ReplicaSet with a template of 900 KB", "replicasets", "megabyte", 12, |rs| {
            let env = |i: usize| json!({"name": format!("V{i}"), "value": "x".repeat(9_000)});
            rs["spec"]["template"]["spec"]["containers"][0]["env"] = (0..100).map(env).collect();
        }),
        runs("labels of 150 KB on each Pod", "replicasets", "many-labels", 20, |rs| {
            let labels = &mut rs["spec"]["template"]["metadata"]["labels"];
            (0..2_000).for_each(|i| labels[format!("label-{i}")] = json!("x".repeat(60)));
        }),
        runs("annotations of the largest size", "deployments", "max-annotations", 2, |d| {
            d["metadata"]["annotations"] = json!({"a": "x".repeat(262_000)});
            annotate_pods(d, 262_000);
        }),
    ];
    for i in 0..5 {
        let name = format!("copies-{i}");
        all.push(runs(&format!("Pods of 10 MB together, {i}"), "deployments", &name, 46, |d| {
            annotate_pods(d, 220_000)
        }));
    }
    // The templates of a namespace are larger than the memory of a plugin by default.
    let orphan = |i: usize| {
        let env = |k: usize| json!({"name": format!("V{k}"), "value": "x".repeat(9_900)});
        let mut spec =
            json!({"replicas": 0, "selector": {"matchLabels": {"app": "orphan"}}, "template": template("orphan")});
        spec["template"]["spec"]["containers"][0]["env"] = (0..70).map(env).collect();
        object(
            "replicasets",
            LARGE,
            json!({"metadata": {"name": format!("orphan-{i}"), "labels": {"app": "orphan"}}, "spec": spec}),
        )
    };
    let mut objects: Vec<Object> = (0..110).map(orphan).collect();
    let beside = json!({
        "metadata": {"name": "beside"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "beside"}}, "template": template("beside")},
    });
    objects.push(object("deployments", LARGE, beside));
    let ends = vec![End::Replicas { path: path("deployments", LARGE, "beside"), n: 2 }];
    all.push(entry("orphaned ReplicaSets with 77 MB of templates", objects, ends));
    all
}

fn names() -> Vec<Entry> {
    let longest = format!("{}a", "a.".repeat(126));
    let mut all = vec![
        runs("a Deployment with the longest name", "deployments", &"d".repeat(253), 1, |_| {}),
        runs("a ReplicaSet with the longest name", "replicasets", &format!("r{}", &longest[1..]), 1, |_| {}),
        runs("a ReplicationController with dots", "replicationcontrollers", "a.b.c", 1, |_| {}),
        runs("a name of digits", "deployments", "0", 1, |_| {}),
        runs("a name like a number", "deployments", "1e9", 1, |_| {}),
        runs("a name like a keyword", "deployments", "null", 1, |_| {}),
    ];
    all.push(runs("the longest label keys and values", "deployments", "long-labels", 2, |d| {
        let prefix = format!("{}.{}", "p".repeat(63), "q".repeat(63));
        let key = format!("{prefix}/{}", "k".repeat(63));
        let labels = json!({"app": "long-labels", key.as_str(): "v".repeat(63), "empty": "", "a.b_c-D9": "A.b_C-9"});
        d["spec"]["selector"]["matchLabels"] = labels.clone();
        d["spec"]["template"]["metadata"]["labels"] = labels;
    }));
    all.push(runs("labels of the controllers themselves", "deployments", "own-labels", 2, |d| {
        let labels = &mut d["spec"]["template"]["metadata"]["labels"];
        labels["pod-template-hash"] = json!("mine");
        labels["controller-uid"] = json!("mine");
    }));
    all
}

fn odd_specs() -> Vec<Entry> {
    let spec =
        |what: &str, name: &str, change: fn(&mut Value)| runs(what, "deployments", name, 2, |d| change(&mut d["spec"]));
    let expressions = |operators: Value| operators;
    vec![
        spec("a surge of a million per cent", "surge", |s| {
            s["strategy"] = json!({"rollingUpdate": {"maxSurge": "1000000%", "maxUnavailable": "100%"}});
        }),
        spec("a surge of the largest number", "surge-max", |s| {
            s["strategy"] = json!({"rollingUpdate": {"maxSurge": 2_147_483_647, "maxUnavailable": 0}});
        }),
        spec("the longest deadlines", "deadlines", |s| {
            s["minReadySeconds"] = json!(2_147_483_646);
            s["progressDeadlineSeconds"] = json!(2_147_483_647);
        }),
        spec("a history of nothing", "history-none", |s| s["revisionHistoryLimit"] = json!(0)),
        spec("a history without end", "history-all", |s| s["revisionHistoryLimit"] = json!(2_147_483_647)),
        spec("strategy Recreate", "recreate", |s| s["strategy"] = json!({"type": "Recreate"})),
        entry(
            "a paused Deployment of two billion Pods",
            vec![workload("deployments", "paused", 2_147_483_647, |d| d["spec"]["paused"] = json!(true))],
            vec![End::Status {
                path: path("deployments", WORK, "paused"),
                field: "observedGeneration",
                value: json!(1),
            }],
        ),
        runs("no Pods at all", "deployments", "zero", 0, |_| {}),
        runs("a selector of 300 requirements", "replicasets", "requirements", 2, |rs| {
            let not = |i: usize| json!({"key": format!("k{i}"), "operator": "DoesNotExist"});
            rs["spec"]["selector"]["matchExpressions"] = expressions((0..300).map(not).collect());
        }),
        runs("a selector with 5,000 values", "replicasets", "values", 2, |rs| {
            let values: Vec<String> = (0..5_000).map(|i| format!("v{i}")).collect();
            rs["spec"]["selector"]["matchExpressions"] = json!([{"key": "app", "operator": "NotIn", "values": values}]);
        }),
        runs("a selector that says one thing five times", "replicasets", "again", 2, |rs| {
            let exists = json!({"key": "app", "operator": "Exists"});
            rs["spec"]["selector"]["matchExpressions"] = json!([exists, exists, exists, exists, exists]);
        }),
        with_pod("100 containers", "containers", |pod| {
            pod["containers"] = (0..100).map(|i| json!({"name": format!("c{i}"), "image": "i"})).collect();
            pod["initContainers"] = (0..100).map(|i| json!({"name": format!("i{i}"), "image": "i"})).collect();
        }),
        with_pod("300 volumes", "volumes", |pod| {
            pod["volumes"] = (0..300).map(|i| json!({"name": format!("v{i}"), "emptyDir": {}})).collect();
        }),
        with_pod("deep affinity", "affinity", |pod| {
            let expression = |i: usize| json!({"key": format!("k{i}"), "operator": "In", "values": ["a", "b"]});
            let term = json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": (0..20).map(expression).collect::<Vec<_>>()}});
            let weighted = |i: usize| json!({"weight": i % 100 + 1, "podAffinityTerm": term});
            let terms: Vec<Value> = (0..100).map(weighted).collect();
            pod["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}});
        }),
        with_pod("zero values where they are pointers", "zeroes", |pod| {
            pod["securityContext"] = json!({});
            pod["terminationGracePeriodSeconds"] = json!(0);
            pod["containers"][0]["securityContext"] = json!({"privileged": false, "runAsUser": 0});
            pod["containers"][0]["resources"] =
                json!({"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "1"}});
        }),
        with_pod("quantities in all their forms", "quantities", |pod| {
            pod["containers"][0]["resources"] =
                json!({"requests": {"cpu": "0.1", "memory": "128974848", "ephemeral-storage": "1E"}});
        }),
        with_pod("500 tolerations", "tolerations", |pod| {
            pod["tolerations"] = (0..500).map(|i| json!({"key": format!("k{i}"), "operator": "Exists"})).collect();
        }),
        with_pod("Pods that are bound already", "bound", |pod| pod["nodeName"] = json!("no-such-node")),
        runs("finalizers on the template", "replicasets", "finalizers", 2, |rs| {
            rs["spec"]["template"]["metadata"]["finalizers"] = json!(["example.com/never"]);
        }),
    ]
}

fn odd_texts() -> Vec<Entry> {
    let texts = [
        ("templates of events", "braces", "{name} {error} {{}} %s %d ${HOME} $(rm)"),
        ("control characters", "control", "a\u{0}b\u{1b}[31mred\r\nforged=line\u{7f}"),
        ("text from right to left", "bidi", "\u{202e}txt.exe\u{2066}\u{200b}"),
        ("characters outside of the first plane", "planes", "\u{1f600}\u{10ffff}\u{fffe}\u{fffd}e\u{301}"),
        ("JSON in a string", "quoted", r#"{"metadata":{"name":"x"},"a":[null,"\ud83d\ude00"]}"#),
        ("YAML in a string", "yaml", "a: &a [*a]\n---\n!!python/object:os.system {}\n"),
    ];
    let with_text = |(what, name, text): (&str, &str, &str)| {
        runs(what, "deployments", name, 2, |d| {
            d["metadata"]["annotations"] = json!({"text": text});
            d["spec"]["template"]["metadata"]["annotations"] = json!({"text": text});
            d["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "TEXT", "value": text}]);
        })
    };
    texts.into_iter().map(with_text).collect()
}

/// Annotations and status fields that the controllers themselves write.
fn histories() -> Vec<Entry> {
    const PREFIX: &str = "deployment.kubernetes.io";
    let annotated = |what: &str, name: &str, annotations: Value| {
        runs(what, "deployments", name, 2, |d| d["metadata"]["annotations"] = annotations)
    };
    let revision = format!("{PREFIX}/revision");
    let adopted = |what: &str, name: &'static str, annotations: Value| {
        let old = json!({
            "metadata": {"name": format!("{name}-old"), "labels": {"app": name}, "annotations": annotations},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name, "old": "yes"}}, "template": {
                "metadata": {"labels": {"app": name, "old": "yes"}}, "spec": {"containers": [{"name": "c", "image": "old"}]},
            }},
        });
        let ends = vec![End::Replicas { path: path("deployments", WORK, name), n: 2 }];
        entry(what, vec![object("replicasets", WORK, old), workload("deployments", name, 2, |_| {})], ends)
    };
    let number = |number: &str| json!({revision.as_str(): number});
    vec![
        annotated("the last revision that there is", "revision-max", number("9223372036854775807")),
        annotated("a revision beyond all numbers", "revision-huge", number("99999999999999999999999999")),
        annotated("a revision that is no number", "revision-text", number("one")),
        adopted("an adopted ReplicaSet of the last revision", "adopted-max", number("9223372036854775807")),
        adopted("an adopted ReplicaSet of a negative revision", "adopted-negative", number("-1")),
        adopted("an adopted ReplicaSet that is no revision", "adopted-text", number("x")),
        adopted(
            "an adopted ReplicaSet with absurd sizes",
            "adopted-sizes",
            json!({format!("{PREFIX}/max-replicas"): "9223372036854775807", format!("{PREFIX}/desired-replicas"): "-9223372036854775808"}),
        ),
        adopted(
            "an adopted ReplicaSet with a history of 200 KB",
            "adopted-history",
            json!({format!("{PREFIX}/revision-history"): "1,".repeat(100_000), revision.as_str(): "1"}),
        ),
        annotated(
            "a rollback to nowhere",
            "rollback",
            json!({"deprecated.deployment.rollback.to": "9223372036854775807"}),
        ),
        entry(
            "a status that somebody invents",
            vec![Object {
                then: Some((
                    "status",
                    json!({"status": {
                        "replicas": 1_000_000, "fullyLabeledReplicas": 1_000_000, "readyReplicas": 1_000_000, "availableReplicas": 1_000_000,
                        "observedGeneration": 1, "conditions": (0..500).map(|i| json!({
                            "type": format!("Odd{i}"), "status": "True", "reason": "x".repeat(500), "message": "\u{1b}[1m",
                        })).collect::<Vec<_>>(),
                    }}),
                )),
                ..workload("replicasets", "invented", 2, |_| {})
            }],
            vec![End::Replicas { path: path("replicasets", WORK, "invented"), n: 2 }],
        ),
    ]
}

/// A ConfigMap with owner references.
fn owned(name: &str, owners: Value) -> Object {
    object("configmaps", OWNED, json!({"metadata": {"name": name, "ownerReferences": owners}}))
}

fn reference(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid})
}

fn gone(name: &str) -> Vec<End> {
    vec![End::Gone(path("configmaps", OWNED, name))]
}

fn stays(name: &str, n_owners: usize) -> Vec<End> {
    vec![End::Owners { path: path("configmaps", OWNED, name), n: n_owners }]
}

fn owners() -> Vec<Entry> {
    let dangling = |n: usize| -> Vec<Value> {
        (0..n).map(|i| reference("ConfigMap", &format!("no-{i}"), &format!("no-{i}"))).collect()
    };
    let solid = || object("configmaps", OWNED, json!({"metadata": {"name": "solid"}}));
    // `$uid of NAME` becomes the uid of the ConfigMap that was created before.
    let to_solid = || reference("ConfigMap", "solid", "$uid of solid");
    let mut beside = dangling(300);
    beside.insert(150, to_solid());
    vec![
        entry("an owner that is not there", vec![owned("one", json!(dangling(1)))], gone("one")),
        entry("300 owners that are not there", vec![owned("many", json!(dangling(300)))], gone("many")),
        entry("2,000 owners that are not there", vec![owned("thousands", json!(dangling(2_000)))], gone("thousands")),
        entry(
            "300 owners that are not there beside one that is",
            vec![solid(), owned("beside", json!(beside))],
            stays("beside", 1),
        ),
        entry(
            "the uid of one owner and the name of another",
            vec![owned("mixed", json!([reference("ConfigMap", "other-name", "$uid of solid")]))],
            gone("mixed"),
        ),
        entry(
            "the name of an owner with another uid",
            vec![owned("replaced", json!([reference("ConfigMap", "solid", "another")]))],
            gone("replaced"),
        ),
        entry(
            "the uid of an owner of another kind",
            vec![owned("other-kind", json!([reference("Secret", "solid", "$uid of solid")]))],
            gone("other-kind"),
        ),
        entry(
            "an owner in another namespace",
            vec![
                Object {
                    collection: of("configmaps", WORK),
                    ..object("configmaps", WORK, json!({"metadata": {"name": "far"}}))
                },
                owned("elsewhere", json!([reference("ConfigMap", "far", "$uid of far")])),
            ],
            gone("elsewhere"),
        ),
        entry(
            "an owner of a kind that nobody knows",
            vec![owned("unknown", json!([{"apiVersion": "example.com/v1", "kind": "Nope", "name": "a", "uid": "a"}]))],
            stays("unknown", 1),
        ),
        entry(
            "a kind with a slash",
            vec![owned("slash", json!([{"apiVersion": "example.com/v1", "kind": "../pods", "name": "a", "uid": "a"}]))],
            stays("slash", 1),
        ),
        entry(
            "an owner without a namespace",
            vec![owned("node", json!([reference("Node", "no-such", "no-such")]))],
            gone("node"),
        ),
        entry(
            "a uid of 50 KB",
            vec![owned("long-uid", json!([reference("ConfigMap", "no", &"u".repeat(50_000))]))],
            gone("long-uid"),
        ),
        entry(
            "a uid of odd characters",
            vec![owned("odd-uid", json!([reference("ConfigMap", "no", "\"]}\\/?#%\n\u{202e}\u{0}")]))],
            gone("odd-uid"),
        ),
        entry(
            "two objects that own each other",
            vec![
                owned("circle-a", json!(null)),
                owned("circle-b", json!([reference("ConfigMap", "circle-a", "$uid of circle-a")])),
            ],
            [stays("circle-a", 0), stays("circle-b", 1)].concat(),
        ),
        entry(
            "an owner that blocks and one that controls",
            vec![owned(
                "flags",
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "no", "uid": "no", "controller": true, "blockOwnerDeletion": true}]),
            )],
            gone("flags"),
        ),
        entry(
            "a finalizer that nobody knows",
            vec![object(
                "configmaps",
                OWNED,
                json!({"metadata": {
                    "name": "finalizer", "finalizers": ["example.com/never"], "ownerReferences": dangling(1),
                }}),
            )],
            vec![End::Deleting(path("configmaps", OWNED, "finalizer"))],
        ),
    ]
}

fn owner_names() -> Vec<Entry> {
    let long = "n".repeat(10_000);
    let names = [
        ("a slash", "a/b"),
        ("steps up", "../../secrets/x"),
        ("a dot", "."),
        ("two dots", ".."),
        ("a per cent sign", "%2e%2e%2f"),
        ("a query", "a?watch=true"),
        ("a fragment", "a#b"),
        ("a space", "a b"),
        ("a line break", "a\nb"),
        ("an escape sequence", "\u{1b}]0;x\u{7}"),
        ("letters outside of ASCII", "\u{e4}\u{1f600}\u{202e}"),
        ("capitals", "A_B"),
        ("10,000 letters", &long),
    ];
    let named = |(i, (what, name)): (usize, (&str, &str))| {
        let dependent = format!("named-{i}");
        let objects = vec![owned(&dependent, json!([reference("ConfigMap", name, "gone")]))];
        entry(format!("an owner whose name has {what}"), objects, gone(&dependent))
    };
    names.into_iter().enumerate().map(named).collect()
}

/// Names of kinds that allow more than others, on objects that are to be deleted.
fn roles() -> Vec<Entry> {
    let owner = || json!([reference("ConfigMap", "no", "no")]);
    let names = ["a?b", "a#b", "a b", "a\\b", "\u{e4}", "A:b*c", "...", "a\nb", "\u{202e}z"];
    let role = |(i, name): (usize, &str)| {
        let body = json!({"metadata": {"name": name, "ownerReferences": owner()}, "rules": []});
        let what = format!("a Role with an odd name, {i}");
        entry(what, vec![object("roles", OWNED, body)], vec![End::Gone(path("roles", OWNED, name))])
    };
    let mut all: Vec<Entry> = names.into_iter().enumerate().map(role).collect();
    let long = "r".repeat(1_000);
    let body = json!({
        "metadata": {"name": long, "ownerReferences": owner()}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a b"},
    });
    all.push(entry(
        "a RoleBinding with a name of 1,000 letters",
        vec![object("rolebindings", OWNED, body)],
        vec![End::Gone(path("rolebindings", OWNED, &long))],
    ));
    all
}

/// Owners that are deleted once their dependents are there.
fn cascades(scale: usize) -> Vec<Entry> {
    let n = (1_000 / scale).max(20);
    let family = |what: &str, policy: &str| {
        let name = format!("owner-{}", policy.to_lowercase());
        let mut objects = vec![object("configmaps", OWNED, json!({"metadata": {"name": name}}))];
        let uid = format!("$uid of {name}");
        let one = |i: usize| {
            let mut to_owner = reference("ConfigMap", &name, &uid);
            to_owner["blockOwnerDeletion"] = json!(true);
            owned(&format!("{name}-{i}"), json!([to_owner]))
        };
        objects.extend((0..n).map(one));
        let last = objects.len() - 1;
        objects[last].then = Some(("delete", json!({"path": path("configmaps", OWNED, &name), "policy": policy})));
        let mut ends = gone(&name);
        ends.extend((0..n).flat_map(|i| {
            let dependent = format!("{name}-{i}");
            if policy == "Orphan" { stays(&dependent, 0) } else { gone(&dependent) }
        }));
        entry(what, objects, ends)
    };
    vec![
        family("a thousand dependents deleted in the foreground", "Foreground"),
        family("a thousand dependents that are left behind", "Orphan"),
        family("a thousand dependents deleted in the background", "Background"),
    ]
}

/// What other controllers publish in each namespace.
fn published() -> Vec<Entry> {
    let account = json!({"metadata": {"name": "default-2", "annotations": {"a": "x".repeat(260_000)}, "finalizers": ["example.com/a"]}});
    vec![
        entry(
            "a large ServiceAccount",
            vec![object("serviceaccounts", OWNED, account)],
            vec![End::Stays(path("serviceaccounts", OWNED, "default-2"))],
        ),
        entry(
            "a ConfigMap of the largest size without an owner",
            vec![object(
                "configmaps",
                OWNED,
                json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(1_000_000)}}),
            )],
            vec![End::Stays(path("configmaps", OWNED, "large"))],
        ),
        entry(
            "a large ConfigMap with an owner that is not there",
            vec![object(
                "configmaps",
                OWNED,
                json!({
                    "metadata": {"name": "large-owned", "ownerReferences": [reference("ConfigMap", "no", "no")]}, "data": {"a": "x".repeat(1_000_000)},
                }),
            )],
            gone("large-owned"),
        ),
    ]
}

fn crowds(scale: usize) -> Vec<Entry> {
    let n = (1_500 / scale).max(50);
    let dependent =
        |i: usize| owned(&format!("crowd-{i}"), json!([reference("ConfigMap", &format!("a/{i}"), &format!("u{i}"))]));
    let set = |i: usize| workload("replicasets", &format!("crowd-{i}"), 0, |_| {});
    let n_sets = (300 / scale).max(20);
    vec![
        entry(
            "thousands of dependents of impossible owners",
            (0..n).map(dependent).collect(),
            (0..n).flat_map(|i| gone(&format!("crowd-{i}"))).collect(),
        ),
        entry(
            "hundreds of ReplicaSets without Pods",
            (0..n_sets).map(set).collect(),
            (0..n_sets)
                .map(|i| End::Status {
                    path: path("replicasets", WORK, &format!("crowd-{i}")),
                    field: "observedGeneration",
                    value: json!(1),
                })
                .collect(),
        ),
    ]
}
