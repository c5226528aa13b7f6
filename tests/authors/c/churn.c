/* Reads the world again and again while the allocator is busy, and looks whether what was read is what was there. */
#include <stdlib.h>
#include <string.h>

#include "mistakes.h"

/* How often everything is read in one run, and how many blocks of its own a run has. */
enum { N_ROUNDS = 2, N_BLOCKS = 64 };

typedef struct {
    unsigned char *memory;
    size_t size;
} block;

/* Blocks of many sizes, every other one freed and made anew, so that what the host hands over lands between those that live. */
static bool shuffle(block *blocks, size_t seed) {
    for (size_t i = seed % 2; i < N_BLOCKS; i += 2) {
        for (size_t j = 0; j < blocks[i].size; j++) {
            if (blocks[i].memory[j] != blocks[i].size % 251) {
                return false;
            }
        }
        free(blocks[i].memory);
        size_t size = (seed * 31 + i * 97) % 1500 + 1;
        blocks[i] = (block){malloc(size), size};
        memset(blocks[i].memory, (int)(size % 251), size);
    }
    return true;
}

/* Whether the text is the object's name, as many times as it says. */
static bool is_whole(const pintle_json *map) {
    const char *text = pintle_text(pintle_at(map, "data", "text"), ""), *name = pintle_metadata(map, "name");
    size_t length = strlen(name);
    for (long times = atol(pintle_text(pintle_at(map, "data", "times"), "-1")); times > 0; times--, text += length) {
        if (strncmp(text, name, length) != 0) {
            return false;
        }
    }
    return text[0] == 0 && name[0] != 0;
}

static int read_all(const pintle_key *key, pintle_lister *lister, block *blocks) {
    pintle_query query = {.ns = key->ns};
    const pintle_json *all = pintle_list(lister, CONFIG_MAP, query);
    int checked = 0;
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *listed = pintle_item(all, i);
        if (!shuffle(blocks, i)) {
            PINTLE_PANIC("corrupt: a block of the heap");
        }
        const pintle_json *one = pintle_get(lister, CONFIG_MAP, key->ns, pintle_metadata(listed, "name"));
        if (!is_whole(listed) || !is_whole(one)) {
            PINTLE_PANIC("corrupt: %s", pintle_metadata(listed, "name"));
        }
        checked += 2;
    }
    const char *word = pintle_text(pintle_at(pintle_config(lister), "word"), "");
    const char *state = pintle_state(lister, "word");
    if (state == NULL || strcmp(state, word) != 0) {
        PINTLE_PANIC("corrupt: state or configuration");
    }
    return checked;
}

pintle_outcome *churn(const pintle_key *key, pintle_lister *lister) {
    block blocks[N_BLOCKS] = {0};
    int checked = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        checked += read_all(key, lister, blocks);
    }
    for (size_t i = 0; i < N_BLOCKS; i++) {
        free(blocks[i].memory);
    }
    return keep("checked", pintle_printf("%d", checked));
}
