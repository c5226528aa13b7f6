/* JSON text to values, and the formats of pintle_format, which are JSON with other quotes and places for values. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Deeper values are refused, as their reading could pass the end of the stack. */
#define MAX_DEPTH 128

typedef struct {
    const char *at, *end;
    /* Of a format: where the next value comes from. */
    va_list *values;
    int depth;
} reader;

static pintle_json *read_value(reader *r);

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) {
        r->at++;
    }
}

static bool take(reader *r, char wanted) {
    skip_space(r);
    if (r->at < r->end && *r->at == wanted) {
        r->at++;
        return true;
    }
    return false;
}

static int hex(const reader *r) {
    int code = 0;
    if (r->end - r->at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        char c = r->at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
    }
    return code;
}

static void put_rune(pintle_buffer *buffer, unsigned rune) {
    char bytes[4];
    size_t n = rune < 0x80 ? 1 : rune < 0x800 ? 2 : rune < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (rune & 0x3f));
        rune >>= 6;
    }
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    bytes[0] = (char)(first[n] | rune);
    pintle_put(buffer, bytes, n);
}

static bool read_escape(reader *r, pintle_buffer *buffer) {
    static const char letters[] = "\"\\/bfnrt'";
    static const char meant[] = "\"\\/\b\f\n\r\t'";
    char c = *r->at++;
    const char *letter = c == 0 ? NULL : strchr(letters, c);
    if (letter != NULL && (c != '\'' || r->values != NULL)) {
        pintle_put(buffer, &meant[letter - letters], 1);
        return true;
    }
    int code = c == 'u' ? hex(r) : -1;
    if (code < 0) {
        return false;
    }
    r->at += 4;
    unsigned rune = (unsigned)code;
    if (code >= 0xd800 && code < 0xe000) {
        /* Half of a pair; alone it is nothing. */
        rune = 0xfffd;
        if (code < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
            r->at += 2;
            int low = hex(r);
            if (low >= 0xdc00 && low < 0xe000) {
                r->at += 4;
                rune = 0x10000 + (((unsigned)code - 0xd800) << 10) + ((unsigned)low - 0xdc00);
            } else {
                r->at -= 2;
            }
        }
    }
    put_rune(buffer, rune);
    return true;
}

/* Reads a string that begins with a quote. */
static bool read_string(reader *r, pintle_buffer *buffer) {
    char quote = *r->at++;
    pintle_put(buffer, "", 0);
    while (r->at < r->end && *r->at != quote) {
        if ((unsigned char)*r->at < 0x20) {
            return false;
        }
        if (*r->at == '\\') {
            r->at++;
            if (r->at >= r->end || !read_escape(r, buffer)) {
                return false;
            }
        } else {
            const char *from = r->at;
            while (r->at < r->end && *r->at != quote && *r->at != '\\' && (unsigned char)*r->at >= 0x20) {
                r->at++;
            }
            pintle_put(buffer, from, (size_t)(r->at - from));
        }
    }
    return r->at < r->end && *r->at++ == quote;
}

static bool is_quote(const reader *r) {
    return r->at < r->end && (*r->at == '"' || (*r->at == '\'' && r->values != NULL));
}

/* The place of a value in a format; 0 if there is none here. */
static char take_place(reader *r) {
    skip_space(r);
    if (r->values == NULL || r->end - r->at < 2 || *r->at != '%') {
        return 0;
    }
    r->at += 2;
    return r->at[-1];
}

static pintle_json *read_place(reader *r, char place) {
    switch (place) {
    case 's': {
        const char *text = va_arg(*r->values, const char *);
        return text == NULL ? pintle_new(PINTLE_NULL) : pintle_new_text(text, strlen(text));
    }
    case 'd':
        return pintle_new_int(va_arg(*r->values, int));
    case 'i':
        return pintle_new_int(va_arg(*r->values, int64_t));
    case 'b':
        return pintle_new_bool(va_arg(*r->values, int));
    case 'j': {
        pintle_json *value = va_arg(*r->values, pintle_json *);
        return value == NULL ? pintle_new(PINTLE_NULL) : value;
    }
    }
    return NULL;
}

