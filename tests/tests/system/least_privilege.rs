//! The built-in plugins ask for nothing that upstream's roles do not give the same controllers.
//!
//! Upstream's side is read from the real control plane, whose API server makes its roles at start. Ours are the manifests: watches,
//! grants, and the events that the host writes for a plugin. Ownership (`of`), which RBAC cannot express, only narrows ours further.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::object::id::Kind;
use pintle_core::policy::account::Accounts;
use pintle_core::policy::grants::asked_by;
use pintle_tests::scenarios::{GATED_APIS, GATES};
use pintle_tests::{ApiClient, ControlPlane, Options, workspace_dir};
use serde::Deserialize;
use serde_json::{Value, json};

/// The resource of a raw path below a group: any that the role reads. A path with `*` at its end cannot name one.
const OF_PATH: &str = "<raw path>";

/// The controller that upstream runs with the client of kube-controller-manager itself, and the role of that.
const OF_ITSELF: (&str, &str) = ("serviceaccount-token-controller", "system:kube-controller-manager");

/// One permission, as RBAC names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Permission {
    verb: String,
    group: String,
    /// `pods`, `pods/status`, `*`, [`OF_PATH`].
    resource: String,
    /// All if there is none.
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    /// Of the Role; none for a ClusterRole.
    #[serde(skip)]
    namespace: Option<String>,
}

impl Rule {
    /// As the RBAC authorizer decides; what is asked for as `*` is only given by `*`.
    fn gives(&self, asked: &Permission) -> bool {
        let has = |values: &[String], value: &str| values.iter().any(|ours| ours == "*" || ours == value);
        let subresource = asked.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
        has(&self.verbs, &asked.verb)
            && has(&self.api_groups, &asked.group)
            && (asked.resource == OF_PATH
                || has(&self.resources, &asked.resource)
                || subresource.is_some_and(|any| self.resources.contains(&any)))
            && (self.resource_names.is_empty()
                || asked.name.as_ref().is_some_and(|name| self.resource_names.contains(name)))
            && (self.namespace.is_none() || self.namespace == asked.namespace)
    }
}

/// The rules of the ClusterRole and of the Roles of this name.
async fn role(client: &ApiClient, name: &str) -> Result<Vec<Rule>> {
    let mut all = Vec::new();
    for resource in ["clusterroles", "roles"] {
        let selector = format!("fieldSelector=metadata.name={name}");
        let roles = client.get(&format!("/apis/rbac.authorization.k8s.io/v1/{resource}?{selector}")).await?;
        for role in roles["items"].as_array().context("a list")? {
            let rules: Vec<Rule> =
                serde_json::from_value(role["rules"].clone()).with_context(|| format!("rules of {name}"))?;
            let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
            all.extend(rules.into_iter().map(|rule| Rule { namespace: namespace.clone(), ..rule }));
        }
    }
    ensure!(!all.is_empty(), "the API server has made no role {name}");
    Ok(all)
}

/// Names of resources by kind, as the server says.
async fn resources(client: &ApiClient) -> Result<BTreeMap<Kind, String>> {
    let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    let groups = client.get("/apis").await?;
    for version in
        groups["groups"].as_array().into_iter().flatten().flat_map(|group| group["versions"].as_array().unwrap())
    {
        let version = version["groupVersion"].as_str().unwrap();
        versions.push((format!("/apis/{version}"), version.to_owned()));
    }
    let mut found = BTreeMap::new();
    for (path, version) in versions {
        let list = client.get(&path).await?;
        for resource in list["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                found.insert(Kind::from_api_version(&version, resource["kind"].as_str().unwrap()), name.to_owned());
            }
        }
    }
    Ok(found)
}

fn manifests() -> Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for entry in fs::read_dir(workspace_dir().join("plugins"))? {
        let file = entry?.path().join("manifest.yaml");
        if file.is_file() {
            let yaml = fs::read_to_string(&file)?;
            let json: Value = serde_norway::from_str(&yaml).with_context(|| file.display().to_string())?;
            manifests.push(Manifest::parse(json.to_string().as_bytes()).with_context(|| file.display().to_string())?);
        }
    }
    manifests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(manifests)
}

