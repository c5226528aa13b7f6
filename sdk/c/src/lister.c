/* Reads, by whatever the lister is made of, and questions that the host answers. */
#include <string.h>

#include "internal.h"

const char *pintle_now(pintle_lister *lister) { return lister->functions->now(lister->of); }

pintle_time pintle_now_time(pintle_lister *lister) {
    const char *text = pintle_now(lister);
    pintle_time time;
    if (!pintle_time_parse(text, &time)) {
        PINTLE_PANIC("%s is not a time", text);
    }
    return time;
}

double pintle_uptime(pintle_lister *lister) { return lister->functions->uptime(lister->of); }

pintle_json *pintle_get(pintle_lister *lister, pintle_kind kind, const char *ns, const char *name) {
    return lister->functions->get(lister->of, kind, ns == NULL ? "" : ns, name);
}

pintle_json *pintle_list(pintle_lister *lister, pintle_kind kind, pintle_query query) {
    return lister->functions->list(lister->of, kind, query);
}

uint32_t pintle_count(pintle_lister *lister, pintle_kind kind, pintle_query query) {
    return lister->functions->count(lister->of, kind, query);
}

pintle_json *pintle_selecting(pintle_lister *lister, pintle_kind kind, const char *ns, const pintle_json *labels) {
    return lister->functions->selecting(lister->of, kind, ns == NULL ? "" : ns, labels);
}

pintle_json *pintle_dependents(pintle_lister *lister, const char *uid) { return lister->functions->dependents(lister->of, uid); }

pintle_json *pintle_by_uid(pintle_lister *lister, const char *uid) { return lister->functions->by_uid(lister->of, uid); }

pintle_json *pintle_resources(pintle_lister *lister) { return lister->functions->resources(lister->of); }

pintle_json *pintle_resources_of(pintle_lister *lister, const char *group, const char *name) {
    return lister->functions->resources_of(lister->of, group, name);
}

pintle_json *pintle_config(pintle_lister *lister) { return lister->functions->config(lister->of); }

const char *pintle_state(pintle_lister *lister, const char *name) { return lister->functions->state(lister->of, name); }

uint32_t pintle_attempt(pintle_lister *lister) { return lister->functions->attempt(lister->of); }

pintle_json *pintle_failures(pintle_lister *lister) { return lister->functions->failures(lister->of); }

static bool same_texts(const char *const *a, const char *const *b) {
    size_t i = 0;
    for (; a != NULL && a[i] != NULL; i++) {
        if (b == NULL || b[i] == NULL || strcmp(a[i], b[i]) != 0) {
            return false;
        }
    }
    return b == NULL || b[i] == NULL;
}

bool pintle_same_need(const pintle_need *a, const pintle_need *b) {
    return a->type == b->type && pintle_same_kind(a->kind, b->kind) && pintle_same_text(a->ns, b->ns) && pintle_same_text(a->name, b->name) &&
           pintle_same_text(a->subresource, b->subresource) && pintle_same_text(a->label_selector, b->label_selector) &&
           pintle_same_text(a->field_selector, b->field_selector) && a->detail == b->detail && a->limit == b->limit &&
           pintle_same_text(a->path, b->path) && pintle_same_text(a->key, b->key) && pintle_same_text(a->authority, b->authority) &&
           pintle_same_text(a->request, b->request) && same_texts(a->usages, b->usages) && pintle_same_text(a->not_before, b->not_before) &&
           pintle_same_text(a->not_after, b->not_after) && pintle_same_text(a->endpoint, b->endpoint) &&
           pintle_same_text(a->operation, b->operation) && a->timeout_ms == b->timeout_ms &&
           /* The host compares texts, too. */
           strcmp(pintle_write(a->body), pintle_write(b->body)) == 0;
}

bool pintle_ask(pintle_lister *lister, pintle_need need, pintle_json **answer, int *code) {
    *answer = NULL;
    *code = 0;
    pintle_answer found = lister->functions->answer(lister->of, need);
    if (found.is_answered) {
        *answer = found.body;
        *code = found.code;
        return true;
    }
    if (lister->unfinished == NULL || lister->unfinished->message != NULL) {
        lister->unfinished = pintle_outcome_new();
    }
    if (lister->unfinished->n_needs < PINTLE_MAX_NEEDS) {
        pintle_ask_for(lister->unfinished, need);
    }
    return false;
}

/* What is unfinished becomes a retry, unless other answers are awaited. */
static void refused(pintle_lister *lister, const char *what, const pintle_json *refusal) {
    if (lister->unfinished == NULL) {
        lister->unfinished = pintle_retry("%s: %s", what, pintle_text(pintle_at(refusal, "message"), ""));
    }
}

static bool read_live(pintle_lister *lister, pintle_need need, const char *what, pintle_json **object) {
    int code;
    if (!pintle_ask(lister, need, object, &code)) {
        return false;
    }
    if (code == 0) {
        return true;
    }
    const pintle_json *refusal = *object;
    *object = NULL;
    if (code != 404) {
        refused(lister, what, refusal);
    }
    return code == 404;
}

bool pintle_live(pintle_lister *lister, pintle_kind kind, const char *ns, const char *name, pintle_json **object) {
    const char *what = pintle_printf("read %s %s", pintle_kind_text(kind), pintle_full_name(ns, name));
    return read_live(lister, (pintle_need){.type = PINTLE_LIVE_OBJECT, .kind = kind, .ns = ns, .name = name}, what, object);
}

bool pintle_live_subresource(
    pintle_lister *lister, pintle_kind kind, const char *ns, const char *name, const char *subresource, pintle_json **object) {
    const char *what = pintle_printf("read %s of %s %s", subresource, pintle_kind_text(kind), pintle_full_name(ns, name));
    pintle_need need = {.type = PINTLE_LIVE_OBJECT, .kind = kind, .ns = ns, .name = name, .subresource = subresource};
    return read_live(lister, need, what, object);
}

bool pintle_review(pintle_lister *lister, pintle_kind kind, const char *ns, const pintle_json *review, pintle_json **status) {
    int code;
    pintle_json *answer;
    *status = NULL;
    if (!pintle_ask(lister, (pintle_need){.type = PINTLE_REVIEW, .kind = kind, .ns = ns, .body = review}, &answer, &code)) {
        return false;
    }
    if (code != 0) {
        refused(lister, pintle_printf("ask for a %s", kind.name), answer);
        return false;
    }
    *status = pintle_at(answer, "status");
    if (*status == NULL && lister->unfinished == NULL) {
        lister->unfinished = pintle_terminal("the answer to a %s has no status", kind.name);
    }
    return *status != NULL;
}

pintle_outcome *pintle_unfinished(pintle_lister *lister) {
    if (lister->unfinished == NULL) {
        PINTLE_PANIC("pintle_unfinished was called, but nothing is unanswered");
    }
    return lister->unfinished;
}
