/* Names, mutations and outcomes. */
#include <string.h>

#include "internal.h"

bool pintle_same_text(const char *a, const char *b) { return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0; }

bool pintle_same_kind(pintle_kind a, pintle_kind b) {
    return pintle_same_text(a.group, b.group) && pintle_same_text(a.version, b.version) && pintle_same_text(a.name, b.name);
}

static pintle_kind kind_from(const char *api_version, const char *name) {
    const char *slash = strchr(api_version, '/');
    if (slash == NULL) {
        return (pintle_kind){"", api_version, name};
    }
    return (pintle_kind){pintle_copy_text(api_version, (size_t)(slash - api_version)), slash + 1, name};
}

pintle_kind pintle_kind_of(const pintle_json *object) {
    return kind_from(pintle_text(pintle_at(object, "apiVersion"), ""), pintle_text(pintle_at(object, "kind"), ""));
}

pintle_kind pintle_kind_parse(const char *text) {
    const char *slash = strrchr(text, '/');
    if (slash == NULL || slash == text || slash[1] == 0) {
        PINTLE_PANIC("%s is not a kind such as v1/Pod or apps/v1/ReplicaSet", text);
    }
    return kind_from(pintle_copy_text(text, (size_t)(slash - text)), slash + 1);
}

const char *pintle_api_version(pintle_kind kind) {
    return pintle_same_text(kind.group, "") ? kind.version : pintle_printf("%s/%s", kind.group, kind.version);
}

const char *pintle_kind_text(pintle_kind kind) { return pintle_printf("%s/%s", pintle_api_version(kind), kind.name); }

const char *pintle_full_name(const char *ns, const char *name) {
    return pintle_same_text(ns, "") ? name : pintle_printf("%s/%s", ns, name);
}

static const pintle_kind TICK = {"pintle", "v1", "Tick"};

pintle_key pintle_tick_key(const char *queue) { return (pintle_key){queue, TICK, "", queue}; }

bool pintle_is_tick(const pintle_key *key) { return pintle_same_kind(key->kind, TICK); }

static pintle_mutation *mutation(pintle_verb verb, pintle_kind kind, const char *ns, const char *name, pintle_json *body) {
    pintle_mutation *made = pintle_alloc(sizeof *made);
    *made = (pintle_mutation){.verb = verb, .kind = kind, .ns = ns == NULL ? "" : ns, .name = name, .body = body, .grace_period_seconds = -1};
    return made;
}

pintle_mutation *pintle_create(pintle_kind kind, const char *ns, pintle_json *object) {
    return mutation(PINTLE_CREATE, kind, ns, "", object);
}

pintle_mutation *pintle_update(pintle_kind kind, pintle_json *object) { return mutation(PINTLE_UPDATE, kind, "", "", object); }

pintle_mutation *pintle_update_status(pintle_kind kind, pintle_json *object) {
    pintle_mutation *made = pintle_update(kind, object);
    made->subresource = "status";
    return made;
}

pintle_mutation *pintle_patch(pintle_kind kind, const char *ns, const char *name, pintle_patch_type type, pintle_json *patch) {
    pintle_mutation *made = mutation(PINTLE_PATCH, kind, ns, name, patch);
    made->patch_type = type;
    return made;
}

pintle_mutation *pintle_apply(pintle_kind kind, const char *ns, const char *name, const char *field_manager, bool force, pintle_json *object) {
    pintle_mutation *made = pintle_patch(kind, ns, name, PINTLE_APPLY_PATCH, object);
    made->field_manager = field_manager;
    made->force = force;
    return made;
}

pintle_mutation *pintle_delete(pintle_kind kind, const char *ns, const char *name) { return mutation(PINTLE_DELETE, kind, ns, name, NULL); }

pintle_mutation *pintle_delete_collection(pintle_kind kind, const char *ns, const char *label_selector) {
    pintle_mutation *made = mutation(PINTLE_DELETE_COLLECTION, kind, ns, "", NULL);
    made->label_selector = label_selector;
    return made;
}

pintle_mutation *pintle_record(const pintle_event *event) {
    pintle_mutation *made = mutation(PINTLE_EVENT, event->kind, event->ns, event->name, NULL);
    made->event = event;
    return made;
}

pintle_event *pintle_event_on(const pintle_json *object, pintle_event_type type, const char *reason, const char *message) {
    pintle_event *event = pintle_alloc(sizeof *event);
    *event = (pintle_event){
        .kind = pintle_kind_of(object),
        .ns = pintle_metadata(object, "namespace"),
        .name = pintle_metadata(object, "name"),
        .uid = pintle_metadata(object, "uid"),
        .type = type,
        .reason = reason,
        .message = message,
    };
    return event;
}

void pintle_add(pintle_mutations *mutations, pintle_mutation *made) {
    if (made != NULL) {
        PINTLE_GROW(mutations->items, mutations->length, mutations->capacity);
        mutations->items[mutations->length++] = made;
    }
}

pintle_outcome *pintle_outcome_new(void) {
    pintle_outcome *outcome = pintle_alloc(sizeof *outcome);
    outcome->after_ms = -1;
    return outcome;
}

static void add_step(pintle_outcome *outcome, pintle_order order, pintle_mutations mutations, bool always) {
    if (mutations.length > 0) {
        PINTLE_GROW(outcome->steps, outcome->n_steps, outcome->steps_capacity);
        outcome->steps[outcome->n_steps++] = (pintle_step){order, always, mutations};
    }
}

