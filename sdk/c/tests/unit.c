/* Tests of the SDK itself. Run in sdk/c:
 *
 *     cc -std=c11 -Wall -Wextra -Werror -g -fsanitize=address,undefined -I . tests/?*.c src/?*.c \
 *         testing/answers.c testing/fixture.c testing/native.c testing/selector.c testing/show.c -lm -o unit && ./unit ../vectors */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const char *running;
static int n_failed;

void check(bool holds, const char *text, int line) {
    if (!holds) {
        printf("%s: line %d: %s\n", running, line, text);
        n_failed++;
    }
}

void equal(const char *got, const char *expected, int line) {
    if (got == NULL || strcmp(got, expected) != 0) {
        printf("%s: line %d: got %s, expected %s\n", running, line, got == NULL ? "NULL" : got, expected);
        n_failed++;
    }
}

pintle_json *j(const char *text) { return pintle_format(text); }

void same(const pintle_json *got, const char *expected, int line) {
    if (!pintle_equal(got, j(expected))) {
        printf("%s: line %d: got %s, expected %s\n", running, line, pintle_write(got), expected);
        n_failed++;
    }
}

static const char *vectors;

static pintle_json *read_vectors(const char *name) {
    const char *path = pintle_printf("%s/%s", vectors, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    pintle_buffer text = {0};
    char piece[4096];
    size_t length;
    while ((length = fread(piece, 1, sizeof piece, file)) > 0) {
        pintle_put(&text, piece, length);
    }
    fclose(file);
    return pintle_parse(text.text, text.length);
}

static void texts_and_hashes_are_those_of_every_language(void) {
    const pintle_json *all = read_vectors("hash.json");
    CHECK(pintle_length(all) > 10);
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i), *text = pintle_at(one, "text");
        /* Canonical texts have no NUL: it is escaped. */
        EQUAL(pintle_canonical(pintle_member(one, "value")), pintle_text(text, ""));
        EQUAL(pintle_hash(pintle_member(one, "value")), pintle_text(pintle_at(one, "hash"), ""));
    }
}

static void numbers_that_languages_write_differently_have_no_hash(void) {
    static const char *const numbers[] = {"0.5", "1e300", "9007199254740992", "18446744073709551615", "-9007199254740992"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        CHECK(pintle_hash(pintle_format("{'a': [%j]}", pintle_parse(numbers[i], strlen(numbers[i])))) == NULL);
    }
    EQUAL(pintle_canonical(j("[2.0, -0.0, 1e3, -9007199254740991]")), "[2,0,1000,-9007199254740991]");
}

static void covering_is_that_of_every_language(void) {
    const pintle_json *all = read_vectors("covers.json");
    CHECK(pintle_length(all) > 10);
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i);
        bool covers = pintle_covers(pintle_member(one, "existing"), pintle_member(one, "wanted"));
        if (covers != pintle_bool(pintle_at(one, "covers"), false)) {
            printf("%s: %s\n", running, pintle_text(pintle_at(one, "name"), ""));
            n_failed++;
        }
    }
}

static void what_is_no_json_is_refused(void) {
    static const char *const texts[] = {"",     "{",      "[1,]",    "{\"a\"}",  "{\"a\":1,}", "01",      "1.",   "-",         ".5",     "1e",
                                        "tru",  "nulll",  "\"a",     "\"\\x\"",  "\"\\u12g4\"", "\"\n\"",  "'a'",  "[1 2]",     "{a: 1}", "%s",
                                        "\"\\", "\"\\u1", "[[[", "1 2", "\"\\'\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        /* Memory of its own without a NUL, so that a sanitizer sees what is read past the end. */
        size_t length = strlen(texts[i]);
        char *text = pintle_alloc(length);
        if (pintle_parse(memcpy(text, texts[i], length), length) != NULL) {
            printf("%s: %s\n", running, texts[i]);
            n_failed++;
        }
    }
    char deep[400];
    memset(deep, '[', 200);
    memset(deep + 200, ']', 200);
    CHECK(pintle_parse(deep, 400) == NULL && pintle_parse(deep + 100, 200) != NULL);
}

static void json_survives_a_round_trip(void) {
    static const char text[] = "{\"a\":[1,-2.5e-3,true,false,null,\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f/\xc3\xa4\"],\"\":{}}";
    EQUAL(pintle_write(pintle_parse(text, strlen(text))), text);
    static const char pairs[] = "\"\\ud83d\\ude00\\u00e4\\u20ac\\ud800x\\udc00\\ud800\\u0041\"";
    EQUAL(pintle_text(pintle_parse(pairs, strlen(pairs)), ""), "\xf0\x9f\x98\x80\xc3\xa4\xe2\x82\xac\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\x41");
    static const char twice[] = " { \"a\" : 1 , \"a\" : 2 } ";
    EQUAL(pintle_write(pintle_parse(twice, strlen(twice))), "{\"a\":2}");
}

static void formats_have_places_for_values(void) {
    pintle_json *made = pintle_format(
        "{'it\\'s': %s, %s: [%d, %i, %b, %j, %j, %s], \"b\": '\"'}", "a\"b", "key", -1, INT64_MAX, true, pintle_format("{}"), NULL, NULL);
    EQUAL(pintle_write(made), "{\"it's\":\"a\\\"b\",\"key\":[-1,9223372036854775807,true,{},null,null],\"b\":\"\\\"\"}");
    CHECK(pintle_int(pintle_item(pintle_at(made, "key"), 1), 0) == INT64_MAX);
    FAULTS(pintle_format("{'a': %x}", 1), "panic: pintle_format: it is no JSON");
    FAULTS(pintle_format("{'a': 1"), "unit.c:");
}

