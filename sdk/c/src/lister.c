/* Reads, by whatever the lister is made of, and live reads. */
#include "internal.h"

const char *pintle_now(pintle_lister *lister) { return lister->functions->now(lister->of); }

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

pintle_json *pintle_config(pintle_lister *lister) { return lister->functions->config(lister->of); }

const char *pintle_state(pintle_lister *lister, const char *name) { return lister->functions->state(lister->of, name); }

uint32_t pintle_attempt(pintle_lister *lister) { return lister->functions->attempt(lister->of); }

pintle_json *pintle_failures(pintle_lister *lister) { return lister->functions->failures(lister->of); }

bool pintle_same_need(const pintle_need *a, const pintle_need *b) {
    return a->type == b->type && pintle_same_kind(a->kind, b->kind) && pintle_same_text(a->ns, b->ns) && pintle_same_text(a->name, b->name) &&
           pintle_same_text(a->label_selector, b->label_selector) && a->limit == b->limit && pintle_same_text(a->path, b->path);
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

bool pintle_live(pintle_lister *lister, pintle_kind kind, const char *ns, const char *name, pintle_json **object) {
    int code;
    pintle_need need = {.type = PINTLE_LIVE_OBJECT, .kind = kind, .ns = ns == NULL ? "" : ns, .name = name};
    if (!pintle_ask(lister, need, object, &code)) {
        return false;
    }
    if (code == 0) {
        return true;
    }
    const pintle_json *refusal = *object;
    *object = NULL;
    if (code != 404 && lister->unfinished == NULL) {
        const char *message = pintle_text(pintle_at(refusal, "message"), "");
        lister->unfinished = pintle_retry("read %s %s: %s", pintle_kind_text(kind), pintle_full_name(ns, name), message);
    }
    return code == 404;
}

pintle_outcome *pintle_unfinished(pintle_lister *lister) {
    if (lister->unfinished == NULL) {
        PINTLE_PANIC("pintle_unfinished was called, but nothing is unanswered");
    }
    return lister->unfinished;
}
