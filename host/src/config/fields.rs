//! The fields of the file, and the flags that they set.
//!
//! A flag of `pintle run` gets a field by a line in [`FIELDS`]; type, default, parser and description come from the
//! flag. A flag without a field has a line in [`NOT_IN_FILE`]. A test fails for a flag without either.

use std::any::TypeId;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};
use pintle_core::contract::manifest::Limits;
use pintle_oci::ComponentSource;
use pintle_sources::admin::socket::Place;

use crate::builtins::Catalogue;
use crate::cli::leader::Group;
use crate::flags::gates::FeatureGates;

/// Each field of the host itself with the long name of its flag, in the order of the documentation. Names follow
/// `KubeletConfiguration` and `KubeControllerManagerConfiguration` where those have the field.
const FIELDS: &[(&str, &str)] = &[
    ("clientConnection.kubeconfig", "kubeconfig"),
    ("clientConnection.context", "context"),
    ("clientConnection.server", "master"),
    ("clientConnection.qps", "kube-api-qps"),
    ("clientConnection.burst", "kube-api-burst"),
    ("leaderElection.leaderElect", "leader-elect"),
    ("leaderElection.leaseDuration", "leader-elect-lease-duration"),
    ("leaderElection.renewDeadline", "leader-elect-renew-deadline"),
    ("leaderElection.retryPeriod", "leader-elect-retry-period"),
    ("leaderElection.resourceLock", "leader-elect-resource-lock"),
    ("leaderElection.resourceName", "leader-elect-resource-name"),
    ("leaderElection.resourceNamespace", "leader-elect-resource-namespace"),
    ("leaderElection.groups", "leader-elect-group"),
    ("controllers", "controllers"),
    ("controllerStartInterval", "controller-start-interval"),
    ("controllerShutdownTimeout", "controller-shutdown-timeout"),
    ("useServiceAccountCredentials", "use-service-account-credentials"),
    ("besideKubeControllerManager", "beside-kube-controller-manager"),
    ("emulatedVersion", "emulated-version"),
    ("featureGates", "feature-gates"),
    ("plugins.components", "plugin"),
    ("plugins.directory", "plugin-dir"),
    ("plugins.class", "plugin-class"),
    ("plugins.installCRD", "install-crd"),
    ("plugins.startClaimed", "start-claimed"),
    ("plugins.grantRequested", "grant-requested"),
    ("plugins.allowUnpinned", "allow-unpinned"),
    ("plugins.maxLimits", "max-limits"),
    ("plugins.memoryBytes", "plugin-memory-bytes"),
    ("plugins.cacheDirectory", "cache-dir"),
    ("plugins.verifyKeyFiles", "verify-key"),
    ("plugins.registries.caFile", "registry-ca-file"),
    ("plugins.registries.plainHTTP", "plain-http"),
    ("plugins.registries.tokenServers", "registry-token-server"),
    ("adminSocket", "admin-socket"),
    ("serving.bindAddress", "bind-address"),
    ("serving.securePort", "secure-port"),
    ("serving.plainAddress", "serve"),
    ("serving.permitPortSharing", "permit-port-sharing"),
    ("serving.disableHTTP2", "disable-http2-serving"),
    ("serving.http2MaxStreamsPerConnection", "http2-max-streams-per-connection"),
    ("serving.tls.certFile", "tls-cert-file"),
    ("serving.tls.privateKeyFile", "tls-private-key-file"),
    ("serving.tls.certDirectory", "cert-dir"),
    ("serving.tls.minVersion", "tls-min-version"),
    ("serving.tls.cipherSuites", "tls-cipher-suites"),
    ("serving.tls.curvePreferences", "tls-curve-preferences"),
    ("authentication.kubeconfig", "authentication-kubeconfig"),
    ("authentication.skipLookup", "authentication-skip-lookup"),
    ("authentication.tolerateLookupFailure", "authentication-tolerate-lookup-failure"),
    ("authentication.webhook.cacheTTL", "authentication-token-webhook-cache-ttl"),
    ("authentication.x509.clientCAFile", "client-ca-file"),
    ("authentication.requestHeader.clientCAFile", "requestheader-client-ca-file"),
    ("authentication.requestHeader.allowedNames", "requestheader-allowed-names"),
    ("authentication.requestHeader.usernameHeaders", "requestheader-username-headers"),
    ("authentication.requestHeader.uidHeaders", "requestheader-uid-headers"),
    ("authentication.requestHeader.groupHeaders", "requestheader-group-headers"),
    ("authentication.requestHeader.extraHeadersPrefix", "requestheader-extra-headers-prefix"),
    ("authorization.kubeconfig", "authorization-kubeconfig"),
    ("authorization.alwaysAllowPaths", "authorization-always-allow-paths"),
    ("authorization.webhook.cacheAuthorizedTTL", "authorization-webhook-cache-authorized-ttl"),
    ("authorization.webhook.cacheUnauthorizedTTL", "authorization-webhook-cache-unauthorized-ttl"),
    ("logging.filter", "log"),
    ("logging.format", "log-format"),
    ("logging.verbosity", "v"),
    ("metrics.disabledMetrics", "disabled-metrics"),
    ("tracing.endpoint", "tracing-endpoint"),
    ("tracing.samplingRatePerMillion", "tracing-sampling-rate-per-million"),
];

