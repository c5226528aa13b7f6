/* Runs errands: each one exercises one part of contract 0.2.
 *
 * tests/errand/README.md in the repository specifies its behaviour, and the cases there show it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pintle.h"

static const pintle_kind ERRAND = {"example.com", "v1", "Errand"};
static const pintle_kind DEPLOYMENT = {"apps", "v1", "Deployment"};
static const pintle_kind POD = {"", "v1", "Pod"};
static const pintle_kind SECRET = {"", "v1", "Secret"};
static const pintle_kind ACCESS_REVIEW = {"authorization.k8s.io", "v1", "SubjectAccessReview"};

#define ERRANDS "errands"
#define ROUNDS "rounds"

/* One errand, and what its run comes to. */
typedef struct {
    pintle_lister *lister;
    const char *ns, *name;
    /* Of its spec. */
    const char *action, *of, *until;
    pintle_outcome *outcome;
    /* NULL: none. */
    const char *answer;
} errand_run;

static pintle_key errand_key(const char *ns, const char *name) { return (pintle_key){ERRANDS, ERRAND, ns, name}; }

/* What the answer to a need says, by a function that reads it; a refusal is an answer too. NULL, or what to return instead. */
static pintle_outcome *ask(errand_run *run, pintle_need need, const char *(*read)(const pintle_json *answer)) {
    pintle_json *answer;
    int code;
    if (!pintle_ask(run->lister, need, &answer, &code)) {
        return pintle_unfinished(run->lister);
    }
    run->answer = code == 0 ? read(answer) : pintle_printf("refused: %s", pintle_text(pintle_at(answer, "reason"), ""));
    return NULL;
}

/* ---- What each errand does ---- */

static pintle_outcome *wake(errand_run *run) {
    pintle_wake(run->outcome, errand_key(run->ns, run->of));
    pintle_wake_after(run->outcome, pintle_tick_key(ROUNDS), 1500);
    run->answer = "woken";
    return NULL;
}

/* One key more than an outcome may wake. */
static pintle_outcome *crowd(errand_run *run) {
    for (int i = 0; i <= 10000; i++) {
        pintle_wake(run->outcome, errand_key(run->ns, pintle_printf("e%d", i)));
    }
    run->answer = "woken";
    return NULL;
}

static pintle_outcome *later(errand_run *run) {
    pintle_time until, now = pintle_now_time(run->lister);
    if (!pintle_time_parse(run->until, &until)) {
        return pintle_terminal("spec.until is not a time");
    }
    if (until > now) {
        pintle_requeue_at(run->outcome, until, now);
    } else {
        run->answer = "due";
    }
    return NULL;
}

static pintle_outcome *uptime(errand_run *run) {
    int64_t now = (int64_t)pintle_uptime(run->lister);
    const char *name = pintle_printf("since/%s/%s", run->ns, run->name);
    const char *kept = pintle_state(run->lister, name);
    if (kept == NULL) {
        pintle_keep(run->outcome, name, pintle_printf("%" PRId64, now));
        run->answer = "started";
        return NULL;
    }
    char *end;
    errno = 0;
    int64_t since = strtoll(kept, &end, 10);
    if (errno != 0 || end == kept || *end != 0 || since < 0) {
        return pintle_terminal("\"%s\" is not a number", kept);
    }
    run->answer = pintle_printf("%" PRId64 " s", now - since);
    return NULL;
}

/* The API server leaves out zero. */
static const char *read_replicas(const pintle_json *scale) {
    return pintle_printf("%" PRId64, pintle_int(pintle_at(scale, "spec", "replicas"), 0));
}

static pintle_outcome *scale(errand_run *run) {
    pintle_need need = {.type = PINTLE_LIVE_OBJECT, .kind = DEPLOYMENT, .ns = run->ns, .name = run->of, .subresource = "scale"};
    return ask(run, need, read_replicas);
}

