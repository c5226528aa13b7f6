//! `pintle rbac`: the RBAC roles that controllers need, and the accounts that they are bound to.
//!
//! *Flow*: manifests -> rules of each plugin and of the host -> roles, bindings and service accounts, as YAML or JSON for
//! `kubectl apply` and `kubectl auth reconcile`.
//!
//! *Not here*: the host's own check of plugins (`pintle_core::policy::grants`), which is narrower.

mod names;
mod rules;

use pintle_core::contract::manifest::Manifest;
use pintle_core::policy::account::{self, Accounts};
use pintle_core::text::Printable;
use serde_json::{Value, json};

use self::rules::Rules;
use crate::outside;

pub use self::names::Names;

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Account {
    fn object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(&self.name, &self.namespace)})
    }
}

/// The objects of a leader election.
#[derive(Clone, Debug)]
pub struct ElectionNames {
    /// Namespace of the Leases.
    pub namespace: String,
    /// Names of the Leases.
    pub leases: Vec<String>,
    /// Whether the API server elects, by LeaseCandidates.
    pub coordinated: bool,
}

/// The host that needs the roles.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its service account.
    pub account: Account,
    /// Whether each plugin writes as its own service account.
    pub own_accounts: bool,
    /// Its leader election; none without one.
    pub election: Option<ElectionNames>,
    /// Whether it looks for a kube-controller-manager when it starts.
    pub looks_for_kube_controller_manager: bool,
}

/// What plugins with these manifests request that no role of the API server covers, one line each, and how an operator binds it.
pub fn notes(manifests: &[&Manifest]) -> Vec<String> {
    let of = |manifest: &&Manifest| {
        let name = manifest.name.clone();
        outside::requests(manifest).into_iter().map(move |request| {
            let line = format!("{name}: {}; not a matter of roles: pintle run {}", request.what, request.flag);
            Printable(&line).to_string()
        })
    };
    manifests.iter().flat_map(of).collect()
}

/// Roles, bindings and service accounts for plugins with these manifests.
///
/// # Errors
/// A plugin asks for what RBAC cannot say.
pub fn objects(manifests: &[&Manifest], names: &Names, host: &Host, accounts: &Accounts) -> anyhow::Result<Vec<Value>> {
    let own_accounts = host.own_accounts;
    let mut objects = vec![host.account.object()];
    let mut of_host = Rules::of_watches(manifests.iter().copied(), names).map_err(anyhow::Error::msg)?;
    // For faults of plugins that record no events themselves.
    of_host.events();
    // Created and deleted: those that show its built-in controllers.
    of_host.add("", "pintle.dev", "controllerplugins", &[], &["list", "watch"]);
    of_host.add("", "pintle.dev", "controllerplugins/status", &[], &["patch"]);
    // Whether there are ControllerPlugins: their definition may come later.
    let definition = ["controllerplugins.pintle.dev".to_owned()];
    of_host.add("", "apiextensions.k8s.io", "customresourcedefinitions", &definition, &["list", "watch"]);
    const LEASES: &str = "coordination.k8s.io";
    // Who the clients of its HTTPS port are, and what they may read there.
    of_host.add("", "authentication.k8s.io", "tokenreviews", &[], &["create"]);
    of_host.add("", "authorization.k8s.io", "subjectaccessreviews", &[], &["create"]);
    let name = ["extension-apiserver-authentication".to_owned()];
    of_host.add(account::NAMESPACE, "", "configmaps", &name, &["get"]);
    if host.looks_for_kube_controller_manager {
        // Whether kube-controller-manager runs the same controllers.
        of_host.add(account::NAMESPACE, LEASES, "leases", &["kube-controller-manager".to_owned()], &["get"]);
    }
    if let Some(ElectionNames { namespace, leases, coordinated }) = &host.election {
        of_host.add(namespace, LEASES, "leases", leases, &["get", "list", "watch", "update"]);
        if *coordinated {
            // Their names have a random part.
            let verbs = ["get", "list", "watch", "create", "update", "delete"];
            of_host.add(namespace, LEASES, "leasecandidates", &[], &verbs);
        } else {
            // RBAC cannot limit a create to a name.
            of_host.add(namespace, LEASES, "leases", &[], &["create"]);
        }
    }
    if own_accounts {
        let named: Vec<String> = manifests.iter().map(|manifest| accounts.of(&manifest.name)).collect();
        of_host.add(account::NAMESPACE, "", "serviceaccounts", &[], &["create"]);
        of_host.add(account::NAMESPACE, "", "serviceaccounts/token", &named, &["create"]);
    }
    objects.extend(roles("pintle:host", &of_host, &host.account));
    for manifest in manifests {
        let name = accounts.of(&manifest.name);
        let own = Account { namespace: account::NAMESPACE.to_owned(), name: name.clone() };
        let subject = if own_accounts { &own } else { &host.account };
        if own_accounts {
            objects.push(own.object());
        }
        let rules =
            Rules::of_plugin(manifest, names).map_err(|why| anyhow::anyhow!("plugin {}: {why}", manifest.name))?;
        objects.extend(roles(&format!("pintle:controller:{name}"), &rules, subject));
    }
    Ok(objects)
}

/// A role with this name, and its binding, for the cluster and for each namespace that has rules.
fn roles(name: &str, rules: &Rules, subject: &Account) -> Vec<Value> {
    let mut objects = Vec::new();
    for namespace in rules.namespaces() {
        let (role, binding) =
            if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
        let api_version = "rbac.authorization.k8s.io/v1";
        objects.push(json!({
            "apiVersion": api_version, "kind": role, "metadata": metadata(name, namespace), "rules": rules.rules(namespace),
        }));
        objects.push(json!({
            "apiVersion": api_version, "kind": binding, "metadata": metadata(name, namespace),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": subject.namespace, "name": subject.name}],
        }));
    }
    objects
}

fn metadata(name: &str, namespace: &str) -> Value {
    let mut metadata = json!({ "name": name });
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    metadata["labels"] = json!({"app.kubernetes.io/part-of": "pintle"});
    metadata
}
