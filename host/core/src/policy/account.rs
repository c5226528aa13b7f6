//! Which service account a plugin writes under, where each has its own.
//!
//! Invariant: a plugin gets the account of one of kube-controller-manager's controllers only if it has the name of a controller that
//! this host carries. Whoever names a plugin cannot name an account: those of kube-system may do much. So a component that takes the
//! place of a built-in controller has that controller's account, whatever its own manifest says.
//!
//! Source: kube-controller-manager's `--use-service-account-credentials`; names as its controllers ask for clients with.

use std::collections::BTreeMap;

use crate::contract::manifest::Manifest;

/// Where the accounts are.
pub const NAMESPACE: &str = "kube-system";

/// Accounts of plugins, by the names of the plugins.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Plugin -> account. The roles of kube-controller-manager's accounts are `system:controller:ACCOUNT`.
    built_in: BTreeMap<String, String>,
}

impl Accounts {
    /// The accounts that these manifests name, which must be those of components that the host carries.
    pub fn of_built_ins<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Self {
        let account = |manifest: &Manifest| manifest.built_in.as_ref()?.service_account.clone();
        let named = manifests.into_iter().filter_map(|manifest| Some((manifest.name.clone(), account(manifest)?)));
        Self { built_in: named.collect() }
    }

    /// Name of the plugin's account in [`NAMESPACE`].
    pub fn of(&self, plugin: &str) -> String {
        self.built_in.get(plugin).cloned().unwrap_or_else(|| format!("pintle-{plugin}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_name_of_a_plugin_gives_the_account_of_somebody_else() {
        let carried = json!({
            "name": "garbage-collector-controller", "version": "1", "contract": "0.1", "watches": [], "queues": [{"name": "q"}],
            "builtIn": {"serviceAccount": "generic-garbage-collector"},
        });
        let carried = Manifest::parse(carried.to_string().as_bytes()).unwrap();
        let accounts = Accounts::of_built_ins([&carried]);
        assert_eq!(accounts.of("garbage-collector-controller"), "generic-garbage-collector");
        // An account that may grant anything.
        assert_eq!(accounts.of("clusterrole-aggregation-controller"), "pintle-clusterrole-aggregation-controller");
        assert_eq!(accounts.of("generic-garbage-collector"), "pintle-generic-garbage-collector");
        assert_eq!(Accounts::default().of("garbage-collector-controller"), "pintle-garbage-collector-controller");
    }
}
