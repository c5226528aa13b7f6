/* Answers to needs, as a case has them. */
#include <string.h>

#include "testing.h"

static const char *text_at(const pintle_json *value, const char *name) { return pintle_text(pintle_at(value, name), ""); }

/* ---- What an input may have ---- */

/* Members of the items of a list of answers: those that are required first. */
typedef struct {
    const char *list;
    int n_required;
    const char *members[8];
} answer_form;

static const answer_form forms[] = {
    {"subresources", 4, {"kind", "name", "subresource", "answer", "namespace"}},
    {"reviews", 2, {"kind", "status", "namespace", "spec"}},
    {"signatures", 1, {"by", "claims", "answer", "error"}},
    {"calls", 2, {"endpoint", "operation", "body", "answer", "error"}},
};

static const char *check_error(const char *place, const pintle_json *error) {
    static const char *const members[] = {"code", "reason", "message", NULL};
    for (size_t i = 0; i < pintle_length(error); i++) {
        if (!fixture_is_among(pintle_name(error, i), members)) {
            return pintle_printf("%s: an error has no member %s", place, pintle_name(error, i));
        }
    }
    int64_t code = pintle_int(pintle_at(error, "code"), -1);
    if (error != NULL && (code < 0 || code > 65535 || pintle_type_of(pintle_at(error, "reason")) != PINTLE_STRING)) {
        return pintle_printf("%s: an error needs code, an HTTP status code or 0, and reason", place);
    }
    return NULL;
}

static const char *check_item(const answer_form *form, size_t i, const pintle_json *item) {
    const char *place = pintle_printf("%s[%zu]", form->list, i);
    if (pintle_type_of(item) != PINTLE_OBJECT) {
        return pintle_printf("%s is no object", place);
    }
    for (int j = 0; j < form->n_required; j++) {
        if (pintle_member(item, form->members[j]) == NULL) {
            return pintle_printf("%s needs %s", place, form->members[j]);
        }
    }
    for (size_t j = 0; j < pintle_length(item); j++) {
        if (!fixture_is_among(pintle_name(item, j), form->members)) {
            return pintle_printf("%s has no member %s", place, pintle_name(item, j));
        }
    }
    return check_error(place, pintle_at(item, "error"));
}

const char *answers_check(const pintle_json *input) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const pintle_json *list = pintle_at(input, forms[i].list);
        if (list != NULL && pintle_type_of(list) != PINTLE_LIST) {
            return pintle_printf("%s is no list", forms[i].list);
        }
        for (size_t j = 0; j < pintle_length(list); j++) {
            const char *wrong = check_item(&forms[i], j, pintle_item(list, j));
            if (wrong != NULL) {
                return wrong;
            }
        }
    }
    return check_error("discovery", pintle_at(input, "discovery", "error"));
}

/* ---- Answering ---- */

static pintle_answer refusal(int code, const char *reason, const char *message) {
    /* As the host hands it over: -1 if no HTTP answer came. */
    return (pintle_answer){true, code == 0 ? -1 : code, pintle_format("{'reason': %s, 'message': %s}", reason, message)};
}

static pintle_answer not_found(const char *what) { return refusal(404, "NotFound", pintle_printf("%s not found", what)); }

static pintle_answer error_of(const pintle_json *error) {
    return refusal((int)pintle_int(pintle_at(error, "code"), 0), text_at(error, "reason"), text_at(error, "message"));
}

/* Whether a value has all that another one has; null asks for nothing. */
static bool contains(const pintle_json *value, const pintle_json *wanted) {
    if (pintle_type_of(wanted) == PINTLE_NULL) {
        return true;
    }
    if (pintle_type_of(value) != PINTLE_OBJECT || pintle_type_of(wanted) != PINTLE_OBJECT) {
        return pintle_equal(value, wanted);
    }
    for (size_t i = 0; i < wanted->length; i++) {
        const pintle_json *member = pintle_member(value, wanted->names[i]);
        if (member == NULL || !contains(member, wanted->items[i])) {
            return false;
        }
    }
    return true;
}

static bool same_member(const pintle_json *item, const char *name, const char *text) { return pintle_same_text(text_at(item, name), text); }

static bool is_about(const pintle_json *item, const pintle_need *need) {
    return same_member(item, "kind", pintle_kind_text(need->kind)) && same_member(item, "namespace", need->ns);
}

static pintle_answer subresource(const fixture *of, const pintle_need *need) {
    const pintle_json *all = pintle_at(of->input, "subresources");
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i);
        if (is_about(one, need) && same_member(one, "name", need->name) && same_member(one, "subresource", need->subresource)) {
            return (pintle_answer){true, 0, pintle_copy(pintle_member(one, "answer"))};
        }
    }
    return not_found(pintle_printf(
        "%s/%s %s; a case has it in `subresources`", pintle_kind_text(need->kind), need->subresource, pintle_full_name(need->ns, need->name)));
}

static pintle_answer review(const fixture *of, const pintle_need *need) {
    const pintle_json *all = pintle_at(of->input, "reviews"), *spec = pintle_at(need->body, "spec");
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i);
        if (is_about(one, need) && contains(spec, pintle_at(one, "spec"))) {
            pintle_json *answered = pintle_copy(need->body);
            pintle_set(answered, "apiVersion", pintle_format("%s", pintle_api_version(need->kind)));
            pintle_set(answered, "kind", pintle_format("%s", need->kind.name));
            pintle_set(answered, "status", pintle_copy(pintle_member(one, "status")));
            return (pintle_answer){true, 0, answered};
        }
    }
    return not_found(pintle_printf("a verdict on %s %s; a case has it in `reviews`", pintle_kind_text(need->kind), pintle_write(spec)));
}

