//! Service accounts of plugins, on hosts where each plugin has its own.
//!
//! Invariant: a plugin gets the account of a kube-controller-manager controller only if it has the name of a controller
//! that is built into this host. A component cannot choose its account, because the accounts of kube-system have many
//! permissions: a component that replaces a built-in controller gets that controller's account, whatever its own
//! manifest requests.
//!
//! Source: kube-controller-manager's `--use-service-account-credentials`; the names are its controllers' client names.

use std::collections::BTreeMap;

use crate::contract::manifest::Manifest;

/// Namespace of the accounts.
pub const NAMESPACE: &str = "kube-system";

/// Accounts of plugins, by plugin name.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Plugin -> account. The roles of kube-controller-manager's accounts are `system:controller:ACCOUNT`.
    built_in: BTreeMap<String, String>,
}

impl Accounts {
    /// The accounts in these manifests, which must belong to built-in components.
    pub fn of_built_ins<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Self {
        let account = |manifest: &Manifest| manifest.built_in.as_ref()?.service_account.clone();
        let named = manifests.into_iter().filter_map(|manifest| Some((manifest.name.clone(), account(manifest)?)));
        Self { built_in: named.collect() }
    }

    /// Whether a built-in controller has this name, and an account of kube-controller-manager.
    pub fn is_built_in(&self, plugin: &str) -> bool {
        self.built_in.contains_key(plugin)
    }

    /// The built-in controllers with this account, by name. Upstream's three of certificate requests share one.
    pub fn sharing<'a>(&'a self, account: &'a str) -> impl Iterator<Item = &'a str> {
        self.built_in.iter().filter(move |(_, of)| *of == account).map(|(plugin, _)| plugin.as_str())
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
    fn a_plugin_name_cannot_select_the_account_of_another_controller() {
        let carried = json!({
            "name": "widget-controller", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
            "builtIn": {"serviceAccount": "generic-widgets"},
        });
        let carried = Manifest::parse(carried.to_string().as_bytes()).unwrap();
        let accounts = Accounts::of_built_ins([&carried]);
        assert_eq!(accounts.of("widget-controller"), "generic-widgets");
        assert!(accounts.is_built_in("widget-controller") && !accounts.is_built_in("generic-widgets"));
        let beside = Manifest { name: "beside".into(), ..carried.clone() };
        let accounts_of_two = Accounts::of_built_ins([&carried, &beside]);
        assert!(accounts_of_two.sharing("generic-widgets").eq(["beside", "widget-controller"]));
        // An account of another program's controller.
        assert_eq!(accounts.of("gadget-controller"), "pintle-gadget-controller");
        assert_eq!(accounts.of("generic-widgets"), "pintle-generic-widgets");
        assert_eq!(Accounts::default().of("widget-controller"), "pintle-widget-controller");
    }
}