/// Flags without a field, by their long names, and the reasons.
pub(crate) const NOT_IN_FILE: &[(&str, &str)] = &[
    ("config", "it names the file"),
    ("set", "`controllerConfiguration.NAME.settings` has the settings of controllers"),
    ("endpoint", "`controllerConfiguration.NAME.endpoints` has the endpoints of controllers"),
    ("check", "it starts no host"),
    ("permit-address-sharing", "it has no effect"),
    ("kube-api-content-type", "it has one valid value"),
    ("log-flush-frequency", "it has no effect"),
    ("profiling", "it has one valid value"),
    ("contention-profiling", "it has one valid value"),
    ("show-hidden-metrics-for-version", "it has no effect"),
    ("min-compatibility-version", "it has no effect"),
];

/// The field with the values of each controller.
pub(crate) const OF_CONTROLLERS: &str = "controllerConfiguration";
/// Its subfield for the values of `--set`.
pub(crate) const SETTINGS: &str = "settings";
/// Its subfield for the values of `--endpoint`.
pub(crate) const ENDPOINTS: &str = "endpoints";

/// A field that sets a flag.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Segments of the path.
    pub(crate) path: Vec<String>,
    pub(crate) arg: Arg,
    /// The default, for flags of controllers, which are not in the command-line parser.
    pub(crate) default: Option<serde_json::Value>,
}

impl Field {
    /// The path with dots.
    pub(crate) fn shown(&self) -> String {
        self.path.join(".")
    }

    /// The long name of the flag.
    pub(crate) fn flag(&self) -> &str {
        self.arg.get_long().unwrap_or_default()
    }

    pub(crate) fn form(&self) -> Form {
        Form::of(&self.arg)
    }

    /// Whether it is a list, each item of which is a value of the flag.
    pub(crate) fn is_list(&self) -> bool {
        let several = self.delimiter().is_some() || matches!(self.arg.get_action(), ArgAction::Append);
        several && !self.is_map()
    }

    /// Whether it is a map, whose entries are `NAME=VALUE` in the flag.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.form(), Form::Gates | Form::Limits | Form::Groups)
    }

    /// The separator of the flag's values.
    pub(crate) fn delimiter(&self) -> Option<char> {
        self.arg.get_value_delimiter()
    }
}

/// The type of a value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Boolean,
    Integer,
    Number,
    /// Text such as `15s`.
    Duration,
    Text,
    /// A file or folder; relative to the folder of the configuration file.
    Path,
    /// One file, or several as in KUBECONFIG.
    Kubeconfig,
    /// A file, or `oci://...`.
    Component,
    /// A path, or `off`.
    Socket,
    /// Feature gates with booleans.
    Gates,
    /// Limits with integers.
    Limits,
    /// Groups with lists of controllers.
    Groups,
}

impl Form {
    fn of(arg: &Arg) -> Self {
        let of = arg.get_value_parser().type_id();
        let is = |types: &[TypeId]| types.iter().any(|one| of == *one);
        if arg.get_long() == Some("kubeconfig") {
            Self::Kubeconfig
        } else if is(&[TypeId::of::<bool>()]) {
            Self::Boolean
        } else if is(&[TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<i32>()]) {
            Self::Integer
        } else if is(&[TypeId::of::<f32>(), TypeId::of::<f64>()]) {
            Self::Number
        } else if is(&[TypeId::of::<Duration>()]) {
            Self::Duration
        } else if is(&[TypeId::of::<PathBuf>()]) {
            Self::Path
        } else if is(&[TypeId::of::<ComponentSource>()]) {
            Self::Component
        } else if is(&[TypeId::of::<Place>()]) {
            Self::Socket
        } else if is(&[TypeId::of::<FeatureGates>()]) {
            Self::Gates
        } else if is(&[TypeId::of::<Limits>()]) {
            Self::Limits
        } else if is(&[TypeId::of::<Group>()]) {
            Self::Groups
        } else {
            Self::Text
        }
    }

