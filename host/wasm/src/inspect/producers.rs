//! The tools that built a component, from the `producers` sections of the component and its modules.
//!
//! The result is informative only, so malformed sections are skipped and excess names are left out.
//!
//! *Source*: `ProducersSection.md` of WebAssembly's tool-conventions.

use std::collections::BTreeMap;

use pintle_core::text::printable;
use wasmparser::{BinaryReader, CustomSectionReader, ProducersSectionReader};

/// Name of the section.
pub(super) const SECTION: &str = "producers";
/// Maximum names kept per component. Tools write about five.
const MAX_NAMES: usize = 32;
/// Maximum bytes of a name or a version.
const MAX_TEXT_BYTES: usize = 100;
/// Maximum bytes of all sections of a component; further sections are skipped. Tools write a few hundred bytes.
const MAX_BYTES: usize = 64 << 10;

/// A language or a tool, with its version, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Producer {
    /// For example `Rust`, `clang`.
    pub name: String,
    /// For example `1.96.0`.
    pub version: String,
}

/// The distinct producers of a component, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    /// The source language, from the component's own section, else from its modules.
    pub languages: Vec<Producer>,
    /// Compilers and other tools, including those that built the language's runtime.
    pub tools: Vec<Producer>,
}

/// The sections read so far.
#[derive(Debug, Default)]
pub(super) struct Sections {
    /// Languages of the component itself.
    own: BTreeMap<String, String>,
    /// Languages of its nested modules and components.
    inner: BTreeMap<String, String>,
    tools: BTreeMap<String, String>,
    n_bytes: usize,
}

impl Sections {
    /// Adds a section; `own`: it belongs to the outermost component.
    pub(super) fn add(&mut self, section: &CustomSectionReader<'_>, own: bool) {
        self.n_bytes += section.data().len();
        if self.n_bytes > MAX_BYTES {
            return;
        }
        let Ok(fields) = ProducersSectionReader::new(BinaryReader::new(section.data(), section.data_offset())) else {
            return;
        };
        for field in fields.into_iter().map_while(Result::ok) {
            let languages = if own { &mut self.own } else { &mut self.inner };
            let into = match field.name {
                "language" => languages,
                "processed-by" | "sdk" => &mut self.tools,
                _ => continue,
            };
            for value in field.values.into_iter().map_while(Result::ok) {
                if into.len() == MAX_NAMES {
                    break;
                }
                let version = printable(value.version, MAX_TEXT_BYTES);
                let known = into.entry(printable(value.name, MAX_TEXT_BYTES)).or_default();
                if known.is_empty() {
                    *known = version;
                }
            }
        }
    }

    pub(super) fn end(self) -> Producers {
        let listed = |named: BTreeMap<String, String>| -> Vec<Producer> {
            named.into_iter().map(|(name, version)| Producer { name, version }).collect()
        };
        Producers {
            languages: listed(if self.own.is_empty() { self.inner } else { self.own }),
            tools: listed(self.tools),
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_encoder::{ProducersField, ProducersSection, Section as _};
    use wasmparser::{Parser, Payload};

    use super::*;

    /// Adds the section of a module.
    fn add(sections: &mut Sections, language: &str, own: bool) {
        let mut module = wasm_encoder::Module::HEADER.to_vec();
        let mut values = ProducersField::new();
        ProducersSection::new().field("language", values.value(language, "")).append_to(&mut module);
        for payload in Parser::new(0).parse_all(&module) {
            if let Payload::CustomSection(section) = payload.unwrap() {
                sections.add(&section, own);
            }
        }
    }

    #[test]
    fn the_sections_of_a_component_take_precedence_over_those_of_its_modules() {
        let mut inner = Sections::default();
        add(&mut inner, "C11", false);
        add(&mut inner, "Assembly", false);
        let names = |sections: Sections| -> Vec<String> {
            sections.end().languages.into_iter().map(|language| language.name).collect()
        };
        assert_eq!(names(inner), ["Assembly", "C11"]);
        let mut both = Sections::default();
        add(&mut both, "C11", false);
        add(&mut both, "Python", true);
        assert_eq!(names(both), ["Python"]);
    }
}
