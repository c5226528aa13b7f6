/* A lister over plain objects. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

/* Calls of one run, as in the host. */
#define MAX_ROUNDS 8

static pintle_json *text_value(const char *text) { return pintle_new_text(text, strlen(text)); }

static const char *text_at(const pintle_json *value, const char *name) { return pintle_text(pintle_at(value, name), ""); }

/* ---- Reading ---- */

static int by_kind_and_name(const void *a, const void *b) {
    const pintle_json *x = *(pintle_json *const *)a, *y = *(pintle_json *const *)b;
    pintle_kind k = pintle_kind_of(x), l = pintle_kind_of(y);
    int order = strcmp(k.group, l.group);
    order = order != 0 ? order : strcmp(k.version, l.version);
    order = order != 0 ? order : strcmp(k.name, l.name);
    order = order != 0 ? order : strcmp(pintle_metadata(x, "namespace"), pintle_metadata(y, "namespace"));
    return order != 0 ? order : strcmp(pintle_metadata(x, "name"), pintle_metadata(y, "name"));
}

/* The objects with what is filled in, in the order of lists. */
static const char *read_objects(const pintle_json *from, pintle_json **to) {
    *to = from == NULL ? pintle_new(PINTLE_LIST) : pintle_copy(from);
    for (size_t i = 0; i < pintle_length(*to); i++) {
        pintle_json *object = pintle_item(*to, i), *metadata = pintle_at(object, "metadata");
        const char *name = pintle_metadata(object, "name");
        if (text_at(object, "apiVersion")[0] == 0 || text_at(object, "kind")[0] == 0 || name[0] == 0) {
            return pintle_printf("an object needs apiVersion, kind and metadata.name: %s", pintle_write(object));
        }
        if (pintle_at(metadata, "uid") == NULL) {
            pintle_set(metadata, "uid", text_value(pintle_printf("uid-%s", name)));
        }
        if (pintle_at(metadata, "resourceVersion") == NULL) {
            pintle_set(metadata, "resourceVersion", text_value("1"));
        }
    }
    if (pintle_length(*to) > 0) {
        qsort((*to)->items, (*to)->length, sizeof *(*to)->items, by_kind_and_name);
    }
    return NULL;
}

bool fixture_is_among(const char *text, const char *const *texts) {
    while (*texts != NULL && strcmp(*texts, text) != 0) {
        texts++;
    }
    return *texts != NULL;
}

/* A duration in Go's syntax, in whole milliseconds, rounded up; NULL if it is none. */
static pintle_json *milliseconds(const char *text) {
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    double ns = 0;
    if (strcmp(text, "0") == 0) {
        return pintle_format("0");
    }
    do {
        size_t n_digits = strspn(text, "0123456789.");
        char *end;
        double number = strtod(text, &end);
        if (n_digits == 0 || end != text + n_digits) {
            return NULL;
        }
        text = end;
        size_t length = strcspn(text, "0123456789."), i = 0;
        while (i < sizeof units / sizeof *units && (strlen(units[i].name) != length || strncmp(units[i].name, text, length) != 0)) {
            i++;
        }
        if (i == sizeof units / sizeof *units) {
            return NULL;
        }
        ns += number * units[i].ns;
        text += length;
    } while (*text != 0);
    return pintle_format("%i", (int64_t)ceil(ns / 1e6));
}

static bool is_duration(const pintle_json *setting, const pintle_json *value) {
    return strcmp(text_at(setting, "type"), "duration") == 0 && pintle_type_of(value) == PINTLE_STRING;
}

/* A setting as the controller sees it. */
static pintle_json *seen(const pintle_json *setting, pintle_json *value) {
    return is_duration(setting, value) ? milliseconds(pintle_text(value, "")) : value;
}

/* What is wrong with the durations that an input gives; NULL if nothing is. */
static const char *durations_check(const pintle_json *settings, const pintle_json *given) {
    for (size_t i = 0; i < pintle_length(given); i++) {
        const pintle_json *value = pintle_item(given, i);
        if (is_duration(pintle_at(settings, pintle_name(given, i)), value) && milliseconds(pintle_text(value, "")) == NULL) {
            return pintle_printf("config: %s: %s is not a duration", pintle_name(given, i), pintle_write(value));
        }
    }
    return NULL;
}

