use super::*;
use crate::outcome::{Action, Preconditions};
use crate::testing::Fixture;

const OWNER: Kind = Kind::new("example.com", "v1", "Widget");
const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");
const SECRET: Kind = Kind::new("", "v1", "Secret");
const MANIFEST: &str = "
watches:
  - {kind: v1/ConfigMap, whole: true}
  - {kind: v1/Secret, fields: [metadata.annotations, metadata.ownerReferences, metadata.deletionTimestamp, data]}
queues: [{name: q}]
";

fn owner() -> ObjectMeta {
    ObjectMeta { name: "w".into(), namespace: "default".into(), uid: "u".into(), ..ObjectMeta::default() }
}

fn children() -> Children {
    Children::new(&OWNER, &owner(), "me").own(CONFIG_MAP).own(SECRET)
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// The plan of `children` for a cache.
fn plan(children: Children, cached: &[Value]) -> Result<Plan, Error> {
    let input = json!({"key": {"kind": "example.com/v1/Widget", "name": "w"}, "objects": cached});
    children.plan(&Fixture::parse(MANIFEST, &input.to_string()).unwrap().lister)
}

/// The object in the cache after it was applied.
fn applied(wanted: Value) -> Value {
    let plan = plan(children().want(wanted), &[]).unwrap();
    let [Mutation { action: Action::Patch { body, .. }, .. }] = &plan.mutations[..] else { panic!("{plan:?}") };
    let mut object: Value = serde_json::from_str(body).unwrap();
    object["metadata"]["uid"] = json!("child");
    object
}

fn only(plan: &Plan) -> &Action {
    assert!(plan.conflicts.is_empty() && plan.waiting.is_empty() && plan.mutations.len() == 1, "{plan:?}");
    &plan.mutations[0].action
}

#[test]
fn what_is_missing_is_applied_with_owner_and_hash() {
    let plan = plan(children().want(config_map("a")), &[]).unwrap();
    let Action::Patch { kind, object, patch_type, body, preconditions, subresource } = only(&plan) else { panic!() };
    assert_eq!((kind, object.to_string().as_str(), subresource), (&CONFIG_MAP, "default/a", &None));
    assert_eq!(*patch_type, PatchType::Apply { field_manager: "me".into(), force: true });
    assert_eq!(*preconditions, Preconditions::default());
    let mut wanted = config_map("a");
    wanted["metadata"]["namespace"] = json!("default");
    let hash = crate::hash(&wanted).unwrap();
    wanted["metadata"]["annotations"] = json!({APPLIED: hash});
    wanted["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), wanted);
}

#[test]
fn what_is_as_wanted_is_left_alone_whatever_others_have_added() {
    let mut there = applied(config_map("a"));
    there["data"]["other"] = json!("x");
    there["metadata"]["labels"] = json!({"team": "a"});
    assert_eq!(plan(children().want(config_map("a")), &[there]).unwrap(), Plan::default());
}

#[test]
fn a_change_and_a_drift_are_applied_with_the_uid() {
    let mut changed = config_map("a");
    changed["data"] = json!({});
    let mut drifted = applied(config_map("a"));
    drifted["data"]["a"] = json!("2");
    for (wanted, cached) in [(changed, applied(config_map("a"))), (config_map("a"), drifted)] {
        let plan = plan(children().want(wanted), std::slice::from_ref(&cached)).unwrap();
        let Action::Patch { preconditions, .. } = only(&plan) else { panic!("{plan:?}") };
        assert_eq!(preconditions.uid.as_deref(), Some("child"), "{cached}");
        assert_eq!(preconditions.resource_version, None);
    }
}

#[test]
fn an_object_without_a_controller_is_adopted_before_anything_else_of_it_changes() {
    let reference = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
    let owner = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": true, "blockOwnerDeletion": true,
    });
    let weak = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": false});
    for (there, expected) in [
        (json!([]), json!([owner])),
        (json!([weak]), json!([owner])),
        (
            json!([reference("n", "x"), weak, reference("m", "y")]),
            json!([reference("n", "x"), reference("m", "y"), owner]),
        ),
    ] {
        // In the desired state, or any other.
        for mut orphan in [applied(config_map("a")), config_map("a")] {
            let metadata = &mut orphan["metadata"];
            (metadata["namespace"], metadata["uid"], metadata["resourceVersion"]) =
                (json!("default"), json!("child"), json!("7"));
            metadata["ownerReferences"] = there.clone();
            let plan = plan(children().want(config_map("a")), &[orphan]).unwrap();
            let Action::Patch { kind, object, patch_type, body, preconditions, subresource } = only(&plan) else {
                panic!()
            };
            assert_eq!((kind, object.to_string().as_str(), subresource), (&CONFIG_MAP, "default/a", &None));
            assert_eq!(*patch_type, PatchType::Merge);
            assert_eq!(preconditions.uid.as_deref(), Some("child"));
            assert_eq!(preconditions.resource_version.as_deref(), Some("7"));
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body, json!({"metadata": {"ownerReferences": expected}}));
        }
    }
}

