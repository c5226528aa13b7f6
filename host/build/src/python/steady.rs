//! What componentize-py makes, up to what differs from build to build: the same sources give the same bytes.
//!
//! A component is the memory that Python leaves when it has started, as componentize-py finds it. [`FIRST`] and [`LIBRARY`] keep times, chance and the
//! order of files out of what Python does. What remains is done to the component: parts in random order are sorted, and memory
//! that nothing uses any more, or that holds times, is zero.
//!
//! *Invariant*: functions and data that a run can reach stay as they are.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};
use wasm_encoder::reencode::{Reencode, ReencodeComponent, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, Component, ComponentAliasSection, ConstExpr, DataCountSection, DataSection, ExportKind, ExportSection,
    Function, FunctionSection, InstanceSection, Instruction, Module, ModuleSection, RawSection, TypeSection,
};
use wasmparser::{DataKind, ExternalKind, Instance, Operator, Parser, Payload, TypeRef};

use crate::inputs::hex;

/// The first module that Python imports.
pub(super) const FIRST: &str = include_str!("steady.py");
/// A library that Python is linked with.
pub(super) const LIBRARY: &str = include_str!("steady.wat");

/// Memory of a library: its name, the digest of its code, and where in its memory times and chance are
/// (from, up to).
type Variables<'a> = (&'a str, &'a str, &'a [(u32, u32)]);

/// Of componentize-py 0.25.1.
const VARIABLES: [Variables<'static>; 2] = [
    // Cookie and keys of mimalloc, its key and output of ChaCha, and when it began. Python takes memory from another allocator.
    (
        "libpython3.14.so",
        "647b670b9a4c5a65170bfae4fa8719fc1e3f899884c81e0967cb913ed56cff8a",
        &[(0x27_62dc, 0x27_62e8), (0x27_62f8, 0x27_6368), (0x2f_98f8, 0x2f_9900)],
    ),
    // When the process began.
    (
        "libwasi-emulated-process-clocks.so",
        "47ddb97ce3e8fb73bc3210eb467248dfa9cfff0fcf5f73728f407e6d973df945",
        &[(0x8, 0x18)],
    ),
];

/// Writes what Python is to begin with into the first of its folders, of which there are `n_folders`.
pub(super) fn write_first(folder: &Path, n_folders: usize) -> anyhow::Result<()> {
    let early = folder.join("early");
    fs::create_dir(&early).context("create a folder for the first module")?;
    let first = FIRST.replace("FOLDERS", &n_folders.to_string());
    fs::write(early.join("encodings.py"), first).context("write the first module")?;
    fs::write(folder.join("pintle_steady.abi3.so"), wat::parse_str(LIBRARY)?).context("write the library")
}

/// A component of componentize-py without what differs from build to build, and without names of functions, which say nothing about
/// Python code: about 400 KB.
pub(super) fn steady(component: &[u8]) -> anyhow::Result<Vec<u8>> {
    without(&VARIABLES, component)
}

fn without(variables: &[Variables<'_>], component: &[u8]) -> anyhow::Result<Vec<u8>> {
    let modules = modules(component)?;
    let is_known = |(_, digest, _): &&Variables<'_>| modules.iter().any(|module| module.code == *digest);
    let (known, unknown): (Vec<&Variables<'_>>, Vec<_>) = variables.iter().partition(is_known);
    for (name, ..) in unknown {
        eprintln!("componentize-py has another {name} than pintle knows; each build gives other bytes");
    }
    let stubs = Stubs::new(component, &modules)?;
    let mut out = Component::new();
    let mut rest = modules.iter().zip(0..);
    each_section(component, |id, payload, contents| {
        match payload {
            Payload::CustomSection(section) if section.name() == "component-name" => {}
            Payload::ModuleSection { .. } => {
                let (module, index) = rest.next().context("a module is missing")?;
                let stub = stubs.contents.get(&index);
                let own = || if module.has_memory { module.with_steady_memory(&known) } else { module.without_names() };
                out.section(&ModuleSection(&stub.map_or_else(own, |stub| Ok(stub.clone()))?));
            }
            Payload::ComponentAliasSection(section) => {
                let mut aliases = ComponentAliasSection::new();
                stubs.renumber().parse_component_alias_section(&mut aliases, section.clone())?;
                out.section(&aliases);
            }
            Payload::InstanceSection(section) => {
                let mut instances = InstanceSection::new();
                stubs.renumber().parse_instance_section(&mut instances, section.clone())?;
                out.section(&instances);
            }
            _ => {
                out.section(&RawSection { id, data: contents });
            }
        }
        Ok(())
    })?;
    Ok(out.finish())
}

/// Calls with each section of a component or module, and not with those of what is in it: the number of its kind, the section and its
/// contents.
fn each_section<'a>(
    bytes: &'a [u8],
    mut call: impl FnMut(u8, &Payload<'a>, &'a [u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut end_of_inner = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else { continue };
        if range.end <= end_of_inner {
            continue;
        }
        if matches!(payload, Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) {
            end_of_inner = range.end;
        }
        call(id, &payload, &bytes[usize::try_from(range.start)?..usize::try_from(range.end)?])?;
    }
    Ok(())
}

/// Addresses, and what is there.
type Segments<'a> = Vec<(u32, &'a [u8])>;

/// A module of a component.
struct Inner<'a> {
    bytes: &'a [u8],
    has_memory: bool,
    /// Digest of its functions.
    code: String,
}