static void reading_what_is_not_there_gives_the_default(void) {
    const pintle_json *value = j("{'a': {'b': null, 'c': [1, 2.0, 2.5, 'x'], 'd': true}}");
    CHECK(pintle_at(value, "a", "b") == NULL && pintle_at(value, "x", "y") == NULL && pintle_at(NULL, "a") == NULL);
    CHECK(pintle_int(pintle_item(pintle_at(value, "a", "c"), 1), 7) == 2 && pintle_int(pintle_item(pintle_at(value, "a", "c"), 2), 7) == 7);
    CHECK(pintle_item(value, 5) == NULL && pintle_name(value, 1) == NULL && pintle_length(NULL) == 0 && pintle_int(NULL, 3) == 3);
    CHECK(pintle_bool(pintle_at(value, "a", "d"), false) && pintle_bool(NULL, true));
    EQUAL(pintle_text(pintle_at(value, "a", "d"), "no"), "no");
    EQUAL(pintle_metadata(value, "name"), "");
    FAULTS(pintle_set(j("[]"), "a", NULL), "a is set in what is no object");
    FAULTS(pintle_append(j("{}"), NULL), "no list");
}

static void changes_of_a_copy_are_not_seen(void) {
    pintle_json *value = j("{'a': {'b': 1}, 'c': [1]}"), *copy = pintle_copy(value);
    pintle_set(pintle_at(copy, "a"), "b", j("2"));
    pintle_append(pintle_at(copy, "c"), NULL);
    pintle_remove(copy, "x");
    EQUAL(pintle_write(copy), "{\"a\":{\"b\":2},\"c\":[1,null]}");
    pintle_remove(copy, "a");
    EQUAL(pintle_write(copy), "{\"c\":[1,null]}");
    EQUAL(pintle_write(value), "{\"a\":{\"b\":1},\"c\":[1]}");
    CHECK(pintle_equal(j("{'a': 1, 'b': 2}"), j("{'b': 2.0, 'a': 1}")) && !pintle_equal(j("[1, 2]"), j("[2, 1]")) && !pintle_equal(j("{'a': null}"), j("{}")));
}

static void kinds_have_a_text_form(void) {
    pintle_kind kind = pintle_kind_parse("apps/v1/Deployment");
    CHECK(pintle_same_kind(kind, (pintle_kind){"apps", "v1", "Deployment"}));
    EQUAL(pintle_kind_text(kind), "apps/v1/Deployment");
    EQUAL(pintle_kind_text(pintle_kind_parse("v1/Pod")), "v1/Pod");
    EQUAL(pintle_api_version(pintle_kind_of(j("{'apiVersion': 'v1', 'kind': 'Pod'}"))), "v1");
    FAULTS(pintle_kind_parse("Pod"), "Pod is not a kind");
}

static const pintle_kind WIDGET = {"example.com", "v1", "Widget"};
static const pintle_kind CONFIG_MAP = {"", "v1", "ConfigMap"};
static const pintle_kind SECRET = {"", "v1", "Secret"};

static void finalizers_of_others_stay(void) {
    static const char with[] = "{'metadata': {'name': 'w', 'namespace': 'default', 'uid': 'u', 'resourceVersion': '7', 'finalizers': %j}}";
    const pintle_json *ab = pintle_format(with, j("['a', 'b', 'c']"));
    SAME(pintle_add_finalizer(WIDGET, pintle_format(with, j("['a']")), "b")->body, "{'metadata': {'finalizers': ['a', 'b']}}");
    SAME(pintle_add_finalizer(WIDGET, ab, "b")->body, "{'metadata': {'finalizers': ['a', 'b', 'c']}}");
    SAME(pintle_add_finalizer(WIDGET, pintle_format(with, NULL), "b")->body, "{'metadata': {'finalizers': ['b']}}");
    const pintle_mutation *removal = pintle_remove_finalizer(WIDGET, ab, "b");
    SAME(removal->body, "{'metadata': {'finalizers': ['a', 'c']}}");
    SAME(pintle_remove_finalizer(WIDGET, pintle_format(with, j("['b']")), "b")->body, "{'metadata': {'finalizers': []}}");
    CHECK(removal->patch_type == PINTLE_MERGE_PATCH);
    EQUAL(removal->uid, "u");
    EQUAL(removal->resource_version, "7");
    EQUAL(removal->name, "w");
    CHECK(pintle_has_finalizer(ab, "c") && !pintle_has_finalizer(ab, "d") && !pintle_has_finalizer(NULL, "a"));
}