#[test]
fn objects_of_others_and_those_that_go_are_only_named() {
    let mut other = config_map("a");
    other["metadata"]["namespace"] = json!("default");
    other["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "x", "controller": true}]);
    let mut going = applied(config_map("b"));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let wanted = children().want(config_map("b")).want(config_map("a"));
    let plan = plan(wanted, &[other, going]).unwrap();
    assert!(plan.mutations.is_empty());
    assert_eq!(plan.waiting.iter().map(Child::to_string).collect::<Vec<_>>(), ["v1/ConfigMap default/b"]);
    assert_eq!(
        plan.conflicts.iter().map(Conflict::to_string).collect::<Vec<_>>(),
        ["v1/ConfigMap default/a is controlled by apps/v1/Deployment d"]
    );
}

#[test]
fn what_is_no_longer_wanted_is_deleted_kind_by_kind() {
    let secret = |name: &str| {
        let mut secret = applied(config_map(name));
        secret["kind"] = json!("Secret");
        secret["metadata"]["uid"] = json!(format!("uid-{name}"));
        secret
    };
    let mut going = secret("going");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut going_whole = going.clone();
    going_whole["kind"] = json!("ConfigMap");
    let mut elsewhere = secret("elsewhere");
    elsewhere["metadata"]["namespace"] = json!("other");
    let mut foreign = secret("foreign");
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!("x");
    let cached = [secret("z"), secret("b"), going, going_whole, elsewhere, foreign, applied(config_map("kept"))];
    let plan = plan(children().own(CONFIG_MAP).want(config_map("kept")), &cached).unwrap();
    let delete = |name: &str| {
        Mutation::delete(&SECRET, "default", name).uid(format!("uid-{name}")).propagation(Propagation::Background)
    };
    assert_eq!(plan, Plan { mutations: vec![delete("b"), delete("z")], ..Plan::default() });
}

#[test]
fn mistakes_are_named() {
    let error = |children: Children| match plan(children, &[]) {
        Err(Error::Terminal(message)) => message,
        other => panic!("{other:?}"),
    };
    let mut elsewhere = config_map("a");
    elsewhere["metadata"]["namespace"] = json!("other");
    let mut unnamed = config_map("a");
    unnamed["metadata"] = json!({});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let fraction = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p"}, "data": 0.5});
    assert_eq!(error(children().want(unnamed)), "children: a v1/ConfigMap has no metadata.name");
    assert_eq!(
        error(children().want(elsewhere)),
        "children: v1/ConfigMap other/a is in another namespace than its owner"
    );
    assert_eq!(
        error(children().want(config_map("a")).want(config_map("a"))),
        "children: v1/ConfigMap default/a is wanted twice"
    );
    assert_eq!(error(children().want(pod)), "children: v1/Pod default/p is of a kind that is not owned: call own");
    assert_eq!(error(children().want(fraction)), "hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1");
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    existing: Value,
    wanted: Value,
    covers: bool,
}

#[test]
fn covering_is_that_of_every_language() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../../vectors/covers.json")).unwrap();
    assert!(vectors.len() > 10);
    for vector in vectors {
        assert_eq!(covers(&vector.existing, &vector.wanted), vector.covers, "{}", vector.name);
    }
}
