//! A guest that returns whatever bytes it is given: in hexadecimal, as the name of the key's object.

use std::sync::Arc;

use pintle_core::object::id::{Key, Kind, ObjectKey};
use pintle_core::ports::guest::{Guest, Run};
use pintle_testing::FakeView;
use pintle_tests::components;
use serde_json::json;

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

/// The component.
pub(crate) fn component() -> Vec<u8> {
    let manifest = json!({
        "name": "outcome", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
        "metrics": [{"name": "m", "help": "", "type": "counter"}],
    });
    components::of_text(MODULE, &manifest).unwrap()
}

/// Lets it return these bytes.
pub(crate) async fn run(guest: &dyn Guest, bytes: &[u8]) -> Run {
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = Key { queue: "q".into(), kind: Kind::new("", "v1", "Pod"), object: ObjectKey::new("", &name) };
    guest.reconcile(&key, Arc::new(FakeView::default())).await
}
