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

/// The label of the objects that one plugin needs; its value is the name of the plugin.
const CONTROLLER: &str = "pintle.dev/controller";

const LEASES: &str = "coordination.k8s.io";

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
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
/// Those of a plugin do not depend on the other plugins, and those of the host depend on no plugin.
///
/// # Errors
/// A plugin asks for what RBAC cannot say.
pub fn objects(manifests: &[&Manifest], names: &Names, host: &Host, accounts: &Accounts) -> anyhow::Result<Vec<Value>> {
    let owner = Owner(None);
    let mut objects = vec![owner.account(&host.account)];
    objects.extend(owner.roles("pintle:host", &of_every_host(host), &host.account));
    for manifest in manifests {
        let of_plugin = of_plugin(manifest, names, host, accounts.of(&manifest.name));
        objects.extend(of_plugin.map_err(|why| anyhow::anyhow!("plugin {}: {why}", manifest.name))?);
    }
    Ok(objects)
}

/// What a host needs whichever plugins it runs.
fn of_every_host(host: &Host) -> Rules {
    let mut rules = Rules::default();
    // For faults of plugins that record no events themselves.
    rules.events();
    // Created and deleted: those that show its built-in controllers.
    rules.add("", "pintle.dev", "controllerplugins", &[], &["list", "watch"]);
    rules.add("", "pintle.dev", "controllerplugins/status", &[], &["patch"]);
    // Whether there are ControllerPlugins: their definition may come later.
    let definition = ["controllerplugins.pintle.dev".to_owned()];
    rules.add("", "apiextensions.k8s.io", "customresourcedefinitions", &definition, &["list", "watch"]);
    // Who the clients of its HTTPS port are, and what they may read there.
    rules.add("", "authentication.k8s.io", "tokenreviews", &[], &["create"]);
    rules.add("", "authorization.k8s.io", "subjectaccessreviews", &[], &["create"]);
    let name = ["extension-apiserver-authentication".to_owned()];
    rules.add(account::NAMESPACE, "", "configmaps", &name, &["get"]);
    if host.looks_for_kube_controller_manager {
        // Whether kube-controller-manager runs the same controllers.
        rules.add(account::NAMESPACE, LEASES, "leases", &["kube-controller-manager".to_owned()], &["get"]);
    }
    if let Some(election) = &host.election {
        elect(&mut rules, election);
    }
    if host.own_accounts {
        rules.add(account::NAMESPACE, "", "serviceaccounts", &[], &["create"]);
    }
    rules
}

fn elect(rules: &mut Rules, election: &ElectionNames) {
    let ElectionNames { namespace, leases, coordinated } = election;
    rules.add(namespace, LEASES, "leases", leases, &["get", "list", "watch", "update"]);
    if *coordinated {
        // Their names have a random part.
        let verbs = ["get", "list", "watch", "create", "update", "delete"];
        rules.add(namespace, LEASES, "leasecandidates", &[], &verbs);
    } else {
        // RBAC cannot limit a create to a name.
        rules.add(namespace, LEASES, "leases", &[], &["create"]);
    }
}

/// What one plugin adds: one role for everything, or one for its own account and one for what the host does for it.
fn of_plugin(manifest: &Manifest, names: &Names, host: &Host, account: String) -> Result<Vec<Value>, String> {
    let owner = Owner(Some(&manifest.name));
    let role = format!("pintle:controller:{account}");
    let mut rules = Rules::default();
    rules.writes(manifest, names)?;
    if !host.own_accounts {
        rules.watches(manifest, names)?;
        return Ok(owner.roles(&role, &rules, &host.account));
    }
    let mut of_host = Rules::default();
    of_host.watches(manifest, names)?;
    of_host.add(account::NAMESPACE, "", "serviceaccounts/token", std::slice::from_ref(&account), &["create"]);
    let of_host = owner.roles(&format!("pintle:host:{account}"), &of_host, &host.account);
    let own = Account { namespace: account::NAMESPACE.to_owned(), name: account };
    let mut objects = vec![owner.account(&own)];
    objects.extend(of_host);
    objects.extend(owner.roles(&role, &rules, &own));
    Ok(objects)
}

/// Whom objects are for: a plugin, or every host.
struct Owner<'a>(Option<&'a str>);

impl Owner<'_> {
    fn account(&self, account: &Account) -> Value {
        let metadata = self.metadata(&account.name, &account.namespace);
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    }

    /// A role with this name, and its binding, for the cluster and for each namespace that has rules.
    fn roles(&self, name: &str, rules: &Rules, subject: &Account) -> Vec<Value> {
        let mut objects = Vec::new();
        for namespace in rules.namespaces() {
            let (role, binding) =
                if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
            let api_version = "rbac.authorization.k8s.io/v1";
            let metadata = self.metadata(name, namespace);
            objects.push(json!({
                "apiVersion": api_version, "kind": role, "metadata": metadata, "rules": rules.rules(namespace),
            }));
            objects.push(json!({
                "apiVersion": api_version, "kind": binding, "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
                "subjects": [{"kind": "ServiceAccount", "namespace": subject.namespace, "name": subject.name}],
            }));
        }
        objects
    }

    fn metadata(&self, name: &str, namespace: &str) -> Value {
        let mut metadata = json!({ "name": name });
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        metadata["labels"] = json!({"app.kubernetes.io/part-of": "pintle"});
        if let Some(plugin) = self.0 {
            metadata["labels"][CONTROLLER] = json!(plugin);
        }
        metadata
    }
}

#[cfg(test)]
mod tests;