static const char *read_places(const pintle_json *pods) {
    const char *all = "";
    for (size_t i = 0; i < pintle_length(pods); i++) {
        const pintle_json *pod = pintle_item(pods, i);
        const char *node = pintle_text(pintle_at(pod, "spec", "nodeName"), "");
        all = pintle_printf("%s%s%s on %s", all, i == 0 ? "" : ", ", pintle_metadata(pod, "name"), node);
    }
    return all;
}

static pintle_outcome *pods(errand_run *run) {
    pintle_need need = {.type = PINTLE_LIVE_LIST, .kind = POD, .ns = run->ns, .detail = PINTLE_PROJECTION, .limit = 10};
    need.field_selector = pintle_printf("spec.nodeName=%s", run->of);
    return ask(run, need, read_places);
}

static const char *read_length(const pintle_json *list) { return pintle_printf("%zu", pintle_length(list)); }

/* The manifest does not request it. */
static pintle_outcome *secrets(errand_run *run) {
    return ask(run, (pintle_need){.type = PINTLE_LIVE_LIST, .kind = SECRET, .ns = run->ns, .detail = PINTLE_WHOLE, .limit = 10}, read_length);
}

static const char *read_verdict(const pintle_json *review) {
    return pintle_bool(pintle_at(review, "status", "allowed"), false) ? "allowed" : "denied";
}

static pintle_outcome *review(errand_run *run) {
    const pintle_json *body = pintle_format(
        "{'spec': {'user': %s, 'resourceAttributes': {'namespace': %s, 'verb': 'get', 'resource': 'pods'}}}", run->of, run->ns);
    return ask(run, (pintle_need){.type = PINTLE_REVIEW, .kind = ACCESS_REVIEW, .body = body}, read_verdict);
}

static const char *read_text(const pintle_json *answer) { return pintle_text(answer, ""); }

static pintle_outcome *token(errand_run *run) {
    const pintle_json *claims = pintle_format("{'sub': %s}", run->of);
    return ask(run, (pintle_need){.type = PINTLE_SIGN_JWT, .key = "key", .body = claims}, read_text);
}

static pintle_outcome *certificate(errand_run *run) {
    pintle_need need = {
        .type = PINTLE_SIGN_CERTIFICATE,
        .authority = "authority",
        .request = run->of,
        .usages = (const char *const[]){"client auth", NULL},
        .not_before = pintle_now(run->lister),
        .not_after = run->until,
    };
    return ask(run, need, read_text);
}

static const char *read_place(const pintle_json *found) { return pintle_text(pintle_at(found, "place"), ""); }

static pintle_outcome *call(errand_run *run) {
    const pintle_json *body = pintle_format("{'name': %s}", run->of);
    return ask(run, (pintle_need){.type = PINTLE_CALL, .endpoint = "desk", .operation = "look-up", .body = body, .timeout_ms = 10000}, read_place);
}

static pintle_outcome *greet(errand_run *run) {
    const char *greeting = pintle_text(pintle_at(pintle_config(run->lister), "greeting"), "");
    run->answer = pintle_printf("%s, %s", greeting, run->of);
    return NULL;
}

/* Greets, and fails all the same. */
static pintle_outcome *fail(errand_run *run) {
    pintle_fail(run->outcome, pintle_retry_after(5000, "out of order"));
    return greet(run);
}

static pintle_outcome *kinds(errand_run *run) {
    const pintle_json *resources = pintle_resources_of(run->lister, "apps", "Deployment");
    run->answer = "";
    for (size_t i = 0; i < pintle_length(resources); i++) {
        const pintle_json *resource = pintle_item(resources, i);
        const char *plural = pintle_text(pintle_at(resource, "plural"), "");
        const char *version = pintle_kind_parse(pintle_text(pintle_at(resource, "kind"), "")).version;
        run->answer = pintle_printf("%s%s%s.%s", run->answer, i == 0 ? "" : ",", plural, version);
    }
    return NULL;
}

static pintle_outcome *tally(errand_run *run) {
    uint32_t n_pods = pintle_count(run->lister, POD, (pintle_query){.ns = run->ns});
    pintle_observe(run->outcome, "errand_controller_pods", n_pods, (const char *const[]){run->ns, NULL});
    run->answer = pintle_printf("%" PRIu32, n_pods);
    return NULL;
}

