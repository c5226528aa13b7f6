//! Writes that can give rights to others require an additional verb, in every form.

use pintle_core::contract::outcome::{PatchType, Preconditions};
use pintle_testing::whole;
use serde_json::Value;

use super::rights::{mutation, refusal_of};
use super::*;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn all_but(special: &Value) -> Fixture {
    let special: Vec<Value> = special.as_array().cloned().unwrap_or_default();
    let all = [json!({"verbs": ["*"], "kinds": ["*"]}), json!({"verbs": ["*"], "kinds": ["*"], "subresources": ["*"]})];
    Fixture::granted(FakeWriter::agreeable(), all.into_iter().chain(special).collect())
}

fn apply() -> PatchType {
    PatchType::Apply { field_manager: String::new(), force: true }
}

fn patch(kind: &str, subresource: Option<&str>, patch_type: PatchType, body: &Value) -> Mutation {
    mutation(Action::Patch {
        kind: kind.parse().unwrap(),
        object: ObjectKey::new("ns", "a"),
        subresource: subresource.map(Into::into),
        patch_type,
        body: body.to_string(),
        preconditions: Preconditions::default(),
    })
}

fn create(kind: &str, subresource: Option<&str>, object: &Value) -> Mutation {
    let (kind, subresource) = (kind.parse().unwrap(), subresource.map(Into::into));
    mutation(Action::Create { kind, namespace: "ns".into(), object: object.to_string(), subresource })
}

fn update(kind: &str, subresource: Option<&str>, object: &Value) -> Mutation {
    let (kind, subresource) = (kind.parse().unwrap(), subresource.map(Into::into));
    mutation(Action::Update { kind, object: object.to_string(), subresource })
}

