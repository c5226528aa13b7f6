//! Generates the bindings of the Go SDK from the contract.
//!
//! *Flow*: the WIT world `mapping-controller` -> wit-bindgen's generator -> [`folder`], committed, because authors have
//! no generator. One WIT world is enough for all plugins: exports missing in a plugin's WIT world are left out of its
//! component.
//!
//! *Invariant*: the committed files equal the result of [`generate`] (`cargo xtask generate bindings`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, ensure};
use wit_bindgen_core::{AsyncFilterSet, Files, wit_parser::Resolve};

use crate::{process, root};

const WORLD: &str = "mapping-controller";
/// The contract of the SDK.
const CONTRACT: &str = "wit";

/// A language with a generator of bindings in wit-bindgen, for plugins without an SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `wit-bindgen go`.
    Go,
    /// `wit-bindgen c`.
    C,
}

/// Go package of the generated ones; see `sdk/go/go.mod` for its first part.
const GO_PACKAGE: &str = "pintle.dev/sdk/internal/wit";

/// Prefix of the handwritten packages `export_...` that generated code calls.
const GO_EXPORTS: &str = "pintle.dev/sdk/internal/export_";

/// The import path of the run-time library in generated Go code, which is not published as a module for current Go
/// versions.
const GO_RUNTIME: &str = "go.bytecodealliance.org/pkg/wit";

/// The used files of that library, in the crate of the generator.
const GO_RUNTIME_FILES: [&str; 6] =
    ["runtime/empty.s", "runtime/runtime.go", "types/option.go", "types/result.go", "types/tuple.go", "types/unit.go"];

/// Folder with generated files only.
pub fn folder() -> PathBuf {
    root().join("sdk/go/internal/wit")
}

/// Path relative to [`folder`] -> text.
pub type Generated = BTreeMap<PathBuf, String>;

/// Generates the code of the Go SDK.
///
/// # Errors
/// If the contract cannot be read, or the generator's own files or `gofmt` are missing.
pub fn generate() -> anyhow::Result<Generated> {
    let mut contract = Resolve::default();
    let (package, _) = contract.push_dir(root().join(CONTRACT)).context("read the contract")?;
    let world = contract.select_world(&[package], Some(WORLD))?;
    let mut generator = wit_bindgen_go::Opts {
        // Formatted below, after replacing the names.
        format: wit_bindgen_go::Format::False,
        pkg_name: Some(GO_PACKAGE.to_owned()),
        async_: AsyncFilterSet::default(),
        quiet: true,
        ..wit_bindgen_go::Opts::default()
    }
    .build();
    let mut files = Files::default();
    generator.generate(&mut contract, world, &mut files)?;
    let mut generated = Generated::new();
    for (name, bytes) in files.iter() {
        generated.insert(name.into(), String::from_utf8(bytes.to_vec()).context("generated text")?);
    }
    add_go_runtime(&mut generated)?;
    for (name, text) in &mut generated {
        if name.extension().is_some_and(|extension| extension == "go") {
            let ours = text.replace(&format!("{GO_PACKAGE}/exports/export_"), GO_EXPORTS);
            *text = gofmt(&ours.replace(GO_RUNTIME, GO_PACKAGE)).with_context(|| name.display().to_string())?;
        }
    }
    Ok(generated)
}

/// Writes the output of `wit-bindgen go` and `wit-bindgen c` for the WIT world `controller` of the newest contract:
/// bindings of a plugin without an SDK. For Go, with the run-time library as a module in the folder `pkg`.
///
/// # Errors
/// As for [`generate`]; also if a file cannot be written.
pub fn write_plain(language: Language, folder: &Path) -> anyhow::Result<()> {
    let mut contract = Resolve::default();
    let (package, _) = contract.push_path(root().join("wit/controller.wit")).context("read the contract")?;
    let world = contract.select_world(&[package], Some("controller"))?;
    let mut generator = match language {
        Language::Go => wit_bindgen_go::Opts { quiet: true, ..wit_bindgen_go::Opts::default() }.build(),
        Language::C => wit_bindgen_c::Opts::default().build(),
    };
    let mut files = Files::default();
    generator.generate(&mut contract, world, &mut files)?;
    let mut library = Generated::new();
    if language == Language::Go {
        add_go_runtime(&mut library)?;
        library = library.into_iter().map(|(name, text)| (Path::new("pkg/wit").join(name), text)).collect();
        library.insert("pkg/go.mod".into(), "module go.bytecodealliance.org/pkg\n\ngo 1.25\n".into());
    }
    let library = library.iter().map(|(name, text)| (name.as_path(), text.as_bytes()));
    for (name, bytes) in files.iter().map(|(name, bytes)| (Path::new(name), bytes)).chain(library) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Adds the run-time library.
fn add_go_runtime(generated: &mut Generated) -> anyhow::Result<()> {
    let library = generator_sources("wit-bindgen-go")?.join("src/pkg");
    for file in GO_RUNTIME_FILES {
        let path = library.join("wit").join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        generated.insert(file.into(), text);
    }
    let license = fs::read_to_string(library.join("LICENSE")).context("read the licence of the library")?;
    generated.insert("LICENSE".into(), license);
    Ok(())
}

/// Folder with the sources of a dependency of this program.
fn generator_sources(name: &str) -> anyhow::Result<PathBuf> {
    // Dependencies of other platforms were not downloaded for the build.
    let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", "host-tuple"];
    let metadata: serde_json::Value = serde_json::from_str(&process::output(process::cargo(&root()).args(args))?)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = Path::new(manifest.with_context(|| format!("no package {name}"))?).parent();
    Ok(folder.context("no folder")?.to_path_buf())
}

/// Formats Go code.
fn gofmt(code: &str) -> anyhow::Result<String> {
    let mut gofmt = Command::new("gofmt").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let gofmt = gofmt.as_mut().map_err(|why| anyhow!("start gofmt ({why}); it comes with Go: https://go.dev/dl"))?;
    let mut input = gofmt.stdin.take().context("write to gofmt")?;
    let mut output = gofmt.stdout.take().context("read from gofmt")?;
    let formatted = std::thread::scope(|scope| {
        let writing = scope.spawn(move || input.write_all(code.as_bytes()));
        let mut formatted = String::new();
        output.read_to_string(&mut formatted)?;
        writing.join().unwrap_or(Ok(())).map(|()| formatted)
    })
    .context("run gofmt")?;
    ensure!(gofmt.wait()?.success(), "gofmt does not take the generated code");
    Ok(formatted)
}
