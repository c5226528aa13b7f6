//! `pintle rbac`: the RBAC roles of controllers, and the accounts that they are bound to.
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

/// The label of the objects for one plugin; its value is the name of the plugin.
const CONTROLLER: &str = "pintle.dev/controller";

/// The label of everything that is removed together with Pintle.
const PART_OF: &str = "app.kubernetes.io/part-of";

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
    /// Whether the API server coordinates the election, by LeaseCandidates.
    pub coordinated: bool,
}

/// The host for which roles are generated.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its service account.
    pub account: Account,
    /// Whether each plugin writes as its own service account.
    pub own_accounts: bool,
    /// Its leader election, if any.
    pub election: Option<ElectionNames>,
    /// Whether it checks for a kube-controller-manager when it starts.
    pub looks_for_kube_controller_manager: bool,
}

/// Requests of these manifests that no role of the API server covers, one line each, with the flag to bind them.
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
/// The content of an object depends only on its name and on the manifest of its plugin, so that applying the objects
/// for one set of plugins and flags takes no permission from a host with others.
///
/// # Errors
/// A request of a plugin that RBAC cannot express.
pub fn objects(manifests: &[&Manifest], names: &Names, host: &Host, accounts: &Accounts) -> anyhow::Result<Vec<Value>> {
    let owner = Owner(None);
    let mut objects = vec![owner.account(&host.account)];
    for (role, rules) in of_host(host) {
        objects.extend(owner.roles(&role, &rules, &host.account, false));
    }
    for manifest in manifests {
        let of_plugin = of_plugin(manifest, names, host, accounts);
        for object in of_plugin.map_err(|why| anyhow::anyhow!("plugin {}: {why}", manifest.name))? {
            // A shared account is the same for each of its plugins.
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
    }
    Ok(objects)
}

/// The rules of a host, independent of its plugins, by role: one for every host, and one for each addition by a flag.
fn of_host(host: &Host) -> Vec<(String, Rules)> {
    let mut rules = Rules::default();
    // For faults of plugins that record no events themselves.
    rules.events();
    // Created and deleted: resources that show its built-in controllers.
    rules.add("", "pintle.dev", "controllerplugins", &[], &["list", "watch"]);
    rules.add("", "pintle.dev", "controllerplugins/status", &[], &["patch"]);
    // To detect ControllerPlugins, whose definition may be created later.
    let definition = ["controllerplugins.pintle.dev".to_owned()];
    rules.add("", "apiextensions.k8s.io", "customresourcedefinitions", &definition, &["list", "watch"]);
    // To authenticate and authorize clients of its HTTPS port.
    rules.add("", "authentication.k8s.io", "tokenreviews", &[], &["create"]);
    rules.add("", "authorization.k8s.io", "subjectaccessreviews", &[], &["create"]);
    let name = ["extension-apiserver-authentication".to_owned()];
    rules.add(account::NAMESPACE, "", "configmaps", &name, &["get"]);
    let mut roles = vec![("pintle:host".to_owned(), rules)];
    if host.looks_for_kube_controller_manager {
        // To detect whether kube-controller-manager runs the same controllers.
        let lease = ["kube-controller-manager".to_owned()];
        let rules = Rules::one(account::NAMESPACE, LEASES, "leases", &lease, &["get"]);
        roles.push(("pintle:look-for-kube-controller-manager".to_owned(), rules));
    }
    if let Some(ElectionNames { namespace, leases, coordinated }) = &host.election {
        for lease in leases {
            let verbs = ["get", "list", "watch", "update"];
            let rules = Rules::one(namespace, LEASES, "leases", std::slice::from_ref(lease), &verbs);
            roles.push((format!("pintle:lease:{lease}"), rules));
        }
        let (resource, verbs): (_, &[&str]) = if *coordinated {
            // Their names have a random part.
            ("leasecandidates", &["get", "list", "watch", "create", "update", "delete"])
        } else {
            // RBAC cannot limit a create to a name.
            ("leases", &["create"])
        };
        roles.push((format!("pintle:{resource}"), Rules::one(namespace, LEASES, resource, &[], verbs)));
    }
    if host.own_accounts {
        let rules = Rules::one(account::NAMESPACE, "", "serviceaccounts", &[], &["create"]);
        roles.push(("pintle:serviceaccounts".to_owned(), rules));
    }
    roles
}

/// The rules of one plugin: a role for the host's reads on its behalf, and one for its writes, as the host or as a
/// separate account. Roles have the name of the account, or of the plugin if others have the same account.
fn of_plugin(manifest: &Manifest, names: &Names, host: &Host, accounts: &Accounts) -> Result<Vec<Value>, String> {
    let account = accounts.of(&manifest.name);
    let owner = Owner(Some(&manifest.name));
    let name = if accounts.sharing(&account).count() > 1 { &manifest.name } else { &account };
    let (mut reads, mut writes) = (Rules::default(), Rules::default());
    reads.watches(manifest, names)?;
    writes.writes(manifest, names)?;
    let mut objects = owner.roles(&format!("pintle:host:{name}"), &reads, &host.account, false);
    let role = format!("pintle:controller:{name}");
    if !host.own_accounts {
        objects.extend(owner.roles(&role, &writes, &host.account, false));
        return Ok(objects);
    }
    let token =
        Rules::one(account::NAMESPACE, "", "serviceaccounts/token", std::slice::from_ref(&account), &["create"]);
    objects.extend(owner.roles(&format!("pintle:token:{name}"), &token, &host.account, false));
    let own = Account { namespace: account::NAMESPACE.to_owned(), name: account.clone() };
    // A shared account is of the first controller. A host without that one creates the account.
    let mut account = Owner(accounts.sharing(&account).next().or(Some(&manifest.name))).account(&own);
    if accounts.is_built_in(&manifest.name) {
        // kube-controller-manager uses this account, too, so it is not removed together with Pintle.
        account["metadata"]["labels"].as_object_mut().map(|labels| labels.remove(PART_OF));
    }
    objects.push(account);
    objects.extend(owner.roles(&role, &writes, &own, true));
    Ok(objects)
}

/// The owner of objects: a plugin, or every host.
struct Owner<'a>(Option<&'a str>);