/// The same contents in every form of a write.
fn every_way(kind: &str, subresource: Option<&str>, contents: &Value) -> Vec<Mutation> {
    let mut object = json!({"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "5"}});
    object.as_object_mut().unwrap().extend(contents.as_object().unwrap().clone());
    let operations: Vec<Value> = contents
        .as_object()
        .unwrap()
        .iter()
        .map(|(member, value)| json!({"op": "add", "path": format!("/{member}"), "value": value}))
        .collect();
    let mut ways = vec![update(kind, subresource, &object)];
    for (patch_type, body) in [
        (PatchType::Merge, contents),
        (PatchType::StrategicMerge, contents),
        (PatchType::Json, &Value::from(operations)),
        (apply(), contents),
    ] {
        ways.push(patch(kind, subresource, patch_type, body));
    }
    if subresource.is_none() {
        ways.push(create(kind, None, &json!({"metadata": {"name": "a"}})));
    }
    ways
}

#[tokio::test(start_paused = true)]
async fn all_verbs_do_not_write_what_gives_rights() {
    const REQUEST: &str = "certificates.k8s.io/v1/CertificateSigningRequest";
    let role = format!("{RBAC}/Role");
    let cluster_role = format!("{RBAC}/ClusterRole");
    let rules = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    for (kind, subresource, contents, verb) in [
        (&*role, None, &rules, "escalate"),
        (&*cluster_role, None, &rules, "escalate"),
        // Aggregation gives the rules of one role to another.
        (&*cluster_role, None, &json!({"aggregationRule": {}}), "escalate"),
        (&*cluster_role, Some("status"), &rules, "escalate"),
        (REQUEST, Some("approval"), &approved, "approve"),
        (REQUEST, Some("status"), &json!({"status": {"certificate": "eA=="}}), "sign"),
        ("certificates.k8s.io/v1/PodCertificateRequest", Some("status"), &json!({"status": {}}), "sign"),
        ("certificates.k8s.io/v1beta1/ClusterTrustBundle", None, &json!({"spec": {}}), "attest"),
    ] {
        for way in every_way(kind, subresource, contents) {
            let subresources: Vec<&str> = subresource.into_iter().collect();
            let more = json!([{"verbs": [verb], "kinds": [kind], "subresources": subresources}]);
            assert_eq!(refusal_of(&all_but(&more), way.clone()).await, None, "{way:?}");
            let why = refusal_of(&all_but(&Value::Null), way).await.unwrap();
            assert!(why.starts_with(&format!("{verb} {kind}")), "{why}");
            assert!(why.contains(&format!("add `- {{verbs: [{verb}], kinds: [{kind}]")), "{why}");
        }
    }
    let why = refusal_of(&all_but(&Value::Null), patch(&role, None, PatchType::Merge, &rules)).await.unwrap();
    assert_eq!(
        why,
        "escalate rbac.authorization.k8s.io/v1/Role ns/a, which `patch rbac.authorization.k8s.io/v1/Role ns/a` takes, is not granted \
         to plugin widgets: its manifest does not ask for it; add `- {verbs: [escalate], kinds: [rbac.authorization.k8s.io/v1/Role]}` \
         to `grants` of the manifest"
    );
    // Writes that require no additional verb.
    let all = all_but(&Value::Null);
    let mut delete = delete("a");
    if let Action::Delete { kind, .. } = &mut delete.action {
        *kind = role.parse().unwrap();
    }
    assert_eq!(refusal_of(&all, delete).await, None);
    assert_eq!(
        refusal_of(&all, update(REQUEST, None, &json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u"}})))
            .await,
        None
    );
    // A token belongs to another account, so a grant for all subresources does not include it.
    let token = || create("v1/ServiceAccount", Some("token"), &json!({"metadata": {"name": "admin"}}));
    assert!(refusal_of(&all, token()).await.unwrap().contains("subresources: [token]"));
    let listed = json!([{"verbs": ["create"], "kinds": ["v1/ServiceAccount"], "subresources": ["token"]}]);
    assert_eq!(refusal_of(&all_but(&listed), token()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_write_for_a_signer_takes_a_grant_for_it() {
    const REQUEST: &str = "certificates.k8s.io/v1/CertificateSigningRequest";
    const BUNDLE: &str = "certificates.k8s.io/v1/ClusterTrustBundle";
    let granted = |kind: &str, subresource: Option<&str>, verb: &str| {
        let subresources: Vec<&str> = subresource.into_iter().collect();
        all_but(
            &json!([{"verbs": [verb], "kinds": [kind], "subresources": subresources, "signers": ["example.com/ours"]}]),
        )
    };
    let of = |kind: &str, signer: &str| {
        let object =
            json!({"metadata": {"name": "a", "namespace": "ns", "uid": "uid-a"}, "spec": {"signerName": signer}});
        vec![whole(kind, &object)]
    };
    for (kind, subresource, verb) in
        [(REQUEST, Some("approval"), "approve"), (REQUEST, Some("status"), "sign"), (BUNDLE, None, "attest")]
    {
        let mut fixture = granted(kind, subresource, verb);
        let mut ways = every_way(kind, subresource, &json!({"status": {}}));
        ways.retain(|way| !matches!(way.action, Action::Create { .. }));
        for way in ways {
            fixture.shown = of(kind, "example.com/ours");
            assert_eq!(refusal_of(&fixture, way.clone()).await, None, "{way:?}");
            // A newer object with the same name, for another signer, is not hit.
            let body = fixture.api.bodies().last().unwrap().to_string();
            assert!(body.contains(r#""uid-a""#), "{body}");
            fixture.shown = of(kind, "example.com/theirs");
            let why = refusal_of(&fixture, way.clone()).await.unwrap();
            assert!(why.starts_with(verb) && why.contains("signers: [example.com/theirs]}`"), "{why}");
            fixture.shown = Vec::new();
            assert!(refusal_of(&fixture, way).await.is_some(), "the signer is not known");
        }
    }
    let fixture = granted(BUNDLE, None, "attest");
    for (spec, is_granted) in [
        (json!({"signerName": "example.com/ours"}), true),
        (json!({"signerName": "example.com/theirs"}), false),
        (json!({"signerName": ["example.com/ours"]}), false),
        (json!({}), false),
    ] {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        for way in [create(BUNDLE, None, &object), patch(BUNDLE, None, apply(), &object)] {
            assert_eq!(refusal_of(&fixture, way.clone()).await.is_none(), is_granted, "{way:?}");
        }
    }
    let object =
        r#"{"metadata":{"name":"a"},"spec":{"signerName":"example.com/ours","signerName":"example.com/theirs"}}"#;
    let twice = Action::Create {
        kind: BUNDLE.parse().unwrap(),
        namespace: "ns".into(),
        object: object.into(),
        subresource: None,
    };
    assert!(refusal_of(&fixture, mutation(twice)).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_operator_gives_special_verbs_by_name() {
    let role = format!("{RBAC}/Role");
    let asked: Vec<Grant> = serde_json::from_value(json!([{"verbs": ["patch", "escalate"], "kinds": [role]}])).unwrap();
    let mut fixture = Fixture::new(FakeWriter::agreeable());
    let write = || patch(&role, None, PatchType::Merge, &json!({"rules": []}));
    for (verbs, is_given) in [(json!(["*"]), false), (json!(["*", "escalate"]), true)] {
        let given: Vec<Grant> = serde_json::from_value(json!([{"verbs": verbs, "kinds": ["*"]}])).unwrap();
        fixture.grants = Grants::new(&asked, Some(&given));
        let why = refusal_of(&fixture, write()).await;
        assert_eq!(why.is_none(), is_given, "{why:?}");
        assert!(why.is_none_or(|why| why.contains("its operator does not give it")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_takes_bind_of_the_role_that_it_refers_to() {
    let (binding, of_cluster) = (format!("{RBAC}/RoleBinding"), format!("{RBAC}/ClusterRoleBinding"));
    let refers = |kind: &str, name: &str| json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}});
    let bind =
        |kind: &str, names: Value| json!([{"verbs": ["bind"], "kinds": [format!("{RBAC}/{kind}")], "names": names}]);
    let named = |reference: &Value| {
        let mut object = json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u"}});
        object.as_object_mut().unwrap().extend(reference.as_object().unwrap().clone());
        object
    };
    let view = all_but(&bind("ClusterRole", json!(["view"])));
    let all = all_but(&Value::Null);
    for kind in [&binding, &of_cluster] {
        for (reference, is_granted) in [
            (refers("ClusterRole", "view"), true),
            (refers("ClusterRole", "cluster-admin"), false),
            (refers("Role", "view"), false),
            (refers("Other", "view"), false),
            (json!({"roleRef": {"name": "view"}}), false),
            (json!({}), false),
        ] {
            let object = named(&reference);
            let ways =
                [create(kind, None, &object), update(kind, None, &object), patch(kind, None, apply(), &reference)];
            for way in ways {
                assert_eq!(refusal_of(&view, way.clone()).await.is_none(), is_granted, "{way:?}");
                assert!(refusal_of(&all, way).await.unwrap().starts_with("bind rbac."));
            }
        }
    }
    let twice = r#"{"metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"view","name":"cluster-admin"}}"#;
    let twice = Action::Create {
        kind: binding.parse().unwrap(),
        namespace: "ns".into(),
        object: twice.into(),
        subresource: None,
    };
    assert!(refusal_of(&view, mutation(twice)).await.is_some());
    // A patch does not contain the role of the binding.
    let subjects =
        json!({"subjects": [{"kind": "User", "name": "me"}], "roleRef": refers("ClusterRole", "view")["roleRef"]});
    let operations = json!([{"op": "add", "path": "/subjects", "value": []}]);
    for (patch_type, body) in
        [(PatchType::Merge, &subjects), (PatchType::StrategicMerge, &subjects), (PatchType::Json, &operations)]
    {
        let of = |kind: &str| patch(kind, None, patch_type.clone(), body);
        assert!(refusal_of(&view, of(&binding)).await.is_some());
        let any = all_but(&bind("ClusterRole", json!([])));
        assert_eq!(refusal_of(&any, of(&of_cluster)).await, None);
        assert!(
            refusal_of(&any, of(&binding)).await.unwrap().starts_with("bind rbac.authorization.k8s.io/v1/Role ns/,")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn owners_and_finalizers_of_roles_change_without_a_special_verb() {
    let fixture = all_but(&Value::Null);
    let role = format!("{RBAC}/ClusterRole");
    let owners = json!({"metadata": {"ownerReferences": null, "finalizers": [], "resourceVersion": "5", "uid": "u"}});
    let operation = |op: &str, path: &str| json!([{"op": op, "path": path, "value": "x"}]);
    for (patch_type, body) in [
        (PatchType::Merge, owners.clone()),
        (PatchType::StrategicMerge, owners.clone()),
        (PatchType::Json, operation("remove", "/metadata/ownerReferences/0")),
        (PatchType::Json, operation("test", "/metadata/finalizers/0")),
    ] {
        assert_eq!(refusal_of(&fixture, patch(&role, None, patch_type, &body)).await, None, "{body}");
    }
    // Labels select a role for aggregation into others.
    let labels = json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}});
    for (patch_type, body) in [
        (PatchType::Merge, labels.clone()),
        (PatchType::StrategicMerge, json!({"metadata": {"$patch": "replace"}})),
        (apply(), owners),
        (PatchType::Json, operation("replace", "/metadata/labels")),
        (PatchType::Json, operation("replace", "/metadata")),
        (PatchType::Json, operation("replace", "")),
        (PatchType::Json, json!([{"op": "move", "from": "/rules", "path": "/metadata/finalizers"}])),
    ] {
        assert!(refusal_of(&fixture, patch(&role, None, patch_type, &body)).await.is_some(), "{body}");
    }
}
