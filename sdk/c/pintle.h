/* Kubernetes controllers as Pintle plugins, in C11.
 *
 * A plugin is a manifest.yaml and a function:
 *
 *     #include "pintle.h"
 *
 *     static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) { ... }
 *
 *     PINTLE_EXPORT(reconcile)
 *
 * The function is called with a key of a work queue, is never told why, and must be pure: the same view gives the same outcome. The
 * host keeps the caches, carries out the outcome, and does not call again for the same key before the caches have seen the writes.
 *
 * Memory: everything that a function of this header gives lives until the run ends, and goes by itself. Free nothing, and keep no
 * pointer in a static variable. For memory of your own there is pintle_alloc.
 *
 * Mistakes of the program (a format that is no JSON, an object without a name) end the run as a fault, with a line in the log that
 * tells place and key. So do a pointer that is NULL, an index outside of its array, a division by zero, assert and abort. Other wild
 * pointers are not noticed in WebAssembly: run the native tests with -fsanitize=address,undefined.
 *
 * The plugin has nothing but the C library without its world: no files, no network, and a call of time() or rand() does not compile. There
 * is no registry of C packages either, so JSON is part of this header. */
#ifndef PINTLE_H
#define PINTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Memory and texts ------------------------------------------------------------------------------------------------------- */

/* Zeroed memory until the end of the run. Never NULL: the run ends as a fault if there is no more. */
void *pintle_alloc(size_t size);

/* A text in the form of printf, until the end of the run. */
char *pintle_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the run as a fault, with a line in the log. */
#define PINTLE_PANIC(...) pintle_panic(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void pintle_panic(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Lines for the host's log, tagged by it with plugin and key. Natively they go to standard error. */
void pintle_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pintle_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pintle_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pintle_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- JSON ------------------------------------------------------------------------------------------------------------------- */

/* A JSON value. NULL stands for an absent one everywhere: reading from it gives NULL again, or the default. */
typedef struct pintle_json pintle_json;

typedef enum { PINTLE_NULL, PINTLE_BOOL, PINTLE_NUMBER, PINTLE_STRING, PINTLE_LIST, PINTLE_OBJECT } pintle_type;

/* PINTLE_NULL for NULL. */
pintle_type pintle_type_of(const pintle_json *value);

/* The value at a path of member names: pintle_at(object, "metadata", "name"). NULL if it is absent or null. */
#define pintle_at(value, ...) pintle_at_path((value), (const char *const[]){__VA_ARGS__, NULL})
pintle_json *pintle_at_path(const pintle_json *value, const char *const *path);

/* The value as a scalar; otherwise if it is something else. A number with a fraction is no integer. */
const char *pintle_text(const pintle_json *value, const char *otherwise);
int64_t pintle_int(const pintle_json *value, int64_t otherwise);
bool pintle_bool(const pintle_json *value, bool otherwise);

/* Number of the items of a list or the members of an object; 0 of anything else. */
size_t pintle_length(const pintle_json *value);
/* An item of a list, or the value of a member in the order of the text; NULL past the end. */
pintle_json *pintle_item(const pintle_json *value, size_t i);
/* The name of a member; NULL past the end. */
const char *pintle_name(const pintle_json *object, size_t i);

/* A value from JSON in which strings may stand in single quotes, so that it fits into C, and with values at these places (also as
 * names of members, for %s): %s a string, %d an int, %i an int64_t, %b a bool, %j a pintle_json * (null if it is NULL).
 *
 *     pintle_format("{'name': %s, 'labels': %j, 'replicas': %i}", name, labels, replicas) */
#define pintle_format(...) pintle_format_at(__FILE__, __LINE__, __VA_ARGS__)
pintle_json *pintle_format_at(const char *file, int line, const char *format, ...);
/* A value from JSON text; NULL if it is none. */
pintle_json *pintle_parse(const char *text, size_t length);
/* Why the last pintle_parse gave NULL, for messages: "it makes no sense from byte 7 of 20 on". */
const char *pintle_parse_problem(void);
/* A copy, for changes that shall not be seen elsewhere. */
pintle_json *pintle_copy(const pintle_json *value);
/* Sets a member. */
void pintle_set(pintle_json *object, const char *name, const pintle_json *value);
/* Removes a member, if it is there. */
void pintle_remove(pintle_json *object, const char *name);
/* Appends to a list. */
void pintle_append(pintle_json *list, const pintle_json *value);
/* Whether two values are the same; the order of members does not matter. */
bool pintle_equal(const pintle_json *a, const pintle_json *b);
/* The JSON text. */
char *pintle_write(const pintle_json *value);

