//! `cargo xtask new-plugin`: creates the folder of a built-in controller, with a manifest, code and a passing case.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// Files of a plugin and their texts, in which `{{name}}` is replaced by the name.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../templates/plugin/Cargo.toml")),
    ("manifest.yaml", include_str!("../templates/plugin/manifest.yaml")),
    ("src/lib.rs", include_str!("../templates/plugin/lib.rs")),
    ("src/types.rs", include_str!("../templates/plugin/types.rs")),
    ("src/reconcile.rs", include_str!("../templates/plugin/reconcile.rs")),
    ("cases/serviceaccounts.yaml", include_str!("../templates/plugin/cases.yaml")),
];

/// Longest name: Kubernetes labels have at most 63 characters, and `-controller` is added.
const MAX_NAME: usize = 63 - "-controller".len();

/// Writes the folder `plugins/<name>` below `root`.
///
/// # Errors
/// The name is invalid, the folder exists, or a file cannot be written.
pub(crate) fn create(root: &Path, name: &str) -> anyhow::Result<()> {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let starts_with_letter = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !(starts_with_letter && name.split('-').all(is_word) && name.len() <= MAX_NAME) {
        bail!(
            "{name:?} is not a name for a plugin: use at most {MAX_NAME} lowercase letters, digits and single dashes"
        );
    }
    let folder = root.join("plugins").join(name);
    ensure!(!folder.exists(), "{} exists already", folder.display());
    for (file, text) in FILES {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap_or(&folder)).with_context(|| format!("create {}", path.display()))?;
        fs::write(&path, text.replace("{{name}}", name)).with_context(|| format!("write {}", path.display()))?;
    }
    eprintln!(
        "created plugins/{name}; write it, and then:\n  \
         `cargo xtask build` and `target/debug/pintle test plugins/{name}` run its cases; `--update` writes what they expect\n  \
         a scenario in tests/src/scenarios/list compares it with kube-controller-manager\n  \
         `cargo xtask generate` writes it into the pages\n  \
         a line in CHANGELOG.md names it"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_written_once_and_has_its_name_everywhere() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        create(root.path(), "robots")?;
        let folder = root.path().join("plugins/robots");
        for (file, _) in FILES {
            let text = fs::read_to_string(folder.join(file))?;
            assert!(!text.contains("{{"), "{file}");
        }
        assert!(fs::read_to_string(folder.join("manifest.yaml"))?.starts_with("name: robots-controller\n"));
        assert!(create(root.path(), "robots").is_err_and(|why| why.to_string().ends_with("exists already")));
        Ok(())
    }

    #[test]
    fn names_that_kubernetes_would_refuse_are_refused() -> anyhow::Result<()> {
        let root = tempfile::tempdir()?;
        for name in ["", "Robots", "-robots", "robots-", "ro--bots", "7robots", "ro/bots", &"r".repeat(MAX_NAME + 1)] {
            assert!(create(root.path(), name).is_err_and(|why| why.to_string().contains("is not a name")), "{name}");
        }
        Ok(())
    }
}
