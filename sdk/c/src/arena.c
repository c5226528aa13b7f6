/* Memory of a run: blocks that are freed all at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#ifdef __wasm__
#define BLOCK_SIZE 65536
#else
/* Each piece by itself, so that a sanitizer sees what passes its end. */
#define BLOCK_SIZE 0
#endif

typedef struct block {
    struct block *next;
    size_t used, size;
    _Alignas(max_align_t) char memory[];
} block;

static block *blocks;

void *pintle_alloc(size_t size) {
    const size_t align = _Alignof(max_align_t);
    if (size > SIZE_MAX / 2) {
        pintle_trap("out of memory");
    }
    size_t rounded = size == 0 ? align : (size + align - 1) / align * align;
    if (blocks == NULL || blocks->size - blocks->used < rounded) {
        size_t room = rounded > BLOCK_SIZE ? rounded : BLOCK_SIZE;
        if (BLOCK_SIZE == 0) {
            room = size == 0 ? 1 : size;
        }
        block *fresh = malloc(sizeof *fresh + room);
        if (fresh == NULL) {
            pintle_trap("out of memory");
        }
        *fresh = (block){.next = blocks, .size = room};
        blocks = fresh;
    }
    char *memory = blocks->memory + blocks->used;
    blocks->used += rounded < blocks->size - blocks->used ? rounded : blocks->size - blocks->used;
    return memset(memory, 0, size);
}

void pintle_reset(void) {
    while (blocks != NULL) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

void *pintle_grow(void *array, size_t length, size_t *capacity, size_t size) {
    *capacity = *capacity < 4 ? 4 : *capacity * 2;
    void *grown = pintle_alloc(*capacity * size);
    if (length > 0) {
        memcpy(grown, array, length * size);
    }
    return grown;
}

void pintle_put(pintle_buffer *buffer, const char *text, size_t length) {
    if (buffer->text == NULL || buffer->capacity - buffer->length <= length) {
        size_t capacity = (buffer->length + length + 1) * 2;
        char *grown = pintle_alloc(capacity);
        if (buffer->length > 0) {
            memcpy(grown, buffer->text, buffer->length);
        }
        buffer->text = grown;
        buffer->capacity = capacity;
    }
    if (length > 0) {
        memcpy(buffer->text + buffer->length, text, length);
    }
    buffer->length += length;
    buffer->text[buffer->length] = 0;
}

char *pintle_copy_text(const char *text, size_t length) {
    char *copy = pintle_alloc(length + 1);
    if (length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *pintle_vprintf(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0) {
        va_end(again);
        pintle_trap("a format of printf is not valid");
    }
    char *text = pintle_alloc((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *pintle_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = pintle_vprintf(format, arguments);
    va_end(arguments);
    return text;
}

#define LOG(name, level)                                    \
    void name(const char *format, ...) {                    \
        va_list arguments;                                  \
        va_start(arguments, format);                        \
        pintle_write_log(level, pintle_vprintf(format, arguments)); \
        va_end(arguments);                                  \
    }

LOG(pintle_debug, PINTLE_LEVEL_DEBUG)
LOG(pintle_info, PINTLE_LEVEL_INFO)
LOG(pintle_warn, PINTLE_LEVEL_WARN)
LOG(pintle_error, PINTLE_LEVEL_ERROR)

void pintle_panic(const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *message = pintle_vprintf(format, arguments);
    va_end(arguments);
    const char *slash = strrchr(file, '/');
    pintle_trap(pintle_printf("panic: %s at %s:%d", message, slash == NULL ? file : slash + 1, line));
}