/* A hash of a value that is the same in every language: FNV-1a with 64 bits over its canonical JSON, as 16 hexadecimal digits.
 * NULL if it has a number that is no integer, or one beyond 2^53 - 1. */
char *pintle_hash(const pintle_json *value);
/* The canonical text: members sorted by the bytes of their names, those that are null left out, no white space, no more escapes than
 * JSON requires, integers plain. NULL as for pintle_hash. */
char *pintle_canonical(const pintle_json *value);

/* ---- Names ------------------------------------------------------------------------------------------------------------------- */

/* A kind as the API server names it. group is "" for the core group. */
typedef struct {
    const char *group, *version, *name;
} pintle_kind;

/* The kind that apiVersion and kind of an object or an owner reference name. */
pintle_kind pintle_kind_of(const pintle_json *object);
/* From "apps/v1/Deployment", or "v1/Pod" in the core group. */
pintle_kind pintle_kind_parse(const char *text);
/* The text form. */
const char *pintle_kind_text(pintle_kind kind);
/* The apiVersion of its objects. */
const char *pintle_api_version(pintle_kind kind);
bool pintle_same_kind(pintle_kind a, pintle_kind b);

/* The root object of a run: one entry of one work queue of this plugin. The object may be gone by now. ns is "" if it is
 * cluster-scoped. The tick key of a queue is no object: see pintle_tick_key. */
typedef struct {
    const char *queue;
    pintle_kind kind;
    const char *ns, *name;
} pintle_key;

/* The key of a queue that runs every tickMs, and by rules with to: tick: kind pintle/v1/Tick, no namespace, the name of the queue. */
pintle_key pintle_tick_key(const char *queue);
/* Whether a run is that of a tick key. */
bool pintle_is_tick(const pintle_key *key);

/* ---- Times ------------------------------------------------------------------------------------------------------------------- */

/* Microseconds since 1970-01-01T00:00:00Z. */
typedef int64_t pintle_time;

/* Reads RFC 3339, with any offset and number of decimals; those beyond microseconds are dropped. false if the text is no time, or is NULL. */
bool pintle_time_parse(const char *text, pintle_time *time);

/* ---- Reading ----------------------------------------------------------------------------------------------------------------- */

/* A snapshot of the cluster, for one run: repeated reads give the same answer. All reads together are one state of the host's caches,
 * never older than this key's own last writes. Only kinds that the manifest watches can be read; another is a fault. */
typedef struct pintle_lister pintle_lister;

typedef enum { PINTLE_ANYBODY, PINTLE_CONTROLLER, PINTLE_CONTROLLER_OR_ORPHAN, PINTLE_ANY_OWNER } pintle_owned_by;

/* Which objects to list; all that is set must hold. {0}: every object of the kind. */
typedef struct {
    /* NULL or "": all. */
    const char *ns;
    /* In the syntax of kubectl: a=b,c in (d,e),!f. One that does not parse is a fault. */
    const char *label_selector;
    /* Selects by owner references that have this uid. */
    pintle_owned_by owned_by;
    const char *owner_uid;
    /* An index that the manifest declares, and its value. */
    const char *index, *index_value;
    /* Whole objects instead of the projection; the watch must declare whole. */
    bool whole;
} pintle_query;

/* Time at which this run began: RFC 3339 with microseconds, UTC. */
const char *pintle_now(pintle_lister *lister);
/* The same as a number, to compare with. */
pintle_time pintle_now_time(pintle_lister *lister);
/* Seconds since the host started, when this run began, by a clock that nobody sets. Only differences of two values of the same host have
 * a meaning: keep one in the state (pintle_keep), which is lost together with this clock. */
double pintle_uptime(pintle_lister *lister);
/* The object, whole if its watch declares whole; NULL if it is not in the cache. */
pintle_json *pintle_get(pintle_lister *lister, pintle_kind kind, const char *ns, const char *name);
/* A list of the objects that match, ordered by namespace and name. */
pintle_json *pintle_list(pintle_lister *lister, pintle_kind kind, pintle_query query);
/* How many objects match. */
uint32_t pintle_count(pintle_lister *lister, pintle_kind kind, pintle_query query);
/* A list of the objects of the namespace whose own selector (declared as selects) matches these labels, an object of strings. An empty
 * selector matches nothing, unless the watch declares empty: everything. */
