//! Which service account a plugin writes under, where each has its own.
//!
//! Invariant: a plugin gets the account of one of kube-controller-manager's controllers only if it has that controller's name and
//! this host knows it. Whoever names a plugin cannot name an account: those of kube-system may do much.
//!
//! Source: kube-controller-manager's `--use-service-account-credentials`; names as its controllers ask for clients with.

/// Where the accounts are.
pub const NAMESPACE: &str = "kube-system";

/// Controllers of kube-controller-manager and their accounts. Its roles are `system:controller:ACCOUNT`.
const UPSTREAM: [(&str, &str); 7] = [
    ("deployment-controller", "deployment-controller"),
    ("replicaset-controller", "replicaset-controller"),
    ("replicationcontroller-controller", "replication-controller"),
    ("garbage-collector-controller", "generic-garbage-collector"),
    ("namespace-controller", "namespace-controller"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("serviceaccount-controller", "service-account-controller"),
];

/// Name of the plugin's account in [`NAMESPACE`].
pub fn of(plugin: &str) -> String {
    let upstream = UPSTREAM.iter().find(|(controller, _)| *controller == plugin);
    upstream.map_or_else(|| format!("pintle-{plugin}"), |(_, account)| (*account).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_plugin_gives_the_account_of_somebody_else() {
        assert_eq!(of("garbage-collector-controller"), "generic-garbage-collector");
        // An account that may grant anything.
        assert_eq!(of("clusterrole-aggregation-controller"), "pintle-clusterrole-aggregation-controller");
        assert_eq!(of("generic-garbage-collector"), "pintle-generic-garbage-collector");
    }
}