const char *fixture_read(fixture *of, const pintle_json *manifest, const pintle_json *input) {
    static const char *const known[] = {
        "key",       "now", "uptime",       "objects", "live",       "config", "state",     "attempt", "failures",
        "resources", "raw", "subresources", "reviews", "signatures", "calls",  "discovery", "settle",  "define",  NULL};
    for (size_t i = 0; i < pintle_length(input); i++) {
        if (!fixture_is_among(pintle_name(input, i), known)) {
            return pintle_printf("an input has no member %s", pintle_name(input, i));
        }
    }
    const pintle_json *key = pintle_at(input, "key");
    if (text_at(key, "kind")[0] == 0 || text_at(key, "name")[0] == 0) {
        return "key needs kind and name";
    }
    const pintle_json *uptime = pintle_at(input, "uptime");
    double seconds = pintle_type_of(uptime) == PINTLE_NUMBER ? pintle_double(uptime) : uptime == NULL ? 0 : -1;
    if (!(seconds >= 0) || isinf(seconds)) {
        return pintle_printf("uptime: %s is not a number of seconds, 0 or more", pintle_write(uptime));
    }
    *of = (fixture){.manifest = manifest, .input = input, .uptime = seconds};
    const char *queue = text_at(pintle_item(pintle_at(manifest, "queues"), 0), "name");
    of->key = (pintle_key){
        pintle_text(pintle_at(key, "queue"), queue), pintle_kind_parse(text_at(key, "kind")), text_at(key, "namespace"),
        text_at(key, "name")};
    const char *wrong = read_objects(pintle_at(input, "objects"), &of->objects);
    const pintle_json *live = pintle_at(input, "live");
    wrong = wrong != NULL ? wrong : read_objects(live == NULL ? pintle_at(input, "objects") : live, &of->live);
    wrong = wrong != NULL ? wrong : durations_check(pintle_at(manifest, "config"), pintle_at(input, "config"));
    return wrong != NULL ? wrong : answers_check(input);
}

/* ---- Field paths ---- */

path fixture_path(const char *text) {
    path made = {0};
    while (*text != 0) {
        const char *end, *next;
        if (strncmp(text, "['", 2) == 0 && (end = strstr(text, "']")) != NULL) {
            text += 2;
            next = end + 2;
        } else {
            end = next = text + strcspn(text, ".[");
            if (end == text) {
                FAULT("%s is not a field path: write spec.nodeName or metadata.labels['example.com/x']", text);
            }
        }
        PINTLE_GROW(made.items, made.length, made.capacity);
        made.items[made.length++] = pintle_copy_text(text, (size_t)(end - text));
        text = next + (*next == '.');
    }
    return made;
}

pintle_json *fixture_project(const pintle_json *value, const path *paths, size_t length, size_t depth) {
    pintle_type type = pintle_type_of(value);
    if (type != PINTLE_OBJECT && type != PINTLE_LIST) {
        return pintle_copy(value);
    }
    pintle_json *kept = pintle_new(type);
    for (size_t i = 0; i < value->length; i++) {
        if (type == PINTLE_LIST) {
            pintle_append(kept, fixture_project(value->items[i], paths, length, depth));
            continue;
        }
        path *below = pintle_alloc(length * sizeof *below);
        size_t n = 0;
        bool is_whole = false;
        for (size_t j = 0; j < length; j++) {
            if (paths[j].length > depth && strcmp(paths[j].items[depth], value->names[i]) == 0) {
                below[n++] = paths[j];
                is_whole = is_whole || paths[j].length == depth + 1;
            }
        }
        if (n > 0) {
            pintle_set(kept, value->names[i], is_whole ? pintle_copy(value->items[i]) : fixture_project(value->items[i], below, n, depth + 1));
        }
    }
    return kept;
}

/* Whether a value at a path is this one; a list on the way or at the end stands for its items. */
static bool has_value(const pintle_json *value, const path *at, size_t depth, const char *wanted) {
    if (pintle_type_of(value) == PINTLE_LIST) {
        for (size_t i = 0; i < value->length; i++) {
            if (has_value(value->items[i], at, depth, wanted)) {
                return true;
            }
        }
        return false;
    }
    if (depth < at->length) {
        const pintle_json *member = pintle_at(value, at->items[depth]);
        return member != NULL && has_value(member, at, depth + 1, wanted);
    }
    switch (pintle_type_of(value)) {
    case PINTLE_STRING:
    case PINTLE_NUMBER:
        return strcmp(value->text, wanted) == 0;
    case PINTLE_BOOL:
        return strcmp(value->truth ? "true" : "false", wanted) == 0;
    default:
        return false;
    }
}