pintle_json *pintle_selecting(pintle_lister *lister, pintle_kind kind, const char *ns, const pintle_json *labels);
/* A list of the objects of any watched kind that name this uid among their owners, ordered by kind, namespace and name. */
pintle_json *pintle_dependents(pintle_lister *lister, const char *uid);
/* The object of any watched kind with this uid. */
pintle_json *pintle_by_uid(pintle_lister *lister, const char *uid);
/* What the API server offers: a list of {kind, plural, namespaced, verbs, subresources, preferred}. Only with discovery: true. */
pintle_json *pintle_resources(pintle_lister *lister);
/* Those of pintle_resources whose kind has this group ("" for the core group) and name, of all versions, at a small part of the cost; an
 * empty list if there is no such kind. Only with discovery: true. */
pintle_json *pintle_resources_of(pintle_lister *lister, const char *group, const char *name);
/* The plugin's configuration, defaults filled in. */
pintle_json *pintle_config(pintle_lister *lister);
/* What an earlier outcome of this plugin kept under this name; NULL if nothing. */
const char *pintle_state(pintle_lister *lister, const char *name);
/* How often this key has failed in a row: 0 on the first try. */
uint32_t pintle_attempt(pintle_lister *lister);
/* What failed of this key's previous outcome: a list of {step, position, verb, kind, object: {namespace, name}, subresource, code,
 * reason, message, causes}, kind in text form; empty after a success. */
pintle_json *pintle_failures(pintle_lister *lister);

typedef enum {
    /* One object, or a subresource of it. Answer: the object. */
    PINTLE_LIVE_OBJECT,
    /* Answer: a list of objects. */
    PINTLE_LIVE_LIST,
    /* GET of a path of the API server. Answer: the body. */
    PINTLE_RAW_PATH,
    /* Answer: a list of the group versions that did not answer. */
    PINTLE_DISCOVERY,
    /* A verdict of the API server. Answer: the review with its status. */
    PINTLE_REVIEW,
    /* A JSON Web Token. Answer: the token, a string. */
    PINTLE_SIGN_JWT,
    /* A certificate, never that of an authority. Answer: the certificate in PEM, a string. */
    PINTLE_SIGN_CERTIFICATE,
    /* An operation of an endpoint that the operator has bound. Answer: the body of the response. The host calls once, before the outcome is
     * accepted: expect to see work of your own that is half done. */
    PINTLE_CALL,
} pintle_need_type;

/* How much of each object the answer to PINTLE_LIVE_LIST has: apiVersion, kind and metadata; what the watch of the kind declares, only of
 * kinds that the manifest watches; or all. managedFields are never there. */
typedef enum { PINTLE_METADATA, PINTLE_PROJECTION, PINTLE_WHOLE } pintle_detail;

/* A question that the cache cannot answer. Set its type and the fields that belong to it:
 *
 *     {.type = PINTLE_LIVE_LIST, .kind = POD, .ns = "default", .field_selector = "spec.nodeName=n1", .detail = PINTLE_PROJECTION, .limit = 100}
 *
 * See pintle_live, pintle_live_subresource and pintle_review for short ways. */
typedef struct {
    pintle_need_type type;
    /* Of an object (name), of a list (ns "": all), or of a review (ns "" if it is cluster-scoped). */
    pintle_kind kind;
    const char *ns, *name;
    /* Of an object; NULL: the object itself. The grant lists it in subresources. */
    const char *subresource;
    /* Of a list, in the syntax of kubectl; NULL: all. The API server knows which fields a kind has for field_selector. */
    const char *label_selector, *field_selector;
    pintle_detail detail;
    /* Of a list: at most so many objects, at least 1. */
    uint32_t limit;
    /* Of a raw read. */
    const char *path;
    /* Of a review: the object with its spec. Of a token: the claims, an object. Of a call: what is sent. */
    const pintle_json *body;
    /* Of a token: a setting of type key. */
    const char *key;
    /* Of a certificate: a setting of type authority; one CERTIFICATE REQUEST in PEM, from which subject and subject alternative names are
     * taken; usages as certificates.k8s.io names them, such as "client auth", ended by NULL; from when until when, RFC 3339. The host cuts
     * the end to that of the authority's certificate; if that has passed, the answer is a refusal with the reason Expired. */
    const char *authority, *request;
    const char *const *usages;
    const char *not_before, *not_after;
    /* Of a call: an endpoint that the manifest declares, and one of its operations. */
    const char *endpoint, *operation;
    /* Of a call: how long to wait for the answer in milliseconds, at most 30,000; 0: 30,000. */
    int64_t timeout_ms;
} pintle_need;

