//! Finds the plugins: every folder beside this package with a `manifest.yaml`.
//!
//! *Flow*: folders -> the list of dependencies in `Cargo.toml`, and a module per plugin in `OUT_DIR/plugins.rs`.
//!
//! Cargo wants every dependency by name, so the list cannot be left out. A new folder is added to it here, and the build stops
//! once, because Cargo has read the list by then.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "# plugins: begin\n";
const END: &str = "# plugins: end\n";

fn main() -> Result<(), Box<dyn Error>> {
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let parent = own.parent().ok_or("this package has no parent folder")?;
    // Cargo writes it whenever the workspace has another package. The folder itself would not do: the target folder is in it.
    println!("cargo::rerun-if-changed={}", parent.join("Cargo.lock").display());
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rerun-if-changed=build.rs");
    let mut names = Vec::new();
    for entry in fs::read_dir(parent)? {
        let folder = entry?.path();
        if folder.join("manifest.yaml").is_file() && folder.join("Cargo.toml").is_file() {
            names.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    list(&own.join("Cargo.toml"), &names)?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("plugins.rs"), modules(parent, &names)?)?;
    Ok(())
}

/// Brings the list of dependencies up to date.
fn list(manifest: &Path, names: &[String]) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(manifest)?;
    let (head, rest) = text.split_once(BEGIN).ok_or("Cargo.toml has no line `# plugins: begin`")?;
    let (listed, tail) = rest.split_once(END).ok_or("Cargo.toml has no line `# plugins: end`")?;
    let wanted: String = names.iter().map(|name| format!("plugin-{name} = {{ path = \"../{name}\" }}\n")).collect();
    if listed == wanted {
        return Ok(());
    }
    fs::write(manifest, format!("{head}{BEGIN}{wanted}{END}{tail}"))?;
    Err("the plugins have changed: plugins/tests/Cargo.toml lists them now, run the command again".into())
}

/// A module per plugin, with its cases as a test.
fn modules(parent: &Path, names: &[String]) -> Result<String, std::fmt::Error> {
    let mut code = String::new();
    for name in names {
        let folder = parent.join(name);
        let manifest = folder.join("manifest.yaml");
        let module = name.replace('-', "_");
        writeln!(
            code,
            "mod {module} {{
    use plugin_{module}::reconcile;

    #[allow(dead_code, reason = \"for stories, which not every plugin has\")]
    pub(crate) fn plugin() -> pintle_sdk::testing::Plugin<'static> {{
        pintle_sdk::testing::Plugin::new(include_str!({manifest:?}), reconcile)
    }}

    #[test]
    fn every_case_gives_the_expected_outcome() {{
        pintle_sdk::testing::check_cases({folder:?}, reconcile);
    }}
}}"
        )?;
    }
    Ok(code)
}
