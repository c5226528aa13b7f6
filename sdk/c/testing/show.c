/* Outcomes in the form of the expected ones of cases, and comparing. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

static pintle_json *text_value(const char *text) { return pintle_new_text(text, strlen(text)); }

static void put(pintle_json *shown, const char *name, const char *text) {
    if (text != NULL && text[0] != 0) {
        pintle_set(shown, name, text_value(text));
    }
}

/* As 1.5s, 250ms, 90s. */
static const char *show_duration(int64_t ms) {
    if (ms == 0) {
        return "0ns";
    }
    if (ms < 1000) {
        return pintle_printf("%" PRId64 "ms", ms);
    }
    char *text = pintle_printf("%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
    size_t length = strlen(text);
    while (text[length - 1] == '0') {
        length--;
    }
    length -= text[length - 1] == '.';
    return pintle_printf("%.*ss", (int)length, text);
}

/* The shortest text that is this number. */
static const char *show_number(double value) {
    if (isnan(value) || isinf(value)) {
        return isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf";
    }
    for (int decimals = 0; decimals < 17; decimals++) {
        const char *text = pintle_printf("%.*f", decimals, value);
        if (strtod(text, NULL) == value) {
            return text;
        }
    }
    return pintle_printf("%.17f", value);
}

static const char *show_event(const pintle_event *event) {
    return pintle_printf(
        "%s %s on %s %s (%s): %s", event->type == PINTLE_WARNING ? "Warning" : "Normal", event->reason, pintle_kind_text(event->kind),
        pintle_full_name(event->ns, event->name), event->uid, event->message);
}

static pintle_json *show_need(const pintle_need *need) {
    static const char *const details[] = {"", ", as projections", ", whole"};
    const char *kind = pintle_kind_text(need->kind), *ns = need->ns == NULL ? "" : need->ns;
    const char *fields = need->field_selector == NULL ? "" : need->field_selector;
    bool is_of_object = !pintle_same_text(need->subresource, "");
    pintle_json *shown, *usages;
    switch (need->type) {
    case PINTLE_LIVE_OBJECT:
        return text_value(pintle_printf(
            "get %s%s%s %s", kind, is_of_object ? "/" : "", is_of_object ? need->subresource : "", pintle_full_name(ns, need->name)));
    case PINTLE_LIVE_LIST:
        return text_value(pintle_printf(
            "list %s in \"%s\" with \"%s\"%s, at most %" PRIu32 "%s", kind, ns, need->label_selector == NULL ? "" : need->label_selector,
            fields[0] == 0 ? "" : pintle_printf(" and fields \"%s\"", fields), need->limit, details[need->detail]));
    case PINTLE_RAW_PATH:
        return text_value(pintle_printf("get %s", need->path));
    case PINTLE_DISCOVERY:
        break;
    case PINTLE_REVIEW:
        return pintle_format(
            "{'review': %s, 'object': %j}", ns[0] == 0 ? kind : pintle_printf("%s in %s", kind, ns), need->body);
    case PINTLE_SIGN_JWT:
        return pintle_format("{'sign-jwt': %s, 'claims': %j}", need->key, need->body);
    case PINTLE_SIGN_CERTIFICATE:
        usages = pintle_new(PINTLE_LIST);
        for (size_t i = 0; need->usages != NULL && need->usages[i] != NULL; i++) {
            pintle_append(usages, text_value(need->usages[i]));
        }
        return pintle_format(
            "{'sign-certificate': %s, 'request': %s, 'usages': %j, 'notBefore': %s, 'notAfter': %s}", need->authority, need->request, usages,
            need->not_before, need->not_after);
    case PINTLE_CALL:
        shown = pintle_format("{'call': %s, 'body': %j}", pintle_printf("%s/%s", need->endpoint, need->operation), need->body);
        if (need->timeout_ms > 0) {
            pintle_set(shown, "timeoutMs", pintle_new_int(pintle_clamp_ms(need->timeout_ms)));
        }
        return shown;
    }
    return text_value("discover");
}

pintle_json *show_needs(const pintle_need *needs, size_t length) {
    pintle_json *shown = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < length; i++) {
        pintle_append(shown, show_need(&needs[i]));
    }
    return shown;
}

/* When a sample counts, unless that is at once. */
static const char *show_moment(const pintle_observation *sample) {
    static const char *const moments[] = {"", "is done", "has failed"};
    return sample->moment == PINTLE_ACCEPTED
               ? ""
               : pintle_printf(
                     " when steps[%" PRIu32 "].mutations[%" PRIu32 "] %s", sample->place.step, sample->place.position, moments[sample->moment]);
}

static const char *show_wake(const pintle_waking *wake) {
    const pintle_key *key = &wake->key;
    return pintle_printf(
        "%s: %s %s%s", key->queue, pintle_kind_text(key->kind), pintle_full_name(key->ns, key->name),
        wake->after_ms < 0 ? "" : pintle_printf(" after %s", show_duration(wake->after_ms)));
}