/* Reads an object as the API server itself has it now; *object is NULL if it is gone there. The manifest must grant get.
 * false if the answer is not there: return pintle_unfinished(lister) then, and the host reads and calls again. A refusal is a retry. */
bool pintle_live(pintle_lister *lister, pintle_kind kind, const char *ns, const char *name, pintle_json **object);
/* Reads a subresource of an object, such as scale. As pintle_live. */
bool pintle_live_subresource(
    pintle_lister *lister, pintle_kind kind, const char *ns, const char *name, const char *subresource, pintle_json **object);
/* Asks the API server for a verdict: *status is the status of a review, such as a SubjectAccessReview. review is the object, with its spec;
 * ns is "" if the kind is cluster-scoped. The manifest must grant to create it. false as for pintle_live. */
bool pintle_review(pintle_lister *lister, pintle_kind kind, const char *ns, const pintle_json *review, pintle_json **status);
/* The answer to any need, parsed. false as for pintle_live, only if it was not asked before. *code is 0, or the HTTP status code of a refusal
 * (-1 if there is none, because no answer came or the host itself refused), and *answer then an object with reason and message. */
bool pintle_ask(pintle_lister *lister, pintle_need need, pintle_json **answer, int *code);

/* ---- Writing ----------------------------------------------------------------------------------------------------------------- */

typedef enum { PINTLE_CREATE, PINTLE_UPDATE, PINTLE_PATCH, PINTLE_DELETE, PINTLE_DELETE_COLLECTION, PINTLE_EVENT } pintle_verb;
typedef enum { PINTLE_JSON_PATCH, PINTLE_MERGE_PATCH, PINTLE_STRATEGIC_MERGE_PATCH, PINTLE_APPLY_PATCH } pintle_patch_type;
typedef enum { PINTLE_DEFAULT_PROPAGATION, PINTLE_BACKGROUND, PINTLE_FOREGROUND, PINTLE_ORPHAN } pintle_propagation;
typedef enum { PINTLE_NORMAL, PINTLE_WARNING } pintle_event_type;

/* Refusals of the API server, for tolerate. */
enum {
    PINTLE_NOT_FOUND = 1,
    PINTLE_ALREADY_EXISTS = 2,
    PINTLE_CONFLICT = 4,
    PINTLE_INVALID = 8,
    PINTLE_FORBIDDEN = 16,
    /* A create is forbidden because the namespace is being deleted. */
    PINTLE_NAMESPACE_TERMINATING = 32,
};

/* A Kubernetes Event; the host adds time, source, count and series, and drops floods. */
typedef struct {
    pintle_kind kind;
    const char *ns, *name, *uid;
    pintle_event_type type;
    /* In upper camel case, for machines. */
    const char *reason;
    /* For humans, at most 1,024 bytes. In on_success and on_failure, {name} stands for the name of the written object and {error}
     * for the server's message. */
    const char *message;
} pintle_event;

/* One write, and what to do with its result. The functions below make one; set more fields as needed. */
typedef struct {
    pintle_verb verb;
    pintle_kind kind;
    /* Not of updates, which have them in the object; name not of creates and deletes of a collection. */
    const char *ns, *name;
    /* NULL: the object itself. */
    const char *subresource;
    /* The object of a create or an update, or the patch. */
    pintle_json *body;
    pintle_patch_type patch_type;
    /* Of a server-side apply. */
    const char *field_manager;
    bool force;
    /* What must still hold when a patch or a delete arrives, otherwise it fails with a conflict; NULL: anything. */
    const char *uid, *resource_version;
    pintle_propagation propagation;
    /* Of deletes; -1: the kind's own default. */
    int64_t grace_period_seconds;
    /* Of deletes of a collection; NULL: all. */
    const char *label_selector;
    /* Of an event on its own. */
    const pintle_event *event;
    /* Recorded when the write has succeeded, or failed; may be NULL. */
    const pintle_event *on_success, *on_failure;
    /* Refusals that count as success, joined by |. */
    unsigned tolerate;
} pintle_mutation;

