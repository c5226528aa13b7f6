/* What the host does in WebAssembly: the log, and the end of a run that is a fault. */
#include <stdio.h>
#include <stdlib.h>

#include "testing.h"

jmp_buf *on_fault;
const char *fault_message;

void pintle_write_log(int level, const char *line) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    fprintf(stderr, "%s: %s\n", levels[level], line);
}

void pintle_trap(const char *line) {
    fault_message = line;
    if (on_fault == NULL) {
        pintle_write_log(PINTLE_LEVEL_ERROR, line);
        abort();
    }
    longjmp(*on_fault, 1);
}

static pintle_json *shown_key(pintle_key key) {
    return pintle_format("{'queue': %s, 'kind': %s, 'namespace': %s, 'name': %s}", key.queue, pintle_kind_text(key.kind), key.ns, key.name);
}

void pintle_add_key(void *keys, pintle_key key) { pintle_append(keys, shown_key(key)); }

void pintle_add_key_after(void *keys, pintle_key key, int64_t after_ms) {
    pintle_json *shown = shown_key(key);
    pintle_set(shown, "afterMs", pintle_new_int(pintle_clamp_ms(after_ms)));
    pintle_append(keys, shown);
}