static const char *target(const pintle_mutation *m, const char *ns, const char *name) {
    bool has_subresource = m->subresource != NULL && m->verb != PINTLE_DELETE && m->verb != PINTLE_DELETE_COLLECTION;
    const char *full = pintle_full_name(ns, name);
    return pintle_printf(
        "%s%s%s%s%s", pintle_kind_text(m->kind), has_subresource ? "/" : "", has_subresource ? m->subresource : "", full[0] == 0 ? "" : " ",
        full);
}

static void put_conditions(pintle_json *shown, const pintle_mutation *m) {
    pintle_json *conditions = pintle_new(PINTLE_OBJECT);
    put(conditions, "uid", m->uid);
    put(conditions, "resourceVersion", m->resource_version);
    if (pintle_length(conditions) > 0) {
        pintle_set(shown, "if", conditions);
    }
}

/* What changes, in the form of a merge patch (RFC 7386). */
static const pintle_json *difference(const pintle_json *old, const pintle_json *new) {
    if (pintle_type_of(old) != PINTLE_OBJECT || pintle_type_of(new) != PINTLE_OBJECT) {
        return new;
    }
    pintle_json *changes = pintle_new(PINTLE_OBJECT);
    for (size_t i = 0; i < new->length; i++) {
        const pintle_json *before = pintle_member(old, new->names[i]);
        if (before == NULL) {
            pintle_set(changes, new->names[i], new->items[i]);
        } else if (!pintle_equal(before, new->items[i])) {
            pintle_set(changes, new->names[i], difference(before, new->items[i]));
        }
    }
    for (size_t i = 0; i < old->length; i++) {
        if (pintle_member(new, old->names[i]) == NULL) {
            pintle_set(changes, old->names[i], NULL);
        }
    }
    return changes;
}

static void put_propagation(pintle_json *shown, const pintle_mutation *m) {
    static const char *const names[] = {"", "background", "foreground", "orphan"};
    put(shown, "propagation", names[m->propagation]);
}

static void put_action(pintle_json *shown, const pintle_mutation *m, const fixture *of) {
    static const char *const forms[] = {"json", "merge", "strategic-merge"};
    const char *ns = pintle_metadata(m->body, "namespace"), *name = pintle_metadata(m->body, "name");
    const pintle_json *old;
    switch (m->verb) {
    case PINTLE_CREATE:
        put(shown, "create", target(m, "", m->ns));
        pintle_set(shown, "object", m->body);
        break;
    case PINTLE_UPDATE:
        put(shown, "update", target(m, ns, name));
        old = fixture_original(of, m->kind, ns, name);
        pintle_set(shown, old == NULL ? "object" : "changes", old == NULL ? m->body : difference(old, m->body));
        break;
    case PINTLE_PATCH:
        put(shown, "patch", target(m, m->ns, m->name));
        put(shown, "form",
            m->patch_type == PINTLE_APPLY_PATCH
                ? pintle_printf("apply by %s, force: %s", m->field_manager, m->force ? "true" : "false")
                : forms[m->patch_type]);
        put_conditions(shown, m);
        pintle_set(shown, "body", m->body);
        break;
    case PINTLE_DELETE:
        put(shown, "delete", target(m, m->ns, m->name));
        put_conditions(shown, m);
        put_propagation(shown, m);
        if (m->grace_period_seconds >= 0) {
            pintle_set(shown, "gracePeriodSeconds", pintle_new_int(m->grace_period_seconds));
        }
        break;
    case PINTLE_DELETE_COLLECTION:
        put(shown, "deleteCollection", target(m, "", m->ns));
        put(shown, "labelSelector", m->label_selector);
        put_propagation(shown, m);
        break;
    case PINTLE_EVENT:
        put(shown, "event", show_event(m->event));
        break;
    }
}

static pintle_json *show_mutation(const pintle_mutation *m, const fixture *of) {
    static const char *const refusals[] = {"not-found", "already-exists", "conflict", "invalid", "forbidden", "namespace-terminating"};
    pintle_json *shown = pintle_new(PINTLE_OBJECT), *tolerate = pintle_new(PINTLE_LIST);
    put_action(shown, m, of);
    put(shown, "onSuccess", m->on_success == NULL ? NULL : show_event(m->on_success));
    put(shown, "onFailure", m->on_failure == NULL ? NULL : show_event(m->on_failure));
    for (size_t i = 0; i < 6; i++) {
        if (m->tolerate & (1u << i)) {
            pintle_append(tolerate, text_value(refusals[i]));
        }
    }
    if (pintle_length(tolerate) > 0) {
        pintle_set(shown, "tolerate", tolerate);
    }
    return shown;
}

/* Equal mutations in a row are shown once, with times. */
static pintle_json *show_mutations(pintle_mutations mutations, const fixture *of) {
    pintle_json *shown = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < mutations.length;) {
        pintle_json *one = show_mutation(mutations.items[i], of);
        size_t times = 1;
        while (i + times < mutations.length && pintle_equal(one, show_mutation(mutations.items[i + times], of))) {
            times++;
        }
        if (times > 1) {
            pintle_set(one, "times", pintle_new_int((int64_t)times));
        }
        pintle_append(shown, one);
        i += times;
    }
    return shown;
}