static void a_transition_is_a_change_of_the_status_alone(void) {
    static const char condition[] = "{'type': %s, 'status': %s, 'reason': %s, 'lastTransitionTime': 'whatever'}";
    pintle_json *all = pintle_set_condition(NULL, pintle_format(condition, "A", "False", "x"), "2026-01-01T00:00:01.999999Z");
    all = pintle_set_condition(all, pintle_format(condition, "B", "True", "y"), "2026-01-01T00:00:02.999999Z");
    const pintle_json *before = all;
    all = pintle_set_condition(all, pintle_format(condition, "A", "False", "z"), "2026-01-01T00:00:03.999999Z");
    all = pintle_set_condition(all, pintle_format(condition, "B", "False", "y"), "2026-01-01T00:00:04Z");
    SAME(all, "[{'type': 'A', 'status': 'False', 'reason': 'z', 'lastTransitionTime': '2026-01-01T00:00:01Z'},"
              " {'type': 'B', 'status': 'False', 'reason': 'y', 'lastTransitionTime': '2026-01-01T00:00:04Z'}]");
    CHECK(pintle_is_true(before, "B") && !pintle_is_true(all, "B") && pintle_find_condition(all, "C") == NULL);
    EQUAL(pintle_text(pintle_at(pintle_find_condition(before, "A"), "reason"), ""), "x");
    SAME(pintle_set_condition(j("[{'type': 'A', 'status': 'True'}]"), j("{'type': 'A', 'status': 'True'}"), "2026-01-01T00:00:05.5Z"),
         "[{'type': 'A', 'status': 'True', 'lastTransitionTime': '2026-01-01T00:00:05Z'}]");
    FAULTS(pintle_set_condition(NULL, j("{}"), "2026-01-01T00:00:05.5Z"), "a condition needs a type");
}

