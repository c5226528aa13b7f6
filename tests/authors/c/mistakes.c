/* Makes the mistake that the name of its key says. What is told of each: tests/tests/mistakes.rs. */
#include "mistakes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const pintle_kind MISTAKE = {"example.com", "v1", "Mistake"};
const pintle_kind CONFIG_MAP = {"", "v1", "ConfigMap"};
static const pintle_kind SECRET = {"", "v1", "Secret"};

static int runs;

pintle_outcome *keep(const char *name, const char *value) {
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_keep(outcome, name, value);
    return outcome;
}

static pintle_outcome *step(pintle_mutation *mutation) {
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_mutations mutations = {0};
    pintle_add(&mutations, mutation);
    pintle_then(outcome, PINTLE_SEQUENTIAL, mutations);
    return outcome;
}

typedef struct {
    const char *name;
    int age;
} item;

/* NULL if there is none of this name. */
static const item *find(const char *name) {
    static const item items[] = {{"first", 1}, {"second", 2}};
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(items[i].name, name) == 0) {
            return &items[i];
        }
    }
    return NULL;
}

static pintle_outcome *age_of(const char *name) {
    return keep("age", pintle_printf("%d", find(name)->age));
}

static pintle_outcome *third_of(size_t n) {
    int items[2] = {1, 2};
    return keep("third", pintle_printf("%d", items[n]));
}

static pintle_outcome *divide(size_t n) { return keep("share", pintle_printf("%d", 100 / (int)n)); }

static pintle_outcome *insist(const pintle_key *key) {
    assert(key->name[0] == 'x');
    return NULL;
}

static pintle_outcome *parse(const pintle_key *key, pintle_lister *lister) {
    const char *text = pintle_text(pintle_at(pintle_get(lister, MISTAKE, key->ns, key->name), "spec", "settings"), "");
    const pintle_json *settings = pintle_parse(text, strlen(text));
    if (settings == NULL) {
        PINTLE_PANIC("spec.settings is no JSON: %s", pintle_parse_problem());
    }
    return keep("settings", pintle_write(settings));
}

static pintle_outcome *fill_memory(void) {
    for (size_t n = 0;; n++) {
        memset(pintle_alloc(1 << 20), (int)n, 1 << 20);
    }
}

__attribute__((__noinline__)) static int depth(const volatile int *above, int level) {
    volatile int here[64] = {above[0] + level};
    return level < 0 ? 0 : depth(here, level + 1) + here[0];
}

static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    static const int none[64];
    const char *name = key->name;
    if (strcmp(name, "panic") == 0) {
        return third_of(strlen(key->ns));
    }
    if (strcmp(name, "null") == 0) {
        return age_of(key->ns);
    }
    if (strcmp(name, "assert") == 0) {
        return insist(key);
    }
    if (strcmp(name, "abort") == 0) {
        abort();
    }
    if (strcmp(name, "bad-format") == 0) {
        return keep("pair", pintle_write(pintle_format("{'name': %s, 'age'}", name)));
    }
    if (strcmp(name, "divide") == 0) {
        return divide(strlen(name) - 6);
    }
    if (strcmp(name, "global") == 0) {
        return keep("runs", pintle_printf("%d", ++runs));
    }
    if (strcmp(name, "bad-json") == 0) {
        return parse(key, lister);
    }
    if (strcmp(name, "undeclared-kind") == 0) {
        return step(pintle_create(SECRET, key->ns, pintle_format("{'metadata': {'name': %s}}", name)));
    }
    if (strcmp(name, "forgotten-grant") == 0) {
        return step(pintle_delete(CONFIG_MAP, key->ns, name));
    }
    if (strcmp(name, "unwatched") == 0) {
        return keep("secret", pintle_write(pintle_get(lister, SECRET, key->ns, name)));
    }
    if (strcmp(name, "loop") == 0) {
        for (volatile int forever = 1; forever;) {
        }
    }
    if (strcmp(name, "memory") == 0) {
        return fill_memory();
    }
    if (strcmp(name, "deep") == 0) {
        return keep("depth", pintle_printf("%d", depth(none, 0)));
    }
    if (strcmp(name, "churn") == 0) {
        return churn(key, lister);
    }
    return pintle_terminal("there is no mistake %s", name);
}

PINTLE_EXPORT(reconcile)
