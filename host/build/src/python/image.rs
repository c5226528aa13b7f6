//! Interpreter images: components in whose memory Python, the SDK and the libraries of a plugin are loaded.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::imports::{self, Modules};
use super::{Parts, componentize, libraries, steady};
use crate::contract::MAPPING_CONTROLLER;
use crate::inputs;
use crate::project::Project;
use crate::sandbox::Sandbox;

/// The module that an image begins with.
const ENTRY: &str = include_str!("image.py");

/// The function that adds the author's modules.
const LOAD: &str = "load";

/// How its error begins if a module is not in the image.
const MISSING: &str = "missing: ";

/// The component of a project; `None` if an image does not serve it, which standard error says why.
pub(super) fn component(project: &Project, parts: &Parts, sandbox: &dyn Sandbox) -> anyhow::Result<Option<Vec<u8>>> {
    let modules = imports::modules(&parts.sources, &parts.module)?;
    let entry = entry(&modules, project.world);
    let contract = contract(project)?;
    let key = key(project, parts, &entry, contract.path())?;
    let image = sandbox.image(&key, &mut || {
        eprintln!("making an image of Python with the libraries of {}; later builds use it", project.name);
        componentize(project, parts, (contract.path(), "image"), &entry, &[])
    })?;
    let given = serde_json::json!({"module": parts.module, "files": modules.own}).to_string();
    let why = match sandbox.initialise(&image, LOAD, &given) {
        Ok(Ok(component)) => return Ok(Some(component)),
        Ok(Err(why)) => match why.strip_prefix(MISSING) {
            Some(missing) => missing.to_owned(),
            None => {
                eprintln!("{why}");
                bail!("the module {} cannot be imported; see above", parts.module);
            }
        },
        Err(why) => why.to_string(),
    };
    eprintln!("the modules are not loaded into the image ({why}); everything is built anew, which takes longer");
    Ok(None)
}

/// The text of the module that an image of these libraries begins with.
fn entry(modules: &Modules, world: &str) -> String {
    let libraries = modules.others.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let maps = if world == MAPPING_CONTROLLER { "True" } else { "False" };
    ENTRY.replace("LIBRARIES", &format!("[{libraries}]")).replace("if MAPS", &format!("if {maps}"))
}

/// A folder with the contract, and a world of the plugin's that has the function [`LOAD`], too.
fn contract(project: &Project) -> anyhow::Result<tempfile::TempDir> {
    let folder = project.work()?;
    let package = folder.path().join("deps/controller");
    fs::create_dir_all(&package).context("create a folder for the contract")?;
    let contract = project.contract()?;
    for entry in fs::read_dir(contract.path()).context("read the contract")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            fs::copy(&path, package.join(path.file_name().unwrap_or_default())).context("copy the contract")?;
        }
    }
    let world = format!(
        "package pintle:python;\n\nworld image {{\n  include {}/{}@{};\n  export {LOAD}: func(text: string) -> result<_, string>;\n}}\n",
        crate::contract::PACKAGE,
        project.world,
        contract.version()?,
    );
    fs::write(folder.path().join("image.wit"), world).context("write the world of the image")?;
    Ok(folder)
}

/// What determines an image.
fn key(project: &Project, parts: &Parts, entry: &str, contract: &Path) -> anyhow::Result<String> {
    let mut hasher = Sha256::new();
    for part in [env!("CARGO_PKG_VERSION"), &parts.version, entry, steady::FIRST, steady::LIBRARY] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    inputs::add(&mut hasher, contract, contract)?;
    inputs::add(&mut hasher, &parts.sdk, &parts.sdk.join("pintle"))?;
    for folder in libraries(&project.folder) {
        inputs::add(&mut hasher, &folder, &folder)?;
    }
    Ok(inputs::hex(hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_imports_the_libraries_and_maps_as_the_world_says() {
        let others = ["json", "logging.handlers"].map(str::to_owned).into();
        let modules = Modules { others, ..Modules::default() };
        let text = entry(&modules, crate::contract::CONTROLLER);
        assert!(text.contains("for _name in [\"json\", \"logging.handlers\"]:"), "{text}");
        assert!(text.contains("if False:\n                Mapping.keys_of"), "{text}");
        assert!(entry(&modules, MAPPING_CONTROLLER).contains("if True:\n                Mapping.keys_of"));
    }
}
