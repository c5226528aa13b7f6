//! The JavaScript engine of components, with the same seed and the same time in every build.
//!
//! componentize-qjs starts the engine while it builds, with the clock and the chance of the machine, and the component is the memory
//! that this leaves. So the same sources gave other bytes each time. It takes another engine, though: here the one that it
//! carries gets two functions of its kind instead of the imports that differ.
//!
//! *Invariant*: the rest of the module stays as it is. Imports are renamed and functions are added at the end, so no index changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest, Sha256};
use wasm_encoder::{Encode as _, Function, Instruction, MemArg};
use wasmparser::{Imports, Parser, Payload, TypeRef};

/// Bytes and SHA-256 of the engine in componentize-qjs 0.4.5: `prebuilt/runtime-sync.wasm` of its crate.
const LENGTH: usize = 1_497_910;
const DIGEST: &str = "25703f010b80efb806f9c35daf9ee6524ad60320c9781b0bae4e234264f8dac5";

/// With what a module of WebAssembly begins.
const MAGIC: &[u8] = b"\0asm\x01\0\0\0";

/// Module and name of an import, the name of the function for it, and that function.
type Replaced = (&'static str, &'static str, &'static str, fn() -> Function);

/// What differs from build to build.
const VARIABLE: [Replaced; 3] = [
    ("wasi:random/insecure-seed@0.2.9", "insecure-seed", "pintle_seed", seed),
    ("wasi:clocks/monotonic-clock@0.2.0", "now", "pintle_monotonic_now", monotonic_now),
    ("wasi:clocks/wall-clock@0.2.0", "now", "pintle_wall_now", wall_now),
];

/// The module by whose name libraries of a component import from one another.
const LIBRARIES: &str = "env";

/// When every build happens, in seconds since 1970. As in `wasi/closed.wat`.
const NOW_SECONDS: i64 = 1_700_000_000;

/// The engine that componentize-qjs carries, made steady; `None` if it carries another one than known here.
///
/// # Errors
/// If componentize-qjs cannot be read, or the engine is not of the known form.
pub(super) fn steady(sdk: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    for addon in addons(sdk) {
        let bytes = fs::read(&addon).with_context(|| format!("read {}", addon.display()))?;
        if let Some(engine) = find(&bytes) {
            return redirect(engine).context("give the JavaScript engine the same seed in every build").map(Some);
        }
    }
    Ok(None)
}

/// The libraries for Node.js in which componentize-qjs is compiled, one for each platform that is installed.
fn addons(sdk: &Path) -> Vec<PathBuf> {
    let inside = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let packages = sdk.ancestors().map(|folder| folder.join("node_modules/@andreiltd")).flat_map(inside);
    packages.flat_map(inside).filter(|path| path.extension().is_some_and(|extension| extension == "node")).collect()
}

/// The engine among the bytes of a library.
fn find(library: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while let Some(next) = memchr::memmem::find(library.get(at..)?, MAGIC) {
        let start = at + next;
        let module = library.get(start..start + LENGTH);
        // All variants of it are libraries; few other bytes that look like a module are.
        let is_library = |module: &&[u8]| module[MAGIC.len() + 3..].starts_with(b"dylink.0");
        if let Some(module) = module.filter(is_library)
            && crate::inputs::hex(Sha256::new_with_prefix(module)) == DIGEST
        {
            return Some(module);
        }
        at = start + MAGIC.len();
    }
    None
}

/// Renames the imports of [`VARIABLE`] and adds functions of these names.
fn redirect(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut types = [None; VARIABLE.len()];
    let mut n_functions = 0;
    let mut out = MAGIC.to_vec();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        match &payload {
            Payload::ImportSection(section) => {
                for import in section.clone() {
                    let Imports::Single(_, import) = import? else { anyhow::bail!("its imports are compact") };
                    let TypeRef::Func(kind) = import.ty else { continue };
                    n_functions += 1;
                    if let Some(i) = VARIABLE.iter().position(|of| (of.0, of.1) == (import.module, import.name)) {
                        types[i] = Some(kind);
                    }
                }
            }
            Payload::FunctionSection(section) => n_functions += section.count(),
            _ => {}
        }
        let Some((id, range)) = payload.as_section() else { continue };
        let contents = &module[usize::try_from(range.start)?..usize::try_from(range.end)?];
        let types =
            || types.iter().map(|kind| kind.context("an import is missing")).collect::<anyhow::Result<Vec<_>>>();
        let n_added = u32::try_from(VARIABLE.len())?;
        let contents = match payload {
            Payload::ImportSection(_) => renamed(contents)?,
            Payload::FunctionSection(section) => {
                let mut added = Vec::new();
                types()?.iter().for_each(|kind| kind.encode(&mut added));
                longer(contents, section.count(), n_added, &added)
            }
            Payload::ExportSection(section) => {
                let mut added = Vec::new();
                for (i, (_, _, name, _)) in (n_functions..).zip(VARIABLE) {
                    name.encode(&mut added);
                    // Of a function.
                    added.push(0);
                    i.encode(&mut added);
                }
                longer(contents, section.count(), n_added, &added)
            }
            Payload::CodeSectionStart { count, .. } => {
                let mut added = Vec::new();
                VARIABLE.iter().for_each(|(_, _, _, body)| body().encode(&mut added));
                longer(contents, count, n_added, &added)
            }
            _ => contents.to_vec(),
        };
        out.push(id);
        contents.encode(&mut out);
    }
    wasmparser::validate(&out)?;
    Ok(out)
}

