//! The page about the contract, generated from its WIT.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use wit_parser::{Docs, Function, FunctionKind, Interface, Resolve, Type, TypeDef, TypeDefKind, TypeId, WorldItem};

use super::{cell, prose};

/// Writing to a String does not fail, so results are dropped here.
pub(super) fn page(folder: &Path) -> anyhow::Result<String> {
    let mut contract = Resolve::default();
    let (package, _) = contract.push_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let package = &contract.packages[package];
    let mut page = format!("# The contract: `{}`\n", package.name);
    about(&mut page, &package.docs);
    let _ = writeln!(
        page,
        "\nSDKs wrap most of it, with the same names in each language's own case.\n\
         This page is generated from `wit/`: `cargo xtask generate pages`.\n\n\
         `wit/CHANGES.md` lists the changes of each version. The manifest that `pintle new` writes names the version \
         of the SDK."
    );
    for world in package.worlds.values() {
        let world = &contract.worlds[*world];
        let _ = writeln!(page, "\n## World `{}`", world.name);
        about(&mut page, &world.docs);
        for item in world.exports.values() {
            if let WorldItem::Function(function) = item {
                show_function(&mut page, &contract, function);
            }
        }
    }
    for interface in package.interfaces.values() {
        show_interface(&mut page, &contract, &contract.interfaces[*interface]);
    }
    Ok(page)
}

fn about(page: &mut String, docs: &Docs) {
    if let Some(text) = &docs.contents {
        let _ = writeln!(page, "\n{}", prose(text));
    }
}

fn show_interface(page: &mut String, contract: &Resolve, interface: &Interface) {
    let _ = writeln!(page, "\n## Interface `{}`", interface.name.as_deref().unwrap_or_default());
    about(page, &interface.docs);
    for (name, id) in &interface.types {
        let definition = &contract.types[*id];
        // Names from another interface are shown there.
        if !matches!(definition.kind, TypeDefKind::Type(_)) {
            show_type(page, contract, name, definition);
            let of_resource = interface.functions.values().filter(|function| method_of(function) == Some(*id));
            for method in of_resource {
                show_function(page, contract, method);
            }
        }
    }
    for function in interface.functions.values().filter(|function| method_of(function).is_none()) {
        show_function(page, contract, function);
    }
}

fn method_of(function: &Function) -> Option<TypeId> {
    match function.kind {
        FunctionKind::Method(of) | FunctionKind::Static(of) | FunctionKind::Constructor(of) => Some(of),
        _ => None,
    }
}

fn show_type(page: &mut String, contract: &Resolve, name: &str, definition: &TypeDef) {
    let word = definition.kind.as_str();
    let _ = writeln!(page, "\n### `{name}` ({word})");
    about(page, &definition.docs);
    let rows: Vec<(String, String, &Docs)> = match &definition.kind {
        TypeDefKind::Record(record) => record
            .fields
            .iter()
            .map(|field| (field.name.clone(), type_name(contract, &field.ty), &field.docs))
            .collect(),
        TypeDefKind::Variant(variant) => {
            let payload = |ty: &Option<Type>| ty.as_ref().map(|ty| type_name(contract, ty)).unwrap_or_default();
            variant.cases.iter().map(|case| (case.name.clone(), payload(&case.ty), &case.docs)).collect()
        }
        TypeDefKind::Enum(words) => {
            words.cases.iter().map(|case| (case.name.clone(), String::new(), &case.docs)).collect()
        }
        _ => return,
    };
    let _ = writeln!(page, "\n| | | |\n| --- | --- | --- |");
    for (name, of, docs) in rows {
        let of = if of.is_empty() { of } else { format!("`{of}`") };
        let _ = writeln!(page, "| `{name}` | {of} | {} |", cell(docs.contents.as_deref().unwrap_or_default()));
    }
}

fn show_function(page: &mut String, contract: &Resolve, function: &Function) {
    // `self` is implied.
    let parameters = function.params.iter().filter(|parameter| parameter.name != "self");
    let parameters: Vec<String> =
        parameters.map(|parameter| format!("{}: {}", parameter.name, type_name(contract, &parameter.ty))).collect();
    let result = function.result.as_ref().map(|ty| format!(" -> {}", type_name(contract, ty))).unwrap_or_default();
    let _ = writeln!(page, "\n#### `{}({}){result}`", function.item_name(), parameters.join(", "));
    about(page, &function.docs);
}

fn type_name(contract: &Resolve, ty: &Type) -> String {
    let Type::Id(id) = ty else { return primitive(ty).to_owned() };
    let definition = &contract.types[*id];
    if let Some(name) = &definition.name {
        return name.clone();
    }
    let name = |ty: &Type| type_name(contract, ty);
    match &definition.kind {
        TypeDefKind::Option(ty) => format!("option<{}>", name(ty)),
        TypeDefKind::List(ty) => format!("list<{}>", name(ty)),
        TypeDefKind::Tuple(tuple) => format!("tuple<{}>", tuple.types.iter().map(name).collect::<Vec<_>>().join(", ")),
        TypeDefKind::Result(result) => {
            let part = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".to_owned(), name);
            format!("result<{}, {}>", part(&result.ok), part(&result.err))
        }
        TypeDefKind::Handle(wit_parser::Handle::Own(of)) => type_name(contract, &Type::Id(*of)),
        TypeDefKind::Handle(wit_parser::Handle::Borrow(of)) => {
            format!("borrow<{}>", type_name(contract, &Type::Id(*of)))
        }
        other => other.as_str().to_owned(),
    }
}

fn primitive(ty: &Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => "",
    }
}