    /// The text of a value, with its paths mapped by `path`.
    pub(crate) fn with_paths(self, text: &str, path: impl Fn(&str) -> String) -> String {
        match self {
            Self::Path => path(text),
            Self::Component if !text.starts_with("oci://") => path(text),
            Self::Socket if text != "off" => path(text),
            Self::Kubeconfig => text.split(':').map(path).collect::<Vec<_>>().join(":"),
            _ => text.to_owned(),
        }
    }
}

/// All fields of a host with this command line and these built-in controllers, in the order of the documentation.
pub(crate) fn all(run: &Command, catalogue: &Catalogue) -> Vec<Field> {
    let arg = |flag: &str| run.get_arguments().find(|arg| arg.get_long() == Some(flag)).cloned();
    let of_host = FIELDS.iter().filter_map(|(path, flag)| {
        let path = path.split('.').map(str::to_owned).collect();
        Some(Field { path, arg: arg(flag)?, default: None })
    });
    let of_controllers = catalogue.flags().iter().filter_map(|carried| {
        let path = vec![OF_CONTROLLERS.to_owned(), carried.plugin.clone(), camel_case(&carried.flag.name)];
        Some(Field { path, arg: arg(&carried.flag.name)?, default: carried.flag.default.clone() })
    });
    of_host.chain(of_controllers).collect()
}

/// The field name of a flag: `root-ca-file` is `rootCAFile`.
fn camel_case(flag: &str) -> String {
    const ACRONYMS: [&str; 8] = ["api", "ca", "cidr", "gc", "ip", "pv", "rc", "ttl"];
    let words = flag.split('-').enumerate().map(|(i, word)| match word {
        word if i == 0 => word.to_owned(),
        "cidrs" => "CIDRs".to_owned(),
        word if ACRONYMS.contains(&word) => word.to_uppercase(),
        word => {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::testing::{fields, run_command};

    #[test]
    fn each_flag_of_run_has_one_field_or_a_reason_why_not() {
        let fields = fields();
        let mut without = Vec::new();
        for arg in run_command().get_arguments() {
            // Positional arguments are the same as those of --plugin.
            let Some(flag) = arg.get_long().filter(|flag| *flag != "help") else { continue };
            let n_fields = fields.iter().filter(|field| field.flag() == flag).count();
            let reasons = NOT_IN_FILE.iter().filter(|(of, why)| *of == flag && !why.is_empty()).count();
            if n_fields + reasons != 1 {
                without.push(flag.to_owned());
            }
        }
        assert!(without.is_empty(), "not exactly one line in FIELDS or NOT_IN_FILE: {without:?}");
    }

    #[test]
    fn each_line_names_a_flag_of_run() {
        let command = run_command();
        for flag in FIELDS.iter().map(|(_, flag)| flag).chain(NOT_IN_FILE.iter().map(|(flag, _)| flag)) {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(flag)), "there is no flag --{flag}");
        }
    }

    #[test]
    fn no_field_is_within_another_one() {
        let all: Vec<String> = fields().iter().map(|field| field.shown() + ".").collect();
        let unique: BTreeSet<&String> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
        for one in &all {
            assert!(all.iter().all(|other| other == one || !other.starts_with(one)), "{one}");
        }
    }

    #[test]
    fn names_of_flags_become_names_of_fields_as_kubernetes_writes_them() {
        for (flag, field) in [
            ("concurrent-gc-syncs", "concurrentGCSyncs"),
            ("concurrent-ttl-after-finished-syncs", "concurrentTTLAfterFinishedSyncs"),
            ("root-ca-file", "rootCAFile"),
            ("allocate-node-cidrs", "allocateNodeCIDRs"),
            ("enable-garbage-collector", "enableGarbageCollector"),
        ] {
            assert_eq!(camel_case(flag), field);
        }
    }
}
