/* Label selectors: from text, from objects, and matching. */
#include <ctype.h>
#include <string.h>

#include "testing.h"

static const char *trimmed(const char *from, const char *to) {
    while (from < to && isspace((unsigned char)*from)) {
        from++;
    }
    while (to > from && isspace((unsigned char)to[-1])) {
        to--;
    }
    return pintle_copy_text(from, (size_t)(to - from));
}

static bool add(selector *into, const char *key, int operator, pintle_json *values) {
    PINTLE_GROW(into->items, into->length, into->capacity);
    requirement *made = &into->items[into->length++];
    made->key = key;
    made->operator = operator;
    made->values = values;
    return key[0] != 0 && strpbrk(key, " \t()!=,<>") == NULL;
}

static pintle_json *text_value(const char *text) { return pintle_new_text(text, strlen(text)); }

/* Reads "a, b)". */
static pintle_json *values_of(const char *text, const char *end) {
    pintle_json *values = pintle_new(PINTLE_LIST);
    for (;;) {
        size_t length = strcspn(text, ",");
        const char *to = text + length < end ? text + length : end;
        pintle_append(values, text_value(trimmed(text, to)));
        if (to == end) {
            return values;
        }
        text = to + 1;
    }
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

static bool parse_one(const char *text, selector *into) {
    size_t length = strlen(text);
    const char *open = strchr(text, '(');
    if (text[0] == '!') {
        return add(into, trimmed(text + 1, text + length), SELECTOR_ABSENT, NULL);
    }
    if (open != NULL && text[length - 1] == ')') {
        const char *left = trimmed(text, open);
        bool is_not = ends_with(left, " notin");
        if (!is_not && !ends_with(left, " in")) {
            return false;
        }
        const char *key = trimmed(left, left + strlen(left) - (is_not ? 6 : 3));
        return add(into, key, is_not ? SELECTOR_NOT_IN : SELECTOR_IN, values_of(open + 1, text + length - 1));
    }
    static const char *const signs[] = {"!=", "==", "="};
    for (int i = 0; i < 3; i++) {
        const char *sign = strstr(text, signs[i]);
        if (sign != NULL) {
            const char *value = trimmed(sign + strlen(signs[i]), text + length);
            pintle_json *values = pintle_new(PINTLE_LIST);
            pintle_append(values, text_value(value));
            return strpbrk(value, " \t()!=,<>") == NULL && add(into, trimmed(text, sign), i == 0 ? SELECTOR_NOT_IN : SELECTOR_IN, values);
        }
    }
    return add(into, text, SELECTOR_EXISTS, NULL);
}

bool selector_parse(const char *text, selector *into) {
    *into = (selector){0};
    while (text != NULL && text[strspn(text, " \t")] != 0) {
        /* A comma inside parentheses separates values, not requirements. */
        int depth = 0;
        const char *end = text;
        for (; *end != 0 && (*end != ',' || depth > 0); end++) {
            depth += (*end == '(') - (*end == ')');
        }
        if (!parse_one(trimmed(text, end), into)) {
            return false;
        }
        text = *end == 0 ? NULL : end + 1;
    }
    return true;
}

bool selector_read(const pintle_json *value, bool is_map, selector *into) {
    *into = (selector){0};
    if (pintle_type_of(value) != PINTLE_OBJECT) {
        return false;
    }
    const pintle_json *labels = is_map ? value : pintle_at(value, "matchLabels");
    for (size_t i = 0; i < pintle_length(labels); i++) {
        pintle_json *values = pintle_new(PINTLE_LIST);
        pintle_append(values, pintle_item(labels, i));
        add(into, pintle_name(labels, i), SELECTOR_IN, values);
    }
    const pintle_json *expressions = is_map ? NULL : pintle_at(value, "matchExpressions");
    for (size_t i = 0; i < pintle_length(expressions); i++) {
        static const char *const operators[] = {"In", "NotIn", "Exists", "DoesNotExist"};
        const pintle_json *expression = pintle_item(expressions, i);
        int operator = 0;
        while (operator < 4 && !pintle_same_text(operators[operator], pintle_text(pintle_at(expression, "operator"), ""))) {
            operator++;
        }
        pintle_json *values = pintle_at(expression, "values");
        if (operator == 4 || (operator < 2) == (pintle_length(values) == 0)) {
            return false;
        }
        add(into, pintle_text(pintle_at(expression, "key"), ""), operator, values);
    }
    return true;
}

bool selector_matches(const selector *of, const pintle_json *labels) {
    for (size_t i = 0; i < of->length; i++) {
        const requirement *one = &of->items[i];
        const pintle_json *label = pintle_at(labels, one->key);
        bool is_listed = false;
        for (size_t j = 0; j < pintle_length(one->values); j++) {
            is_listed = is_listed || (label != NULL && pintle_equal(label, pintle_item(one->values, j)));
        }
        bool holds = one->operator == SELECTOR_IN ? is_listed : one->operator == SELECTOR_NOT_IN ? !is_listed
                   : one->operator == SELECTOR_EXISTS ? label != NULL : label == NULL;
        if (!holds) {
            return false;
        }
    }
    return true;
}
