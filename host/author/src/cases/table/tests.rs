use super::*;
use crate::cases::input::read_all;

const TABLE: &str = "\
# About web servers.
fixtures:
  pod: {apiVersion: v1, kind: Pod, metadata: {namespace: ns, uid: $(name), labels: {app: web, index: $(ordinal)}}}
base:
  key: {kind: apps/v1/ReplicaSet, namespace: ns, name: web}
  objects:
    set: {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web, namespace: ns, uid: s}, spec: {replicas: 2, template: {spec: {containers: [{name: c, image: nginx}], b: 2}}}}
    web-0..web-1: {like: pod}
rows:
  - name: all is well
    expect: nothing

  # Why.
  - name: more
    shows: [requeue, state]
    objects:
      set: {spec: {replicas: 3}}
      web-1: null
      web-2, web-3: {like: pod, metadata: {labels: {app: null}}, status: {phase: null}}
    live: {set: {like: set, metadata: {uid: t}}}
    expect: |
      one
        two
  - name: 'last: one'
";

fn read(text: &str) -> anyhow::Result<Vec<Case>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("web.yaml"), text)?;
    read_all(folder.path(), None).map_err(|why| anyhow::anyhow!("{why:#}"))
}

#[test]
fn a_row_is_the_base_with_its_changes() -> anyhow::Result<()> {
    let cases = read(TABLE)?;
    let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["web/all is well", "web/more", "web/last: one"]);
    let set = |replicas: u32| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "ns", "uid": "s"}, "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "nginx"}], "b": 2}}}});
    let pod = |name: &str, index: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "uid": name, "labels": {"app": "web", "index": index}, "name": name}});
    assert_eq!(cases[0].input.objects, [set(2), pod("web-0", "0"), pod("web-1", "1")]);
    assert_eq!((&cases[0].expected, &cases[2].expected), (&json!("nothing"), &Value::Null));
    let bare = |name: &str, index: &str| {
        let mut pod = pod(name, index);
        pod["metadata"]["labels"] = json!({"index": index});
        // A null that removes nothing is a null of the object.
        pod["status"] = json!({"phase": null});
        pod
    };
    assert_eq!(cases[1].input.objects, [set(3), pod("web-0", "0"), bare("web-2", "2"), bare("web-3", "3")]);
    let live = cases[1].input.live.as_ref().map(|live| live[0]["metadata"].clone());
    assert_eq!(live, Some(json!({"name": "web", "namespace": "ns", "uid": "t"})));
    assert_eq!(cases[1].expected, json!("one\n  two"));
    Ok(())
}

#[test]
fn mistakes_name_the_file_the_row_and_the_field() {
    let with = |from: &str, to: &str| {
        assert!(TABLE.contains(from), "{from}");
        read(&TABLE.replacen(from, to, 1)).map_or_else(|why| why.to_string(), |_| "no error".to_owned())
    };
    for (why, expected) in [
        (with("fixtures:", "fixture:"), "unknown field `fixture`, expected one of `shows`, `fixtures`, `base`, `rows`"),
        (with("rows:\n", "rows: []\nbase2:\n"), "unknown field `base2`"),
        (with("name: more", "name: all is well"), "web.yaml: row \"all is well\": another row has the same name"),
        (with("name: more", "name: ''"), "web.yaml: row 2 has an empty name"),
        (with("  - name: more\n", "  -\n"), "missing field `name`"),
        (
            with("[requeue, state]", "[retries]"),
            "unknown variant `retries`, expected one of `reads`, `requeue`, `state`, `metrics`, `labels`",
        ),
        (
            with("expect: nothing", "expects: nothing"),
            "web.yaml: row \"all is well\": expects: unknown field `expects`",
        ),
        (
            with("expect: nothing", "objects: {a: {like: pot}}"),
            "row \"all is well\": objects: a: no fixture \"pot\"; the table has: pod",
        ),
        (with("expect: nothing", "objects: [1]"), "objects: the objects of a table have labels, `LABEL: {...}`"),
        (with("web-2, web-3", "web-3..web-2"), "\"web-3..web-2\" is not a range of labels: write `NAME0..NAME9`"),
        (with("web-2, web-3", "web"), "\"$(ordinal)\": the name \"web\" ends with no number"),
        (
            with("web-1: null", "web-7: null"),
            "row \"more\": objects: web-7: the row removes an object that the base does not have",
        ),
        (with("expect: nothing", "settle: {}"), "row \"all is well\": a row does not settle"),
        (with("pod: {", "pod: {like: pod, "), "the fixture \"pod\" is like itself"),
        (
            with("kind: apps/v1/ReplicaSet,", "kind: ReplicaSet,"),
            "row \"all is well\": key.kind: \"ReplicaSet\" is not a kind",
        ),
        (with("rows:\n", "rows: []\n---\nx:\n"), "is a table, which is one document"),
        (with("# About", "rows: []\n---\n"), "is a table, which is one document"),
    ] {
        assert!(why.contains(expected), "{why}");
    }
    let why = read("rows: []\n").map_or_else(|why| why.to_string(), |_| String::new());
    assert!(why.contains("web.yaml has no rows: write `- name: ...` below `rows:`"), "{why}");
}