static void a_status_is_written_only_if_it_differs(void) {
    static const struct {
        const char *current, *wanted, *body;
    } all[] = {
        {"{'a': [1], 'b': {'c': null}}", "{'b': {}, 'a': [1]}", NULL},
        {"[1, 2]", "[2, 1]", "{'status': [2, 1]}"},
        {"[null]", "[]", "{'status': []}"},
        {"{'a': 1, 'b': {'c': 1, 'd': 2}, 'e': {'f': 1}}", "{'a': 1, 'b': {'c': 2}, 'g': [{}]}",
         "{'status': {'a': 1, 'b': {'c': 2, 'd': null}, 'e': null, 'g': [{}]}}"},
        {"null", "{'a': 1, 'b': null}", "{'status': {'a': 1}}"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const pintle_json *object = pintle_format("{'metadata': {'name': 'w', 'resourceVersion': '7'}, 'status': %j}", j(all[i].current));
        const pintle_mutation *patch = pintle_patch_status(WIDGET, object, j(all[i].wanted));
        CHECK((patch == NULL) == (all[i].body == NULL));
        if (patch != NULL) {
            SAME(patch->body, all[i].body);
            EQUAL(patch->subresource, "status");
            EQUAL(patch->resource_version, "7");
            CHECK(patch->uid == NULL && patch->patch_type == PINTLE_MERGE_PATCH);
        }
    }
}

/* ---- Children ---- */

static pintle_json *config_map(const char *name) {
    return pintle_format("{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': %s}, 'data': {'a': '1'}}", name);
}

static pintle_children *children(void) {
    const char *owner = "{'apiVersion': 'example.com/v1', 'kind': 'Widget', 'metadata': {'name': 'w', 'namespace': 'default', 'uid': 'u'}}";
    pintle_children *made = pintle_children_of(j(owner), "me");
    pintle_own(made, CONFIG_MAP);
    pintle_own(made, SECRET);
    return made;
}

/* What children say of a cache. */
static pintle_plan plan(pintle_children *made, const pintle_json *cached) {
    const pintle_json *manifest = j(
        "{'watches': [{'kind': 'v1/ConfigMap', 'whole': true}, {'kind': 'v1/Secret', 'fields': ['metadata.annotations',"
        " 'metadata.ownerReferences', 'metadata.deletionTimestamp', 'data']}], 'queues': [{'name': 'q'}]}");
    fixture *of = pintle_alloc(sizeof *of);
    const char *wrong = fixture_read(of, manifest, pintle_format("{'key': {'kind': 'example.com/v1/Widget', 'name': 'w'}, 'objects': %j}", cached));
    if (wrong != NULL) {
        printf("%s: %s\n", running, wrong);
        exit(2);
    }
    pintle_lister lister = fixture_lister(of);
    return pintle_children_plan(made, &lister);
}

/* The object as it comes into the cache after it was applied. */
static pintle_json *applied(const char *name) {
    pintle_children *made = children();
    pintle_want(made, config_map(name));
    pintle_plan planned = plan(made, NULL);
    CHECK(planned.error == NULL && planned.mutations.length == 1);
    pintle_json *object = planned.mutations.items[0]->body;
    pintle_set(pintle_at(object, "metadata"), "uid", pintle_format("%s", pintle_printf("uid-%s", name)));
    return object;
}

static void what_is_missing_is_applied_with_owner_and_hash(void) {
    pintle_children *made = children();
    pintle_json *object = config_map("a");
    pintle_want(made, object);
    pintle_plan planned = plan(made, NULL);
    const pintle_mutation *apply = planned.mutations.items[0];
    CHECK(pintle_equal(object, config_map("a")) && planned.mutations.length == 1 && apply->uid == NULL && apply->force);
    EQUAL(apply->field_manager, "me");
    EQUAL(apply->ns, "default");
    pintle_set(pintle_at(object, "metadata"), "namespace", j("'default'"));
    const char *hash = pintle_hash(object);
    pintle_set(pintle_at(object, "metadata"), "annotations", pintle_format("{'pintle.dev/applied': %s}", hash));
    pintle_set(pintle_at(object, "metadata"), "ownerReferences", j(
        "[{'apiVersion': 'example.com/v1', 'kind': 'Widget', 'name': 'w', 'uid': 'u', 'controller': true, 'blockOwnerDeletion': true}]"));
    CHECK(pintle_equal(apply->body, object));
}

static pintle_plan plan_one(pintle_json *wanted, pintle_json *cached) {
    pintle_children *made = children();
    pintle_want(made, wanted);
    return plan(made, pintle_format("[%j]", cached));
}

static void what_differs_is_applied_with_the_uid_and_all_else_left_alone(void) {
    pintle_json *there = applied("a");
    pintle_set(pintle_at(there, "data"), "other", j("'x'"));
    CHECK(plan_one(config_map("a"), there).mutations.length == 0);
    pintle_json *changed = config_map("a"), *drifted = applied("a");
    pintle_set(changed, "data", j("{}"));
    pintle_set(pintle_at(drifted, "data"), "a", j("'2'"));
    pintle_plan plans[] = {plan_one(changed, applied("a")), plan_one(config_map("a"), drifted)};
    for (size_t i = 0; i < 2; i++) {
        CHECK(plans[i].mutations.length == 1 && plans[i].mutations.items[0]->patch_type == PINTLE_APPLY_PATCH);
        EQUAL(plans[i].mutations.items[0]->uid, "uid-a");
    }
}

#define REFERENCE(controller) \
    "{'apiVersion': 'example.com/v1', 'kind': 'Widget', 'name': 'w', 'uid': 'u', 'controller': " controller ", 'blockOwnerDeletion': true}"
#define NODE(uid) "{'apiVersion': 'v1', 'kind': 'Node', 'name': 'n', 'uid': '" uid "'}"

static void an_object_without_a_controller_is_adopted_before_anything_else_of_it_changes(void) {
    static const struct {
        const char *there, *expected;
    } all[] = {
        {"[]", "{'metadata': {'ownerReferences': [" REFERENCE("true") "]}}"},
        {"[" REFERENCE("false") "]", "{'metadata': {'ownerReferences': [" REFERENCE("true") "]}}"},
        {"[" NODE("x") ", " REFERENCE("false") ", " NODE("y") "]",
         "{'metadata': {'ownerReferences': [" NODE("x") ", " NODE("y") ", " REFERENCE("true") "]}}"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        /* It is what it should be, or anything else. */
        for (int is_other = 0; is_other < 2; is_other++) {
            pintle_json *orphan = applied("a");
            pintle_set(pintle_at(orphan, "metadata"), "resourceVersion", j("'7'"));
            pintle_set(pintle_at(orphan, "metadata"), "ownerReferences", j(all[i].there));
            if (is_other) {
                pintle_set(orphan, "data", j("{'a': 'other'}"));
            }
            pintle_plan planned = plan_one(config_map("a"), orphan);
            const pintle_mutation *m = planned.mutations.items[0];
            CHECK(planned.mutations.length == 1 && m->verb == PINTLE_PATCH && m->patch_type == PINTLE_MERGE_PATCH);
            EQUAL(m->name, "a");
            EQUAL(m->uid, "uid-a");
            EQUAL(m->resource_version, "7");
            SAME(m->body, all[i].expected);
        }
    }
}

static void objects_of_others_and_those_that_go_are_only_named(void) {
    pintle_json *other = config_map("a"), *going = applied("b");
    pintle_set(pintle_at(other, "metadata"), "namespace", j("'default'"));
    pintle_set(pintle_at(other, "metadata"), "ownerReferences", j("[{'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'd', 'uid': 'x', 'controller': true}]"));
    pintle_set(pintle_at(going, "metadata"), "deletionTimestamp", j("'2026-01-01T00:00:00Z'"));
    pintle_children *made = children();
    pintle_want(made, config_map("b"));
    pintle_want(made, config_map("a"));
    pintle_plan planned = plan(made, pintle_format("[%j, %j]", other, going));
    CHECK(planned.mutations.length == 0 && planned.error == NULL);
    SAME(planned.waiting, "['v1/ConfigMap default/b']");
    SAME(planned.conflicts, "['v1/ConfigMap default/a is controlled by apps/v1/Deployment d']");
}

static void what_is_no_longer_wanted_is_deleted_kind_by_kind(void) {
    static const char *const names[] = {"z", "b", "going", "elsewhere", "foreign"};
    pintle_json *cached = j("[]");
    for (size_t i = 0; i < 5; i++) {
        pintle_json *secret = applied(names[i]);
        pintle_set(secret, "kind", j("'Secret'"));
        pintle_append(cached, secret);
    }
    pintle_set(pintle_at(pintle_item(cached, 2), "metadata"), "deletionTimestamp", j("'2026-01-01T00:00:00Z'"));
    pintle_set(pintle_at(pintle_item(cached, 3), "metadata"), "namespace", j("'other'"));
    pintle_set(pintle_item(pintle_at(pintle_item(cached, 4), "metadata", "ownerReferences"), 0), "uid", j("'x'"));
    pintle_append(cached, applied("kept"));
    pintle_append(cached, applied("old"));
    pintle_children *made = children();
    pintle_want(made, config_map("kept"));
    pintle_plan planned = plan(made, cached);
    static const char *const gone[] = {"old", "b", "z"};
    CHECK(planned.mutations.length == 3);
    for (size_t i = 0; i < 3 && i < planned.mutations.length; i++) {
        const pintle_mutation *m = planned.mutations.items[i];
        EQUAL(m->name, gone[i]);
        EQUAL(m->uid, pintle_printf("uid-%s", gone[i]));
        CHECK(m->verb == PINTLE_DELETE && m->propagation == PINTLE_BACKGROUND && pintle_same_kind(m->kind, i == 0 ? CONFIG_MAP : SECRET));
    }
}

static void mistakes_in_children_are_named(void) {
    static const struct {
        const char *object, *message;
    } all[] = {
        {"{'apiVersion': 'v1', 'kind': 'ConfigMap'}", "children: a v1/ConfigMap has no metadata.name"},
        {"{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'a', 'namespace': 'other'}}",
         "children: v1/ConfigMap other/a is in another namespace than its owner"},
        {"{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}}",
         "children: v1/Pod default/p is of a kind that is not owned: call pintle_own"},
        {"{'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'p'}, 'data': 0.5}",
         "hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1"},
        {"{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'twice'}}", "children: v1/ConfigMap default/twice is wanted twice"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pintle_children *made = children();
        pintle_want(made, config_map("twice"));
        pintle_want(made, j(all[i].object));
        const pintle_outcome *error = plan(made, NULL).error;
        EQUAL(error == NULL ? NULL : error->message, all[i].message);
        CHECK(error != NULL && error->is_terminal);
    }
}

/* ---- Fixtures ---- */

static const char manifest_of_all[] =
    "{'watches': ["
    "{'kind': 'v1/Pod', 'namespace': 'default', 'labelSelector': 'app', 'fields': ['metadata.labels', 'metadata.ownerReferences',"
    " \"metadata.annotations['a.b/c']\", 'spec.containers.name'],"
    " 'indexes': [{'name': 'node', 'field': 'spec.nodeName'}, {'name': 'port', 'field': 'spec.containers.ports.containerPort'}]},"
    "{'kind': 'v1/ConfigMap', 'whole': true},"
    "{'kind': 'v1/Service', 'selects': {'field': 'spec.selector', 'form': 'map'}},"
    "{'kind': 'apps/v1/ReplicaSet', 'selects': {'field': 'spec.selector', 'form': 'labelSelector'}}],"
    " 'queues': [{'name': 'first'}], 'config': {'size': {'default': 3}, 'name': {'default': 'a'}}, 'discovery': true}";

static const char input_of_all[] =
    "{'key': {'kind': 'v1/Pod', 'namespace': 'default', 'name': 'a'}, 'objects': ["
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'b', 'namespace': 'default', 'labels': {'app': 'api'},"
    " 'ownerReferences': [{'name': 'o', 'uid': 'u', 'controller': true}]}, 'spec': {'nodeName': 'n1'}},"
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'a', 'namespace': 'default', 'labels': {'app': 'web'},"
    " 'annotations': {'a.b/c': '1', 'other': '2'}}, 'spec': {'nodeName': 'n1', 'containers': [{'name': 'c', 'ports': [{'containerPort': 80}]}]}},"
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'unlabelled', 'namespace': 'default'}},"
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'elsewhere', 'namespace': 'other', 'labels': {'app': 'web'}}},"
    "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'm', 'uid': 'um'}, 'data': {'y': '1'}},"
    "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'default'}, 'spec': {'selector': {'app': 'web'}}},"
    "{'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'empty', 'namespace': 'default'}, 'spec': {'selector': {}}},"
    "{'apiVersion': 'apps/v1', 'kind': 'ReplicaSet', 'metadata': {'name': 'r', 'namespace': 'default'},"
    " 'spec': {'selector': {'matchExpressions': [{'key': 'app', 'operator': 'In', 'values': ['web']}]}}}],"
    " 'live': [{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'live', 'namespace': 'default', 'labels': {'app': 'web'}}, 'spec': {}}],"
    " 'raw': {'/apis/x': {'a': 1}}, 'discovery': {'resources': [], 'failed': ['x/v1']}, 'resources': [{'kind': 'v1/Pod'}],"
    " 'config': {'name': 'b'}, 'state': {'kept': 'value'}, 'attempt': 2, 'failures': [{'reason': 'AlreadyExists'}]}";

