/* Between the host and the plugin, in WebAssembly: the generated bindings' functions in terms of this SDK. */
#ifdef __wasm__

#include <string.h>

#include "../wit/mapping_controller.h"
#include "internal.h"

typedef mapping_controller_string_t wit_string;
typedef pintle_controller_view_borrow_lister_t handle;

/* ---- Memory: all of a run's is the arena's, what the host hands over included ---- */

/* With room for a NUL behind it, so that texts of the host need no copy. */
__attribute__((__export_name__("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    if (size == 0) {
        return (void *)align;
    }
    char *memory = pintle_alloc(size + 1);
    if (old_size > 0) {
        memcpy(memory, old, old_size < size ? old_size : size);
    }
    return memory;
}

/* In place of the generated ones, which free piece by piece. */
__attribute__((__export_name__("cabi_post_reconcile"))) void __wasm_export_exports_mapping_controller_reconcile_post_return(uint8_t *result) {
    (void)result;
    pintle_reset();
}

__attribute__((__export_name__("cabi_post_pintle:controller/mapping@0.2.0#keys-of"))) void
__wasm_export_exports_pintle_controller_mapping_keys_of_post_return(uint8_t *result) {
    (void)result;
    pintle_reset();
}

/* The bindings ask for an object file that says which world this is. pintle build says that instead, by the manifest. */
void __component_type_object_force_link_mapping_controller(void) {}

/* ---- Texts and names ---- */

static wit_string to_wit(const char *text) {
    text = text == NULL ? "" : text;
    return (wit_string){(uint8_t *)text, strlen(text)};
}

static mapping_controller_option_string_t to_option(const char *text) {
    return (mapping_controller_option_string_t){text != NULL && text[0] != 0, to_wit(text)};
}

static const char *from_wit(wit_string text) { return text.len == 0 ? "" : (const char *)text.ptr; }

static pintle_controller_types_kind_t to_kind(pintle_kind kind) {
    return (pintle_controller_types_kind_t){to_wit(kind.group), to_wit(kind.version), to_wit(kind.name)};
}

static pintle_kind from_kind(pintle_controller_types_kind_t kind) {
    return (pintle_kind){from_wit(kind.group), from_wit(kind.version), from_wit(kind.name)};
}

static pintle_controller_types_object_key_t to_object_key(const char *ns, const char *name) {
    return (pintle_controller_types_object_key_t){to_wit(ns), to_wit(name)};
}

/* Within the contract's range. */
static uint32_t to_number(int64_t number) { return number < 0 ? 0 : number > INT32_MAX ? INT32_MAX : (uint32_t)number; }

static mapping_controller_list_string_t to_texts(const char *const *texts, size_t n) {
    mapping_controller_list_string_t list = {pintle_alloc(n * sizeof *list.ptr), n};
    for (size_t i = 0; i < n; i++) {
        list.ptr[i] = to_wit(texts[i]);
    }
    return list;
}

static mapping_controller_option_u32_t to_milliseconds(int64_t ms) { return (mapping_controller_option_u32_t){ms >= 0, to_number(ms)}; }

static pintle_controller_types_wake_t to_wake(pintle_key key, int64_t after_ms) {
    return (pintle_controller_types_wake_t){
        {to_wit(key.queue), to_kind(key.kind), to_object_key(key.ns, key.name)}, to_milliseconds(after_ms)};
}

static wit_string to_body(const pintle_json *body) { return to_wit(pintle_write(body)); }

/* ---- What is running, for the log ---- */

static const char *running = "";

void pintle_write_log(int level, const char *line) {
    wit_string text = to_wit(line);
    pintle_controller_log_write((uint8_t)level, &text);
}

void pintle_trap(const char *line) {
    static char message[1024];
    size_t length = strlen(line) < 700 ? strlen(line) : 700;
    /* Without the arena, which may be why. */
    memcpy(message, line, length);
    strcpy(message + length, " (");
    strncat(message, running, 300);
    strcat(message, ")");
    pintle_write_log(PINTLE_LEVEL_ERROR, message);
    __builtin_trap();
}

/* ---- The host's lister ---- */

static handle of_host(void *of) { return *(handle *)of; }

static pintle_json *parse(wit_string text) {
    pintle_json *value = pintle_parse(from_wit(text), text.len);
    if (value == NULL) {
        pintle_trap("panic: the host handed over what is no JSON, or is nested too deeply");
    }
    return value;
}

static pintle_json *parse_all(mapping_controller_list_string_t texts) {
    pintle_json *list = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < texts.len; i++) {
        pintle_append(list, parse(texts.ptr[i]));
    }
    return list;
}

