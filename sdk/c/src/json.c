/* JSON values: reading, changing, writing. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

pintle_json *pintle_new(pintle_type type) {
    pintle_json *value = pintle_alloc(sizeof *value);
    value->type = type;
    return value;
}

pintle_json *pintle_new_text(const char *text, size_t length) {
    pintle_json *value = pintle_new(PINTLE_STRING);
    value->text = pintle_copy_text(text, length);
    value->text_length = length;
    return value;
}

pintle_json *pintle_new_int(int64_t number) {
    pintle_json *value = pintle_new(PINTLE_NUMBER);
    value->text = pintle_printf("%" PRId64, number);
    value->text_length = strlen(value->text);
    return value;
}

pintle_json *pintle_new_bool(bool truth) {
    pintle_json *value = pintle_new(PINTLE_BOOL);
    value->truth = truth;
    return value;
}

pintle_type pintle_type_of(const pintle_json *value) { return value == NULL ? PINTLE_NULL : value->type; }

static size_t find(const pintle_json *object, const char *name) {
    for (size_t i = 0; i < object->length; i++) {
        if (strcmp(object->names[i], name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

pintle_json *pintle_member(const pintle_json *object, const char *name) {
    if (pintle_type_of(object) != PINTLE_OBJECT) {
        return NULL;
    }
    size_t i = find(object, name);
    return i == SIZE_MAX ? NULL : object->items[i];
}

pintle_json *pintle_at_path(const pintle_json *value, const char *const *path) {
    /* Values are handed out as changeable wherever they come from. */
    pintle_json *found = (pintle_json *)value;
    for (; found != NULL && *path != NULL; path++) {
        found = pintle_member(found, *path);
    }
    return pintle_type_of(found) == PINTLE_NULL ? NULL : found;
}

const char *pintle_text(const pintle_json *value, const char *otherwise) {
    return pintle_type_of(value) == PINTLE_STRING ? value->text : otherwise;
}

double pintle_double(const pintle_json *number) { return strtod(number->text, NULL); }

/* The integer that a number is, without regard to what other languages know. */
static bool integer_of(const pintle_json *number, int64_t *integer) {
    if (strpbrk(number->text, ".eE") == NULL) {
        errno = 0;
        *integer = strtoll(number->text, NULL, 10);
        return errno == 0;
    }
    double value = pintle_double(number);
    if (!(value >= -9e18 && value <= 9e18) || value != floor(value)) {
        return false;
    }
    *integer = (int64_t)value;
    return true;
}

bool pintle_safe_integer(const pintle_json *number, int64_t *integer) {
    const int64_t largest = 9007199254740991;
    return integer_of(number, integer) && *integer >= -largest && *integer <= largest;
}

int64_t pintle_int(const pintle_json *value, int64_t otherwise) {
    int64_t integer;
    return pintle_type_of(value) == PINTLE_NUMBER && integer_of(value, &integer) ? integer : otherwise;
}

bool pintle_bool(const pintle_json *value, bool otherwise) {
    return pintle_type_of(value) == PINTLE_BOOL ? value->truth : otherwise;
}

size_t pintle_length(const pintle_json *value) { return value == NULL ? 0 : value->length; }

pintle_json *pintle_item(const pintle_json *value, size_t i) {
    return i < pintle_length(value) ? value->items[i] : NULL;
}

const char *pintle_name(const pintle_json *object, size_t i) {
    return pintle_type_of(object) == PINTLE_OBJECT && i < object->length ? object->names[i] : NULL;
}

static void append(pintle_json *value, const char *name, const pintle_json *item) {
    if (value->length == value->capacity) {
        size_t capacity = value->capacity;
        value->items = pintle_grow(value->items, value->length, &value->capacity, sizeof *value->items);
        if (value->type == PINTLE_OBJECT) {
            value->names = pintle_grow(value->names, value->length, &capacity, sizeof *value->names);
        }
    }
    if (value->type == PINTLE_OBJECT) {
        value->names[value->length] = name;
    }
    value->items[value->length++] = item == NULL ? pintle_new(PINTLE_NULL) : (pintle_json *)item;
}

void pintle_set(pintle_json *object, const char *name, const pintle_json *value) {
    if (pintle_type_of(object) != PINTLE_OBJECT) {
        PINTLE_PANIC("%s is set in what is no object", name);
    }
    size_t i = find(object, name);
    if (i == SIZE_MAX) {
        append(object, pintle_copy_text(name, strlen(name)), value);
    } else {
        object->items[i] = value == NULL ? pintle_new(PINTLE_NULL) : (pintle_json *)value;
    }
}

void pintle_remove(pintle_json *object, const char *name) {
    size_t i = pintle_type_of(object) == PINTLE_OBJECT ? find(object, name) : SIZE_MAX;
    if (i != SIZE_MAX) {
        object->length--;
        memmove(object->items + i, object->items + i + 1, (object->length - i) * sizeof *object->items);
        memmove(object->names + i, object->names + i + 1, (object->length - i) * sizeof *object->names);
    }
}

void pintle_append(pintle_json *list, const pintle_json *value) {
    if (pintle_type_of(list) != PINTLE_LIST) {
        PINTLE_PANIC("something is appended to what is no list");
    }
    append(list, NULL, value);
}