impl Owner<'_> {
    fn account(&self, account: &Account) -> Value {
        let metadata = self.metadata(&account.name, &account.namespace);
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    }

    /// A role with this name, and its binding, for the cluster and for each namespace with rules. The binding has the
    /// role's name if it has only one possible subject; otherwise, if flags select the subject, also the subject's
    /// name.
    fn roles(&self, name: &str, rules: &Rules, subject: &Account, is_only_subject: bool) -> Vec<Value> {
        let Account { namespace: of, name: account } = subject;
        let binding_name = if is_only_subject { name.to_owned() } else { format!("{name}:{of}:{account}") };
        let mut objects = Vec::new();
        for namespace in rules.namespaces() {
            let (role, binding) =
                if namespace.is_empty() { ("ClusterRole", "ClusterRoleBinding") } else { ("Role", "RoleBinding") };
            let api_version = "rbac.authorization.k8s.io/v1";
            objects.push(json!({
                "apiVersion": api_version, "kind": role, "metadata": self.metadata(name, namespace),
                "rules": rules.rules(namespace),
            }));
            objects.push(json!({
                "apiVersion": api_version, "kind": binding, "metadata": self.metadata(&binding_name, namespace),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
                "subjects": [{"kind": "ServiceAccount", "namespace": of, "name": account}],
            }));
        }
        objects
    }

    fn metadata(&self, name: &str, namespace: &str) -> Value {
        let mut metadata = json!({ "name": name });
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        metadata["labels"] = json!({ PART_OF: "pintle" });
        if let Some(plugin) = self.0 {
            metadata["labels"][CONTROLLER] = json!(plugin);
        }
        metadata
    }
}

#[cfg(test)]
mod tests;