static fixture *fixture_of_all(void) {
    fixture *of = pintle_alloc(sizeof *of);
    const char *wrong = fixture_read(of, j(manifest_of_all), j(input_of_all));
    CHECK(wrong == NULL);
    return of;
}

static const char *names(const pintle_json *objects) {
    const char *all = "";
    for (size_t i = 0; i < pintle_length(objects); i++) {
        all = pintle_printf("%s%s%s", all, i == 0 ? "" : " ", pintle_metadata(pintle_item(objects, i), "name"));
    }
    return all;
}

static void the_lister_gives_what_the_host_would_give(void) {
    static const pintle_kind POD = {"", "v1", "Pod"}, SERVICE = {"", "v1", "Service"}, REPLICA_SET = {"apps", "v1", "ReplicaSet"};
    fixture *of = fixture_of_all();
    pintle_lister lister = fixture_lister(of), *l = &lister;
    EQUAL(of->key.queue, "first");
    SAME(pintle_get(l, POD, "default", "a"),
         "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'a', 'namespace': 'default', 'uid': 'uid-a', 'resourceVersion': '1',"
         " 'labels': {'app': 'web'}, 'annotations': {'a.b/c': '1'}}, 'spec': {'containers': [{'name': 'c'}]}}");
    EQUAL(names(pintle_list(l, POD, (pintle_query){0})), "a b");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.label_selector = "app notin (web)"})), "b");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.owned_by = PINTLE_CONTROLLER, .owner_uid = "u"})), "b");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.owned_by = PINTLE_ANY_OWNER, .owner_uid = "u"})), "b");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.owned_by = PINTLE_CONTROLLER_OR_ORPHAN, .owner_uid = "x"})), "a");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.index = "node", .index_value = "n1"})), "a b");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.index = "port", .index_value = "80"})), "a");
    EQUAL(names(pintle_list(l, POD, (pintle_query){.ns = "other"})), "");
    EQUAL(names(pintle_selecting(l, SERVICE, "default", j("{'app': 'web'}"))), "s");
    EQUAL(names(pintle_selecting(l, REPLICA_SET, "default", j("{'app': 'web'}"))), "r");
    EQUAL(names(pintle_dependents(l, "u")), "b");
    EQUAL(pintle_metadata(pintle_by_uid(l, "um"), "name"), "m");
    CHECK(pintle_get(l, POD, "other", "elsewhere") == NULL && pintle_get(l, POD, "default", "unlabelled") == NULL);
    CHECK(pintle_count(l, POD, (pintle_query){0}) == 2 && pintle_attempt(l) == 2 && pintle_length(pintle_failures(l)) == 1);
    EQUAL(pintle_text(pintle_at(pintle_get(l, CONFIG_MAP, "", "m"), "data", "y"), ""), "1");
    SAME(pintle_config(l), "{'size': 3, 'name': 'b'}");
    EQUAL(pintle_state(l, "kept"), "value");
    CHECK(pintle_state(l, "other") == NULL && pintle_length(pintle_resources(l)) == 1);
    EQUAL(pintle_now(l), "2026-01-01T00:00:00Z");
    FAULTS(pintle_get(l, SECRET, "", "a"), "fault: the manifest does not watch v1/Secret");
    FAULTS(pintle_list(l, POD, (pintle_query){.whole = true}), "fault: the watch of v1/Pod does not declare whole");
    FAULTS(pintle_list(l, POD, (pintle_query){.index = "x", .index_value = "1"}), "fault: the watch of v1/Pod declares no index x");
    FAULTS(pintle_selecting(l, POD, "default", NULL), "fault: the watch of v1/Pod does not declare selects");
    FAULTS(pintle_list(l, POD, (pintle_query){.label_selector = "a in b"}), "fault: label selector a in b does not parse");
    FAULTS(pintle_unfinished(l), "nothing is unanswered");
    fixture unused;
    CHECK(fixture_read(&unused, j("{}"), j("{'key': {'kind': 'v1/Pod', 'name': 'a'}, 'object': []}")) != NULL);
    CHECK(fixture_read(&unused, j("{}"), j("{'key': {'kind': 'v1/Pod', 'name': 'a'}, 'objects': [{}]}")) != NULL);
}