#[test]
fn expected_lines_are_replaced_and_all_else_stays() -> anyhow::Result<()> {
    let cases = read(TABLE)?;
    let rewrite = |row: usize, lines: &str| rewrite(TABLE, cases[row].shown.as_ref().context("no row")?, lines);
    assert_eq!(rewrite(0, "nothing")?, TABLE);
    assert_eq!(rewrite(0, "a: b\nc")?, TABLE.replace("expect: nothing\n", "expect: |\n      a: b\n      c\n"));
    assert_eq!(rewrite(1, "nothing")?, TABLE.replace("expect: |\n      one\n        two\n", "expect: nothing\n"));
    assert_eq!(rewrite(2, "x")?, format!("{TABLE}    expect: x\n"));
    let other =
        TABLE.replace("  - name: more\n    shows: [requeue, state]", "  - shows: [requeue, state]\n    name: more");
    let cases = read(&other)?;
    let why = super::rewrite(&other, cases[1].shown.as_ref().context("no row")?, "x").map_err(|why| why.to_string());
    assert_eq!(why, Err("row \"more\" does not begin with `- name: ...` like the other rows".to_owned()));
    Ok(())
}

/// The lines of an outcome, as a row shows it.
fn lines(row: usize, outcome: &Value) -> anyhow::Result<String> {
    Ok(read(TABLE)?[row].shown.as_ref().context("no row")?.text(outcome))
}

#[test]
fn what_rows_do_not_name_is_not_shown() -> anyhow::Result<()> {
    let outcome = json!({
        "asked": ["get v1/Pod ns/a"], "steps": [], "requeueAfter": "5s", "state": {"a/b": "{\"n\":1}", "c": null},
        "observations": ["total{} 1"], "runLabels": {"result": "done"},
    });
    assert_eq!(lines(0, &outcome)?, "nothing");
    assert_eq!(lines(1, &outcome)?, "requeue after 5s\nstate a/b: {n: 1}\nstate c: null");
    let all = TABLE.replace("[requeue, state]", "[reads, metrics, labels]");
    let shown = read(&all)?[1].shown.as_ref().map(|shown| shown.text(&outcome));
    assert_eq!(shown.as_deref(), Some("read get v1/Pod ns/a\nmetric total{} 1\nlabels {result: done}"));
    Ok(())
}

#[test]
fn errors_wakes_and_endless_reads_are_always_shown() -> anyhow::Result<()> {
    for (outcome, expected) in [
        (json!({"retry": "later", "after": "5s"}), "retry after 5s: later"),
        (json!({"terminal": "bad\nspec"}), "terminal: \"bad\\nspec\""),
        (
            json!({"steps": [], "error": {"retry": "x"}, "wake": ["q: v1/Pod ns/a"]}),
            "wake q: v1/Pod ns/a\nerror retry: x",
        ),
        (json!({"steps": [], "endless": "still asks"}), "endless: still asks"),
    ] {
        assert_eq!(lines(0, &outcome)?, expected);
    }
    Ok(())
}