/* ---- Watches ---- */

static const pintle_json *watch_of(const fixture *of, pintle_kind kind) {
    const pintle_json *watches = pintle_at(of->manifest, "watches");
    const pintle_json *every = NULL;
    for (size_t i = 0; i < pintle_length(watches); i++) {
        const pintle_json *watch = pintle_item(watches, i);
        if (strcmp(text_at(watch, "kind"), pintle_kind_text(kind)) == 0) {
            return watch;
        }
        every = every == NULL && pintle_at(watch, "every") != NULL ? watch : every;
    }
    return every;
}

static const pintle_json *must_watch(const fixture *of, pintle_kind kind) {
    const pintle_json *watch = watch_of(of, kind);
    if (watch == NULL) {
        FAULT("the manifest does not watch %s", pintle_kind_text(kind));
    }
    return watch;
}

bool fixture_matches(const char *text, const pintle_json *object) {
    selector parsed;
    if (!selector_parse(text, &parsed)) {
        FAULT("label selector %s does not parse", text);
    }
    return selector_matches(&parsed, pintle_at(object, "metadata", "labels"));
}

/* Whether the watch would have the object in the cache. */
static bool is_cached(const pintle_json *watch, const pintle_json *object) {
    const char *ns = pintle_text(pintle_at(watch, "namespace"), pintle_metadata(object, "namespace"));
    return strcmp(ns, pintle_metadata(object, "namespace")) == 0 && fixture_matches(pintle_text(pintle_at(watch, "labelSelector"), ""), object);
}

pintle_json *fixture_seen(const fixture *of, const pintle_json *object, bool is_whole) {
    const pintle_json *watch = must_watch(of, pintle_kind_of(object));
    if (is_whole) {
        return pintle_copy(object);
    }
    static const char *const always[] = {"apiVersion",          "kind",         "metadata.name",
                                         "metadata.namespace", "metadata.uid", "metadata.resourceVersion"};
    const pintle_json *fields = pintle_at(watch, "fields");
    size_t n_always = sizeof always / sizeof *always, n_fields = pintle_length(fields);
    path *paths = pintle_alloc((n_always + n_fields + 1) * sizeof *paths);
    size_t n = 0;
    for (size_t i = 0; i < n_always; i++) {
        paths[n++] = fixture_path(always[i]);
    }
    if (pintle_at(watch, "every") != NULL) {
        /* Watches of every kind hold the metadata. */
        paths[n++] = fixture_path("metadata");
    } else {
        for (size_t i = 0; i < n_fields; i++) {
            paths[n++] = fixture_path(pintle_text(pintle_item(fields, i), ""));
        }
    }
    return fixture_project(object, paths, n, 0);
}

const pintle_json *fixture_find(const pintle_json *objects, pintle_kind kind, const char *ns, const char *name) {
    for (size_t i = 0; i < pintle_length(objects); i++) {
        const pintle_json *object = pintle_item(objects, i);
        if (pintle_same_kind(pintle_kind_of(object), kind) && strcmp(pintle_metadata(object, "namespace"), ns) == 0 &&
            strcmp(pintle_metadata(object, "name"), name) == 0) {
            return object;
        }
    }
    return NULL;
}

const pintle_json *fixture_original(const fixture *of, pintle_kind kind, const char *ns, const char *name) {
    return fixture_find(of->objects, kind, ns, name);
}

static bool is_owned(const pintle_json *object, pintle_owned_by by, const char *uid) {
    const pintle_json *references = pintle_at(object, "metadata", "ownerReferences");
    for (size_t i = 0; by == PINTLE_ANY_OWNER && i < pintle_length(references); i++) {
        if (strcmp(text_at(pintle_item(references, i), "uid"), uid) == 0) {
            return true;
        }
    }
    bool is_orphan = by == PINTLE_CONTROLLER_OR_ORPHAN && pintle_controller_of(object) == NULL;
    return by == PINTLE_ANYBODY || is_orphan || (by != PINTLE_ANY_OWNER && pintle_is_controlled_by(object, uid));
}

/* ---- The lister ---- */

static double fixture_uptime(void *of) { return ((fixture *)of)->uptime; }

static const char *fixture_now(void *of) { return pintle_text(pintle_at(((fixture *)of)->input, "now"), "2026-01-01T00:00:00Z"); }

