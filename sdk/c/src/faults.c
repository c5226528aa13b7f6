/* Mistakes that C does not notice by itself, told with file and line: what clang's checks of undefined behaviour call, as pintle build
 * compiles plugins with some of them (host/build/src/c.rs), and what the C library calls where it would end the program without a word. */
#ifdef __wasm__

#include "internal.h"

/* The data of the checks, as compiler-rt/lib/ubsan/ubsan_handlers.h lays it out. */
typedef struct {
    const char *file;
    uint32_t line, column;
} place;

typedef struct {
    uint16_t kind, info;
    char name[];
} type;

typedef struct {
    place at;
    const type *of;
    unsigned char log_alignment, access;
} type_mismatch;

typedef struct {
    place at;
    const type *array, *index;
} out_of_bounds;

typedef struct {
    place at;
    const type *of;
} of_type;

#define PANIC(data, ...) pintle_panic((data)->at.file, (int)(data)->at.line, __VA_ARGS__)

_Noreturn void __ubsan_handle_type_mismatch_v1_abort(const type_mismatch *data, uintptr_t pointer) {
    (void)pointer;
    PANIC(data, "a NULL pointer to %s is followed", data->of->name);
}

_Noreturn void __ubsan_handle_out_of_bounds_abort(const out_of_bounds *data, uintptr_t index) {
    PANIC(data, "index %zd is outside of %s", (intptr_t)index, data->array->name);
}

_Noreturn void __ubsan_handle_divrem_overflow_abort(const of_type *data, uintptr_t left, uintptr_t right) {
    (void)left, (void)right;
    PANIC(data, "a division by zero, or one whose result does not fit %s", data->of->name);
}

_Noreturn void __ubsan_handle_builtin_unreachable(const of_type *data) {
    PANIC(data, "the program has come to where it says that it never comes");
}

/* What assert() calls. */
_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function) {
    pintle_panic(file, line, "assertion failed in %s: %s", function, expression);
}

_Noreturn void abort(void) { pintle_trap("panic: abort() was called; PINTLE_PANIC(...) would tell why and where"); }

#endif