static void selectors_match_as_kubectl_says(void) {
    static const struct {
        const char *selector, *labels;
        bool matches;
    } all[] = {
        {"", "{'a': 'b'}", true},
        {"a=b", "{'a': 'b'}", true},
        {"a==b", "{'a': 'c'}", false},
        {"a!=b", "{}", true},
        {"a in (b, c),d", "{'a': 'c', 'd': 'x'}", true},
        {"a in (b,c),d", "{'a': 'c'}", false},
        {"a notin (b,c)", "{'a': 'b'}", false},
        {"a notin (b,c)", "{}", true},
        {"!a", "{'a': 'b'}", false},
        {"!a,b", "{'b': ''}", true},
        {"x,!x", "{'x': 'y'}", false},
    };
    selector parsed;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(selector_parse(all[i].selector, &parsed) && selector_matches(&parsed, j(all[i].labels)) == all[i].matches);
    }
    static const char *const wrong[] = {"a b", "a in b", "in (b)", "=b", "a in (b"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(!selector_parse(wrong[i], &parsed));
    }
    CHECK(!selector_read(j("{'matchExpressions': [{'key': 'a', 'operator': 'Is', 'values': ['b']}]}"), false, &parsed));
    CHECK(!selector_read(j("{'matchExpressions': [{'key': 'a', 'operator': 'In'}]}"), false, &parsed));
}

