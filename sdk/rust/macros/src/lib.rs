//! `pintle_sdk::types!`: types for Kubernetes objects, from the fields that a manifest declares.
//!
//! *Flow*: arguments (`input`) and manifest (`manifest`) -> trees of field paths (`path`) -> validated against the
//! fields of Kubernetes' API (`schema`) -> Rust code (`generate`).
//!
//! *Invariants*
//! 1. A type has no field that the manifest does not declare.
//! 2. A path that the API does not have is an error with the path, the kind and the nearest fields.
//! 3. The same arguments and manifest give the same code.

mod generate;
mod input;
mod manifest;
mod path;
mod rust;
mod schema;

use std::path::PathBuf;

use input::Input;
use manifest::Manifest;
use proc_macro2::{Span, TokenStream};
use schema::Schema;

/// Documented as `pintle_sdk::types`.
#[proc_macro]
pub fn types(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// `pintle_sdk::Limits` of the manifest next to `Cargo.toml`; the host's defaults for absent values, and without a
/// manifest.
#[proc_macro]
pub fn limits(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let path = PathBuf::from(folder).join("manifest.yaml");
    let fail = |message: String| syn::Error::new(Span::call_site(), message).into_compile_error();
    let code = match std::fs::read_to_string(&path) {
        Ok(text) => manifest::limits(&text).map(|limits| {
            // Recompiles when the manifest changes.
            format!("{{ const _: &[u8] = ::core::include_bytes!({:?}); {limits} }}", path.display().to_string())
        }),
        Err(_) => Ok("::pintle_sdk::Limits::default()".to_owned()),
    };
    let code = code.map_err(|error| format!("manifest.yaml: {error}"));
    code.map_or_else(fail, |code| code.parse().unwrap_or_else(|error| fail(format!("generated code: {error}")))).into()
}

fn expand(input: TokenStream) -> syn::Result<TokenStream> {
    let input: Input = syn::parse2(input)?;
    let span = input.manifest.as_ref().map_or_else(Span::call_site, syn::LitStr::span);
    let fail = |message: String| syn::Error::new(span, message);
    let mut code = String::new();
    let mut manifest = None;
    if let Some(file) = &input.manifest {
        let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
        let path = PathBuf::from(folder).join(file.value());
        let text = std::fs::read_to_string(&path).map_err(|error| fail(format!("{}: {error}", path.display())))?;
        manifest = Some(Manifest::parse(&text).map_err(|error| fail(format!("{}: {error}", file.value())))?);
        // Recompiles when the manifest changes.
        code = format!("const _: &[u8] = ::core::include_bytes!({:?});\n", path.display().to_string());
    }
    let schema = Schema::of_kubernetes();
    code.push_str(&generate::generate(&schema, manifest.as_ref(), &input.entries).map_err(
        |error| match error.entry {
            Some(entry) => syn::Error::new(input.entries[entry].span, error.message),
            None => fail(error.message),
        },
    )?);
    code.parse().map_err(|error| fail(format!("generated code: {error}")))
}