static pintle_json *fixture_get(void *of, pintle_kind kind, const char *ns, const char *name) {
    const pintle_json *watch = must_watch(of, kind);
    const pintle_json *object = fixture_find(((fixture *)of)->objects, kind, ns, name);
    return object == NULL || !is_cached(watch, object) ? NULL : fixture_seen(of, object, pintle_bool(pintle_at(watch, "whole"), false));
}

static pintle_json *fixture_list(void *of, pintle_kind kind, pintle_query query) {
    const pintle_json *watch = must_watch(of, kind), *indexes = pintle_at(watch, "indexes");
    if (query.whole && !pintle_bool(pintle_at(watch, "whole"), false)) {
        FAULT("the watch of %s does not declare whole", pintle_kind_text(kind));
    }
    path index = {0};
    if (query.index != NULL) {
        size_t i = 0;
        while (i < pintle_length(indexes) && strcmp(text_at(pintle_item(indexes, i), "name"), query.index) != 0) {
            i++;
        }
        if (i == pintle_length(indexes)) {
            FAULT("the watch of %s declares no index %s", pintle_kind_text(kind), query.index);
        }
        index = fixture_path(text_at(pintle_item(indexes, i), "field"));
    }
    pintle_json *found = pintle_new(PINTLE_LIST);
    const pintle_json *objects = ((fixture *)of)->objects;
    for (size_t i = 0; i < pintle_length(objects); i++) {
        const pintle_json *object = pintle_item(objects, i);
        if (pintle_same_kind(pintle_kind_of(object), kind) && is_cached(watch, object) &&
            (query.ns == NULL || query.ns[0] == 0 || strcmp(query.ns, pintle_metadata(object, "namespace")) == 0) &&
            fixture_matches(query.label_selector, object) && is_owned(object, query.owned_by, query.owner_uid) &&
            (query.index == NULL || has_value(object, &index, 0, query.index_value))) {
            pintle_append(found, fixture_seen(of, object, query.whole));
        }
    }
    return found;
}

static uint32_t fixture_count(void *of, pintle_kind kind, pintle_query query) {
    return (uint32_t)pintle_length(fixture_list(of, kind, query));
}

static pintle_json *fixture_selecting(void *of, pintle_kind kind, const char *ns, const pintle_json *labels) {
    const pintle_json *watch = must_watch(of, kind), *selects = pintle_at(watch, "selects");
    if (selects == NULL) {
        FAULT("the watch of %s does not declare selects", pintle_kind_text(kind));
    }
    path at = fixture_path(text_at(selects, "field"));
    pintle_json *found = pintle_new(PINTLE_LIST);
    const pintle_json *objects = ((fixture *)of)->objects;
    for (size_t i = 0; i < pintle_length(objects); i++) {
        const pintle_json *object = pintle_item(objects, i), *own = object;
        for (size_t j = 0; j < at.length; j++) {
            own = pintle_at(own, at.items[j]);
        }
        selector read;
        if (pintle_same_kind(pintle_kind_of(object), kind) && strcmp(pintle_metadata(object, "namespace"), ns) == 0 &&
            is_cached(watch, object) && selector_read(own, strcmp(text_at(selects, "form"), "map") == 0, &read) &&
            (read.length > 0 ? selector_matches(&read, labels) : strcmp(text_at(selects, "empty"), "everything") == 0)) {
            pintle_append(found, fixture_seen(of, object, false));
        }
    }
    return found;
}

/* The objects of all watched kinds that have this uid, or this owner. */
static pintle_json *watched(const fixture *of, const char *uid, const char *owner_uid) {
    pintle_json *found = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < pintle_length(of->objects); i++) {
        const pintle_json *object = pintle_item(of->objects, i);
        const pintle_json *watch = watch_of(of, pintle_kind_of(object));
        if (watch != NULL && is_cached(watch, object) &&
            (uid != NULL ? strcmp(pintle_metadata(object, "uid"), uid) == 0 : is_owned(object, PINTLE_ANY_OWNER, owner_uid))) {
            pintle_append(found, fixture_seen(of, object, false));
        }
    }
    return found;
}

static pintle_json *fixture_dependents(void *of, const char *uid) { return watched(of, NULL, uid); }

static pintle_json *fixture_by_uid(void *of, const char *uid) { return pintle_item(watched(of, uid, NULL), 0); }

static bool was_asked(const fixture *of, const pintle_need *need) {
    for (size_t i = 0; i < of->n_asked; i++) {
        if (pintle_same_need(&of->asked[i], need)) {
            return true;
        }
    }
    return false;
}