static pintle_outcome *ask_for_everything(const pintle_key *key, pintle_lister *lister) {
    static const pintle_kind POD = {"", "v1", "Pod"};
    pintle_json *live, *gone, *answer;
    int code;
    if (!pintle_live(lister, POD, key->ns, "live", &live) || live == NULL || !pintle_live(lister, POD, key->ns, "a", &gone) || gone != NULL) {
        return pintle_unfinished(lister);
    }
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_need needs[] = {
        {.type = PINTLE_LIVE_LIST, .kind = POD, .ns = "default", .label_selector = "app=web", .limit = 5},
        {.type = PINTLE_RAW_PATH, .path = "/apis/x"},
        {.type = PINTLE_RAW_PATH, .path = "/nothing"},
        {.type = PINTLE_DISCOVERY},
    };
    for (size_t i = 0; i < 4; i++) {
        if (pintle_ask(lister, needs[i], &answer, &code)) {
            pintle_keep(outcome, pintle_printf("%zu", i), i == 0 ? names(answer) : pintle_printf("%d %s", code, pintle_write(answer)));
        }
    }
    return lister->unfinished != NULL ? pintle_unfinished(lister) : outcome;
}

static pintle_outcome *ask_for_ever(const pintle_key *key, pintle_lister *lister) {
    (void)key;
    pintle_json *answer;
    int code, i = 0;
    while (pintle_ask(lister, (pintle_need){.type = PINTLE_RAW_PATH, .path = pintle_printf("%d", i)}, &answer, &code)) {
        i++;
    }
    return pintle_unfinished(lister);
}

static void needs_are_answered_until_there_are_no_more(void) {
    SAME(fixture_run(fixture_of_all(), ask_for_everything),
         "{'steps': [], 'asked': ['get v1/Pod default/live', 'get v1/Pod default/a', 'list v1/Pod in \"default\" with \"app=web\", at most 5',"
         " 'get /apis/x', 'get /nothing', 'discover'], 'state': {'0': 'live', '1': '0 {\"a\":1}',"
         " '2': '404 {\"reason\":\"NotFound\",\"message\":\"/nothing not found\"}', '3': '0 [\"x/v1\"]'}}");
    FAULTS(fixture_run(fixture_of_all(), ask_for_ever), "fault: the plugin still asks for reads after 8 rounds");
}

static pintle_answer refuse(void *of, pintle_need need) {
    (void)of, (void)need;
    return (pintle_answer){true, 403, j("{'reason': 'Forbidden', 'message': 'not for you'}")};
}

static void a_refused_live_read_is_a_retry(void) {
    static const pintle_lister_functions functions = {.answer = refuse};
    pintle_lister lister = {.functions = &functions};
    pintle_json *object;
    CHECK(!pintle_live(&lister, CONFIG_MAP, "default", "m", &object) && object == NULL);
    SAME(show(pintle_unfinished(&lister), NULL), "{'retry': 'read v1/ConfigMap default/m: not for you'}");
}

static pintle_outcome *do_everything(const pintle_key *key, pintle_lister *lister) {
    static const pintle_kind POD = {"", "v1", "Pod"};
    (void)key, (void)lister;
    const pintle_event *event = pintle_event_on(
        j("{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'a', 'namespace': 'default', 'uid': '1'}}"), PINTLE_WARNING, "Why", "what");
    pintle_mutations first = {0}, second = {0}, third = {0};
    for (int i = 0; i < 2; i++) {
        pintle_mutation *create = pintle_create(POD, "default", j("{'metadata': {'generateName': 'a-'}}"));
        create->on_success = event;
        pintle_add(&first, create);
    }
    pintle_add(&first, NULL);
    pintle_add(&first, pintle_update(CONFIG_MAP, j("{'metadata': {'name': 'm', 'uid': 'um', 'resourceVersion': '1'}, 'data': {'y': '2', 'z': '3'}}")));
    pintle_add(&first, pintle_update_status(CONFIG_MAP, j("{'metadata': {'name': 'new'}}")));
    pintle_mutation *patch = pintle_patch(POD, "default", "a", PINTLE_JSON_PATCH, j("[]"));
    patch->uid = "1";
    patch->resource_version = "2";
    patch->on_failure = event;
    pintle_add(&first, patch);
    pintle_add(&first, pintle_apply(CONFIG_MAP, "", "m", "me", true, j("{}")));
    pintle_mutation *gone = pintle_delete(POD, "default", "a"), *all_gone = pintle_delete_collection(POD, "default", "a=b");
    gone->uid = "1";
    gone->propagation = PINTLE_FOREGROUND;
    gone->grace_period_seconds = 0;
    all_gone->propagation = PINTLE_ORPHAN;
    pintle_add(&second, gone);
    pintle_add(&second, all_gone);
    pintle_mutation *record = pintle_record(event);
    record->tolerate = PINTLE_NOT_FOUND | PINTLE_CONFLICT;
    pintle_add(&third, record);
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_then(outcome, PINTLE_SEQUENTIAL, first);
    pintle_then(outcome, PINTLE_PARALLEL, (pintle_mutations){0});
    pintle_then(outcome, PINTLE_SLOW_START, second);
    pintle_always(outcome, PINTLE_PARALLEL, third);
    pintle_requeue(outcome, 60000);
    pintle_requeue(outcome, 1500);
    pintle_requeue(outcome, 90000);
    pintle_keep(outcome, "a", "1");
    pintle_keep(outcome, "b", NULL);
    pintle_observe(outcome, "m", 0.5, (const char *const[]){"x", "y", NULL});
    pintle_observe(outcome, "n", 1e21, NULL);
    return outcome;
}