static pintle_outcome *count(errand_run *run) {
    static const char metric[] = "errand_controller_deletions_total";
    const pintle_json *pod = pintle_get(run->lister, POD, run->ns, run->of);
    if (pod == NULL) {
        run->answer = "absent";
        return NULL;
    }
    pintle_mutations mutations = {0};
    pintle_mutation *deletion = pintle_delete(POD, run->ns, run->of);
    deletion->uid = pintle_metadata(pod, "uid");
    pintle_add(&mutations, deletion);
    pintle_then(run->outcome, PINTLE_SEQUENTIAL, mutations);
    pintle_place place = pintle_last_place(run->outcome);
    pintle_observe_at(run->outcome, PINTLE_DONE, place, metric, 1, (const char *const[]){"deleted", NULL});
    pintle_observe_at(run->outcome, PINTLE_FAILED, place, metric, 1, (const char *const[]){"kept", NULL});
    run->answer = "tried";
    return NULL;
}

/* ---- A run ---- */

/* Every errand again. */
static pintle_outcome *rounds(pintle_lister *lister) {
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_observe(outcome, "errand_controller_rounds_total", 1, NULL);
    const pintle_json *errands = pintle_list(lister, ERRAND, (pintle_query){0});
    for (size_t i = 0; i < pintle_length(errands); i++) {
        const pintle_json *errand = pintle_item(errands, i);
        pintle_wake(outcome, errand_key(pintle_metadata(errand, "namespace"), pintle_metadata(errand, "name")));
    }
    return outcome;
}

/* Says what one errand wants, or, for the tick of the rounds, which errands run. */
static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    static const struct {
        const char *name;
        pintle_outcome *(*run)(errand_run *run);
    } actions[] = {
        {"wake", wake},     {"crowd", crowd},   {"later", later}, {"uptime", uptime},           {"scale", scale}, {"pods", pods},
        {"secrets", secrets}, {"review", review}, {"token", token}, {"certificate", certificate}, {"call", call},   {"count", count},
        {"greet", greet},     {"fail", fail},     {"kinds", kinds}, {"tally", tally},
    };
    if (strcmp(key->queue, ROUNDS) == 0) {
        return rounds(lister);
    }
    const pintle_json *errand = pintle_get(lister, ERRAND, key->ns, key->name);
    if (errand == NULL) {
        return NULL;
    }
    errand_run run = {
        .lister = lister,
        .ns = key->ns,
        .name = key->name,
        .action = pintle_text(pintle_at(errand, "spec", "do"), ""),
        .of = pintle_text(pintle_at(errand, "spec", "of"), ""),
        .until = pintle_text(pintle_at(errand, "spec", "until"), ""),
        .outcome = pintle_outcome_new(),
    };
    size_t i = 0;
    while (i < sizeof actions / sizeof *actions && strcmp(actions[i].name, run.action) != 0) {
        i++;
    }
    if (i == sizeof actions / sizeof *actions) {
        return pintle_terminal("nothing is called %s", run.action);
    }
    pintle_outcome *instead = actions[i].run(&run);
    if (instead != NULL) {
        return instead;
    }
    pintle_run_label(run.outcome, "do", run.action);
    const char *before = pintle_text(pintle_at(errand, "status", "answer"), NULL);
    if (run.answer != NULL && (before == NULL || strcmp(before, run.answer) != 0)) {
        pintle_mutations mutations = {0};
        pintle_json *body = pintle_format("{'status': {'answer': %s}}", run.answer);
        pintle_mutation *patch = pintle_patch(ERRAND, run.ns, run.name, PINTLE_MERGE_PATCH, body);
        patch->subresource = "status";
        patch->uid = pintle_metadata(errand, "uid");
        pintle_add(&mutations, patch);
        pintle_always(run.outcome, PINTLE_SEQUENTIAL, mutations);
    }
    return run.outcome;
}

PINTLE_EXPORT(reconcile)