static pintle_json *text_value(wit_string text) { return pintle_new_text(from_wit(text), text.len); }

static pintle_json *text_values(mapping_controller_list_string_t texts) {
    pintle_json *list = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < texts.len; i++) {
        pintle_append(list, text_value(texts.ptr[i]));
    }
    return list;
}

static const char *host_now(void *of) {
    wit_string text;
    pintle_controller_view_method_lister_now(of_host(of), &text);
    return from_wit(text);
}

static double host_uptime(void *of) { return pintle_controller_view_method_lister_uptime(of_host(of)); }

static pintle_json *host_get(void *of, pintle_kind kind, const char *ns, const char *name) {
    pintle_controller_view_kind_t k = to_kind(kind);
    pintle_controller_view_object_key_t object = to_object_key(ns, name);
    wit_string text;
    return pintle_controller_view_method_lister_get(of_host(of), &k, &object, &text) ? parse(text) : NULL;
}

static pintle_controller_view_query_t to_query(pintle_query query) {
    pintle_controller_view_query_t converted = {
        .namespace_ = to_option(query.ns),
        .label_selector = to_option(query.label_selector),
        .whole = query.whole,
    };
    if (query.owned_by != PINTLE_ANYBODY) {
        converted.owner.is_some = true;
        /* In the order of the contract. All of the cases have the same type. */
        converted.owner.val.tag = (uint8_t)(query.owned_by - PINTLE_CONTROLLER);
        converted.owner.val.val.any = to_wit(query.owner_uid);
    }
    if (query.index != NULL) {
        converted.index.is_some = true;
        converted.index.val = (pintle_controller_view_index_query_t){to_wit(query.index), to_wit(query.index_value)};
    }
    return converted;
}

static pintle_json *host_list(void *of, pintle_kind kind, pintle_query query) {
    pintle_controller_view_kind_t k = to_kind(kind);
    pintle_controller_view_query_t q = to_query(query);
    mapping_controller_list_string_t texts;
    pintle_controller_view_method_lister_list(of_host(of), &k, &q, &texts);
    return parse_all(texts);
}

static uint32_t host_count(void *of, pintle_kind kind, pintle_query query) {
    pintle_controller_view_kind_t k = to_kind(kind);
    pintle_controller_view_query_t q = to_query(query);
    return pintle_controller_view_method_lister_count(of_host(of), &k, &q);
}

static pintle_json *host_selecting(void *of, pintle_kind kind, const char *ns, const pintle_json *labels) {
    pintle_controller_view_kind_t k = to_kind(kind);
    wit_string space = to_wit(ns);
    size_t length = pintle_length(labels);
    mapping_controller_list_tuple2_string_string_t pairs = {pintle_alloc(length * sizeof *pairs.ptr), length};
    for (size_t i = 0; i < length; i++) {
        pairs.ptr[i] = (mapping_controller_tuple2_string_string_t){
            to_wit(pintle_name(labels, i)), to_wit(pintle_text(pintle_item(labels, i), ""))};
    }
    mapping_controller_list_string_t texts;
    pintle_controller_view_method_lister_selecting(of_host(of), &k, &space, &pairs, &texts);
    return parse_all(texts);
}

static pintle_json *host_dependents(void *of, const char *uid) {
    wit_string text = to_wit(uid);
    mapping_controller_list_string_t texts;
    pintle_controller_view_method_lister_dependents(of_host(of), &text, &texts);
    return parse_all(texts);
}