/* Creates an object; apiVersion and kind are filled in by the host. */
pintle_mutation *pintle_create(pintle_kind kind, const char *ns, pintle_json *object);
/* Replaces an object. It must carry metadata.resourceVersion or metadata.uid, and every field that shall stay. */
pintle_mutation *pintle_update(pintle_kind kind, pintle_json *object);
/* Replaces the status of an object, which must be given whole, metadata included. pintle_patch_status is often better. */
pintle_mutation *pintle_update_status(pintle_kind kind, pintle_json *object);
/* Changes part of an object. */
pintle_mutation *pintle_patch(pintle_kind kind, const char *ns, const char *name, pintle_patch_type type, pintle_json *patch);
/* Server-side apply: makes the fields of object what it says, creates it if it is not there, and removes fields that an earlier apply of
 * the same field manager had and this one has not. Takes over fields that other managers own if force. */
pintle_mutation *pintle_apply(pintle_kind kind, const char *ns, const char *name, const char *field_manager, bool force, pintle_json *object);
/* Deletes an object; one that is gone already counts as done. Set the uid that was seen, so that a namesake survives. */
pintle_mutation *pintle_delete(pintle_kind kind, const char *ns, const char *name);
/* Deletes the objects of a kind in a namespace that the selector matches, or all if it is NULL. */
pintle_mutation *pintle_delete_collection(pintle_kind kind, const char *ns, const char *label_selector);
/* Records an event on its own. It takes its place in the step but never fails it. */
pintle_mutation *pintle_record(const pintle_event *event);
/* An event about an object of a kind that the manifest watches, or beside the key's object. */
pintle_event *pintle_event_on(const pintle_json *object, pintle_event_type type, const char *reason, const char *message);

/* A growing list of mutations. Begin with {0}. */
typedef struct {
    pintle_mutation **items;
    size_t length, capacity;
} pintle_mutations;

/* Appends a mutation, unless it is NULL. */
void pintle_add(pintle_mutations *mutations, pintle_mutation *mutation);

/* How the mutations of one step are carried out: one after the other, stopping at the first failure; all at once; or in batches of 1, 2,
 * 4, ..., with no more begun after the first failure. */
typedef enum { PINTLE_SEQUENTIAL, PINTLE_PARALLEL, PINTLE_SLOW_START } pintle_order;

/* What one run wants. NULL wants nothing. */
typedef struct pintle_outcome pintle_outcome;

pintle_outcome *pintle_outcome_new(void);
/* Adds a step, unless it is empty. A failed step stops those after it that are not added by pintle_always. */
void pintle_then(pintle_outcome *outcome, pintle_order order, pintle_mutations mutations);
/* Adds a step that is carried out even if an earlier one failed, unless it is empty. */
void pintle_always(pintle_outcome *outcome, pintle_order order, pintle_mutations mutations);
/* The longest time until a key is run again, in milliseconds: 2^31 - 1, about 24.8 days. */
#define PINTLE_LONGEST_REQUEUE_MS INT64_C(2147483647)

/* Runs the key again after so many milliseconds, at least 5 and at most PINTLE_LONGEST_REQUEUE_MS, whatever happens until then. The
 * earliest of several calls counts. */
void pintle_requeue(pintle_outcome *outcome, int64_t after_ms);
/* Runs the key again at a time; now is pintle_now_time(lister). The earliest of several calls counts. A run for a time that is farther away
 * than PINTLE_LONGEST_REQUEUE_MS comes then, and calls this again: do what is due by the clock, not because the key runs. */
void pintle_requeue_at(pintle_outcome *outcome, pintle_time time, pintle_time now);
/* Runs another key of this plugin, at once. At most 10,000 in one outcome. They are added when the outcome is accepted, before its writes
 * are sent; a key that waits already is not added twice, and the earlier time counts. */
void pintle_wake(pintle_outcome *outcome, pintle_key key);
/* The same, not before so many milliseconds have passed. */
void pintle_wake_after(pintle_outcome *outcome, pintle_key key, int64_t after_ms);
/* Sets a label for the metrics of runs that the manifest declares (of: runs). At most 16; labels that the run does not name are empty. */
void pintle_run_label(pintle_outcome *outcome, const char *name, const char *value);
/* Keeps a value under a name, for later runs of this plugin; or forgets it, if it is NULL. */
void pintle_keep(pintle_outcome *outcome, const char *name, const char *value);
/* Adds a sample of a metric that the manifest declares; labels are values in the order of the manifest, and end with NULL. NULL: none.
 * It counts when the outcome is accepted, before its writes are sent; the next try of a failed run counts again. */
