//! Converts the requests of manifests into RBAC rules.
//!
//! Invariants:
//! 1. Rules allow everything that the host allows a plugin, and nothing else that RBAC can distinguish. RBAC cannot
//!    express ownership or the name of an object to be created.
//! 2. A request for namespaces becomes rules in those namespaces, never cluster-wide ones.

use std::collections::{BTreeMap, BTreeSet};

use pintle_core::contract::manifest::{Grant, Manifest};
use pintle_core::object::id::Kind;
use pintle_core::policy::grants::{CERTIFICATES, asked_by, must_be_listed};
use serde_json::{Value, json};

use super::names::Names;

/// Rules by namespace; cluster-wide rules under the empty name.
#[derive(Default)]
pub(super) struct Rules {
    of: BTreeMap<String, BTreeMap<Scope, BTreeSet<String>>>,
}

/// The resources of a rule, without its verbs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Resource { group: String, resource: String, names: Vec<String> },
    Url(String),
}

/// Whether RBAC checks the object's name. A list or watch of one name has a field selector that limits it.
fn sees_name(verb: &str, resource: &str) -> bool {
    match verb {
        "create" => resource.contains('/'),
        "deletecollection" => false,
        _ => true,
    }
}

/// Groups and resources of a kind, or of its subresources.
fn resources(kind: &str, subresources: &[String], names: &Names) -> Result<Vec<(String, String)>, String> {
    let all = subresources.iter().any(|subresource| subresource == "*");
    // A valid manifest contains only kinds and `*` here.
    let Ok(parsed) = kind.parse::<Kind>() else {
        let parts: Vec<String> = subresources.iter().map(|subresource| format!("*/{subresource}")).collect();
        // In RBAC, all resources include all subresources.
        let resources = if parts.is_empty() || all { vec!["*".to_owned()] } else { parts };
        return Ok(resources.into_iter().map(|resource| ("*".to_owned(), resource)).collect());
    };
    let (group, plural) = (parsed.group.to_string(), names.plural(&parsed));
    if subresources.is_empty() {
        return Ok(vec![(group, plural)]);
    }
    let found = match all {
        false => subresources,
        true => names.subresources(&parsed).ok_or_else(|| {
            format!("all subresources of {kind} are requested, which RBAC cannot express; name a cluster that has the kind with --kubeconfig")
        })?,
    };
    let found = found.iter().filter(|found| subresources.contains(found) || !must_be_listed(found));
    Ok(found.map(|subresource| (group.clone(), format!("{plural}/{subresource}"))).collect())
}

impl Rules {
    /// Adds the rules of a plugin's own identity: writes, events, live reads.
    ///
    /// # Errors
    /// A request that RBAC cannot express.
    pub(super) fn writes(&mut self, manifest: &Manifest, names: &Names) -> Result<(), String> {
        for grant in &manifest.grants {
            self.grant(grant, names)?;
        }
        if manifest.events {
            self.events();
        }
        Ok(())
    }

    /// Adds the rules of a plugin's informers.
    ///
    /// # Errors
    /// Never: watches have no subresources.
    pub(super) fn watches(&mut self, manifest: &Manifest, names: &Names) -> Result<(), String> {
        asked_by(manifest).iter().take(manifest.watches.len()).try_for_each(|grant| self.grant(grant, names))
    }

    /// Allows writing Events in every namespace.
    pub(super) fn events(&mut self) {
        self.add("", "", "events", &[], &["create", "patch"]);
    }

    pub(super) fn one(namespace: &str, group: &str, resource: &str, names: &[String], verbs: &[&str]) -> Rules {
        let mut rules = Rules::default();
        rules.add(namespace, group, resource, names, verbs);
        rules
    }

    pub(super) fn add(&mut self, namespace: &str, group: &str, resource: &str, names: &[String], verbs: &[&str]) {
        let (group, resource, names) = (group.to_owned(), resource.to_owned(), names.to_vec());
        let scope = Scope::Resource { group, resource, names };
        let verbs = verbs.iter().map(|verb| (*verb).to_owned());
        self.of.entry(namespace.to_owned()).or_default().entry(scope).or_default().extend(verbs);
    }

