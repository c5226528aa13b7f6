;; A library that componentize-py links with Python, so that the memory of the component is the same in each build.
;;
;; It sets variables of the environment before Python starts: hashes without chance, no files of compiled code, and `steady.py` as the
;; first module. It gives a constant to the word that guards the stack. And it stands between Python and the allocator: what Python gets
;; and what it gives back is zero, so that nothing is left of what was there before.
;;
;; Its memory: four pairs of texts, then an allocator (context, malloc, calloc, realloc, free), then room for the three of Python.
(module
  (@dylink.0 (mem-info (memory 144 2) (table 4 0)))
  (import "env" "memory" (memory 0))
  (import "env" "__indirect_function_table" (table 4 funcref))
  (import "env" "__memory_base" (global $data i32))
  (import "env" "__table_base" (global $functions i32))
  (import "GOT.mem" "__stack_chk_guard" (global $guard (mut i32)))
  (import "env" "setenv" (func $setenv (param i32 i32 i32) (result i32)))
  (import "env" "malloc" (func $malloc (param i32) (result i32)))
  (import "env" "free" (func $free (param i32)))
  (import "env" "malloc_usable_size" (func $usable (param i32) (result i32)))
  (import "env" "PyMem_GetAllocator" (func $get_allocator (param i32 i32)))
  (import "env" "PyMem_SetAllocator" (func $set_allocator (param i32 i32)))

  (data (global.get $data) "PYTHONHASHSEED\000\00PYTHONDONTWRITEBYTECODE\001\00PYTHONPATH\00/0/early\00")
  (elem (global.get $functions) $python_malloc $python_calloc $python_realloc $python_free)

  (func $set (param $name i32) (param $value i32)
    (drop (call $setenv
      (i32.add (global.get $data) (local.get $name)) (i32.add (global.get $data) (local.get $value)) (i32.const 1))))

  ;; Where the allocator that Python had for a domain is.
  (func $saved (param $domain i32) (result i32)
    (i32.add (i32.add (global.get $data) (i32.const 84)) (i32.mul (local.get $domain) (i32.const 20))))

  (func (export "__wasm_call_ctors")
    (local $domain i32) (local $ours i32) (local $n i32)
    (call $set (i32.const 0) (i32.const 15))
    (call $set (i32.const 17) (i32.const 41))
    (call $set (i32.const 43) (i32.const 54))
    (i32.store (global.get $guard) (i32.const 0x0aff0d00))
    (local.set $ours (i32.add (global.get $data) (i32.const 64)))
    (loop $each
      (i32.store
        (i32.add (i32.add (local.get $ours) (i32.const 4)) (i32.mul (local.get $n) (i32.const 4)))
        (i32.add (global.get $functions) (local.get $n)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $n) (i32.const 4))))
    (loop $each
      (call $get_allocator (local.get $domain) (call $saved (local.get $domain)))
      (call $set_allocator (local.get $domain) (local.get $ours))
      (local.set $domain (i32.add (local.get $domain) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $domain) (i32.const 3)))))

  ;; Python calls it for `import`. It gives Python its allocators back, and no module.
  (func (export "PyInit_pintle_steady") (result i32)
    (local $domain i32)
    (loop $each
      (call $set_allocator (local.get $domain) (call $saved (local.get $domain)))
      (local.set $domain (i32.add (local.get $domain) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $domain) (i32.const 3))))
    i32.const 0)

  (func $python_malloc (param $context i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (call $malloc (select (local.get $size) (i32.const 1) (local.get $size))))
    (if (local.get $at) (then (memory.fill (local.get $at) (i32.const 0) (call $usable (local.get $at)))))
    (local.get $at))

  (func $python_calloc (param $context i32) (param $n i32) (param $size i32) (result i32)
    (local $bytes i64)
    (local.set $bytes (i64.mul (i64.extend_i32_u (local.get $n)) (i64.extend_i32_u (local.get $size))))
    (if (result i32) (i64.gt_u (local.get $bytes) (i64.const 0x7fffffff))
      (then (i32.const 0))
      (else (call $python_malloc (i32.const 0) (i32.wrap_i64 (local.get $bytes))))))

  (func $python_realloc (param $context i32) (param $at i32) (param $size i32) (result i32)
    (local $new i32) (local $had i32)
    (local.set $new (call $python_malloc (i32.const 0) (local.get $size)))
    (if (i32.and (i32.ne (local.get $new) (i32.const 0)) (i32.ne (local.get $at) (i32.const 0)))
      (then
        (local.set $had (call $usable (local.get $at)))
        (memory.copy (local.get $new) (local.get $at)
          (select (local.get $had) (local.get $size) (i32.lt_u (local.get $had) (local.get $size))))
        (call $python_free (i32.const 0) (local.get $at))))
    (local.get $new))

  (func $python_free (param $context i32) (param $at i32)
    (if (local.get $at)
      (then
        (memory.fill (local.get $at) (i32.const 0) (call $usable (local.get $at)))
        (call $free (local.get $at)))))
)