void pintle_observe(pintle_outcome *outcome, const char *metric, double value, const char *const *labels);

/* Place of a mutation in an outcome: numbers of its step, and in the step, from 0. */
typedef struct {
    uint32_t step, position;
} pintle_place;

/* When a sample counts: as of pintle_observe; when a mutation has succeeded, or its refusal was tolerated; or when it has failed, or was not
 * tried because another one had failed. */
typedef enum { PINTLE_ACCEPTED, PINTLE_DONE, PINTLE_FAILED } pintle_moment;

/* The place of the mutation that was added last, by pintle_then or pintle_always. A fault if there is none. */
pintle_place pintle_last_place(const pintle_outcome *outcome);
/* Adds a sample that counts when the mutation at this place is done, or has failed. */
void pintle_observe_at(
    pintle_outcome *outcome, pintle_moment moment, pintle_place place, const char *metric, double value, const char *const *labels);
/* Asks a question; the host carries out nothing else of the outcome, answers it, and calls again. */
void pintle_ask_for(pintle_outcome *outcome, pintle_need need);

/* What to return if pintle_live or pintle_ask gave false. */
pintle_outcome *pintle_unfinished(pintle_lister *lister);
/* An error that may pass: the key is tried again after the queue's own backoff. */
pintle_outcome *pintle_retry(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, after so many milliseconds. */
pintle_outcome *pintle_retry_after(int64_t after_ms, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An error that only a change in the cluster can resolve. */
pintle_outcome *pintle_terminal(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fails the run all the same, once everything else of this outcome is carried out: the key is tried again as after an error that is
 * returned, and pintle_attempt counts it. For work that goes on beside what has failed. error is one that could be returned instead, of the
 * functions above or of a plan. The last of several calls counts; NULL changes nothing.
 *
 *     pintle_fail(outcome, pintle_retry_after(5000, "%s is out of order", name));
 *
 * With needs, it is not looked at; pintle_unfinished(lister) adds its questions as needs. Where a mutation fails too, that decides when the
 * key is tried again. */
void pintle_fail(pintle_outcome *outcome, const pintle_outcome *error);

/* ---- Helpers ----------------------------------------------------------------------------------------------------------------- */

/* Short for metadata of an object; "" if absent. */
const char *pintle_metadata(const pintle_json *object, const char *name);
/* Whether an object is being deleted. */
bool pintle_is_deleting(const pintle_json *object);

/* The reference of an object to its controller, owner, which blocks a foreground deletion of it. */
pintle_json *pintle_controller_ref(const pintle_json *owner);
/* The controller reference of an object; NULL if there is none. */
pintle_json *pintle_controller_of(const pintle_json *object);
/* Whether the controller of an object has this uid. */
bool pintle_is_controlled_by(const pintle_json *object, const char *uid);

/* An object that has a finalizer is deleted only after it was taken out. The patches hold the whole list, so the API server refuses them
 * as a conflict if the object has changed since it was read; the run is then repeated. */
bool pintle_has_finalizer(const pintle_json *object, const char *name);
pintle_mutation *pintle_add_finalizer(pintle_kind kind, const pintle_json *object, const char *name);
pintle_mutation *pintle_remove_finalizer(pintle_kind kind, const pintle_json *object, const char *name);

/* The conditions (a list, or NULL) with this one, an object with type, status, reason, message and perhaps observedGeneration, in place of
 * that of the same type, or at the end. lastTransitionTime becomes now in whole seconds, or stays what it was if the status is the same. */
pintle_json *pintle_set_condition(const pintle_json *conditions, const pintle_json *condition, const char *now);
/* The condition of this type; NULL if there is none. */
pintle_json *pintle_find_condition(const pintle_json *conditions, const char *type);
bool pintle_is_true(const pintle_json *conditions, const char *type);

/* A patch that makes the status of object, as it was read, what is wanted; NULL if it already is. A member that the status has and the
 * wanted one has not is removed. null and absent are the same. A conflict as for finalizers. */
pintle_mutation *pintle_patch_status(pintle_kind kind, const pintle_json *object, const pintle_json *status);

/* ---- Children ---------------------------------------------------------------------------------------------------------------- */

/* The annotation of a child with the hash of what was wanted when it was last applied. */
#define PINTLE_APPLIED "pintle.dev/applied"

/* The set of children that an owner wants: what is missing is created, what differs updated, what fits adopted, and what is no longer
 * wanted deleted.
 *
 * Children are written by server-side apply, so fields that others set stay as they are, and a field that is no longer wanted goes. What is
 * applied carries a controller reference to the owner and the annotation PINTLE_APPLIED, by which the next run sees that nothing has
 * changed. What somebody else has changed since is seen by comparing what is wanted with what is there: the manifest watches every owned
 * kind, whole or with all fields that are set in children and metadata.{annotations,labels,ownerReferences,deletionTimestamp}. Write
 * values as the API server does: it turns cpu: 1000m into cpu: 1, which would look like a change in every run.
 *
 * A wanted object without a controller is adopted first: a merge patch adds the controller reference to metadata.ownerReferences and changes
 * nothing else. Its change causes another run, which applies the rest.
 *
 * The manifest asks for {verbs: [create, patch, delete], kinds: [...], of: controlled}, with adopt: true in it if children are to be adopted.
 * Without adopt: true an adoption fails with the reason NotGranted, and the other mutations are sent all the same. If the owner is
 * cluster-scoped, the grant lists the children's namespaces, or all with namespaces: ["*"].
 *
 * An object that another controller has is not touched, and every write of an object that is there carries its uid; an adoption carries its
 * resourceVersion, too, so that it keeps all other owner references. */
typedef struct pintle_children pintle_children;

/* No children yet. owner has apiVersion, kind, metadata.name, namespace and uid. field_manager: usually the name of the plugin, and the
 * same for ever. */
pintle_children *pintle_children_of(const pintle_json *owner, const char *field_manager);
/* The owner has children of this kind: those that are not wanted are deleted, also when none is. */
void pintle_own(pintle_children *children, pintle_kind kind);
/* A wanted object, with apiVersion, kind, metadata.name, and all that shall be applied. Its namespace is the owner's if it names none. */
void pintle_want(pintle_children *children, const pintle_json *object);

typedef struct {
    /* NULL, or what to return: a terminal error, as only other code helps. A wanted object has no name, is wanted twice, is of a kind that is
     * not owned, lives in another namespace than its owner, or cannot be hashed. */
    pintle_outcome *error;
    /* Applies and adoptions in the order of the wanted objects, then deletes in the order of the owned kinds, by name. */
    pintle_mutations mutations;
    /* A list of texts: wanted objects that somebody else controls, such as "v1/Service a/b is controlled by example.com/v1/Gateway b". */
    pintle_json *conflicts;
    /* A list of texts: wanted objects that are being deleted, such as "v1/Service a/b". They are applied once they are gone. */
    pintle_json *waiting;
} pintle_plan;

/* Compares what is wanted with what the cache has. */
pintle_plan pintle_children_plan(pintle_children *children, pintle_lister *lister);

/* ---- Exports ----------------------------------------------------------------------------------------------------------------- */

pintle_outcome *pintle_exported_reconcile(const pintle_key *key, pintle_lister *lister);
void pintle_exported_mapping(pintle_kind kind, const pintle_json *old, const pintle_json *fresh, pintle_lister *lister, void *keys);

/* Makes a function the plugin's reconcile. Once, in one file. */
#define PINTLE_EXPORT(reconcile) \
    pintle_outcome *pintle_exported_reconcile(const pintle_key *key, pintle_lister *lister) { return reconcile(key, lister); }

/* Makes a function the plugin's mapping, for watches with to: plugin: which keys a change touches, where the rules of the manifest cannot
 * say it. old is NULL for a new object, fresh for a deleted one; both are projections. It calls pintle_add_key(keys, ...) for each key. */
#define PINTLE_EXPORT_MAPPING(keys_of) \
    void pintle_exported_mapping(pintle_kind kind, const pintle_json *old, const pintle_json *fresh, pintle_lister *lister, void *keys) { \
        keys_of(kind, old, fresh, lister, keys); \
    }
void pintle_add_key(void *keys, pintle_key key);
/* The same for a key that does not run before so many milliseconds have passed. */
void pintle_add_key_after(void *keys, pintle_key key, int64_t after_ms);

#endif
