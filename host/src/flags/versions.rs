//! `--emulated-version` and `--min-compatibility-version`.
//!
//! *Source*: `ComponentGlobalsRegistry` in k8s.io/component-base/compatibility.

use anyhow::ensure;
use clap::{Arg, ArgMatches};
use pintle_core::kubernetes::{self, minor_number};

const EMULATED: &str = "emulated-version";
const COMPATIBLE: &str = "min-compatibility-version";

/// Given versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Versions {
    emulated: Option<String>,
    compatible: Option<String>,
}

/// The minor version that the controllers follow.
pub(super) fn newest() -> u32 {
    minor_number(kubernetes::VERSION).unwrap_or_default()
}

/// Parses `[kube=]1.MINOR` into `1.MINOR`.
fn parse(text: &str) -> Result<String, String> {
    let newest = newest();
    let (oldest, version) = (newest.saturating_sub(kubernetes::EMULATED), text.strip_prefix("kube=").unwrap_or(text));
    let is_known = (oldest..=newest).any(|minor| version == format!("1.{minor}"));
    if is_known {
        Ok(version.to_owned())
    } else {
        Err(format!("write a version from kube=1.{oldest} to kube=1.{newest}"))
    }
}

/// The two arguments.
pub(crate) fn arguments() -> [Arg; 2] {
    let of = |name: &'static str, help: String| {
        Arg::new(name).long(name).value_name("kube=1.MINOR").value_parser(parse).help(help)
    };
    let newest = newest();
    let emulated = format!(
        "Version whose defaults the feature gates have, as in kube-controller-manager [default: kube=1.{newest}]"
    );
    let compatible = format!(
        "Oldest version of other components, at most the emulated one. It has no effect [default: kube=1.{}]",
        newest.saturating_sub(1)
    );
    [of(EMULATED, emulated), of(COMPATIBLE, compatible)]
}

impl Versions {
    /// The versions of a command line.
    pub(crate) fn of(matches: &ArgMatches) -> Self {
        let get = |name| matches.get_one::<String>(name).cloned();
        Self { emulated: get(EMULATED), compatible: get(COMPATIBLE) }
    }

    /// The emulated version, such as `1.36`.
    pub(crate) fn emulates(&self) -> &str {
        self.emulated.as_deref().unwrap_or_else(|| kubernetes::minor())
    }

    /// The emulated minor version, and the minimum compatible one.
    ///
    /// # Errors
    /// The minimum compatible version is newer.
    pub(crate) fn check(&self) -> anyhow::Result<(u32, u32)> {
        let emulated = minor_number(self.emulates()).unwrap_or_default();
        let before = || emulated.saturating_sub(1).max(newest().saturating_sub(kubernetes::EMULATED));
        let compatible = self.compatible.as_deref().and_then(minor_number).unwrap_or_else(before);
        ensure!(
            compatible <= emulated,
            "--{COMPATIBLE} is 1.{compatible}: write at most kube=1.{emulated}, which is emulated"
        );
        Ok((emulated, compatible))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_of_four_minor_versions_can_be_emulated() {
        let minor = |before: u32| format!("1.{}", newest() - before);
        assert_eq!(parse(&format!("kube={}", minor(0))), Ok(minor(0)));
        assert_eq!(parse(&minor(3)), Ok(minor(3)));
        for text in ["", "1", "kube=", "1.37.2", "v1.37", &minor(4), &format!("other={}", minor(0))] {
            assert!(parse(text).unwrap_err().starts_with("write a version from kube=1."), "{text}");
        }
        let of = |emulated: Option<String>, compatible: u32| {
            let versions = Versions { emulated, compatible: Some(minor(compatible)) };
            (versions.emulates().to_owned(), versions.check().is_ok())
        };
        assert_eq!(of(None, 0), (minor(0), true));
        assert_eq!(of(Some(minor(1)), 1), (minor(1), true));
        assert_eq!(of(Some(minor(1)), 0), (minor(1), false));
    }
}
