//! Flags of kube-controller-manager for controllers that are not built yet, so that errors can name the controller.
//!
//! *Not here*: the flags themselves, which are data next to the plugins.

use std::collections::BTreeMap;

/// Controller -> names of its flags.
const TABLE: &str = include_str!("../../../plugins/upstream.yaml");

/// The error for an unknown flag, if it is one of kube-controller-manager's. `flag` begins with `--`.
pub(crate) fn refusal(flag: &str) -> Option<String> {
    let name = flag.strip_prefix("--")?.replace('_', "-");
    let controller = table().into_iter().find(|(_, flags)| flags.contains(&name))?.0;
    Some(format!("{flag} is a flag of {controller}, which is not part of this Pintle yet; leave it out"))
}

fn table() -> BTreeMap<String, Vec<String>> {
    // A test reads it.
    serde_norway::from_str(TABLE).unwrap_or_default()
}

/// A flag, and its controller.
#[cfg(test)]
pub(crate) fn any() -> (String, String) {
    let (controller, flags) = table().pop_first().unwrap();
    (flags[0].clone(), controller)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::builtins::testing::manifests;

    #[test]
    fn each_flag_belongs_to_one_controller_that_is_not_built_yet() {
        let table: BTreeMap<String, Vec<String>> = serde_norway::from_str(TABLE).unwrap();
        let mut seen = BTreeSet::new();
        for (controller, flags) in &table {
            for flag in flags {
                assert!(seen.insert(flag.clone()), "{flag} is in upstream.yaml twice");
                assert!(refusal(&format!("--{flag}")).is_some_and(|text| text.contains(controller)), "{flag}");
            }
        }
        for manifest in manifests() {
            assert!(!table.contains_key(&manifest.name), "{} is built: remove it from upstream.yaml", manifest.name);
            for flag in manifest.built_in.unwrap_or_default().flags {
                assert!(
                    !seen.contains(&flag.name),
                    "{} declares {}: remove it from upstream.yaml",
                    manifest.name,
                    flag.name
                );
            }
        }
    }

    #[test]
    fn unknown_flags_are_not_reported_as_upstreams() {
        assert_eq!(refusal("--concurrent-widget-syncs"), None);
        assert_eq!(refusal("concurrent-job-syncs"), None);
        assert_eq!(refusal("--concurrent_job_syncs").is_some(), refusal("--concurrent-job-syncs").is_some());
    }
}
