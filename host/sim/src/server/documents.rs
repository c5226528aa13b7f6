//! The OpenAPI documents, built once per registry.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pintle_core::kubernetes;

use super::Api;
use super::reply::Reply;
use crate::discovery::{Registry, Resource};
use crate::openapi::{self, Served};

/// Media type of the version 2 document, which kubectl reads for kinds that version 3 does not have.
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The version 2 document, without kinds: `swagger: "2.0"` and the title and version of `info`.
fn v2() -> Bytes {
    /// A field whose value has a length of less than 128 bytes.
    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, value.len() as u8], value].concat()
    }
    let info = [field(1, b"pintle"), field(2, kubernetes::minor().as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info)].concat().into()
}

/// Documents by path, and the registry that they describe.
#[derive(Default)]
pub(crate) struct OpenApiCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    of: Option<Arc<Registry>>,
    /// Only valid paths, so that invalid ones take no memory.
    documents: HashMap<String, Bytes>,
}

impl Api {
    /// The OpenAPI document at a path, if any.
    pub(crate) fn open_api(&self, path: &str) -> Option<Reply> {
        let rest = path.strip_prefix("/openapi/")?;
        if rest == "v2" {
            return Some(Reply::bytes(200, PROTOBUF_V2, v2()));
        }
        let registry = self.registry();
        let mut cache = self.open_api_cache.0.lock();
        if !cache.of.as_ref().is_some_and(|known| Arc::ptr_eq(known, &registry)) {
            *cache = Cached { of: Some(Arc::clone(&registry)), documents: HashMap::new() };
        }
        let document = match cache.documents.get(rest) {
            Some(document) => document.clone(),
            None => {
                let document = document(&registry, rest)?;
                cache.documents.insert(rest.to_owned(), document.clone());
                document
            }
        };
        Some(Reply::bytes(200, "application/json", document))
    }
}

fn document(registry: &Registry, rest: &str) -> Option<Bytes> {
    let served: Vec<Served> = registry.resources().iter().map(|resource| served(resource)).collect();
    match rest {
        "v3" => Some(openapi::v3_index(&served).to_string().into()),
        _ => openapi::v3_group(rest.strip_prefix("v3/")?, &served),
    }
}

fn served(resource: &Resource) -> Served {
    Served {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespaced: resource.namespaced,
        subresources: resource.subresources.iter().map(|sub| sub.name.clone()).collect(),
        custom: resource.crd.as_ref().map(|crd| crd.open_api.clone()),
    }
}
