//! The choice of the authority.

use pintle_sdk::Error;
use serde::Deserialize;

/// The configuration. Settings of type `authority` are `true` if they are bound.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Config {
    /// In milliseconds.
    pub(crate) duration: u64,
    cluster: bool,
    kubelet_serving: bool,
    kubelet_client: bool,
    kube_apiserver_client: bool,
    legacy_unknown: bool,
}

/// A signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer {
    KubeletServing,
    KubeletClient,
    KubeApiserverClient,
    LegacyUnknown,
}

impl Signer {
    /// The signer with this name; `None` for another signer.
    #[doc(alias = "getCSRVerificationFuncForSignerName")]
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kubelet-serving" => Some(Self::KubeletServing),
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Self::KubeletClient),
            "kubernetes.io/kube-apiserver-client" => Some(Self::KubeApiserverClient),
            "kubernetes.io/legacy-unknown" => Some(Self::LegacyUnknown),
            _ => None,
        }
    }
}

impl Config {
    /// The setting with the authority of a signer; `None` if it has none.
    ///
    /// # Errors
    /// If an authority of all signers and one of a single signer are bound.
    #[doc(alias = "anySpecificFilesSet")]
    pub(crate) fn authority(&self, signer: Signer) -> Result<Option<&'static str>, Error> {
        let own = [
            (Signer::KubeletServing, self.kubelet_serving, "kubeletServing"),
            (Signer::KubeletClient, self.kubelet_client, "kubeletClient"),
            (Signer::KubeApiserverClient, self.kube_apiserver_client, "kubeApiserverClient"),
            (Signer::LegacyUnknown, self.legacy_unknown, "legacyUnknown"),
        ];
        let has_own = own.iter().any(|(_, is_given, _)| *is_given);
        match (self.cluster, has_own) {
            (true, true) => Err(Error::terminal(
                "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time",
            )),
            (true, false) => Ok(Some("cluster")),
            (false, _) => {
                Ok(own.iter().find(|(of, is_given, _)| *of == signer && *is_given).map(|(_, _, setting)| *setting))
            }
        }
    }
}
