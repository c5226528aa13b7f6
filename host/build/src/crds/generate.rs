//! Generates definitions from the types of a project, with the program of its language.
//!
//! | language | types | program |
//! | --- | --- | --- |
//! | Go | packages with `+groupName=`, kubebuilder's markers | `crdgen` of the SDK, which is controller-gen's library |
//! | Rust | kube's `CustomResource`, schemars | `examples/crds.rs` of the project |
//! | JavaScript, TypeScript | TypeBox | the script `crds` of `package.json` |
//! | Python | `TypedDict` and `pintle.schema`, pydantic | `crds.py` of the project |

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;

use super::documents;
use crate::language::{NPM_INSTALL, PIP_INSTALL};
use crate::project::Project;
use crate::{Language, process};

/// The output of a language's program.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The objects. Their schemas may be any JSON Schema.
    pub definitions: Vec<Value>,
    /// The files with the types, relative to the project, for messages.
    pub sources: String,
}

/// How a project prints its definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Generator {
    /// Go packages, relative to the project.
    Go(Vec<String>),
    Rust,
    Npm,
    Python,
}

/// Instructions for a project without a generator.
pub fn advice(language: Language) -> &'static str {
    match language {
        Language::Go => "package of types with the marker +groupName=GROUP",
        Language::Rust => "examples/crds.rs, which prints the definitions",
        Language::JavaScript | Language::TypeScript => "script \"crds\" in package.json, which prints the definitions",
        Language::Python => "crds.py, which prints the definitions",
    }
}

/// Runs the program that prints the definitions of the types. `None` if the project has none.
///
/// # Errors
/// A tool is missing (the message has the installation), the types are invalid, or the output is not YAML or JSON.
pub fn generate(project: &Project) -> anyhow::Result<Option<Generated>> {
    let Some(generator) = Generator::of(project)? else { return Ok(None) };
    let mut command = generator.command(project)?;
    let text = match generator {
        // They show downloads and compilation.
        Generator::Go(_) | Generator::Rust => process::output(&mut command),
        Generator::Npm | Generator::Python => process::told(&mut command).map_err(|failed| {
            if let Some(missing) = generator.missing(&failed.errors) {
                return missing;
            }
            let _ = std::io::stderr().write_all(failed.errors.as_bytes());
            failed.why
        }),
    };
    let text = text.context("make the definitions of the types")?;
    let definitions = documents(&text).context("read what the generator of definitions prints")?;
    ensure!(!definitions.is_empty(), "the generator of definitions prints nothing ({})", advice(project.language));
    Ok(Some(Generated { definitions, sources: sources(project) }))
}

/// Whether a project generates definitions from its types.
///
/// # Errors
/// A file of it cannot be read.
pub fn has_generator(project: &Project) -> anyhow::Result<bool> {
    Ok(Generator::of(project)?.is_some())
}

impl Generator {
    fn of(project: &Project) -> anyhow::Result<Option<Self>> {
        let folder = &project.folder;
        Ok(match project.language {
            Language::Go => {
                let packages = go_packages(folder);
                (!packages.is_empty()).then_some(Self::Go(packages))
            }
            Language::Rust => folder.join("examples/crds.rs").is_file().then_some(Self::Rust),
            Language::JavaScript | Language::TypeScript => {
                let path = folder.join("package.json");
                let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                let package: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
                package["scripts"]["crds"].is_string().then_some(Self::Npm)
            }
            Language::Python => folder.join("crds.py").is_file().then_some(Self::Python),
        })
    }

