//! The version of Kubernetes that the built-in controllers, the embedded cluster and the tests follow.

/// The version, for example `1.37.2`. `plugins/kubernetes-version` is the only place that sets it.
pub const VERSION: &str = include_str!("../../../plugins/kubernetes-version").trim_ascii();

/// The version without its patch, for example `1.37`.
pub fn minor() -> &'static str {
    VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor)
}

/// Number of minor versions that the API server may be older than this one.
const SKEW: u32 = 2;

/// Number of earlier minor versions that can be emulated.
pub const EMULATED: u32 = 3;

/// The minor version of a version text such as `v1.36.3-gke.1` or `1.36`.
pub fn minor_number(version: &str) -> Option<u32> {
    let minor = version.trim_start_matches('v').strip_prefix("1.")?;
    minor.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Why an API server of this version is not supported; `None` if it is. By Kubernetes' version skew policy,
/// kube-controller-manager may be one minor version older than the API server.
pub fn unsupported(server: &str) -> Option<String> {
    let (followed, found) = (minor_number(VERSION)?, minor_number(server));
    let (oldest, newest) = (followed.saturating_sub(SKEW), followed + 1);
    let is_supported = found.is_some_and(|found| (oldest..=newest).contains(&found));
    (!is_supported).then(|| {
        format!("the API server is {server}; this host follows Kubernetes {VERSION}, for API servers of 1.{oldest} to 1.{newest}")
    })
}

/// Replaces `{version}` and `{minor}` in a text by these.
pub fn filled(text: &str) -> String {
    text.replace("{version}", VERSION).replace("{minor}", minor())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_has_three_numbers() {
        let numbers = super::VERSION.split('.').filter(|part| part.parse::<u32>().is_ok()).count();
        assert_eq!((numbers, super::VERSION.split('.').count()), (3, 3));
        assert_eq!(super::minor().split('.').count(), 2);
    }

    #[test]
    fn an_api_server_may_be_two_minor_versions_older_and_one_newer() {
        let newest = super::minor_number(super::VERSION).unwrap();
        let is_supported = |text: &str| super::unsupported(text).is_none();
        assert!([0, 1, 2].iter().all(|older| is_supported(&format!("v1.{}.9-gke.1+x", newest - older))));
        assert!(is_supported(&format!("v1.{}.0", newest + 1)));
        assert!(
            !is_supported(&format!("v1.{}.0", newest - 3)) && !is_supported(&format!("v1.{}.0-beta.0", newest + 2))
        );
        assert!(!is_supported("v2.37.0") && !is_supported(""));
    }
}
