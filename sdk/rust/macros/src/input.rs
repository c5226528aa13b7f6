//! The arguments of `types!`.

use proc_macro2::Span;
use quote::ToTokens as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, LitStr, Token, Type, bracketed};

/// `"manifest.yaml", "v1/Pod": ["spec.nodeName"], "v1/Node" = shared::Node`.
pub(crate) struct Input {
    pub(crate) manifest: Option<LitStr>,
    pub(crate) entries: Vec<Entry>,
}

/// A kind for which the code reads other fields than those of the manifest.
#[derive(Debug)]
pub(crate) struct Entry {
    /// For example `apps/v1/ReplicaSet`.
    pub(crate) kind: String,
    /// Name of the type; defaults to the kind's.
    pub(crate) name: Option<String>,
    pub(crate) reads: Reads,
    pub(crate) span: Span,
}

/// The fields that are read of a kind.
#[derive(Debug)]
pub(crate) enum Reads {
    /// These paths, each with an optional type that replaces the API's.
    Paths(Vec<(String, Option<String>)>),
    /// The fields of this library type.
    Shared {
        name: String,
        /// Also for lists of a kind that is kept whole.
        listed: bool,
    },
    /// No type is needed.
    Nothing,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let is_entry = input.peek2(Token![:]) || input.peek2(Token![=]) || input.peek2(Token![as]);
        let manifest = if input.is_empty() || is_entry { None } else { Some(input.parse()?) };
        if manifest.is_some() && !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        let entries = Punctuated::<Entry, Token![,]>::parse_terminated(input)?;
        Ok(Self { manifest, entries: entries.into_iter().collect() })
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let kind: LitStr = input.parse()?;
        let name = input.parse::<Option<Token![as]>>()?.map(|_| input.parse::<Ident>()).transpose()?;
        let reads = if name.is_none() && input.parse::<Option<Token![=]>>()?.is_some() {
            match input.parse()? {
                Type::Slice(list) => Reads::Shared { name: list.elem.to_token_stream().to_string(), listed: true },
                Type::Infer(_) => Reads::Nothing,
                one => Reads::Shared { name: one.to_token_stream().to_string(), listed: false },
            }
        } else {
            input.parse::<Token![:]>()?;
            let list;
            bracketed!(list in input);
            let paths = list.parse_terminated(read, Token![,])?;
            Reads::Paths(paths.into_iter().collect())
        };
        Ok(Self { kind: kind.value(), name: name.map(|name| name.to_string()), reads, span: kind.span() })
    }
}

/// `"spec.template"`, or `"status": my::Status`.
fn read(input: ParseStream<'_>) -> syn::Result<(String, Option<String>)> {
    let path: LitStr = input.parse()?;
    let kind = input.parse::<Option<Token![:]>>()?.map(|_| input.parse::<Type>()).transpose()?;
    Ok((path.value(), kind.map(|kind| kind.to_token_stream().to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_and_the_entries_are_optional() {
        for (text, manifest, kinds) in [
            ("", None, vec![]),
            (r#""m.yaml""#, Some("m.yaml"), vec![]),
            (r#""v1/Pod": ["spec"]"#, None, vec!["v1/Pod"]),
            (
                r#""m.yaml", "v1/Pod" = a::Pod, "v1/Pod" as Other: ["status": b::S, "spec"],"#,
                Some("m.yaml"),
                vec!["v1/Pod"; 2],
            ),
        ] {
            let input: Input = syn::parse_str(text).unwrap();
            assert_eq!(input.manifest.map(|manifest| manifest.value()).as_deref(), manifest, "{text}");
            assert_eq!(input.entries.iter().map(|entry| entry.kind.as_str()).collect::<Vec<_>>(), kinds, "{text}");
        }
        assert!(syn::parse_str::<Input>(r#""v1/Pod" as a::Pod: []"#).is_err());
        assert!(syn::parse_str::<Input>(r#""v1/Pod": "spec""#).is_err());
    }
}