    fn command(&self, project: &Project) -> anyhow::Result<Command> {
        let folder = &project.folder;
        let has = |program: &str, flag: &str| process::succeeds(Command::new(program).arg(flag));
        Ok(match self {
            Self::Go(packages) => {
                let there = has("go", "version");
                ensure!(
                    there,
                    "there is no Go compiler: install Go 1.26 or newer (https://go.dev/dl) and put it on PATH"
                );
                let mut go = Command::new("go");
                // The tool has its own module, so that its libraries do not become the plugin's.
                go.current_dir(project.sdk()?.join("crdgen")).args(["run", "."]).arg(folder).args(packages);
                go.env_remove("GOFLAGS").env("GOWORK", "off");
                go
            }
            Self::Rust => {
                let mut cargo = process::cargo(folder);
                let there = process::succeeds(process::cargo(folder).arg("--version"));
                ensure!(there, "there is no cargo: install Rust (https://rustup.rs) and put it on PATH");
                cargo.args(["run", "--quiet", "--example", "crds"]);
                if has_crds_feature(folder)? {
                    cargo.args(["--features", "crds"]);
                }
                // Settings for another build must not reach this one.
                for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WORKSPACE_WRAPPER"] {
                    cargo.env_remove(name);
                }
                cargo
            }
            Self::Npm => {
                let there = has("node", "--version") && has("npm", "--version");
                ensure!(
                    there,
                    "there is no Node.js: install version 20 or newer (https://nodejs.org) and put it on PATH"
                );
                let mut npm = Command::new("npm");
                npm.current_dir(folder).args(["run", "--silent", "crds"]);
                npm
            }
            Self::Python => {
                let mut python = python(folder)?;
                python.current_dir(folder).arg("crds.py").env("PYTHONDONTWRITEBYTECODE", "1");
                python
            }
        })
    }

    /// The error for a module missing in the program's environment, from its output.
    fn missing(&self, errors: &str) -> Option<anyhow::Error> {
        let (marks, install): (&[&str], _) = match self {
            Self::Go(_) | Self::Rust => return None,
            Self::Npm => (&["Cannot find package '", "Cannot find module '"], NPM_INSTALL),
            Self::Python => (&["No module named '"], PIP_INSTALL),
        };
        let (_, rest) = marks.iter().find_map(|mark| errors.split_once(mark))?;
        let module = rest.split('\'').next().filter(|module| !module.starts_with(['.', '/']))?;
        Some(anyhow!("there is no module {module}; if it is one of a library, run `{install}`"))
    }
}

fn has_crds_feature(folder: &Path) -> anyhow::Result<bool> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let package: toml::Table = text.parse().with_context(|| path.display().to_string())?;
    Ok(package.get("features").is_some_and(|features| features.get("crds").is_some()))
}

/// Python of the project's environment, of the active one, or of PATH.
fn python(folder: &Path) -> anyhow::Result<Command> {
    let active = std::env::var_os("VIRTUAL_ENV").map(|active| Path::new(&active).join("bin/python"));
    let candidates = [Some(folder.join(".venv/bin/python")), active, Some("python3".into())];
    for candidate in candidates.into_iter().flatten() {
        if process::succeeds(Command::new(&candidate).arg("--version")) {
            return Ok(Command::new(candidate));
        }
    }
    bail!("there is no Python: install version 3.11 or newer (https://python.org) and put it on PATH")
}

/// The packages of a module that declare the group of their kinds.
fn go_packages(folder: &Path) -> Vec<String> {
    let files = source_files(folder, &["go"]);
    let marked = files.iter().filter(|file| contains(&folder.join(file), "+groupName="));
    let folders: BTreeSet<&Path> = marked.filter_map(|file| file.parent()).collect();
    folders.into_iter().map(|folder| format!("./{}", folder.display())).collect()
}

/// The files with the types, for messages.
fn sources(project: &Project) -> String {
    let (endings, marks): (&[&str], &[&str]) = match project.language {
        Language::Go => (&["go"], &["+kubebuilder:", "+groupName="]),
        Language::Rust => (&["rs"], &["CustomResource"]),
        Language::JavaScript | Language::TypeScript => (&["ts", "js", "mts", "mjs"], &["typebox"]),
        Language::Python => (&["py"], &["pintle.schema"]),
    };
    let files = source_files(&project.folder, endings);
    let found: Vec<String> = files
        .iter()
        .filter(|file| {
            !file.starts_with("examples") && marks.iter().any(|mark| contains(&project.folder.join(file), mark))
        })
        .map(|file| file.display().to_string())
        .collect();
    if found.is_empty() { "the project".to_owned() } else { found.join(", ") }
}

fn contains(file: &Path, text: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|content| content.contains(text))
}

