//! A guest that returns whatever bytes it is given: in hexadecimal, as the name of the key's object.

use std::sync::Arc;

use pintle_core::contract::manifest::SECTION;
use pintle_core::contract::outcome::{MutationFailure, Need, NeedError};
use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::guest::{Guest, Run};
use pintle_core::ports::view::{Query, View, ViewError};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The place at which the result begins, as the canonical ABI lays it out. Pointers in inputs are absolute.
const MODULE: &str = r#"
(module
  (memory (export "memory") 4)
  (global $heap (mut i32) (i32.const 131072))
  (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and
      (i32.add (global.get $heap) (i32.sub (local.get $align) (i32.const 1)))
      (i32.sub (i32.const 0) (local.get $align))))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  (func $nibble (param $char i32) (result i32)
    (if (result i32) (i32.gt_u (local.get $char) (i32.const 57))
      (then (i32.sub (local.get $char) (i32.const 87)))
      (else (i32.sub (local.get $char) (i32.const 48)))))
  (func (export "reconcile")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (param $name i32) (param $len i32) (param $lister i32) (result i32)
    (local $i i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $len)))
        (i32.store8
          (i32.add (i32.const 1024) (i32.shr_u (local.get $i) (i32.const 1)))
          (i32.or
            (i32.shl (call $nibble (i32.load8_u (i32.add (local.get $name) (local.get $i)))) (i32.const 4))
            (call $nibble (i32.load8_u (i32.add (i32.add (local.get $name) (local.get $i)) (i32.const 1))))))
        (local.set $i (i32.add (local.get $i) (i32.const 2)))
        (br $next)))
    (i32.const 1024)))
"#;

const MANIFEST: &str = r#"{"name": "outcome", "version": "1", "contract": "0.1", "watches": [], "queues": [{"name": "q"}],
  "metrics": [{"name": "m", "help": "", "type": "counter"}]}"#;

/// The component.
pub(crate) fn component() -> Vec<u8> {
    let mut module = wat::parse_str(MODULE).unwrap();
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(pintle_tests::workspace_dir().join("wit")).unwrap();
    let world = resolve.select_world(&[package], Some("controller")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    let mut bytes = ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap();
    CustomSection { name: SECTION.into(), data: MANIFEST.as_bytes().into() }.append_to_component(&mut bytes);
    bytes
}

/// Lets it return these bytes.
pub(crate) async fn run(guest: &dyn Guest, bytes: &[u8]) -> Run {
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = Key { queue: "q".into(), kind: Kind::new("", "v1", "Pod"), object: ObjectKey::new("", &name) };
    guest.reconcile(&key, Arc::new(Nothing)).await
}

/// There is nothing to see.
struct Nothing;

impl View for Nothing {
    fn now(&self) -> &str {
        ""
    }

    fn get(&self, _: &Kind, _: &ObjectKey) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }

    fn list(&self, _: &Kind, _: &Query) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }

    fn count(&self, _: &Kind, _: &Query) -> Result<usize, ViewError> {
        Ok(0)
    }

    fn selecting(&self, _: &Kind, _: &str, _: &[(String, String)]) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }

    fn dependents(&self, _: &str) -> Result<Vec<Arc<str>>, ViewError> {
        Ok(Vec::new())
    }

    fn by_uid(&self, _: &str) -> Result<Option<Arc<str>>, ViewError> {
        Ok(None)
    }

    fn resources(&self) -> Result<Arc<[ApiResource]>, ViewError> {
        Err(ViewError::NoDiscovery)
    }

    fn config(&self) -> Arc<str> {
        "{}".into()
    }

    fn state(&self, _: &str) -> Option<Arc<str>> {
        None
    }

    fn attempt(&self) -> u32 {
        0
    }

    fn failures(&self) -> &[MutationFailure] {
        &[]
    }

    fn answer(&self, _: &Need) -> Option<Result<Arc<str>, NeedError>> {
        None
    }
}