static void must_discover(const fixture *of) {
    if (!pintle_bool(pintle_at(of->manifest, "discovery"), false)) {
        FAULT("the manifest does not declare discovery: true");
    }
}

static pintle_json *or_empty(pintle_json *list) { return list == NULL ? pintle_new(PINTLE_LIST) : list; }

static pintle_json *fixture_resources(void *of) {
    const fixture *f = of;
    must_discover(f);
    pintle_json *discovered = pintle_at(f->input, "discovery", "resources");
    bool is_discovered = discovered != NULL && was_asked(f, &(pintle_need){.type = PINTLE_DISCOVERY});
    return or_empty(is_discovered ? discovered : pintle_at(f->input, "resources"));
}

static pintle_json *fixture_resources_of(void *of, const char *group, const char *name) {
    const pintle_json *all = fixture_resources(of);
    pintle_json *found = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *resource = pintle_item(all, i);
        pintle_kind kind = pintle_kind_parse(text_at(resource, "kind"));
        if (pintle_same_text(kind.group, group) && pintle_same_text(kind.name, name)) {
            pintle_append(found, resource);
        }
    }
    return found;
}

static pintle_json *fixture_config(void *of) {
    const fixture *f = of;
    pintle_json *config = pintle_new(PINTLE_OBJECT);
    const pintle_json *settings = pintle_at(f->manifest, "config"), *given = pintle_at(f->input, "config");
    for (size_t i = 0; i < pintle_length(settings); i++) {
        pintle_json *value = pintle_at(pintle_item(settings, i), "default");
        if (value != NULL) {
            pintle_set(config, pintle_name(settings, i), seen(pintle_item(settings, i), value));
        }
    }
    for (size_t i = 0; i < pintle_length(given); i++) {
        const char *name = pintle_name(given, i);
        pintle_set(config, name, seen(pintle_at(settings, name), pintle_item(given, i)));
    }
    return config;
}

static const char *fixture_state(void *of, const char *name) {
    return pintle_text(pintle_at(((fixture *)of)->input, "state", name), NULL);
}

static uint32_t fixture_attempt(void *of) { return (uint32_t)pintle_int(pintle_at(((fixture *)of)->input, "attempt"), 0); }

static pintle_json *fixture_failures(void *of) { return or_empty(pintle_at(((fixture *)of)->input, "failures")); }

static pintle_answer fixture_answer(void *of, pintle_need need) {
    const fixture *f = of;
    if (!was_asked(f, &need)) {
        return (pintle_answer){0};
    }
    if (need.type == PINTLE_DISCOVERY) {
        must_discover(f);
    }
    return answers_find(f, &need);
}

pintle_lister fixture_lister(fixture *of) {
    static const pintle_lister_functions functions = {
        fixture_now,    fixture_uptime,    fixture_get,          fixture_list,   fixture_count, fixture_selecting, fixture_dependents,
        fixture_by_uid, fixture_resources, fixture_resources_of, fixture_config, fixture_state, fixture_attempt,   fixture_failures,
        fixture_answer,
    };
    return (pintle_lister){.functions = &functions, .of = of};
}

pintle_json *fixture_run(fixture *of, pintle_outcome *(*reconcile)(const pintle_key *key, pintle_lister *lister)) {
    for (int round = 0; round < MAX_ROUNDS; round++) {
        pintle_lister lister = fixture_lister(of);
        const pintle_outcome *outcome = reconcile(&of->key, &lister);
        if (outcome == NULL || outcome->message != NULL || outcome->n_needs == 0) {
            pintle_json *shown = show(outcome, of);
            if (of->n_asked > 0) {
                pintle_set(shown, "asked", show_needs(of->asked, of->n_asked));
            }
            return shown;
        }
        if (outcome->n_needs > PINTLE_MAX_NEEDS) {
            FAULT("%zu needs in one round, more than %d", outcome->n_needs, PINTLE_MAX_NEEDS);
        }
        for (size_t i = 0; i < outcome->n_needs; i++) {
            if (!was_asked(of, &outcome->needs[i])) {
                PINTLE_GROW(of->asked, of->n_asked, of->asked_capacity);
                of->asked[of->n_asked++] = outcome->needs[i];
            }
        }
    }
    FAULT("the plugin still asks for reads after %d rounds", MAX_ROUNDS);
}