static pintle_answer signature(const fixture *of, const char *by, const pintle_json *claims) {
    const pintle_json *all = pintle_at(of->input, "signatures");
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i), *error = pintle_at(one, "error");
        if (same_member(one, "by", by) && contains(claims, pintle_at(one, "claims"))) {
            return error != NULL ? error_of(error) : (pintle_answer){true, 0, pintle_format("%s", text_at(one, "answer"))};
        }
    }
    return not_found(pintle_printf("a signature by %s; a case has it in `signatures`", by));
}

static pintle_answer call(const fixture *of, const pintle_need *need) {
    const pintle_json *all = pintle_at(of->input, "calls");
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i), *error = pintle_at(one, "error"), *body = pintle_member(one, "answer");
        if (same_member(one, "endpoint", need->endpoint) && same_member(one, "operation", need->operation) &&
            contains(need->body, pintle_at(one, "body"))) {
            return error != NULL ? error_of(error) : (pintle_answer){true, 0, body == NULL ? pintle_new(PINTLE_NULL) : pintle_copy(body)};
        }
    }
    return not_found(pintle_printf(
        "an answer to %s/%s %s; a case has it in `calls`", need->endpoint, need->operation, pintle_write(need->body)));
}

/* Whether an object fits one term of a field selector, a.b=x, a.b==x or a.b!=x. As for the API server, a field that is not there is empty. */
static bool fits_term(const char *term, const pintle_json *object) {
    const char *sign = strpbrk(term, "!=");
    if (sign == NULL || (sign[0] == '!' && sign[1] != '=')) {
        FAULT("%s is not a term of a field selector", term);
    }
    bool is_not = sign[0] == '!';
    const char *wanted = sign + (is_not || sign[1] == '=' ? 2 : 1);
    const pintle_json *found = object;
    for (const char *name = term; name <= sign;) {
        size_t length = strcspn(name, ".!=");
        found = pintle_at(found, pintle_copy_text(name, length));
        name += length + 1;
    }
    const char *text = found == NULL ? "" : pintle_type_of(found) == PINTLE_STRING ? found->text : pintle_write(found);
    return (strcmp(text, wanted) == 0) != is_not;
}

static bool fields_match(const char *selector, const pintle_json *object) {
    while (selector != NULL && *selector != 0) {
        size_t length = strcspn(selector, ",");
        if (length > 0 && !fits_term(pintle_copy_text(selector, length), object)) {
            return false;
        }
        selector += length + (selector[length] == ',');
    }
    return true;
}

static pintle_answer live_list(const fixture *of, const pintle_need *need) {
    path paths[] = {fixture_path("apiVersion"), fixture_path("kind"), fixture_path("metadata")};
    pintle_json *items = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < pintle_length(of->live) && items->length < need->limit; i++) {
        const pintle_json *object = pintle_item(of->live, i);
        if (pintle_same_kind(pintle_kind_of(object), need->kind) && fixture_matches(need->label_selector, object) &&
            (pintle_same_text(need->ns, "") || pintle_same_text(need->ns, pintle_metadata(object, "namespace"))) &&
            fields_match(need->field_selector, object)) {
            pintle_append(
                items, need->detail == PINTLE_METADATA     ? fixture_project(object, paths, 3, 0)
                       : need->detail == PINTLE_PROJECTION ? fixture_seen(of, object, false)
                                                           : pintle_copy(object));
        }
    }
    return (pintle_answer){true, 0, items};
}

static pintle_answer live_object(const fixture *of, const pintle_need *need) {
    const pintle_json *object = fixture_find(of->live, need->kind, need->ns == NULL ? "" : need->ns, need->name);
    const char *what = pintle_printf("%s %s", pintle_kind_text(need->kind), pintle_full_name(need->ns, need->name));
    return object == NULL ? not_found(what) : (pintle_answer){true, 0, pintle_copy(object)};
}

static pintle_answer discovery(const fixture *of) {
    const pintle_json *error = pintle_at(of->input, "discovery", "error");
    if (error != NULL) {
        return error_of(error);
    }
    pintle_json *failed = pintle_at(of->input, "discovery", "failed");
    return (pintle_answer){true, 0, failed == NULL ? pintle_new(PINTLE_LIST) : failed};
}

pintle_answer answers_find(const fixture *of, const pintle_need *need) {
    pintle_json *body;
    switch (need->type) {
    case PINTLE_LIVE_OBJECT:
        return pintle_same_text(need->subresource, "") ? live_object(of, need) : subresource(of, need);
    case PINTLE_LIVE_LIST:
        return live_list(of, need);
    case PINTLE_RAW_PATH:
        body = pintle_at(of->input, "raw", need->path);
        return body == NULL ? not_found(need->path) : (pintle_answer){true, 0, body};
    case PINTLE_DISCOVERY:
        return discovery(of);
    case PINTLE_REVIEW:
        return review(of, need);
    case PINTLE_SIGN_JWT:
        return signature(of, need->key, need->body);
    case PINTLE_SIGN_CERTIFICATE:
        return signature(of, need->authority, NULL);
    case PINTLE_CALL:
        return call(of, need);
    }
    FAULT("a need has no type %d", (int)need->type);
}