/// Each value; one `None`, for all, if there are none or `*` is among them.
fn some_or_all(values: &[String]) -> Vec<Option<String>> {
    let all = values.is_empty() || values.iter().any(|value| value == "*");
    if all { vec![None] } else { values.iter().cloned().map(Some).collect() }
}

/// What a manifest's watches ask for, and what its grants and events do.
fn asked(manifest: &Manifest, resources: &BTreeMap<Kind, String>) -> (BTreeSet<Permission>, BTreeSet<Permission>) {
    let mut permissions = [BTreeSet::new(), BTreeSet::new()];
    for (i, grant) in asked_by(manifest).into_iter().enumerate() {
        let of = &mut permissions[usize::from(i >= manifest.watches.len())];
        for path in &grant.paths {
            // Everybody may discover: the role system:discovery is of all authenticated users.
            let segments: Vec<&str> = path.split('/').skip(1).collect();
            let group = match segments.as_slice() {
                ["api" | "apis"] | ["apis", _] => continue,
                ["apis", group, .., "*"] => (*group).to_owned(),
                _ => panic!("{} reads {path}", manifest.name),
            };
            let resource = OF_PATH.into();
            of.insert(Permission { verb: "list".into(), group, resource, namespace: None, name: None });
        }
        for kind in &grant.kinds {
            let (group, plural) = match kind.as_str() {
                "*" => ("*".to_owned(), "*".to_owned()),
                kind => {
                    let kind: Kind = kind.parse().unwrap();
                    // Roles name no versions: a controller may know one that only another API server serves.
                    let mut known = resources.iter();
                    let plural = known.find(|(other, _)| other.group == kind.group && other.name == kind.name);
                    let (_, plural) = plural.unwrap_or_else(|| panic!("the server has no {kind}"));
                    (kind.group.to_string(), plural.clone())
                }
            };
            let whole = grant.subresources.is_empty().then(|| plural.clone());
            let parts = grant.subresources.iter().map(|subresource| format!("{plural}/{subresource}"));
            for resource in parts.chain(whole) {
                for verb in &grant.verbs {
                    // RBAC names the signer instead of the request.
                    if Grant::SIGNER_VERBS.contains(&verb.as_str()) {
                        for name in some_or_all(&grant.signers) {
                            let (verb, group, resource) = (verb.clone(), group.clone(), "signers".to_owned());
                            of.insert(Permission { verb, group, resource, namespace: None, name });
                        }
                        continue;
                    }
                    // Who creates an object is not asked for its name.
                    let names = if verb == "create" { &[][..] } else { &grant.names[..] };
                    for namespace in some_or_all(&grant.namespaces) {
                        for name in some_or_all(names) {
                            let (verb, group, resource) = (verb.clone(), group.clone(), resource.clone());
                            of.insert(Permission { verb, group, resource, namespace: namespace.clone(), name });
                        }
                    }
                }
            }
        }
    }
    permissions.into()
}

fn surplus(asked: &BTreeSet<Permission>, given: &[&[Rule]]) -> Vec<Permission> {
    let gives = |asked: &&Permission| given.iter().copied().flatten().any(|rule| rule.gives(asked));
    asked.iter().filter(|asked| !gives(asked)).cloned().collect()
}

#[tokio::test]
async fn built_in_plugins_ask_for_no_more_than_upstreams_roles_give() -> Result<()> {
    // The API server makes the roles of controllers whose gate is on.
    let apiserver_flags = [GATES, GATED_APIS].map(str::to_owned).into();
    let plane = ControlPlane::start(Options { apiserver_flags, ..Options::default() }).await?;
    let client = plane.client();
    let resources = resources(&client).await?;
    // Upstream's controllers share informers, which read as kube-controller-manager itself; so do ours.
    let informers = role(&client, "system:kube-controller-manager").await?;
    let mut n_permissions = 0;
    let manifests = manifests()?;
    let accounts = Accounts::of_built_ins(&manifests);
    for manifest in manifests {
        let name = match manifest.name == OF_ITSELF.0 {
            true => OF_ITSELF.1.to_owned(),
            false => format!("system:controller:{}", accounts.of(&manifest.name)),
        };
        let own = role(&client, &name).await?;
        let (watches, writes) = asked(&manifest, &resources);
        assert_eq!(surplus(&watches, &[&own, &informers]), [], "watches of {} beyond {name}", manifest.name);
        assert_eq!(surplus(&writes, &[&own]), [], "grants of {} beyond {name}", manifest.name);
        println!("{}: {} watched, {} granted, all of {name}", manifest.name, watches.len(), writes.len());
        n_permissions += watches.len() + writes.len();
    }
    println!("{n_permissions} permissions in all");
    Ok(())
}