/// Source files of a project, relative to it, sorted by name. Folders of tools are skipped.
pub(crate) fn source_files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    const NOT_SOURCES: [&str; 5] = ["target", "node_modules", "__pycache__", "vendor", "testdata"];
    const MAX_DEPTH: usize = 6;
    fn add(root: &Path, folder: &Path, depth: usize, endings: &[&str], found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            // A link may point to a parent folder.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < MAX_DEPTH && !name.starts_with('.') && !NOT_SOURCES.contains(&&*name) {
                add(root, &path, depth + 1, endings, found);
            } else if kind.is_file() && path.extension().is_some_and(|own| endings.iter().any(|ending| own == *ending))
            {
                found.extend(path.strip_prefix(root).map(Path::to_owned));
            }
        }
    }
    let mut found = Vec::new();
    add(folder, folder, 0, endings, &mut found);
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "name: web\nversion: 0.1.0\ncontract: \"0.2\"\nwatches: [{kind: v1/Pod, enqueue: [{to: self}]}]\nqueues: [{name: web}]\n";

    fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Project) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files.iter().chain(&[("manifest.yaml", MANIFEST)]) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let project = Project::open(folder.path(), None).unwrap();
        (folder, project)
    }

    #[test]
    fn the_generator_of_a_project_is_what_its_files_say() {
        let go = "// +groupName=example.org\npackage api";
        let cases: [(&[(&str, &str)], _); 9] = [
            (&[("go.mod", ""), ("main.go", "package main")], None),
            (&[("go.mod", ""), ("api/team.go", go)], Some(Generator::Go(vec!["./api".to_owned()]))),
            (&[("go.mod", ""), (".pintle/a.go", go), ("vendor/a.go", go)], None),
            (&[("Cargo.toml", "")], None),
            (&[("Cargo.toml", ""), ("examples/crds.rs", "")], Some(Generator::Rust)),
            (&[("package.json", r#"{"scripts": {"test": "x"}}"#)], None),
            (&[("package.json", r#"{"scripts": {"crds": "node crds.js"}}"#)], Some(Generator::Npm)),
            (&[("pyproject.toml", "")], None),
            (&[("pyproject.toml", ""), ("crds.py", "")], Some(Generator::Python)),
        ];
        for (files, expected) in cases {
            let (_folder, project) = project(files);
            assert_eq!(Generator::of(&project).unwrap(), expected, "{files:?}");
        }
    }

    #[test]
    fn the_sources_are_the_files_with_types() {
        let (_folder, project) = project(&[
            ("go.mod", ""),
            ("main.go", "package main"),
            ("api/team.go", "// +kubebuilder:subresource:status"),
            ("api/doc.go", "// +groupName=example.org"),
        ]);
        assert_eq!(sources(&project), "api/doc.go, api/team.go");
    }

    #[test]
    fn a_library_that_is_missing_is_told_with_the_command_that_installs_it() {
        let python = "Traceback (most recent call last):\n  File \"crds.py\", line 3\nModuleNotFoundError: No module named 'pintle'\n";
        let node = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'typebox' imported from /work/teams/api.ts";
        let told = |generator: Generator, errors| generator.missing(errors).map(|why| why.to_string());
        assert_eq!(
            told(Generator::Python, python).unwrap(),
            "there is no module pintle; if it is one of a library, run `python3 -m venv .venv && .venv/bin/pip install -r \
             requirements.txt`"
        );
        assert_eq!(
            told(Generator::Npm, node).unwrap(),
            "there is no module typebox; if it is one of a library, run `npm install`"
        );
        assert_eq!(told(Generator::Npm, "Cannot find module '/work/teams/apis.ts' imported from crds.ts"), None);
        assert_eq!(told(Generator::Python, "TypeError: no"), None);
    }

    #[test]
    fn the_feature_of_a_package_is_optional() {
        let (folder, _) = project(&[("Cargo.toml", "[features]\ncrds = []\n")]);
        assert!(has_crds_feature(folder.path()).unwrap());
        fs::write(folder.path().join("Cargo.toml"), "[package]\n").unwrap();
        assert!(!has_crds_feature(folder.path()).unwrap());
    }
}