static pintle_json *read_object(reader *r) {
    pintle_json *object = pintle_new(PINTLE_OBJECT);
    if (take(r, '}')) {
        return object;
    }
    do {
        skip_space(r);
        const char *name;
        char place = take_place(r);
        if (place == 's') {
            name = va_arg(*r->values, const char *);
        } else {
            pintle_buffer buffer = {0};
            if (place != 0 || !is_quote(r) || !read_string(r, &buffer)) {
                return NULL;
            }
            name = buffer.text;
        }
        pintle_json *value = take(r, ':') ? read_value(r) : NULL;
        if (value == NULL) {
            return NULL;
        }
        pintle_set(object, name, value);
    } while (take(r, ','));
    return take(r, '}') ? object : NULL;
}

static pintle_json *read_list(reader *r) {
    pintle_json *list = pintle_new(PINTLE_LIST);
    if (take(r, ']')) {
        return list;
    }
    do {
        pintle_json *value = read_value(r);
        if (value == NULL) {
            return NULL;
        }
        pintle_append(list, value);
    } while (take(r, ','));
    return take(r, ']') ? list : NULL;
}

static size_t digits(reader *r) {
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        r->at++;
    }
    return (size_t)(r->at - from);
}

static pintle_json *read_number(reader *r) {
    const char *from = r->at;
    r->at += r->at < r->end && *r->at == '-';
    bool is_zero = r->at < r->end && *r->at == '0';
    size_t n = digits(r);
    if (n == 0 || (is_zero && n > 1)) {
        return NULL;
    }
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (digits(r) == 0) {
            return NULL;
        }
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        r->at += r->at < r->end && (*r->at == '+' || *r->at == '-');
        if (digits(r) == 0) {
            return NULL;
        }
    }
    pintle_json *number = pintle_new(PINTLE_NUMBER);
    number->text_length = (size_t)(r->at - from);
    number->text = pintle_copy_text(from, number->text_length);
    return number;
}

static bool take_word(reader *r, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) {
        return false;
    }
    r->at += length;
    return true;
}

static pintle_json *read_value(reader *r) {
    char place = take_place(r);
    if (place != 0) {
        return read_place(r, place);
    }
    if (is_quote(r)) {
        pintle_buffer buffer = {0};
        if (!read_string(r, &buffer)) {
            return NULL;
        }
        pintle_json *value = pintle_new(PINTLE_STRING);
        value->text = buffer.text;
        value->text_length = buffer.length;
        return value;
    }
    if (r->depth == MAX_DEPTH || r->at >= r->end) {
        return NULL;
    }
    pintle_json *value = NULL;
    r->depth++;
    if (take(r, '{')) {
        value = read_object(r);
    } else if (take(r, '[')) {
        value = read_list(r);
    } else if (take_word(r, "null")) {
        value = pintle_new(PINTLE_NULL);
    } else if (take_word(r, "true")) {
        value = pintle_new_bool(true);
    } else if (take_word(r, "false")) {
        value = pintle_new_bool(false);
    } else {
        value = read_number(r);
    }
    r->depth--;
    return value;
}

static pintle_json *read_all(reader *r) {
    pintle_json *value = read_value(r);
    skip_space(r);
    return r->at == r->end ? value : NULL;
}

static char problem[64];

const char *pintle_parse_problem(void) { return problem; }

pintle_json *pintle_parse(const char *text, size_t length) {
    reader r = {.at = text, .end = text + length};
    pintle_json *value = read_all(&r);
    if (value == NULL) {
        snprintf(problem, sizeof problem, "it makes no sense from byte %zu of %zu on", (size_t)(r.at - text), length);
    }
    return value;
}

pintle_json *pintle_format_at(const char *file, int line, const char *format, ...) {
    va_list values;
    va_start(values, format);
    reader r = {.at = format, .end = format + strlen(format), .values = &values};
    pintle_json *value = read_all(&r);
    va_end(values);
    if (value == NULL) {
        pintle_panic(file, line, "pintle_format: it is no JSON from here on: %.40s", r.at);
    }
    return value;
}