/// The contents of a section that has `n` entries, with more of them at its end.
fn longer(contents: &[u8], n: u32, n_added: u32, added: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    (n + n_added).encode(&mut out);
    // The number takes seven bits a byte, or more if the linker left room.
    let n_of_count = contents.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    out.extend_from_slice(&contents[n_of_count..]);
    out.extend_from_slice(added);
    out
}

/// The section of imports with other names.
fn renamed(contents: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut out = contents.to_vec();
    for (module, name, ours, _) in VARIABLE {
        let [mut from, mut to] = [Vec::new(), Vec::new()];
        [module, name].iter().for_each(|text| text.encode(&mut from));
        [LIBRARIES, ours].iter().for_each(|text| text.encode(&mut to));
        let at: Vec<usize> = memchr::memmem::find_iter(&out, &from).collect();
        let [at] = at[..] else { anyhow::bail!("{module} is imported {} times", at.len()) };
        out.splice(at..at + from.len(), to);
    }
    Ok(out)
}

fn store(offset: u64) -> Instruction<'static> {
    Instruction::I64Store(MemArg { offset, align: 3, memory_index: 0 })
}

/// Writes two numbers of 64 bits to the place that it is given: the fractions of the golden ratio and of the root of two.
fn seed() -> Function {
    let mut function = Function::new([]);
    for (offset, value) in [(0, 0x9e37_79b9_7f4a_7c15_u64), (8, 0x6a09_e667_f3bc_c908)] {
        function.instruction(&Instruction::LocalGet(0));
        function.instruction(&Instruction::I64Const(value.cast_signed())).instruction(&store(offset));
    }
    function.instruction(&Instruction::End);
    function
}

/// Answers a number of nanoseconds.
fn monotonic_now() -> Function {
    let mut function = Function::new([]);
    function.instruction(&Instruction::I64Const(NOW_SECONDS)).instruction(&Instruction::End);
    function
}

/// Writes seconds and nanoseconds to the place that it is given.
fn wall_now() -> Function {
    let mut function = Function::new([]);
    for (offset, value) in [(0, NOW_SECONDS), (8, 0)] {
        function.instruction(&Instruction::LocalGet(0));
        function.instruction(&Instruction::I64Const(value)).instruction(&store(offset));
    }
    function.instruction(&Instruction::End);
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: &str = r#"(module
        (import "env" "memory" (memory 1))
        (import "wasi:clocks/wall-clock@0.2.0" "now" (func $wall (param i32)))
        (import "env" "other" (func $other))
        (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func $monotonic (result i64)))
        (import "wasi:random/insecure-seed@0.2.9" "insecure-seed" (func $seed (param i32)))
        (func (export "run") (call $seed (i32.const 8)) (call $wall (i32.const 32)) (drop (call $monotonic)) (call $other)))"#;

    #[test]
    fn an_engine_takes_seed_and_time_from_itself() {
        let made = redirect(&wat::parse_str(ENGINE).unwrap()).unwrap();
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        for payload in Parser::new(0).parse_all(&made) {
            match payload.unwrap() {
                Payload::ImportSection(section) => {
                    imports.extend(section.into_imports().map(|import| import.map(|of| (of.module, of.name)).unwrap()));
                }
                Payload::ExportSection(section) => {
                    exports.extend(section.into_iter().map(|export| export.map(|of| (of.name, of.index)).unwrap()));
                }
                _ => {}
            }
        }
        assert_eq!(exports, [("run", 4), ("pintle_seed", 5), ("pintle_monotonic_now", 6), ("pintle_wall_now", 7)]);
        let names = ["memory", "pintle_wall_now", "other", "pintle_monotonic_now", "pintle_seed"];
        assert_eq!(imports, names.map(|name| (LIBRARIES, name)));
    }

    #[test]
    fn an_engine_of_another_form_is_refused() {
        let other = ENGINE.replace("insecure-seed@0.2.9", "random@0.2.9");
        let why = redirect(&wat::parse_str(other).unwrap()).unwrap_err().to_string();
        assert_eq!(why, "wasi:random/insecure-seed@0.2.9 is imported 0 times");
    }

    #[test]
    fn only_the_known_engine_is_taken_from_a_library() {
        let mut library = b"\x7fELF".to_vec();
        library.extend([MAGIC, b"\0\x12\x08dylink.0"].concat());
        library.resize(library.len() + LENGTH, 0);
        assert!(find(&library).is_none());
        let folder = tempfile::tempdir().unwrap();
        let sdk = folder.path().join("project/.pintle/sdk/js");
        let package = folder.path().join("project/node_modules/@andreiltd/componentize-qjs-binding-any");
        fs::create_dir_all(&sdk).unwrap();
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("any.node"), library).unwrap();
        assert_eq!(addons(&sdk), [package.join("any.node")]);
        assert!(steady(&sdk).unwrap().is_none());
    }
}
