/* What the parts of the SDK know of one another. Authors do not include this. */
#ifndef PINTLE_INTERNAL_H
#define PINTLE_INTERNAL_H

#include <stdarg.h>

#include "../pintle.h"

struct pintle_json {
    pintle_type type;
    bool truth;
    /* Of a string, with its length as it may have NULs; or a number as it is written. */
    const char *text;
    size_t text_length;
    /* Of a list or an object. */
    pintle_json **items;
    const char **names;
    size_t length, capacity;
};

pintle_json *pintle_new(pintle_type type);
pintle_json *pintle_new_text(const char *text, size_t length);
pintle_json *pintle_new_int(int64_t number);
pintle_json *pintle_new_bool(bool truth);
/* The member also if it is null; NULL only if it is absent. */
pintle_json *pintle_member(const pintle_json *object, const char *name);
/* Whether a number is an integer of which every language knows, and which. */
bool pintle_safe_integer(const pintle_json *number, int64_t *integer);
double pintle_double(const pintle_json *number);
bool pintle_covers(const pintle_json *existing, const pintle_json *wanted);

/* A growing text. */
typedef struct {
    char *text;
    size_t length, capacity;
} pintle_buffer;
void pintle_put(pintle_buffer *buffer, const char *text, size_t length);
void pintle_put_string(pintle_buffer *buffer, const char *text, size_t length);

char *pintle_copy_text(const char *text, size_t length);
char *pintle_vprintf(const char *format, va_list arguments);
/* Frees all memory of the run. */
void pintle_reset(void);

/* "NAMESPACE/NAME", or "NAME" if it is cluster-scoped. */
const char *pintle_full_name(const char *ns, const char *name);
bool pintle_same_text(const char *a, const char *b);
bool pintle_same_need(const pintle_need *a, const pintle_need *b);
/* A time in milliseconds within the contract's range. */
int64_t pintle_clamp_ms(int64_t ms);

enum { PINTLE_LEVEL_DEBUG, PINTLE_LEVEL_INFO, PINTLE_LEVEL_WARN, PINTLE_LEVEL_ERROR };
/* Where lines go, and how a run ends as a fault: both by whoever runs the plugin. */
void pintle_write_log(int level, const char *line);
_Noreturn void pintle_trap(const char *line);

typedef struct {
    bool is_answered;
    /* 0, or the code of a refusal. */
    int code;
    pintle_json *body;
} pintle_answer;

/* What a lister is made of: the host's by its handle, or one over the objects of a test. */
typedef struct {
    const char *(*now)(void *of);
    double (*uptime)(void *of);
    pintle_json *(*get)(void *of, pintle_kind kind, const char *ns, const char *name);
    pintle_json *(*list)(void *of, pintle_kind kind, pintle_query query);
    uint32_t (*count)(void *of, pintle_kind kind, pintle_query query);
    pintle_json *(*selecting)(void *of, pintle_kind kind, const char *ns, const pintle_json *labels);
    pintle_json *(*dependents)(void *of, const char *uid);
    pintle_json *(*by_uid)(void *of, const char *uid);
    pintle_json *(*resources)(void *of);
    pintle_json *(*resources_of)(void *of, const char *group, const char *name);
    pintle_json *(*config)(void *of);
    const char *(*state)(void *of, const char *name);
    uint32_t (*attempt)(void *of);
    pintle_json *(*failures)(void *of);
    pintle_answer (*answer)(void *of, pintle_need need);
} pintle_lister_functions;

struct pintle_lister {
    const pintle_lister_functions *functions;
    void *of;
    /* What pintle_unfinished gives. */
    pintle_outcome *unfinished;
};

typedef struct {
    pintle_order order;
    bool always;
    pintle_mutations mutations;
} pintle_step;

typedef struct {
    const char *name, *value;
} pintle_state_write;

typedef struct {
    const char *metric;
    double value;
    const char *const *labels;
    size_t n_labels;
    pintle_moment moment;
    /* Of a moment other than PINTLE_ACCEPTED. */
    pintle_place place;
} pintle_observation;

typedef struct {
    pintle_key key;
    /* -1: at once. */
    int64_t after_ms;
} pintle_waking;

typedef struct {
    const char *name, *value;
} pintle_label;

/* Takes this many reads from one outcome; more are asked for by the next round, which still misses them. */
#define PINTLE_MAX_NEEDS 256

struct pintle_outcome {
    /* An error, if there is a message. */
    const char *message;
    bool is_terminal;
    /* -1: not. */
    int64_t after_ms;
    pintle_step *steps;
    size_t n_steps, steps_capacity;
    pintle_need *needs;
    size_t n_needs, needs_capacity;
    pintle_state_write *state;
    size_t n_state, state_capacity;
    pintle_observation *observations;
    size_t n_observations, observations_capacity;
    pintle_waking *wakes;
    size_t n_wakes, wakes_capacity;
    pintle_label *run_labels;
    size_t n_run_labels, run_labels_capacity;
    /* One with a message: the run fails all the same. NULL: it does not. */
    const pintle_outcome *error;
};

/* Makes room for one more in an array that lives until the end of the run. */
#define PINTLE_GROW(array, length, capacity) \
    ((array) = (length) < (capacity) ? (array) : pintle_grow((array), (length), &(capacity), sizeof *(array)))
void *pintle_grow(void *array, size_t length, size_t *capacity, size_t size);

#endif