    fn grant(&mut self, grant: &Grant, names: &Names) -> Result<(), String> {
        for path in &grant.paths {
            self.path(path);
        }
        let any = |values: &[String]| values.is_empty() || values.iter().any(|value| value == "*");
        let namespaces: Vec<&str> =
            if any(&grant.namespaces) { vec![""] } else { grant.namespaces.iter().map(String::as_str).collect() };
        let own_names = if any(&grant.names) { &[][..] } else { &grant.names[..] };
        let signers = if any(&grant.signers) { &[][..] } else { &grant.signers[..] };
        let all = Grant::VERBS.map(str::to_owned);
        let verbs = if grant.verbs.iter().any(|verb| verb == "*") { &all[..] } else { &grant.verbs[..] };
        for kind in &grant.kinds {
            for (group, resource) in resources(kind, &grant.subresources, names)? {
                for verb in verbs {
                    // In RBAC, the name is that of the signer, not the request.
                    if Grant::SIGNER_VERBS.contains(&verb.as_str()) {
                        self.add("", CERTIFICATES, "signers", signers, &[verb]);
                        continue;
                    }
                    let names = if sees_name(verb, &resource) { own_names } else { &[] };
                    for namespace in &namespaces {
                        self.add(namespace, &group, &resource, names, &[verb]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a path of a raw GET, which may end in `*`: a path below `/api/VERSION` and `/apis/GROUP/VERSION` is a
    /// resource in RBAC, any other is a URL. A pattern that matches both becomes both.
    fn path(&mut self, path: &str) {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let open = |part: &str| part.is_empty() || part.contains('*');
        match parts[..] {
            ["api", version, ref tail @ ..] if !open(version) && !tail.is_empty() => return self.resource("", tail),
            ["apis", group, version, ref tail @ ..] if !open(group) && !open(version) && !tail.is_empty() => {
                return self.resource(group, tail);
            }
            _ => {}
        }
        if let Some(prefix) = path.strip_suffix('*')
            && (prefix.starts_with("/api") || "/apis".starts_with(prefix))
        {
            let group = match parts[..] {
                ["api", ..] if parts.len() > 1 => "",
                ["apis", group, _, ..] if !open(group) => group,
                _ => "*",
            };
            self.add("", group, "*", &[], &["get", "list"]);
        }
        self.of.entry(String::new()).or_default().entry(Scope::Url(path.to_owned())).or_default().insert("get".into());
    }

    /// Adds the resource of a path below a version.
    fn resource(&mut self, group: &str, mut tail: &[&str]) {
        let closed = |part: &str| !part.is_empty() && !part.contains('*');
        let mut namespace = "";
        if let ["namespaces", name, rest @ ..] = tail
            && !rest.is_empty()
        {
            namespace = if closed(name) { name } else { "" };
            tail = rest;
        }
        match tail {
            [plural] if closed(plural) => self.add(namespace, group, plural, &[], &["list"]),
            [plural, name] if closed(plural) && closed(name) => {
                self.add(namespace, group, plural, &[(*name).to_owned()], &["get"]);
            }
            [plural, name, subresource] if closed(plural) && closed(name) && closed(subresource) => {
                let resource = format!("{plural}/{subresource}");
                self.add(namespace, group, &resource, &[(*name).to_owned()], &["get"]);
            }
            // Subresources of a pattern are left out: RBAC could allow them only together with everything else.
            [plural, _] if closed(plural) => self.add(namespace, group, plural, &[], &["get"]),
            _ => self.add(namespace, group, "*", &[], &["get", "list"]),
        }
    }

    /// Namespaces with rules; the empty name is the cluster.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.of.keys().map(String::as_str)
    }

    /// The RBAC rules of a namespace, merged: resources of a group with the same verbs become one rule.
    pub(super) fn rules(&self, namespace: &str) -> Vec<Value> {
        type Key<'a> = (&'a str, &'a [String], &'a BTreeSet<String>);
        let mut resources: BTreeMap<Key<'_>, Vec<&str>> = BTreeMap::new();
        let mut urls = Vec::new();
        for (scope, verbs) in self.of.get(namespace).into_iter().flatten() {
            match scope {
                Scope::Resource { group, resource, names } => {
                    resources.entry((group, names, verbs)).or_default().push(resource);
                }
                Scope::Url(url) => urls.push(url),
            }
        }
        let mut rules: Vec<Value> = Vec::new();
        for ((group, names, verbs), resources) in resources {
            let mut rule = json!({ "apiGroups": [group], "resources": resources });
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule["verbs"] = json!(verbs);
            rules.push(rule);
        }
        if !urls.is_empty() {
            rules.push(json!({ "nonResourceURLs": urls, "verbs": ["get"] }));
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(watches: Value, grants: Value, expect: Expect) {
        let manifest = json!({
            "name": "widgets", "version": "1.0.0", "contract": "0.2", "events": false,
            "watches": watches, "queues": [{"name": "widgets"}], "grants": grants,
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let names = Names::default();
        let mut of = [Rules::default(), Rules::default()];
        of[0].writes(&manifest, &names).unwrap();
        of[1].watches(&manifest, &names).unwrap();
        let mut lines = String::new();
        for (who, rules) in ["plugin", "host"].into_iter().zip(of) {
            for namespace in rules.namespaces() {
                for rule in rules.rules(namespace) {
                    lines += &format!("{who} {namespace:?} {rule}\n");
                }
            }
        }
        expect.assert_eq(&lines);
    }

    #[test]
    fn rules_express_all_that_rbac_can_express() {
        check(
            json!([
                {"kind": "v1/Pod"},
                {"kind": "apps/v1/ReplicaSet"},
                {"kind": "v1/ConfigMap", "fieldSelector": "metadata.name=ca"},
                {"kind": "v1/Secret", "namespace": "a"},
            ]),
            json!([
                {"verbs": ["create", "delete"], "kinds": ["v1/Pod", "v1/Service", "apps/v1/ReplicaSet"], "of": "controlled"},
                {"verbs": ["update"], "kinds": ["v1/Pod"], "subresources": ["status", "resize"]},
                {"verbs": ["create", "update"], "kinds": ["v1/ConfigMap"], "names": ["one", "two"]},
                {"verbs": ["create"], "kinds": ["v1/Pod"], "subresources": ["eviction"], "names": ["one"]},
                {"verbs": ["*"], "kinds": ["example.com/v1/Policy"], "namespaces": ["a", "b"]},
            ]),
            expect![[r#"
                plugin "" {"apiGroups":[""],"resources":["configmaps"],"verbs":["create"]}
                plugin "" {"apiGroups":[""],"resources":["pods","services"],"verbs":["create","delete"]}
                plugin "" {"apiGroups":[""],"resources":["pods/resize","pods/status"],"verbs":["update"]}
                plugin "" {"apiGroups":[""],"resources":["pods/eviction"],"resourceNames":["one"],"verbs":["create"]}
                plugin "" {"apiGroups":[""],"resources":["configmaps"],"resourceNames":["one","two"],"verbs":["update"]}
                plugin "" {"apiGroups":["apps"],"resources":["replicasets"],"verbs":["create","delete"]}
                plugin "a" {"apiGroups":["example.com"],"resources":["policies"],"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]}
                plugin "b" {"apiGroups":["example.com"],"resources":["policies"],"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]}
                host "" {"apiGroups":[""],"resources":["pods"],"verbs":["list","watch"]}
                host "" {"apiGroups":[""],"resources":["configmaps"],"resourceNames":["ca"],"verbs":["list","watch"]}
                host "" {"apiGroups":["apps"],"resources":["replicasets"],"verbs":["list","watch"]}
                host "a" {"apiGroups":[""],"resources":["secrets"],"verbs":["list","watch"]}
            "#]],
        );
        check(
            json!([{"every": {"verbs": ["delete"]}}]),
            json!([
                {"verbs": ["get", "patch"], "kinds": ["*"]},
                {"verbs": ["patch"], "kinds": ["*"], "subresources": ["scale"]},
                {"verbs": ["update"], "kinds": ["*"], "subresources": ["*"]},
            ]),
            expect![[r#"
                plugin "" {"apiGroups":["*"],"resources":["*"],"verbs":["get","patch","update"]}
                plugin "" {"apiGroups":["*"],"resources":["*/scale"],"verbs":["patch"]}
                host "" {"apiGroups":["*"],"resources":["*"],"verbs":["list","watch"]}
            "#]],
        );
    }

    #[test]
    fn only_a_plugin_that_asks_for_them_has_special_verbs() {
        const ROLE: &str = "rbac.authorization.k8s.io/v1/ClusterRole";
        check(
            json!([]),
            json!([{"verbs": ["escalate", "patch"], "kinds": [ROLE], "of": "any"}]),
            expect![[r#"
                plugin "" {"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"verbs":["escalate","patch"]}
            "#]],
        );
        check(
            json!([]),
            json!([{"verbs": ["*"], "kinds": [ROLE]}]),
            expect![[r#"
                plugin "" {"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"verbs":["create","delete","deletecollection","get","list","patch","update","watch"]}
            "#]],
        );
    }

    #[test]
    fn special_verbs_are_of_roles_and_signers() {
        check(
            json!([]),
            json!([
                {"verbs": ["create"], "kinds": ["rbac.authorization.k8s.io/v1/RoleBinding"]},
                {"verbs": ["bind"], "kinds": ["rbac.authorization.k8s.io/v1/ClusterRole"], "names": ["view"]},
                {"verbs": ["update", "approve"], "kinds": ["certificates.k8s.io/v1/CertificateSigningRequest"], "subresources": ["approval"]},
                {"verbs": ["sign"], "kinds": ["certificates.k8s.io/v1/CertificateSigningRequest"], "subresources": ["status"], "signers": ["example.com/a", "example.com/b"]},
            ]),
            expect![[r#"
                plugin "" {"apiGroups":["certificates.k8s.io"],"resources":["signers"],"verbs":["approve"]}
                plugin "" {"apiGroups":["certificates.k8s.io"],"resources":["certificatesigningrequests/approval"],"verbs":["update"]}
                plugin "" {"apiGroups":["certificates.k8s.io"],"resources":["signers"],"resourceNames":["example.com/a","example.com/b"],"verbs":["sign"]}
                plugin "" {"apiGroups":["rbac.authorization.k8s.io"],"resources":["rolebindings"],"verbs":["create"]}
                plugin "" {"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"resourceNames":["view"],"verbs":["bind"]}
            "#]],
        );
    }

    #[test]
    fn requests_that_rbac_cannot_express_are_errors() {
        let kind = "v1/Pod".parse().unwrap();
        assert!(resources("v1/Pod", &["*".into()], &Names::default()).unwrap_err().contains("--kubeconfig"));
        let discovery = pintle_core::ports::api::Discovery {
            resources: vec![pintle_core::ports::api::ApiResource {
                kind,
                plural: "pods".into(),
                namespaced: true,
                verbs: Vec::new(),
                subresources: vec!["log".into(), "resize".into(), "status".into()],
                preferred: true,
            }],
            failed: Vec::new(),
        };
        let names = Names::of_cluster(discovery);
        let found = |listed: &[&str]| -> Vec<String> {
            let listed: Vec<String> = listed.iter().map(|&one| one.to_owned()).collect();
            resources("v1/Pod", &listed, &names).unwrap().into_iter().map(|(_, resource)| resource).collect()
        };
        assert_eq!(found(&["*"]), ["pods/resize", "pods/status"]);
        assert_eq!(found(&["*", "log"]), ["pods/log", "pods/resize", "pods/status"]);
    }

    #[test]
    fn paths_are_resources_or_urls() {
        check(
            json!([]),
            json!([{"verbs": ["get"], "paths": [
                "/version", "/openapi/*", "/apis/metrics.k8s.io/v1beta1/*", "/apis/metrics.k8s.io/v1beta1/nodes",
                "/api/v1/namespaces/a/pods/b/log", "/api/v1/namespaces/a/configmaps/c", "/api/v1/nodes/*",
                "/apis/example.com/*", "/api/v1/namespaces/b", "/api/v1/namespaces/b/*",
            ]}]),
            expect![[r#"
                plugin "" {"apiGroups":[""],"resources":["nodes"],"verbs":["get"]}
                plugin "" {"apiGroups":[""],"resources":["namespaces"],"resourceNames":["b"],"verbs":["get"]}
                plugin "" {"apiGroups":["example.com"],"resources":["*"],"verbs":["get","list"]}
                plugin "" {"apiGroups":["metrics.k8s.io"],"resources":["*"],"verbs":["get","list"]}
                plugin "" {"apiGroups":["metrics.k8s.io"],"resources":["nodes"],"verbs":["list"]}
                plugin "" {"nonResourceURLs":["/apis/example.com/*","/openapi/*","/version"],"verbs":["get"]}
                plugin "a" {"apiGroups":[""],"resources":["pods/log"],"resourceNames":["b"],"verbs":["get"]}
                plugin "a" {"apiGroups":[""],"resources":["configmaps"],"resourceNames":["c"],"verbs":["get"]}
                plugin "b" {"apiGroups":[""],"resources":["*"],"verbs":["get","list"]}
            "#]],
        );
    }
}
