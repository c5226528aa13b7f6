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

void pintle_requeue(pintle_outcome *outcome, int64_t after_ms) {
    after_ms = after_ms < 0 ? 0 : after_ms;
    if (outcome->after_ms < 0 || after_ms < outcome->after_ms) {
        outcome->after_ms = after_ms;
    }
}

void pintle_keep(pintle_outcome *outcome, const char *name, const char *value) {
    PINTLE_GROW(outcome->state, outcome->n_state, outcome->state_capacity);
    outcome->state[outcome->n_state++] = (pintle_state_write){name, value};
}

void pintle_observe(pintle_outcome *outcome, const char *metric, double value, const char *const *labels) {
    size_t n = 0;
    while (labels != NULL && labels[n] != NULL) {
        n++;
    }
    const char **copy = pintle_alloc(n * sizeof *copy);
    if (n > 0) {
        memcpy(copy, labels, n * sizeof *copy);
    }
    PINTLE_GROW(outcome->observations, outcome->n_observations, outcome->observations_capacity);
    outcome->observations[outcome->n_observations++] = (pintle_observation){metric, value, copy, n};
}

void pintle_ask_for(pintle_outcome *outcome, pintle_need need) {
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
    pintle_outcome *outcome = failed(false, after_ms < 0 ? 0 : after_ms, format, arguments);
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
