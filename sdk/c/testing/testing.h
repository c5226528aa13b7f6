/* Runs a plugin natively against cases. Authors need nothing of this: main.c runs what PINTLE_EXPORT exports. */
#ifndef PINTLE_TESTING_H
#define PINTLE_TESTING_H

#include <setjmp.h>

#include "../src/internal.h"

/* One run: a key and the cluster that it reads. */
typedef struct {
    pintle_key key;
    const pintle_json *manifest, *input;
    /* Objects in the order of lists. */
    pintle_json *objects, *live;
    pintle_need *asked;
    size_t n_asked, asked_capacity;
    /* In seconds. */
    double uptime;
} fixture;

/* Reads the manifest and the input of a case. NULL, or what is wrong with them. */
const char *fixture_read(fixture *of, const pintle_json *manifest, const pintle_json *input);
/* A lister over the objects of a fixture. It ends the run as a fault where the host would. */
pintle_lister fixture_lister(fixture *of);
/* Calls the function until it needs no more reads, and shows the result in the form of the expected outcome of a case. */
pintle_json *fixture_run(fixture *of, pintle_outcome *(*reconcile)(const pintle_key *key, pintle_lister *lister));
/* The cached object that an update would replace; NULL if there is none. */
const pintle_json *fixture_original(const fixture *of, pintle_kind kind, const char *ns, const char *name);

/* Whether a text is one of those that end with NULL. */
bool fixture_is_among(const char *text, const char *const *texts);
const pintle_json *fixture_find(const pintle_json *objects, pintle_kind kind, const char *ns, const char *name);
/* What a read gives of a cached object. */
pintle_json *fixture_seen(const fixture *of, const pintle_json *object, bool is_whole);
/* Whether a label selector matches an object; NULL matches every one. */
bool fixture_matches(const char *selector, const pintle_json *object);

/* The members of a field path. */
typedef struct {
    const char **items;
    size_t length, capacity;
} path;

/* Splits spec.nodeName or metadata.annotations['example.com/x']. */
path fixture_path(const char *text);
/* A copy with only what the paths name, from their given depth on. */
pintle_json *fixture_project(const pintle_json *value, const path *paths, size_t length, size_t depth);

/* What is wrong with the answers that an input has; NULL if nothing. */
const char *answers_check(const pintle_json *input);
/* The answer of the API server, of keys and of endpoints, as the input has it. */
pintle_answer answers_find(const fixture *of, const pintle_need *need);

pintle_json *show(const pintle_outcome *outcome, const fixture *of);
pintle_json *show_needs(const pintle_need *needs, size_t length);
/* Tells of each place at which two values differ: a list of texts. */
void compare(const char *place, const pintle_json *wanted, const pintle_json *got, pintle_json *differences);

/* A label selector: all of its requirements must hold. */
typedef struct {
    const char *key;
    enum { SELECTOR_IN, SELECTOR_NOT_IN, SELECTOR_EXISTS, SELECTOR_ABSENT } operator;
    /* A list of texts. */
    pintle_json *values;
} requirement;

typedef struct {
    requirement *items;
    size_t length, capacity;
} selector;

/* Reads kubectl's syntax. false if it does not parse. */
bool selector_parse(const char *text, selector *into);
/* Reads that of an object's spec: a map of labels, or matchLabels and matchExpressions. false if it makes no sense. */
bool selector_read(const pintle_json *value, bool is_map, selector *into);
bool selector_matches(const selector *of, const pintle_json *labels);

/* Where a fault goes, and what it said. */
extern jmp_buf *on_fault;
extern const char *fault_message;
/* Ends the run as the host would. */
#define FAULT(...) pintle_trap(pintle_printf("fault: " __VA_ARGS__))

#endif
