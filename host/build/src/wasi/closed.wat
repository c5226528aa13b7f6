;; A closed `wasi_snapshot_preview1` for the run-time libraries of languages: it imports the guest's memory and nothing else, so that a
;; component has no way out but the contract. The clock and chance are the same in every instance, which keeps runs repeatable; files
;; and sockets are not there; what is written to standard output and error is dropped.
;;
;; wit-component leaves out what a module does not call.
(module
  (import "env" "memory" (memory 0))
  ;; Nanoseconds. They move only when they are read or waited for.
  (global $now (mut i64) (i64.const 1700000000000000000))
  (global $wall (mut i64) (i64.const 1700000000000000000))
  (global $seed (mut i64) (i64.const 0x9E3779B97F4A7C15))

  ;; Results: 0 is success, 8 is "no such descriptor".
  (func (export "sched_yield") (result i32) i32.const 0)
  (func (export "proc_exit") (param i32) unreachable)
  (func (export "proc_raise") (param i32) (result i32) unreachable)

  ;; One argument, the name of the program: libraries of Go (klog, and so k8s.io/api) read it as they begin.
  (func (export "args_sizes_get") (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 1))
    (i32.store (local.get $size) (i32.const 7))
    i32.const 0)
  (func (export "args_get") (param $arguments i32) (param $text i32) (result i32)
    (i32.store (local.get $arguments) (local.get $text))
    ;; "plug", "in" and a NUL.
    (i32.store (local.get $text) (i32.const 0x67756c70))
    (i32.store16 offset=4 (local.get $text) (i32.const 0x6e69))
    (i32.store8 offset=6 (local.get $text) (i32.const 0))
    i32.const 0)

  ;; No variables of the environment.
  (func (export "environ_get") (param i32 i32) (result i32) i32.const 0)
  (func (export "environ_sizes_get") (param i32 i32) (result i32)
    (i32.store (local.get 0) (i32.const 0))
    (i32.store (local.get 1) (i32.const 0))
    i32.const 0)

  (func (export "clock_res_get") (param i32 i32) (result i32)
    (i64.store (local.get 1) (i64.const 1000))
    i32.const 0)
  ;; The wall clock (0) shows another day and another time of day whenever it is read, so that `pintle test` sees what looks at it.
  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $at i32) (result i32)
    (global.set $now (i64.add (global.get $now) (i64.const 1000)))
    (if (i32.eqz (local.get $clock))
      (then
        ;; A day, an hour, a minute and a bit more than a second.
        (global.set $wall (i64.add (global.get $wall) (i64.const 90061001001001)))
        (i64.store (local.get $at) (global.get $wall)))
      (else
        (i64.store (local.get $at) (global.get $now))))
    i32.const 0)
  ;; Go's run-time library calls it around collections, for an adapter whose clock is an import.
  (func (export "adapter_monotonic_clock_set_paused") (param i32))

  ;; xorshift64.
  (func (export "random_get") (param $at i32) (param $length i32) (result i32)
    (local $i i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $length)))
        (global.set $seed (i64.xor (global.get $seed) (i64.shl (global.get $seed) (i64.const 13))))
        (global.set $seed (i64.xor (global.get $seed) (i64.shr_u (global.get $seed) (i64.const 7))))
        (global.set $seed (i64.xor (global.get $seed) (i64.shl (global.get $seed) (i64.const 17))))
        (i64.store8 (i32.add (local.get $at) (local.get $i)) (global.get $seed))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    i32.const 0)

  ;; All is taken as written: the lengths of the parts are added up.
  (func (export "fd_write") (param $descriptor i32) (param $parts i32) (param $count i32) (param $written i32) (result i32)
    (local $total i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $total (i32.add (local.get $total) (i32.load offset=4 (local.get $parts))))
        (local.set $parts (i32.add (local.get $parts) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $total))
    i32.const 0)

  ;; Each subscription (48 bytes) is an event (32 bytes) at once, and a millisecond has passed.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $events i32) (result i32)
    (local $i i32)
    (global.set $now (i64.add (global.get $now) (i64.const 1000000)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
        (i64.store (local.get $out) (i64.load (local.get $in)))
        (i64.store offset=8 (local.get $out) (i64.const 0))
        (i64.store offset=16 (local.get $out) (i64.const 0))
        (i64.store offset=24 (local.get $out) (i64.const 0))
        (local.set $in (i32.add (local.get $in) (i32.const 48)))
        (local.set $out (i32.add (local.get $out) (i32.const 32)))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $events) (local.get $count))
    i32.const 0)

  ;; There is no open descriptor.
  (func $no_descriptor_1 (param i32) (result i32) i32.const 8)
  (func $no_descriptor_2 (param i32 i32) (result i32) i32.const 8)
  (func $no_descriptor_3 (param i32 i32 i32) (result i32) i32.const 8)
  (func $no_descriptor_4 (param i32 i32 i32 i32) (result i32) i32.const 8)
  (func $no_descriptor_range (param i32 i64 i64) (result i32) i32.const 8)
  (func $no_descriptor_size (param i32 i64) (result i32) i32.const 8)
  (func $no_descriptor_at (param i32 i32 i32 i64 i32) (result i32) i32.const 8)
  (export "fd_close" (func $no_descriptor_1))
  (export "fd_datasync" (func $no_descriptor_1))
  (export "fd_sync" (func $no_descriptor_1))
  (export "fd_fdstat_get" (func $no_descriptor_2))
  (export "fd_fdstat_set_flags" (func $no_descriptor_2))
  (export "fd_filestat_get" (func $no_descriptor_2))
  (export "fd_prestat_get" (func $no_descriptor_2))
  (export "fd_renumber" (func $no_descriptor_2))
  (export "fd_tell" (func $no_descriptor_2))
  (export "fd_prestat_dir_name" (func $no_descriptor_3))
  (export "fd_read" (func $no_descriptor_4))
  (export "fd_pread" (func $no_descriptor_at))
  (export "fd_pwrite" (func $no_descriptor_at))
  (export "fd_readdir" (func $no_descriptor_at))
  (export "fd_allocate" (func $no_descriptor_range))
  (export "fd_fdstat_set_rights" (func $no_descriptor_range))
  (export "fd_filestat_set_size" (func $no_descriptor_size))
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) i32.const 8)
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) i32.const 8)
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) i32.const 8)
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) i32.const 8)
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) i32.const 8)
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) i32.const 8)
  (func (export "sock_accept") (param i32 i32 i32) (result i32) i32.const 8)
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) i32.const 8)
  (func (export "sock_shutdown") (param i32 i32) (result i32) i32.const 8))