pintle_json *pintle_copy(const pintle_json *value) {
    if (value == NULL) {
        return NULL;
    }
    pintle_json *copy = pintle_new(value->type);
    copy->truth = value->truth;
    copy->text = value->text;
    copy->text_length = value->text_length;
    for (size_t i = 0; i < value->length; i++) {
        append(copy, value->names == NULL ? NULL : value->names[i], pintle_copy(value->items[i]));
    }
    return copy;
}

static bool equal_numbers(const pintle_json *a, const pintle_json *b) {
    int64_t x, y;
    if (integer_of(a, &x) && integer_of(b, &y)) {
        return x == y;
    }
    return strcmp(a->text, b->text) == 0 || pintle_double(a) == pintle_double(b);
}

bool pintle_equal(const pintle_json *a, const pintle_json *b) {
    if (pintle_type_of(a) != pintle_type_of(b)) {
        return false;
    }
    switch (pintle_type_of(a)) {
    case PINTLE_NULL:
        return true;
    case PINTLE_BOOL:
        return a->truth == b->truth;
    case PINTLE_NUMBER:
        return equal_numbers(a, b);
    case PINTLE_STRING:
        return a->text_length == b->text_length && memcmp(a->text, b->text, a->text_length) == 0;
    case PINTLE_LIST:
    case PINTLE_OBJECT:
        break;
    }
    if (a->length != b->length) {
        return false;
    }
    for (size_t i = 0; i < a->length; i++) {
        const pintle_json *other = a->type == PINTLE_LIST ? b->items[i] : pintle_member(b, a->names[i]);
        if (other == NULL || !pintle_equal(a->items[i], other)) {
            return false;
        }
    }
    return true;
}

void pintle_put_string(pintle_buffer *buffer, const char *text, size_t length) {
    static const char escapes[] = "\b\t\n\f\r";
    static const char letters[] = "btnfr";
    pintle_put(buffer, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        const char *escape = byte == 0 ? NULL : strchr(escapes, byte);
        if (byte == '"' || byte == '\\') {
            pintle_put(buffer, (char[]){'\\', (char)byte}, 2);
        } else if (escape != NULL) {
            pintle_put(buffer, (char[]){'\\', letters[escape - escapes]}, 2);
        } else if (byte < 0x20) {
            pintle_put(buffer, (char[]){'\\', 'u', '0', '0', byte < 16 ? '0' : '1', "0123456789abcdef"[byte & 15]}, 6);
        } else {
            pintle_put(buffer, (char *)&byte, 1);
        }
    }
    pintle_put(buffer, "\"", 1);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Writes a value, in the canonical form if so asked for. false if a number has no canonical form. */
static bool put(pintle_buffer *buffer, const pintle_json *value, bool is_canonical) {
    switch (pintle_type_of(value)) {
    case PINTLE_NULL:
        pintle_put(buffer, "null", 4);
        return true;
    case PINTLE_BOOL:
        pintle_put(buffer, value->truth ? "true" : "false", value->truth ? 4 : 5);
        return true;
    case PINTLE_NUMBER: {
        int64_t integer;
        const char *text = value->text;
        if (is_canonical) {
            if (!pintle_safe_integer(value, &integer)) {
                return false;
            }
            text = pintle_printf("%" PRId64, integer);
        }
        pintle_put(buffer, text, strlen(text));
        return true;
    }
    case PINTLE_STRING:
        pintle_put_string(buffer, value->text, value->text_length);
        return true;
    case PINTLE_LIST:
    case PINTLE_OBJECT:
        break;
    }
    bool is_object = value->type == PINTLE_OBJECT;
    const char **names = value->names;
    if (is_object && is_canonical && value->length > 0) {
        names = pintle_alloc(value->length * sizeof *names);
        memcpy(names, value->names, value->length * sizeof *names);
        qsort(names, value->length, sizeof *names, by_name);
    }
    pintle_put(buffer, is_object ? "{" : "[", 1);
    bool is_first = true;
    for (size_t i = 0; i < value->length; i++) {
        const pintle_json *item = is_object && is_canonical ? pintle_member(value, names[i]) : value->items[i];
        if (is_object && is_canonical && pintle_type_of(item) == PINTLE_NULL) {
            continue;
        }
        if (!is_first) {
            pintle_put(buffer, ",", 1);
        }
        is_first = false;
        if (is_object) {
            pintle_put_string(buffer, names[i], strlen(names[i]));
            pintle_put(buffer, ":", 1);
        }
        if (!put(buffer, item, is_canonical)) {
            return false;
        }
    }
    pintle_put(buffer, is_object ? "}" : "]", 1);
    return true;
}

char *pintle_write(const pintle_json *value) {
    pintle_buffer buffer = {0};
    put(&buffer, value, false);
    return buffer.text;
}

char *pintle_canonical(const pintle_json *value) {
    pintle_buffer buffer = {0};
    return put(&buffer, value, true) ? buffer.text : NULL;
}

char *pintle_hash(const pintle_json *value) {
    pintle_buffer buffer = {0};
    if (!put(&buffer, value, true)) {
        return NULL;
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < buffer.length; i++) {
        hash = (hash ^ (unsigned char)buffer.text[i]) * 0x100000001b3;
    }
    return pintle_printf("%016" PRIx64, hash);
}