static pintle_json *host_by_uid(void *of, const char *uid) {
    wit_string text = to_wit(uid), object;
    return pintle_controller_view_method_lister_by_uid(of_host(of), &text, &object) ? parse(object) : NULL;
}

static pintle_json *from_resources(pintle_controller_view_list_api_resource_t resources) {
    pintle_json *list = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < resources.len; i++) {
        const pintle_controller_view_api_resource_t *r = &resources.ptr[i];
        pintle_append(
            list, pintle_format(
                      "{'kind': %s, 'plural': %j, 'namespaced': %b, 'verbs': %j, 'subresources': %j, 'preferred': %b}",
                      pintle_kind_text(from_kind(r->kind)), text_value(r->plural), r->namespaced, text_values(r->verbs),
                      text_values(r->subresources), r->preferred));
    }
    return list;
}

static pintle_json *host_resources(void *of) {
    pintle_controller_view_list_api_resource_t resources;
    pintle_controller_view_method_lister_resources(of_host(of), &resources);
    return from_resources(resources);
}

static pintle_json *host_resources_of(void *of, const char *group, const char *name) {
    wit_string of_group = to_wit(group), of_name = to_wit(name);
    pintle_controller_view_list_api_resource_t resources;
    pintle_controller_view_method_lister_resources_of(of_host(of), &of_group, &of_name, &resources);
    return from_resources(resources);
}

static pintle_json *host_config(void *of) {
    wit_string text;
    pintle_controller_view_method_lister_config(of_host(of), &text);
    return parse(text);
}

static const char *host_state(void *of, const char *name) {
    wit_string text = to_wit(name), value;
    return pintle_controller_view_method_lister_state(of_host(of), &text, &value) ? from_wit(value) : NULL;
}

static uint32_t host_attempt(void *of) { return pintle_controller_view_method_lister_attempt(of_host(of)); }

static pintle_json *host_failures(void *of) {
    pintle_controller_view_list_mutation_failure_t failures;
    pintle_controller_view_method_lister_failures(of_host(of), &failures);
    pintle_json *list = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < failures.len; i++) {
        const pintle_controller_view_mutation_failure_t *f = &failures.ptr[i];
        pintle_append(
            list,
            pintle_format(
                "{'step': %i, 'position': %i, 'verb': %j, 'kind': %s, 'object': {'namespace': %j, 'name': %j}, 'subresource': %j,"
                " 'code': %i, 'reason': %j, 'message': %j, 'causes': %j}",
                (int64_t)f->step, (int64_t)f->position, text_value(f->verb), pintle_kind_text(from_kind(f->kind)),
                text_value(f->object.namespace_), text_value(f->object.name),
                f->subresource.is_some ? text_value(f->subresource.val) : NULL, (int64_t)f->code, text_value(f->reason),
                text_value(f->message), text_values(f->causes)));
    }
    return list;
}

static pintle_controller_types_need_t to_need(pintle_need need) {
    pintle_controller_types_need_t converted = {.tag = (uint8_t)need.type};
    size_t n_usages = 0;
    switch (need.type) {
    case PINTLE_LIVE_OBJECT:
        converted.val.live_object = (pintle_controller_types_live_object_t){
            to_kind(need.kind), to_object_key(need.ns, need.name), to_option(need.subresource)};
        break;
    case PINTLE_LIVE_LIST:
        converted.val.live_list = (pintle_controller_types_live_list_t){
            to_kind(need.kind), to_wit(need.ns), to_option(need.label_selector), to_option(need.field_selector), (uint8_t)need.detail,
            to_number(need.limit)};
        break;
    case PINTLE_RAW_PATH:
        converted.val.raw_path = to_wit(need.path);
        break;
    case PINTLE_DISCOVERY:
        break;
    case PINTLE_REVIEW:
        converted.val.review = (pintle_controller_types_review_t){to_kind(need.kind), to_wit(need.ns), to_body(need.body)};
        break;
    case PINTLE_SIGN_JWT:
        converted.val.sign_jwt = (pintle_controller_types_sign_jwt_t){to_wit(need.key), to_body(need.body)};
        break;
    case PINTLE_SIGN_CERTIFICATE:
        while (need.usages != NULL && need.usages[n_usages] != NULL) {
            n_usages++;
        }
        converted.val.sign_certificate = (pintle_controller_types_sign_certificate_t){
            to_wit(need.authority), to_wit(need.request), to_texts(need.usages, n_usages), to_wit(need.not_before), to_wit(need.not_after)};
        break;
    case PINTLE_CALL:
        converted.val.call = (pintle_controller_types_call_t){
            to_wit(need.endpoint), to_wit(need.operation), to_body(need.body), to_milliseconds(need.timeout_ms > 0 ? need.timeout_ms : -1)};
        break;
    }
    return converted;
}