#[test]
fn a_write_is_a_line_with_all_that_decides() -> anyhow::Result<()> {
    let step = |order: &str, mutations: Value| json!({"steps": [{"order": order, "mutations": mutations}]});
    let delete = |name: &str| {
        json!({
            "delete": format!("v1/Pod ns/{name}"), "if": {"uid": format!("{name}-uid"), "resourceVersion": "7"},
            "propagation": "foreground", "gracePeriodSeconds": 0, "tolerate": ["not-found", "conflict"],
            "onSuccess": format!("Normal Deleted on apps/v1/ReplicaSet ns/web (s): Deleted {name}"),
            "onFailure": "Warning Failed on v1/Pod ns/x (u): {error}",
        })
    };
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "s", "controller": true, "blockOwnerDeletion": true});
    let create = |index: &str, b: u32| {
        json!({"create": "v1/Pod ns", "object": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "generateName": format!("web-{index}-"), "labels": {"n": index}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "c", "image": "nginx"}], "b": b},
        }})
    };
    for (outcome, expected) in [
        (
            step("sequential", json!([delete("p1")])),
            "delete v1/Pod ns/p1 (if uid=p1-uid, if resourceVersion=7, foreground, grace 0s, tolerate not-found conflict)\n  \
             done Normal Deleted: Deleted p1 | failed Warning Failed on v1/Pod ns/x (u): {error}",
        ),
        (
            step("parallel", json!([delete("p1"), delete("p2"), delete("p3"), delete("q")])),
            "parallel: delete v1/Pod ns/p1..p3, q (if uid=$(name)-uid, if resourceVersion=7, foreground, grace 0s, tolerate not-found conflict)\n  \
             done Normal Deleted: Deleted $(name) | failed Warning Failed on v1/Pod ns/x (u): {error}",
        ),
        (
            step("slow-start", json!([create("0", 2), create("1", 2), create("2", 3)])),
            "slow-start:\n  create v1/Pod ns/web-0-*, web-1-*: {metadata: {labels: {n: '$(ordinal)'}, ownerReferences: [controller]}, spec: {like: template.spec}}\n  \
             create v1/Pod ns like the one before: {metadata: {generateName: web-2-, labels: {n: '2'}}, spec: {b: 3}}",
        ),
        (
            step("sequential", json!([create("7", 3)])),
            "create v1/Pod ns/web-7-*: {metadata: {labels: {n: '7'}, ownerReferences: [controller]}, spec: {like: template.spec, b: 3}}",
        ),
        (
            step(
                "sequential",
                json!([{"create": "v1/Node", "object": {"metadata": {"name": "n"}, "x": "true"}, "times": 2}, {"event": "Normal A on apps/v1/ReplicaSet ns/web (s): b"}]),
            ),
            "sequential:\n  create v1/Node n x2: {x: 'true'}\n  event Normal A: b",
        ),
        (
            step("sequential", json!([{"patch": "v1/Pod/status ns/a", "form": "merge", "body": {"s": null}}])),
            "patch v1/Pod/status ns/a (merge): {s: null}",
        ),
        (
            step(
                "sequential",
                json!([{"deleteCollection": "v1/Pod ns", "labelSelector": "a=b"}, {"update": "v1/Pod ns/a", "object": {"x": 1}}]),
            ),
            "sequential:\n  deleteCollection v1/Pod ns (selector a=b)\n  update v1/Pod ns/a (whole): {x: 1}",
        ),
        (
            json!({"steps": [{"order": "sequential", "always": true, "mutations": [{"update": "v1/Pod/status ns/a", "changes": {"status": {"a": 1}}}]}]}),
            "sequential, always: update v1/Pod/status ns/a: {status: {a: 1}}",
        ),
    ] {
        assert_eq!(lines(0, &outcome)?, expected);
    }
    Ok(())
}

#[test]
fn long_bodies_have_a_line_for_each_condition() -> anyhow::Result<()> {
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": "R", "message": "m".repeat(100)});
    let status = json!({"status": {"replicas": 1, "ready": 0, "conditions": [condition("A"), condition("B")]}});
    let outcome =
        json!({"steps": [{"order": "sequential", "mutations": [{"update": "v1/Pod/status ns/a", "changes": status}]}]});
    let m = "m".repeat(100);
    assert_eq!(
        lines(0, &outcome)?,
        format!(
            "update v1/Pod/status ns/a: status:\n  replicas: 1, ready: 0\n  conditions:\n    \
             - {{type: A, status: True, reason: R, message: {m}}}\n    - {{type: B, status: True, reason: R, message: {m}}}"
        )
    );
    Ok(())
}

#[test]
fn an_answer_of_a_subresource_is_the_original_of_an_update() -> anyhow::Result<()> {
    let table = TABLE.replace("base:\n", "base:\n  subresources:\n    scale: {kind: apps/v1/Deployment, namespace: ns, name: d, subresource: scale, answer: {spec: {replicas: 1}, x: 1}}\n");
    let cases = read(&table)?;
    let outcome = json!({"steps": [{"order": "sequential", "mutations": [{"update": "apps/v1/Deployment/scale ns/d", "object": {"spec": {"replicas": 2}, "x": 1}}]}]});
    let shown = cases[0].shown.as_ref().map(|shown| shown.text(&outcome));
    assert_eq!(shown.as_deref(), Some("update apps/v1/Deployment/scale ns/d: {spec: {replicas: 2}}"));
    Ok(())
}