/// The modules of a component, in their order.
fn modules(component: &[u8]) -> anyhow::Result<Vec<Inner<'_>>> {
    let mut found = Vec::new();
    each_section(component, |_, payload, bytes| {
        if let Payload::ModuleSection { .. } = payload {
            let mut inner = Inner { bytes, has_memory: false, code: String::new() };
            each_section(bytes, |_, payload, contents| {
                match payload {
                    Payload::MemorySection(_) => inner.has_memory = true,
                    Payload::CodeSectionStart { .. } => inner.code = hex(Sha256::new_with_prefix(contents)),
                    _ => {}
                }
                Ok(())
            })?;
            found.push(inner);
        }
        Ok(())
    })?;
    Ok(found)
}

impl Inner<'_> {
    fn without_names(&self) -> anyhow::Result<Module> {
        let mut out = Module::new();
        each_section(self.bytes, |id, payload, data| {
            if !is_names(payload) {
                out.section(&RawSection { id, data });
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The module with zeros below the top of the stack, and in place of variables.
    fn with_steady_memory(&self, variables: &[&Variables<'_>]) -> anyhow::Result<Module> {
        let data = self.steady_data(variables)?;
        let mut out = Module::new();
        each_section(self.bytes, |id, payload, contents| {
            match payload {
                _ if is_names(payload) => {}
                Payload::DataCountSection { .. } => {
                    out.section(&DataCountSection { count: data.len() });
                }
                Payload::DataSection(_) => {
                    out.section(&data);
                }
                _ => {
                    out.section(&RawSection { id, data: contents });
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn steady_data(&self, variables: &[&Variables<'_>]) -> anyhow::Result<DataSection> {
        let (globals, segments) = self.memory()?;
        let stack = *globals.get("__stack_pointer").context("there is no stack")?;
        let mut zeros = vec![(0, stack)];
        for (name, _, places) in variables {
            let Some(base) = globals.get(format!("{name}:memory_base").as_str()) else { continue };
            zeros.extend(places.iter().map(|(from, to)| (base + from, base + to)));
        }
        let mut data = DataSection::new();
        for (start, bytes) in segments {
            let end = start.checked_add(u32::try_from(bytes.len())?).context("memory ends before its contents")?;
            let kept = start.max(stack.min(end));
            let mut bytes = bytes[usize::try_from(kept - start)?..].to_vec();
            for (from, to) in &zeros {
                let [from, to] = [from, to].map(|at| at.clamp(&kept, &end) - kept);
                bytes[usize::try_from(from)?..usize::try_from(to)?].fill(0);
            }
            if !bytes.is_empty() {
                data.active(0, &ConstExpr::i32_const(i32::try_from(kept)?), bytes);
            }
        }
        Ok(data)
    }

    /// The exported globals by name, and what is in memory where.
    fn memory(&self) -> anyhow::Result<(HashMap<&str, u32>, Segments<'_>)> {
        let constant = |value: &wasmparser::ConstExpr<'_>| -> anyhow::Result<u32> {
            match value.get_operators_reader().read()? {
                Operator::I32Const { value } => Ok(u32::from_ne_bytes(value.to_ne_bytes())),
                other => bail!("{other:?} is not a constant"),
            }
        };
        let (mut values, mut globals, mut segments) = (Vec::new(), HashMap::new(), Vec::new());
        each_section(self.bytes, |_, payload, _| {
            match payload {
                Payload::ImportSection(section) => {
                    for import in section.clone().into_imports() {
                        ensure!(!matches!(import?.ty, TypeRef::Global(_)), "the module of the memory imports a global");
                    }
                }
                Payload::GlobalSection(section) => {
                    for global in section.clone() {
                        // Others are not addresses.
                        values.push(constant(&global?.init_expr).ok());
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section.clone() {
                        let export = export?;
                        let value = values.get(usize::try_from(export.index)?).copied().flatten();
                        if let (ExternalKind::Global, Some(value)) = (export.kind, value) {
                            globals.insert(export.name, value);
                        }
                    }
                }
                Payload::DataSection(section) => {
                    for segment in section.clone() {
                        let segment = segment?;
                        let DataKind::Active { memory_index: 0, offset_expr } = segment.kind else {
                            bail!("a part of the memory is put there by code");
                        };
                        segments.push((constant(&offset_expr)?, segment.data));
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok((globals, segments))
    }
}

fn is_names(payload: &Payload<'_>) -> bool {
    matches!(payload, Payload::CustomSection(section) if section.name() == "name")
}

/// The modules that stand for the operating system: functions that end the run, in random order, in modules in random order.
#[derive(Default)]
struct Stubs {
    /// Number of a module -> what it is to be.
    contents: HashMap<u32, Module>,
    /// Instance of such a module -> the instance that is the same now.
    instances: HashMap<u32, u32>,
}

impl Stubs {
    fn new(component: &[u8], modules: &[Inner<'_>]) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for (module, index) in modules.iter().zip(0..) {
            if let Some(stub) = stub(module.bytes)? {
                found.push((index, stub));
            }
        }
        let mut instance_of = HashMap::new();
        let mut n_instances = 0;
        each_section(component, |_, payload, _| {
            let Payload::InstanceSection(section) = payload else { return Ok(()) };
            for instance in section.clone() {
                if let Instance::Instantiate { module_index, args } = instance?
                    && args.is_empty()
                {
                    instance_of.insert(module_index, n_instances);
                }
                n_instances += 1;
            }
            Ok(())
        })?;
        let mut sorted: Vec<_> = found.iter().collect();
        sorted.sort_by_key(|(_, stub)| stub.iter().map(|(name, kind)| (name, kind.to_string())).collect::<Vec<_>>());
        let mut stubs = Self::default();
        for ((place, _), (index, stub)) in found.iter().zip(sorted) {
            let instance = |of| instance_of.get(of).copied().context("a module without imports has no instance");
            stubs.contents.insert(*place, module_of(stub));
            stubs.instances.insert(instance(index)?, instance(place)?);
        }
        Ok(stubs)
    }

    fn renumber(&self) -> Renumber<'_> {
        Renumber(&self.instances)
    }
}

/// Exported functions, sorted by name, with their types.
type Stub = Vec<(String, wasmparser::FuncType)>;

/// The functions of a module that does nothing but end the run; `None` if it is another one.
fn stub(module: &[u8]) -> anyhow::Result<Option<Stub>> {
    let (mut types, mut functions, mut exports) = (Vec::new(), Vec::new(), Stub::new());
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::TypeSection(section) => {
                types = section.into_iter_err_on_gc_types().collect::<Result<_, _>>()?;
            }
            Payload::FunctionSection(section) => functions = section.into_iter().collect::<Result<Vec<_>, _>>()?,
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    let kind = functions.get(usize::try_from(export.index)?);
                    let (ExternalKind::Func, Some(kind)) = (export.kind, kind) else { return Ok(None) };
                    let kind = types.get(usize::try_from(*kind)?).context("a type is missing")?;
                    exports.push((export.name.to_owned(), wasmparser::FuncType::clone(kind)));
                }
            }
            Payload::CodeSectionEntry(body) => {
                let ends = matches!(body.get_operators_reader()?.read()?, Operator::Unreachable);
                if !ends {
                    return Ok(None);
                }
            }
            Payload::Version { .. }
            | Payload::CodeSectionStart { .. }
            | Payload::CustomSection(_)
            | Payload::End(_) => {}
            _ => return Ok(None),
        }
    }
    exports.sort_by(|one, other| one.0.cmp(&other.0));
    let is_stub = !exports.is_empty() && exports.len() == functions.len();
    Ok(is_stub.then_some(exports))
}

fn module_of(stub: &Stub) -> Module {
    let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
    let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
    for ((name, kind), index) in stub.iter().zip(0..) {
        let plain = |kinds: &[wasmparser::ValType]| -> Vec<wasm_encoder::ValType> {
            kinds.iter().filter_map(|kind| RoundtripReencoder.val_type(*kind).ok()).collect()
        };
        types.ty().function(plain(kind.params()), plain(kind.results()));
        functions.function(index);
        exports.export(name, ExportKind::Func, index);
        let mut function = Function::new([]);
        function.instruction(&Instruction::Unreachable).instruction(&Instruction::End);
        code.function(&function);
    }
    let mut module = Module::new();
    module.section(&types).section(&functions).section(&exports).section(&code);
    module
}

/// Gives instances other numbers where they are named.
struct Renumber<'a>(&'a HashMap<u32, u32>);

impl Reencode for Renumber<'_> {
    type Error = Infallible;
}

impl ReencodeComponent for Renumber<'_> {
    fn instance_index(&mut self, instance: u32) -> u32 {
        self.0.get(&instance).copied().unwrap_or(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component of a module with memory, of two that end the run, and of one that calls them, as componentize-py orders them.
    fn component(stubs: [&str; 2], clock: i32, chance: u8) -> Vec<u8> {
        let names = ["a", "b"];
        let instance = |name| stubs.iter().position(|stub| stub.contains(&format!("(export {name:?})"))).unwrap() + 1;
        let [a, b] = names.map(instance);
        let text = format!(
            r#"(component
            (core module $main
                (memory (export "memory") 1)
                (global (export "__stack_pointer") (mut i32) (i32.const 128))
                (global (export "lib.so:memory_base") i32 (i32.const 256))
                (data (i32.const 100) "spill{chance}{:0>40}")
                (data (i32.const 256) "kept{clock:04}kept"))
            (core module {}) (core module {})
            (core module $user
                (import "env" "memory" (memory 0))
                (import "x" "a" (func $a (param i32))) (import "x" "b" (func $b))
                (func $named (export "run") (result i32) (call $a (i32.const 1)) (call $b) i32.const 7))
            (core instance $env (instantiate $main))
            (core instance (instantiate 1)) (core instance (instantiate 2))
            (alias core export {a} "a" (core func $a)) (alias core export {b} "b" (core func $b))
            (core instance $x (export "a" (func $a)) (export "b" (func $b)))
            (core instance $i (instantiate $user (with "env" (instance $env)) (with "x" (instance $x))))
            (func (export "run") (result u32) (canon lift (core func $i "run"))))"#,
            0, stubs[0], stubs[1]
        );
        wat::parse_str(text).unwrap()
    }

    const A: &str = r#"(func (export "a") (param i32) unreachable) (func (export "more") unreachable)"#;
    const MORE_A: &str = r#"(func (export "more") unreachable) (func (export "a") (param i32) unreachable)"#;
    const B: &str = r#"(func (export "b") unreachable)"#;

    fn has(bytes: &[u8], word: &str) -> bool {
        bytes.windows(word.len()).any(|part| part == word.as_bytes())
    }

    fn in_steady(component: &[u8]) -> Vec<u8> {
        let modules = modules(component).unwrap();
        without(&[("lib.so", &modules[3].code, &[(4, 8)])], component).unwrap()
    }

    #[test]
    fn order_chance_and_times_do_not_change_a_component() {
        let one = in_steady(&component([A, B], 1, 1));
        wasmparser::validate(&one).unwrap();
        assert_eq!(one, in_steady(&component([B, MORE_A], 2, 2)));
        assert_eq!(one, in_steady(&one));
        assert!(has(&one, "kept\0\0\0\0kept"), "variables are zero, and what is beside them stays");
        assert!(!has(&one, "spill") && has(&one, &"0".repeat(18)), "of the stack, what is in use stays");
        assert!(!has(&one, &"\0".repeat(24)), "zeros take no room");
        assert!(!has(&one, "named") && has(&one, "run"));
    }

    #[test]
    fn variables_of_an_unknown_library_stay() {
        let made = component([A, B], 1, 1);
        assert!(has(&without(&[("lib.so", "of another one", &[(4, 8)])], &made).unwrap(), "kept0001kept"));
    }

    #[test]
    fn a_module_that_does_something_is_not_replaced() {
        let made = component([A, B], 1, 1);
        let stubs =
            modules(&made).unwrap().iter().map(|module| stub(module.bytes).unwrap().is_some()).collect::<Vec<_>>();
        assert_eq!(stubs, [false, true, true, false]);
        let is_stub = |text: &str| stub(&wat::parse_str(text).unwrap()).unwrap().is_some();
        assert!(is_stub(r#"(module (func (export "a") unreachable))"#));
        assert!(!is_stub(r#"(module (func (export "a") nop))"#));
        assert!(!is_stub(r#"(module (func (export "a") unreachable) (func unreachable))"#));
    }

    #[test]
    fn python_begins_with_what_is_in_the_first_folder() {
        let folder = tempfile::tempdir().unwrap();
        write_first(folder.path(), 3).unwrap();
        assert!(fs::read_to_string(folder.path().join("early/encodings.py")).unwrap().contains("for n in range(3))"));
        let library = fs::read(folder.path().join("pintle_steady.abi3.so")).unwrap();
        wasmparser::validate(&library).unwrap();
        assert!(has(&library, "/0/early"));
    }
}