void pintle_then(pintle_outcome *outcome, pintle_order order, pintle_mutations mutations) { add_step(outcome, order, mutations, false); }

void pintle_always(pintle_outcome *outcome, pintle_order order, pintle_mutations mutations) { add_step(outcome, order, mutations, true); }

int64_t pintle_clamp_ms(int64_t ms) { return ms < 0 ? 0 : ms > PINTLE_LONGEST_REQUEUE_MS ? PINTLE_LONGEST_REQUEUE_MS : ms; }

void pintle_requeue(pintle_outcome *outcome, int64_t after_ms) {
    after_ms = pintle_clamp_ms(after_ms);
    if (outcome->after_ms < 0 || after_ms < outcome->after_ms) {
        outcome->after_ms = after_ms;
    }
}

void pintle_requeue_at(pintle_outcome *outcome, pintle_time time, pintle_time now) {
    /* Without a sign, as the difference of any two times fits then. Rounded up, so that the time has come when the key runs. */
    uint64_t us = time <= now ? 0 : (uint64_t)time - (uint64_t)now;
    pintle_requeue(outcome, (int64_t)(us / 1000 + (us % 1000 > 0)));
}

static void add_wake(pintle_outcome *outcome, pintle_key key, int64_t after_ms) {
    PINTLE_GROW(outcome->wakes, outcome->n_wakes, outcome->wakes_capacity);
    outcome->wakes[outcome->n_wakes++] = (pintle_waking){key, after_ms};
}

void pintle_wake(pintle_outcome *outcome, pintle_key key) { add_wake(outcome, key, -1); }

void pintle_wake_after(pintle_outcome *outcome, pintle_key key, int64_t after_ms) { add_wake(outcome, key, pintle_clamp_ms(after_ms)); }

void pintle_run_label(pintle_outcome *outcome, const char *name, const char *value) {
    PINTLE_GROW(outcome->run_labels, outcome->n_run_labels, outcome->run_labels_capacity);
    outcome->run_labels[outcome->n_run_labels++] = (pintle_label){name, value};
}

void pintle_keep(pintle_outcome *outcome, const char *name, const char *value) {
    PINTLE_GROW(outcome->state, outcome->n_state, outcome->state_capacity);
    outcome->state[outcome->n_state++] = (pintle_state_write){name, value};
}

/* A list that ends with NULL, as one that outlives the block of its caller. */
static const char *const *copy_texts(const char *const *texts, size_t *n) {
    for (*n = 0; texts != NULL && texts[*n] != NULL; ++*n) {
    }
    const char **copy = pintle_alloc((*n + 1) * sizeof *copy);
    if (*n > 0) {
        memcpy(copy, texts, *n * sizeof *copy);
    }
    return copy;
}

pintle_place pintle_last_place(const pintle_outcome *outcome) {
    if (outcome->n_steps == 0) {
        PINTLE_PANIC("pintle_last_place was called, but the outcome has no mutation");
    }
    /* Steps are never empty. */
    return (pintle_place){(uint32_t)outcome->n_steps - 1, (uint32_t)outcome->steps[outcome->n_steps - 1].mutations.length - 1};
}

void pintle_observe_at(
    pintle_outcome *outcome, pintle_moment moment, pintle_place place, const char *metric, double value, const char *const *labels) {
    size_t n;
    labels = copy_texts(labels, &n);
    PINTLE_GROW(outcome->observations, outcome->n_observations, outcome->observations_capacity);
    outcome->observations[outcome->n_observations++] = (pintle_observation){metric, value, labels, n, moment, place};
}

void pintle_observe(pintle_outcome *outcome, const char *metric, double value, const char *const *labels) {
    pintle_observe_at(outcome, PINTLE_ACCEPTED, (pintle_place){0, 0}, metric, value, labels);
}

void pintle_ask_for(pintle_outcome *outcome, pintle_need need) {
    /* What the caller may change, or what ends with its block, before the outcome is read. */
    size_t n;
    need.body = pintle_copy(need.body);
    need.usages = copy_texts(need.usages, &n);
    PINTLE_GROW(outcome->needs, outcome->n_needs, outcome->needs_capacity);
    outcome->needs[outcome->n_needs++] = need;
}

static pintle_outcome *failed(bool is_terminal, int64_t after_ms, const char *format, va_list arguments) {
    pintle_outcome *outcome = pintle_outcome_new();
    outcome->message = pintle_vprintf(format, arguments);
    outcome->is_terminal = is_terminal;
    outcome->after_ms = after_ms;
    return outcome;
}

pintle_outcome *pintle_retry(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pintle_outcome *outcome = failed(false, -1, format, arguments);
    va_end(arguments);
    return outcome;
}

pintle_outcome *pintle_retry_after(int64_t after_ms, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pintle_outcome *outcome = failed(false, pintle_clamp_ms(after_ms), format, arguments);
    va_end(arguments);
    return outcome;
}

pintle_outcome *pintle_terminal(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pintle_outcome *outcome = failed(true, -1, format, arguments);
    va_end(arguments);
    return outcome;
}

void pintle_fail(pintle_outcome *outcome, const pintle_outcome *error) {
    if (error == NULL) {
        return;
    }
    if (error->message != NULL) {
        outcome->error = error;
        return;
    }
    if (error->n_needs == 0) {
        PINTLE_PANIC("pintle_fail was called with an outcome that is no error");
    }
    for (size_t i = 0; i < error->n_needs && outcome->n_needs < PINTLE_MAX_NEEDS; i++) {
        pintle_ask_for(outcome, error->needs[i]);
    }
}