static pintle_answer host_answer(void *of, pintle_need need) {
    pintle_controller_view_need_t n = to_need(need);
    pintle_controller_view_result_string_api_error_t result;
    if (!pintle_controller_view_method_lister_answer(of_host(of), &n, &result)) {
        return (pintle_answer){0};
    }
    if (!result.is_err) {
        /* All other answers are JSON. */
        bool is_text = need.type == PINTLE_SIGN_JWT || need.type == PINTLE_SIGN_CERTIFICATE;
        return (pintle_answer){.is_answered = true, .body = is_text ? text_value(result.val.ok) : parse(result.val.ok)};
    }
    pintle_controller_view_api_error_t refusal = result.val.err;
    return (pintle_answer){
        .is_answered = true,
        .code = refusal.code == 0 ? -1 : (int)refusal.code,
        .body = pintle_format("{'reason': %j, 'message': %j}", text_value(refusal.reason), text_value(refusal.message)),
    };
}

static const pintle_lister_functions host_functions = {
    host_now,    host_uptime,    host_get,          host_list,   host_count, host_selecting, host_dependents,
    host_by_uid, host_resources, host_resources_of, host_config, host_state, host_attempt,   host_failures,   host_answer,
};

/* ---- Outcomes ---- */

static pintle_controller_types_event_t to_event(const pintle_event *event) {
    return (pintle_controller_types_event_t){
        to_kind(event->kind), to_object_key(event->ns, event->name), to_wit(event->uid),
        event->type == PINTLE_WARNING ? PINTLE_CONTROLLER_TYPES_EVENT_TYPE_WARNING : PINTLE_CONTROLLER_TYPES_EVENT_TYPE_NORMAL,
        to_wit(event->reason), to_wit(event->message)};
}

static pintle_controller_types_option_event_t to_optional_event(const pintle_event *event) {
    pintle_controller_types_option_event_t converted = {.is_some = event != NULL};
    if (event != NULL) {
        converted.val = to_event(event);
    }
    return converted;
}

static pintle_controller_types_action_t to_action(const pintle_mutation *m) {
    pintle_controller_types_action_t action = {.tag = (uint8_t)m->verb};
    pintle_controller_types_preconditions_t preconditions = {to_option(m->uid), to_option(m->resource_version)};
    pintle_controller_types_option_propagation_t propagation = {
        m->propagation != PINTLE_DEFAULT_PROPAGATION, (uint8_t)(m->propagation - PINTLE_BACKGROUND)};
    pintle_controller_types_patch_type_t form = {.tag = (uint8_t)m->patch_type};
    switch (m->verb) {
    case PINTLE_CREATE:
        action.val.create =
            (pintle_controller_types_create_t){to_kind(m->kind), to_wit(m->ns), to_body(m->body), to_option(m->subresource)};
        break;
    case PINTLE_UPDATE:
        action.val.update = (pintle_controller_types_update_t){to_kind(m->kind), to_body(m->body), to_option(m->subresource)};
        break;
    case PINTLE_PATCH:
        if (m->patch_type == PINTLE_APPLY_PATCH) {
            form.val.apply = (pintle_controller_types_apply_t){to_wit(m->field_manager), m->force};
        }
        action.val.patch = (pintle_controller_types_patch_t){
            to_kind(m->kind), to_object_key(m->ns, m->name), to_option(m->subresource), form, to_body(m->body), preconditions};
        break;
    case PINTLE_DELETE:
        action.val.delete_ = (pintle_controller_types_delete_t){
            to_kind(m->kind), to_object_key(m->ns, m->name), preconditions, propagation,
            {m->grace_period_seconds >= 0, to_number(m->grace_period_seconds)}};
        break;
    case PINTLE_DELETE_COLLECTION:
        action.val.delete_collection = (pintle_controller_types_delete_collection_t){
            to_kind(m->kind), to_wit(m->ns), to_option(m->label_selector), propagation};
        break;
    case PINTLE_EVENT:
        action.val.event = to_event(m->event);
        break;
    }
    return action;
}