/// The comparison sees what is too much, in each way that there is.
#[tokio::test]
async fn a_surplus_is_seen() -> Result<()> {
    let client = ControlPlane::shared().await?.client();
    let resources = resources(&client).await?;
    let manifests = manifests()?;
    let accounts = Accounts::of_built_ins(&manifests);
    let seen = async |plugin: &str, field: &str, value: Value| -> Result<usize> {
        let own = role(&client, &format!("system:controller:{}", accounts.of(plugin))).await?;
        let manifest = manifests.iter().find(|manifest| manifest.name == plugin).context("no such plugin")?;
        let mut changed = serde_json::to_value(manifest)?;
        changed[field] = value;
        // Informers may read beyond it, by the role of kube-controller-manager itself.
        let beyond = |manifest: &Manifest| -> BTreeSet<Permission> {
            let (watches, writes) = asked(manifest, &resources);
            [watches, writes].iter().flat_map(|asked| surplus(asked, &[&own])).collect()
        };
        Ok(beyond(&serde_json::from_value(changed)?).difference(&beyond(manifest)).count())
    };
    let grant = |verb: &str, kind: &str, more: Value| {
        let mut grant = json!({"verbs": [verb], "kinds": [kind]});
        grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([grant])
    };
    let replicaset = "replicaset-controller";
    assert_eq!(seen(replicaset, "grants", grant("delete", "v1/Pod", json!({"of": "controlled"}))).await?, 0);
    for too_much in [
        grant("update", "v1/Pod", json!({})),
        grant("delete", "v1/Secret", json!({})),
        grant("get", "v1/Pod", json!({"subresources": ["log"]})),
        grant("update", "apps/v1/ReplicaSet", json!({"subresources": ["scale"]})),
        grant("delete", "v1/Pod", json!({"subresources": ["*"]})),
        grant("delete", "*", json!({})),
        grant("*", "v1/Pod", json!({})),
        grant("create", "rbac.authorization.k8s.io/v1/ClusterRoleBinding", json!({})),
        json!([{"verbs": ["get"], "paths": ["/apis/metrics.k8s.io/v1beta1/*"]}]),
    ] {
        assert!(seen(replicaset, "grants", too_much.clone()).await? > 0, "{too_much}");
    }
    let signer = "bootstrap-signer-controller";
    for (namespace, name, surplus) in [
        ("kube-public", "cluster-info", 0),
        ("kube-public", "kube-root-ca.crt", 1),
        ("kube-system", "cluster-info", 1),
        ("*", "cluster-info", 1),
    ] {
        let of = json!({"namespaces": [namespace], "names": [name]});
        assert_eq!(seen(signer, "grants", grant("update", "v1/ConfigMap", of)).await?, surplus, "{namespace}/{name}");
    }
    let approving = "certificatesigningrequest-approving-controller";
    for (signers, surplus) in [
        (json!(["kubernetes.io/kube-apiserver-client-kubelet"]), 0),
        (json!(["kubernetes.io/kubelet-serving"]), 1),
        (json!([]), 1),
    ] {
        let of = json!({"subresources": ["approval"], "signers": signers});
        let grant = grant("approve", "certificates.k8s.io/v1/CertificateSigningRequest", of);
        assert_eq!(seen(approving, "grants", grant).await?, surplus, "{signers}");
    }
    assert_eq!(seen(replicaset, "watches", json!([{"kind": "v1/Secret"}])).await?, 2);
    assert_eq!(seen(replicaset, "watches", json!([{"every": {}}])).await?, 2);
    assert_eq!(seen("namespace-controller", "events", json!(true)).await?, 2);
    Ok(())
}