static void every_part_of_an_outcome_is_shown(void) {
    SAME(fixture_run(fixture_of_all(), do_everything),
         "{'steps': [{'order': 'sequential', 'mutations': ["
         "{'create': 'v1/Pod default', 'object': {'metadata': {'generateName': 'a-'}}, 'onSuccess': 'Warning Why on v1/Pod default/a (1): what', 'times': 2},"
         "{'update': 'v1/ConfigMap m', 'changes': {'apiVersion': null, 'kind': null, 'data': {'y': '2', 'z': '3'}}},"
         "{'update': 'v1/ConfigMap/status new', 'object': {'metadata': {'name': 'new'}}},"
         "{'patch': 'v1/Pod default/a', 'form': 'json', 'if': {'uid': '1', 'resourceVersion': '2'}, 'body': [], 'onFailure': 'Warning Why on v1/Pod default/a (1): what'},"
         "{'patch': 'v1/ConfigMap m', 'form': 'apply by me, force: true', 'body': {}}]},"
         "{'order': 'slow-start', 'mutations': ["
         "{'delete': 'v1/Pod default/a', 'if': {'uid': '1'}, 'propagation': 'foreground', 'gracePeriodSeconds': 0},"
         "{'deleteCollection': 'v1/Pod default', 'labelSelector': 'a=b', 'propagation': 'orphan'}]},"
         "{'order': 'parallel', 'always': true, 'mutations': [{'event': 'Warning Why on v1/Pod default/a (1): what', 'tolerate': ['not-found', 'conflict']}]}],"
         " 'requeueAfter': '1.5s', 'state': {'a': '1', 'b': null}, 'observations': ['m{x,y} 0.5', 'n{} 1000000000000000000000']}");
    SAME(show(pintle_retry("no %d", 1), NULL), "{'retry': 'no 1'}");
    SAME(show(pintle_retry_after(90000, "no"), NULL), "{'retry': 'no', 'after': '90s'}");
    SAME(show(pintle_retry_after(250, "no"), NULL), "{'retry': 'no', 'after': '250ms'}");
    SAME(show(pintle_terminal("never"), NULL), "{'terminal': 'never'}");
    SAME(show(NULL, NULL), "{'steps': []}");
}

static void differences_are_told_by_their_place(void) {
    pintle_json *differences = j("[]");
    compare("", j("{'a': [1, 2], 'b': {'c': true}, 'e': 1, 'f': null}"), j("{'a': [1], 'b': {'c': false}, 'd': null, 'f': null, 'e': 1.0}"), differences);
    SAME(differences, "['.a[1]: expected 2, got nothing', '.b.c: expected true, got false', '.d: expected nothing, got null']");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
#define TEST(name) {#name, name}
        TEST(texts_and_hashes_are_those_of_every_language), TEST(numbers_that_languages_write_differently_have_no_hash),
        TEST(covering_is_that_of_every_language), TEST(what_is_no_json_is_refused), TEST(json_survives_a_round_trip),
        TEST(formats_have_places_for_values), TEST(reading_what_is_not_there_gives_the_default), TEST(changes_of_a_copy_are_not_seen),
        TEST(kinds_have_a_text_form), TEST(finalizers_of_others_stay), TEST(a_transition_is_a_change_of_the_status_alone),
        TEST(a_status_is_written_only_if_it_differs), TEST(what_is_missing_is_applied_with_owner_and_hash),
        TEST(what_differs_is_applied_with_the_uid_and_all_else_left_alone),
        TEST(an_object_without_a_controller_is_adopted_before_anything_else_of_it_changes), TEST(objects_of_others_and_those_that_go_are_only_named),
        TEST(what_is_no_longer_wanted_is_deleted_kind_by_kind), TEST(mistakes_in_children_are_named),
        TEST(the_lister_gives_what_the_host_would_give), TEST(selectors_match_as_kubectl_says),
        TEST(needs_are_answered_until_there_are_no_more), TEST(a_refused_live_read_is_a_retry),
        TEST(every_part_of_an_outcome_is_shown), TEST(differences_are_told_by_their_place), TEST(times_are_those_of_rfc_3339),
        TEST(a_time_that_is_too_far_away_is_looked_at_again), TEST(keys_to_wake_and_labels_of_the_run_are_shown),
        TEST(an_outcome_without_a_mutation_has_no_last_place), TEST(samples_name_the_write_that_they_wait_for),
        TEST(an_outcome_fails_as_a_run_does), TEST(resources_of_a_kind_are_those_of_all_its_versions),
        TEST(questions_are_answered_as_the_case_has_it),
        TEST(refused_questions_have_a_code_and_a_reason), TEST(a_verdict_that_is_refused_is_a_retry),
        TEST(what_is_asked_stays_what_it_was), TEST(needs_differ_in_every_field), TEST(live_lists_select_by_fields_and_show_as_much_as_asked_for),
        TEST(answers_of_a_case_that_make_no_sense_are_refused), TEST(a_duration_is_in_milliseconds),
        TEST(an_empty_selector_matches_what_the_watch_declares),
        TEST(mapped_keys_can_wait),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\nFOLDER: sdk/vectors\n", argv[0]);
        return 2;
    }
    vectors = argv[1];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int before = n_failed;
        running = all[i].name;
        all[i].run();
        pintle_reset();
        printf("%s %s\n", n_failed == before ? "ok      " : "FAILED  ", running);
    }
    return n_failed > 0;
}
