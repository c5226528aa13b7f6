// `../README.md` describes this controller. `controller.h` and `controller.c` are what `wit-bindgen c` makes of the contract.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "controller.h"

// A copy, which the bindings free.
static controller_string_t string(const char *text) {
    controller_string_t copy;
    controller_string_dup(&copy, text);
    return copy;
}

// Whether the metadata contains this text. The manifest selects only labels, so that no text of a user can look like a field; a plugin
// that reads more uses a JSON library.
static bool has(const controller_string_t *object, const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= object->len; i++) {
        if (memcmp(object->ptr + i, text, length) == 0) return true;
    }
    return false;
}

// Appends the milliseconds of the clock, and random numbers, as members of a JSON object.
static void append_system(FILE *json) {
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    fprintf(json, ",\"clock\":\"%lld\",\"random\":\"", (long long)clock.tv_sec * 1000 + clock.tv_nsec / 1000000);
    unsigned char random[8] = {0};
    if (getentropy(random, sizeof random) != 0) abort();
    for (size_t i = 0; i < sizeof random; i++) fprintf(json, "%02x", random[i]);
    fputs("\"", json);
}

// The ConfigMap, with what the label `badge` of the Namespace asks for.
static controller_string_t config_map(pintle_controller_view_borrow_lister_t lister, const controller_string_t *namespace) {
    char *text = NULL;
    size_t length = 0;
    FILE *json = open_memstream(&text, &length);
    controller_string_t now;
    pintle_controller_view_method_lister_now(lister, &now);
    fprintf(json, "{\"metadata\":{\"name\":\"badge\"},\"data\":{\"now\":\"%.*s\"", (int)now.len, (const char *)now.ptr);
    controller_string_free(&now);
    append_system(json);
    if (has(namespace, "\"badge\":\"exit\"")) exit(3);
    if (has(namespace, "\"badge\":\"file\"")) {
        FILE *file = fopen("/etc/hostname", "r");
        fprintf(json, ",\"file\":\"%s\"", file ? "opened" : strerror(errno));
    }
    fputs("}}", json);
    fclose(json);
    return (controller_string_t){.ptr = (uint8_t *)text, .len = length};
}

static void reconcile(controller_key_t *key, pintle_controller_view_borrow_lister_t lister, controller_outcome_t *outcome) {
    controller_string_t namespace, old;
    if (!pintle_controller_view_method_lister_get(lister, &key->kind, &key->object, &namespace)) return;
    pintle_controller_types_kind_t kind = {.version = string("v1"), .name = string("ConfigMap")};
    pintle_controller_types_object_key_t badge = {.name = string("badge")};
    controller_string_dup_n(&badge.namespace_, (const char *)key->object.name.ptr, key->object.name.len);
    bool exists = pintle_controller_view_method_lister_get(lister, &kind, &badge, &old);
    if (exists) controller_string_free(&old);
    if (exists || has(&namespace, "\"deletionTimestamp\":\"")) {
        pintle_controller_types_kind_free(&kind);
        pintle_controller_types_object_key_free(&badge);
        controller_string_free(&namespace);
        return;
    }
    printf("a badge for %.*s\n", (int)badge.namespace_.len, (const char *)badge.namespace_.ptr);
    fflush(stdout);

    pintle_controller_types_mutation_t *mutation = calloc(1, sizeof *mutation);
    pintle_controller_types_step_t *step = calloc(1, sizeof *step);
    mutation->action.tag = PINTLE_CONTROLLER_TYPES_ACTION_CREATE;
    mutation->action.val.create = (pintle_controller_types_create_t){
        .kind = kind,
        .namespace_ = badge.namespace_,
        .object = config_map(lister, &namespace),
    };
    step->order = PINTLE_CONTROLLER_TYPES_ORDER_SEQUENTIAL;
    step->mutations = (pintle_controller_types_list_mutation_t){.ptr = mutation, .len = 1};
    outcome->steps = (pintle_controller_types_list_step_t){.ptr = step, .len = 1};
    controller_string_free(&badge.name);
    controller_string_free(&namespace);
}

// The export of the contract. The bindings free the outcome after the host has read it.
bool exports_controller_reconcile(controller_key_t *key, controller_own_lister_t lister, controller_outcome_t *outcome,
                                  controller_reconcile_error_t *error) {
    (void)error;
    *outcome = (controller_outcome_t){0};
    reconcile(key, pintle_controller_view_borrow_lister(lister), outcome);
    pintle_controller_view_lister_drop_own(lister);
    controller_key_free(key);
    return true;
}