static pintle_controller_types_mutation_t to_mutation(const pintle_mutation *m) {
    pintle_controller_types_mutation_t converted = {
        .action = to_action(m), .on_success = to_optional_event(m->on_success), .on_failure = to_optional_event(m->on_failure)};
    converted.tolerate.ptr = pintle_alloc(6);
    for (uint8_t refusal = 0; refusal < 6; refusal++) {
        if (m->tolerate & (1u << refusal)) {
            converted.tolerate.ptr[converted.tolerate.len++] = refusal;
        }
    }
    return converted;
}

static pintle_controller_types_step_t to_step(const pintle_step *step) {
    size_t length = step->mutations.length;
    pintle_controller_types_step_t converted = {.order = (uint8_t)step->order, .always = step->always};
    converted.mutations = (pintle_controller_types_list_mutation_t){pintle_alloc(length * sizeof *converted.mutations.ptr), length};
    for (size_t i = 0; i < length; i++) {
        converted.mutations.ptr[i] = to_mutation(step->mutations.items[i]);
    }
    return converted;
}

static pintle_controller_types_moment_t to_moment(pintle_moment moment, pintle_place place) {
    pintle_controller_types_moment_t converted = {.tag = (uint8_t)moment};
    if (moment != PINTLE_ACCEPTED) {
        /* Both of the cases have the same type. */
        converted.val.done = (pintle_controller_types_place_t){place.step, place.position};
    }
    return converted;
}

static pintle_controller_types_reconcile_error_t to_error(const pintle_outcome *failed) {
    pintle_controller_types_reconcile_error_t error = {
        .tag = failed->is_terminal ? PINTLE_CONTROLLER_TYPES_RECONCILE_ERROR_TERMINAL : PINTLE_CONTROLLER_TYPES_RECONCILE_ERROR_RETRY};
    if (failed->is_terminal) {
        error.val.terminal = to_wit(failed->message);
    } else {
        error.val.retry = (pintle_controller_types_retry_t){to_wit(failed->message), to_milliseconds(failed->after_ms)};
    }
    return error;
}

static void to_outcome(const pintle_outcome *outcome, pintle_controller_types_outcome_t *to) {
    *to = (pintle_controller_types_outcome_t){
        .needs = {pintle_alloc(outcome->n_needs * sizeof *to->needs.ptr), outcome->n_needs},
        .steps = {pintle_alloc(outcome->n_steps * sizeof *to->steps.ptr), outcome->n_steps},
        .requeue_after_ms = to_milliseconds(outcome->after_ms),
        .state = {pintle_alloc(outcome->n_state * sizeof *to->state.ptr), outcome->n_state},
        .observations = {pintle_alloc(outcome->n_observations * sizeof *to->observations.ptr), outcome->n_observations},
        .wake = {pintle_alloc(outcome->n_wakes * sizeof *to->wake.ptr), outcome->n_wakes},
        .run_labels = {pintle_alloc(outcome->n_run_labels * sizeof *to->run_labels.ptr), outcome->n_run_labels},
    };
    for (size_t i = 0; i < outcome->n_needs; i++) {
        to->needs.ptr[i] = to_need(outcome->needs[i]);
    }
    for (size_t i = 0; i < outcome->n_steps; i++) {
        to->steps.ptr[i] = to_step(&outcome->steps[i]);
    }
    for (size_t i = 0; i < outcome->n_state; i++) {
        const char *value = outcome->state[i].value;
        to->state.ptr[i] = (pintle_controller_types_state_write_t){to_wit(outcome->state[i].name), {value != NULL, to_wit(value)}};
    }
    for (size_t i = 0; i < outcome->n_observations; i++) {
        const pintle_observation *sample = &outcome->observations[i];
        to->observations.ptr[i] = (pintle_controller_types_observation_t){
            to_wit(sample->metric), to_texts(sample->labels, sample->n_labels), sample->value, to_moment(sample->moment, sample->place)};
    }
    for (size_t i = 0; i < outcome->n_wakes; i++) {
        to->wake.ptr[i] = to_wake(outcome->wakes[i].key, outcome->wakes[i].after_ms);
    }
    for (size_t i = 0; i < outcome->n_run_labels; i++) {
        to->run_labels.ptr[i] =
            (mapping_controller_tuple2_string_string_t){to_wit(outcome->run_labels[i].name), to_wit(outcome->run_labels[i].value)};
    }
    if (outcome->error != NULL) {
        to->error.is_some = true;
        to->error.val = to_error(outcome->error);
    }
}