static pintle_json *show_error(const pintle_outcome *failed) {
    pintle_json *shown = pintle_new(PINTLE_OBJECT);
    pintle_set(shown, failed->is_terminal ? "terminal" : "retry", text_value(failed->message));
    put(shown, "after", failed->after_ms < 0 ? NULL : show_duration(failed->after_ms));
    return shown;
}

pintle_json *show(const pintle_outcome *outcome, const fixture *of) {
    static const char *const orders[] = {"sequential", "parallel", "slow-start"};
    pintle_json *shown = pintle_new(PINTLE_OBJECT), *steps = pintle_new(PINTLE_LIST);
    if (outcome == NULL) {
        outcome = pintle_outcome_new();
    }
    if (outcome->message != NULL) {
        return show_error(outcome);
    }
    if (outcome->n_needs > 0) {
        pintle_set(shown, "needs", show_needs(outcome->needs, outcome->n_needs));
    }
    for (size_t i = 0; i < outcome->n_steps; i++) {
        const pintle_step *step = &outcome->steps[i];
        pintle_json *one = pintle_format("{'order': %s, 'mutations': %j}", orders[step->order], show_mutations(step->mutations, of));
        if (step->always) {
            pintle_set(one, "always", pintle_new_bool(true));
        }
        pintle_append(steps, one);
    }
    pintle_set(shown, "steps", steps);
    put(shown, "requeueAfter", outcome->after_ms < 0 ? NULL : show_duration(outcome->after_ms));
    pintle_json *state = pintle_new(PINTLE_OBJECT), *observations = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < outcome->n_state; i++) {
        const char *value = outcome->state[i].value;
        pintle_set(state, outcome->state[i].name, value == NULL ? NULL : text_value(value));
    }
    for (size_t i = 0; i < outcome->n_observations; i++) {
        const pintle_observation *sample = &outcome->observations[i];
        const char *labels = "";
        for (size_t j = 0; j < sample->n_labels; j++) {
            labels = pintle_printf("%s%s%s", labels, j == 0 ? "" : ",", sample->labels[j]);
        }
        const char *at = show_moment(sample);
        pintle_append(observations, text_value(pintle_printf("%s{%s} %s%s", sample->metric, labels, show_number(sample->value), at)));
    }
    pintle_json *wakes = pintle_new(PINTLE_LIST), *run_labels = pintle_new(PINTLE_OBJECT);
    for (size_t i = 0; i < outcome->n_wakes; i++) {
        pintle_append(wakes, text_value(show_wake(&outcome->wakes[i])));
    }
    for (size_t i = 0; i < outcome->n_run_labels; i++) {
        pintle_set(run_labels, outcome->run_labels[i].name, text_value(outcome->run_labels[i].value));
    }
    if (pintle_length(state) > 0) {
        pintle_set(shown, "state", state);
    }
    if (pintle_length(observations) > 0) {
        pintle_set(shown, "observations", observations);
    }
    if (pintle_length(wakes) > 0) {
        pintle_set(shown, "wake", wakes);
    }
    if (pintle_length(run_labels) > 0) {
        pintle_set(shown, "runLabels", run_labels);
    }
    if (outcome->error != NULL) {
        pintle_set(shown, "error", show_error(outcome->error));
    }
    return shown;
}

static void differ(pintle_json *differences, const char *place, const pintle_json *wanted, const pintle_json *got) {
    const char *of_wanted = wanted == NULL ? "nothing" : pintle_write(wanted), *of_got = got == NULL ? "nothing" : pintle_write(got);
    pintle_append(differences, text_value(pintle_printf("%s: expected %s, got %s", place[0] == 0 ? "all" : place, of_wanted, of_got)));
}

void compare(const char *place, const pintle_json *wanted, const pintle_json *got, pintle_json *differences) {
    pintle_type type = pintle_type_of(wanted);
    if (wanted == NULL || got == NULL || type != pintle_type_of(got) || (type != PINTLE_LIST && type != PINTLE_OBJECT)) {
        if (wanted == NULL || got == NULL || !pintle_equal(wanted, got)) {
            differ(differences, place, wanted, got);
        }
        return;
    }
    for (size_t i = 0; type == PINTLE_LIST && (i < wanted->length || i < got->length); i++) {
        compare(pintle_printf("%s[%zu]", place, i), pintle_item(wanted, i), pintle_item(got, i), differences);
    }
    for (size_t i = 0; type == PINTLE_OBJECT && i < wanted->length; i++) {
        const char *name = wanted->names[i];
        compare(pintle_printf("%s.%s", place, name), wanted->items[i], pintle_member(got, name), differences);
    }
    for (size_t i = 0; type == PINTLE_OBJECT && i < got->length; i++) {
        if (pintle_member(wanted, got->names[i]) == NULL) {
            differ(differences, pintle_printf("%s.%s", place, got->names[i]), NULL, got->items[i]);
        }
    }
}