/* ---- Exports ---- */

bool exports_mapping_controller_reconcile(
    mapping_controller_key_t *key, mapping_controller_own_lister_t own, mapping_controller_outcome_t *outcome,
    mapping_controller_reconcile_error_t *error) {
    pintle_key k = {
        from_wit(key->queue), from_kind(key->kind), from_wit(key->object.namespace_), from_wit(key->object.name)};
    running = pintle_printf("key %s %s", pintle_kind_text(k.kind), pintle_full_name(k.ns, k.name));
    handle borrowed = pintle_controller_view_borrow_lister(own);
    pintle_lister lister = {.functions = &host_functions, .of = &borrowed};
    const pintle_outcome *result = pintle_exported_reconcile(&k, &lister);
    pintle_controller_view_lister_drop_own(own);
    running = "";
    if (result == NULL) {
        result = pintle_outcome_new();
    }
    if (result->message == NULL) {
        to_outcome(result, outcome);
        return true;
    }
    *error = to_error(result);
    return false;
}

typedef struct {
    exports_pintle_controller_mapping_wake_t *items;
    size_t length, capacity;
} key_list;

static void add_key(void *keys, pintle_key key, int64_t after_ms) {
    key_list *list = keys;
    PINTLE_GROW(list->items, list->length, list->capacity);
    list->items[list->length++] = to_wake(key, after_ms);
}

void pintle_add_key(void *keys, pintle_key key) { add_key(keys, key, -1); }

void pintle_add_key_after(void *keys, pintle_key key, int64_t after_ms) { add_key(keys, key, pintle_clamp_ms(after_ms)); }

void exports_pintle_controller_mapping_keys_of(
    exports_pintle_controller_mapping_kind_t *kind, wit_string *old, wit_string *fresh,
    exports_pintle_controller_mapping_own_lister_t own, exports_pintle_controller_mapping_list_wake_t *keys) {
    pintle_kind k = from_kind(*kind);
    running = pintle_printf("mapping of %s", pintle_kind_text(k));
    handle borrowed = pintle_controller_view_borrow_lister(own);
    pintle_lister lister = {.functions = &host_functions, .of = &borrowed};
    key_list list = {0};
    pintle_exported_mapping(k, old == NULL ? NULL : parse(*old), fresh == NULL ? NULL : parse(*fresh), &lister, &list);
    pintle_controller_view_lister_drop_own(own);
    running = "";
    *keys = (exports_pintle_controller_mapping_list_wake_t){list.items, list.length};
}

/* For plugins without a mapping. Their world has none either, so nobody calls it, unless the manifest says to: plugin. */
__attribute__((__weak__)) void pintle_exported_mapping(
    pintle_kind kind, const pintle_json *old, const pintle_json *fresh, pintle_lister *lister, void *keys) {
    (void)kind, (void)old, (void)fresh, (void)lister, (void)keys;
    pintle_trap("panic: the manifest maps changes with to: plugin, but the program has no PINTLE_EXPORT_MAPPING");
}

#endif
