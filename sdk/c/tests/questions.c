/* Tests of what contract 0.2 added: times, keys to wake, samples tied to writes, and questions that the host answers. */
#include <stdio.h>
#include <string.h>

#include "check.h"

static const pintle_kind POD = {"", "v1", "Pod"};
static const pintle_kind SECRET = {"", "v1", "Secret"};
static const pintle_kind DEPLOYMENT = {"apps", "v1", "Deployment"};
static const pintle_kind ACCESS_REVIEW = {"authorization.k8s.io", "v1", "SubjectAccessReview"};

static pintle_time time_of(const char *text) {
    pintle_time time = INT64_MIN;
    CHECK(pintle_time_parse(text, &time));
    return time;
}

void times_are_those_of_rfc_3339(void) {
    static const struct {
        const char *text;
        pintle_time time;
    } all[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.5Z", 500000},
        {"1969-12-31T23:59:59.999999Z", -1},
        {"2026-01-01T00:00:00.000000Z", 1767225600000000},
        {"2024-02-29T12:34:56.7891234z", 1709210096789123},
        {"2000-03-01 00:00:00Z", 951868800000000},
        {"2026-01-01t01:30:00+01:30", 1767225600000000},
        {"2025-12-31T19:00:00-05:00", 1767225600000000},
        {"0000-01-01T00:00:00Z", -62167219200000000},
        {"9999-12-31T23:59:60Z", 253402300800000000},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(time_of(all[i].text) == all[i].time);
    }
    static const char *const wrong[] = {"",
                                        "2026",
                                        "2026-01-01",
                                        "2026-01-01T00:00:00",
                                        "2026-01-01T00:00:00.Z",
                                        "2026-01-01T00:00:00ZZ",
                                        "2026-13-01T00:00:00Z",
                                        "2026-02-29T00:00:00Z",
                                        "2100-02-29T00:00:00Z",
                                        "2026-04-31T00:00:00Z",
                                        "2026-00-01T00:00:00Z",
                                        "2026-01-00T00:00:00Z",
                                        "2026-01-01T24:00:00Z",
                                        "2026-01-01T00:60:00Z",
                                        "2026-01-01T00:00:61Z",
                                        "2026-01-01T00:00:00+1:00",
                                        "2026-01-01T00:00:00+01",
                                        "2026-01-01T00:00:00+01:0",
                                        "2026-01-01T00:00:00+01:00Z",
                                        "2026-1-01T00:00:00Z",
                                        "+026-01-01T00:00:00Z",
                                        "2026-01-01X00:00:00Z"};
    pintle_time time;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        /* As long as it is, so that a sanitizer sees what is read past its end. */
        if (pintle_time_parse(pintle_copy_text(wrong[i], strlen(wrong[i])), &time)) {
            printf("%s\n", wrong[i]);
            CHECK(false);
        }
    }
    CHECK(!pintle_time_parse(NULL, &time));
}

void a_time_that_is_too_far_away_is_looked_at_again(void) {
    pintle_time begin = time_of("2026-01-01T00:00:00Z"), due = time_of("2027-01-01T00:00:00Z"), now = begin;
    int n_runs = 0;
    for (; now < due; n_runs++) {
        pintle_outcome *outcome = pintle_outcome_new();
        pintle_requeue_at(outcome, due, now);
        CHECK(outcome->after_ms > 0 && outcome->after_ms <= PINTLE_LONGEST_REQUEUE_MS);
        now += outcome->after_ms * 1000;
    }
    CHECK(now == due && n_runs == 15);
    static const struct {
        pintle_time time, now;
        int64_t after_ms;
    } all[] = {
        /* What is past is due now; less than a millisecond is one; no difference is too large. */
        {0, 1, 0}, {1, 1, 0}, {1, 0, 1}, {1001, 0, 2}, {2000, 0, 2}, {INT64_MAX, INT64_MIN, PINTLE_LONGEST_REQUEUE_MS}, {INT64_MIN, INT64_MAX, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pintle_outcome *outcome = pintle_outcome_new();
        pintle_requeue_at(outcome, all[i].time, all[i].now);
        CHECK(outcome->after_ms == all[i].after_ms);
    }
    pintle_outcome *both = pintle_outcome_new();
    pintle_requeue(both, 5000);
    pintle_requeue_at(both, due, begin);
    CHECK(both->after_ms == 5000);
    pintle_outcome *far = pintle_outcome_new();
    pintle_requeue(far, INT64_MAX);
    CHECK(far->after_ms == PINTLE_LONGEST_REQUEUE_MS);
}

void keys_to_wake_and_labels_of_the_run_are_shown(void) {
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_wake(outcome, (pintle_key){"pods", POD, "default", "a"});
    pintle_wake_after(outcome, pintle_tick_key("rounds"), 1500);
    pintle_wake_after(outcome, pintle_tick_key("rounds"), INT64_MAX);
    pintle_wake_after(outcome, pintle_tick_key("rounds"), -1);
    pintle_run_label(outcome, "mode", "fast");
    pintle_run_label(outcome, "why", "");
    SAME(show(outcome, NULL),
         "{'steps': [], 'wake': ['pods: v1/Pod default/a', 'rounds: pintle/v1/Tick rounds after 1.5s',"
         " 'rounds: pintle/v1/Tick rounds after 2147483.647s', 'rounds: pintle/v1/Tick rounds after 0ns'],"
         " 'runLabels': {'mode': 'fast', 'why': ''}}");
    pintle_key tick = pintle_tick_key("rounds"), namesake = {"rounds", {"", "v1", "Namespace"}, "", "tick"};
    CHECK(pintle_is_tick(&tick) && !pintle_is_tick(&namesake));
}

void an_outcome_without_a_mutation_has_no_last_place(void) {
    FAULTS(pintle_last_place(pintle_outcome_new()), "the outcome has no mutation");
}

void an_outcome_fails_as_a_run_does(void) {
    static const char steps[] = "'steps': [{'order': 'sequential', 'mutations': [{'delete': 'v1/Pod default/a'}]}]";
    const struct {
        const pintle_outcome *error;
        const char *shown;
    } all[] = {
        {NULL, ""},
        {pintle_retry("no %d", 1), ", 'error': {'retry': 'no 1'}"},
        {pintle_retry_after(90000, "no"), ", 'error': {'retry': 'no', 'after': '90s'}"},
        {pintle_terminal("never"), ", 'error': {'terminal': 'never'}"},
        /* As that before. */
        {NULL, ", 'error': {'terminal': 'never'}"},
    };
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_mutations mutations = {0};
    pintle_add(&mutations, pintle_delete(POD, "default", "a"));
    pintle_then(outcome, PINTLE_SEQUENTIAL, mutations);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pintle_fail(outcome, all[i].error);
        SAME(show(outcome, NULL), pintle_printf("{%s%s}", steps, all[i].shown));
    }
    /* When the key runs again all the same is another thing. */
    pintle_requeue(outcome, 1000);
    SAME(show(outcome, NULL), pintle_printf("{%s, 'requeueAfter': '1s', 'error': {'terminal': 'never'}}", steps));
    /* What is returned as an error has nothing else. */
    pintle_outcome *returned = pintle_retry("returned");
    pintle_fail(returned, pintle_terminal("never"));
    SAME(show(returned, NULL), "{'retry': 'returned'}");
    /* Questions are no failure. */
    pintle_outcome *asking = pintle_outcome_new(), *unfinished = pintle_outcome_new();
    pintle_ask_for(asking, (pintle_need){.type = PINTLE_RAW_PATH, .path = "/a"});
    for (int i = 0; i < 300; i++) {
        pintle_ask_for(unfinished, (pintle_need){.type = PINTLE_RAW_PATH, .path = "/b"});
    }
    pintle_fail(asking, unfinished);
    CHECK(asking->n_needs == PINTLE_MAX_NEEDS && asking->error == NULL);
    EQUAL(asking->needs[1].path, "/b");
    FAULTS(pintle_fail(asking, pintle_outcome_new()), "an outcome that is no error");
}

void samples_name_the_write_that_they_wait_for(void) {
    pintle_outcome *outcome = pintle_outcome_new();
    for (int i = 0; i < 2; i++) {
        pintle_mutations mutations = {0};
        pintle_add(&mutations, pintle_delete(POD, "default", "a"));
        pintle_add(&mutations, pintle_delete(POD, "default", "b"));
        pintle_then(outcome, PINTLE_PARALLEL, mutations);
        pintle_then(outcome, PINTLE_PARALLEL, (pintle_mutations){0});
    }
    pintle_place last = pintle_last_place(outcome);
    pintle_observe_at(outcome, PINTLE_DONE, last, "gone", 1, (const char *const[]){"x", NULL});
    pintle_observe_at(outcome, PINTLE_FAILED, (pintle_place){0, 0}, "kept", 2, NULL);
    pintle_observe_at(outcome, PINTLE_ACCEPTED, last, "tried", 3, NULL);
    SAME(pintle_at(show(outcome, NULL), "observations"),
         "['gone{x} 1 when steps[1].mutations[1] is done', 'kept{} 2 when steps[0].mutations[0] has failed', 'tried{} 3']");
}

/* ---- Questions ---- */

static const char manifest[] =
    "{'watches': [{'kind': 'v1/Pod', 'fields': ['spec.nodeName']}], 'queues': [{'name': 'first'}]}";

static const char input[] =
    "{'key': {'kind': 'v1/Pod', 'namespace': 'default', 'name': 'a'}, 'uptime': 12.5, 'objects': ["
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'a', 'namespace': 'default', 'uid': 'ua', 'labels': {'app': 'web'}},"
    " 'spec': {'nodeName': 'n1', 'priority': 5}},"
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'b', 'namespace': 'default', 'uid': 'ub'}, 'spec': {'nodeName': 'n2'}},"
    "{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'c', 'namespace': 'default', 'uid': 'uc'}},"
    "{'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 's', 'namespace': 'default', 'uid': 'us'}, 'data': {'k': 'eA=='}}],"
    " 'subresources': [{'kind': 'apps/v1/Deployment', 'namespace': 'default', 'name': 'web', 'subresource': 'scale',"
    " 'answer': {'spec': {'replicas': 3}}}],"
    " 'reviews': [{'kind': 'authorization.k8s.io/v1/SubjectAccessReview', 'spec': {'user': 'ann'}, 'status': {'allowed': true}},"
    " {'kind': 'authorization.k8s.io/v1/SubjectAccessReview', 'spec': {'user': 'bob'}, 'status': {'allowed': false}}],"
    " 'signatures': [{'by': 'key', 'claims': {'sub': {'name': 'ann'}}, 'answer': 'for.ann.x'},"
    " {'by': 'key', 'error': {'code': 0, 'reason': 'NotGranted', 'message': 'not bound'}}, {'by': 'authority', 'answer': 'PEM'}],"
    " 'calls': [{'endpoint': 'desk', 'operation': 'ask', 'body': {'n': 1}, 'answer': {'a': [1]}}, {'endpoint': 'desk', 'operation': 'tell'},"
    " {'endpoint': 'desk', 'operation': 'ask', 'error': {'code': 503, 'reason': 'Unavailable'}}]}";

static fixture *fixture_of(const char *of_manifest, const char *of_input) {
    fixture *of = pintle_alloc(sizeof *of);
    const char *wrong = fixture_read(of, j(of_manifest), j(of_input));
    CHECK(wrong == NULL);
    return of;
}

static const char *versions(pintle_lister *lister, const char *group, const char *name) {
    const pintle_json *all = pintle_resources_of(lister, group, name);
    const char *text = "";
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *one = pintle_item(all, i);
        const char *kind = pintle_text(pintle_at(one, "kind"), ""), *plural = pintle_text(pintle_at(one, "plural"), "");
        text = pintle_printf("%s%s%s %s", text, i == 0 ? "" : ", ", kind, plural);
    }
    return text;
}

void resources_of_a_kind_are_those_of_all_its_versions(void) {
    static const char resources[] =
        "{'key': {'kind': 'v1/Pod', 'name': 'a'}, 'resources': ["
        "{'kind': 'apps/v1/Deployment', 'plural': 'deployments'}, {'kind': 'apps/v1/ReplicaSet', 'plural': 'replicasets'},"
        "{'kind': 'apps/v1beta1/Deployment', 'plural': 'deployments'}, {'kind': 'extensions/v1beta1/Deployment', 'plural': 'deployments'},"
        "{'kind': 'v1/Pod', 'plural': 'pods'}],"
        " 'discovery': {'resources': [{'kind': 'apps/v2/Deployment', 'plural': 'deployments'}]}}";
    fixture *of = fixture_of("{'queues': [{'name': 'first'}], 'discovery': true}", resources);
    pintle_lister lister = fixture_lister(of);
    EQUAL(versions(&lister, "apps", "Deployment"), "apps/v1/Deployment deployments, apps/v1beta1/Deployment deployments");
    EQUAL(versions(&lister, "extensions", "Deployment"), "extensions/v1beta1/Deployment deployments");
    EQUAL(versions(&lister, "", "Pod"), "v1/Pod pods");
    EQUAL(versions(&lister, NULL, "Pod"), "v1/Pod pods");
    static const char *const absent[][2] = {{"", "Deployment"}, {"apps/v1", "Deployment"}, {"batch", "Deployment"}, {"apps", "deployments"}, {"apps", ""}};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        SAME(pintle_resources_of(&lister, absent[i][0], absent[i][1]), "[]");
    }
    /* As of the last discovery. */
    of->asked = &(pintle_need){.type = PINTLE_DISCOVERY};
    of->n_asked = 1;
    EQUAL(versions(&lister, "apps", "Deployment"), "apps/v2/Deployment deployments");
    SAME(pintle_resources_of(&lister, "", "Pod"), "[]");
    pintle_lister undeclared = fixture_lister(fixture_of(manifest, resources));
    FAULTS(pintle_resources_of(&undeclared, "apps", "Deployment"), "fault: the manifest does not declare discovery: true");
}

/* Asks once, and again for the answer: code, and answer. */
static const char *ask(fixture *of, pintle_need need) {
    pintle_json *answer;
    int code;
    pintle_lister first = fixture_lister(of), second = first;
    CHECK(!pintle_ask(&first, need, &answer, &code) && answer == NULL);
    PINTLE_GROW(of->asked, of->n_asked, of->asked_capacity);
    of->asked[of->n_asked++] = pintle_unfinished(&first)->needs[0];
    CHECK(pintle_ask(&second, need, &answer, &code));
    return pintle_printf("%d %s", code, pintle_write(answer));
}

static const char *shown_needs(const fixture *of) { return pintle_write(show_needs(of->asked, of->n_asked)); }

void questions_are_answered_as_the_case_has_it(void) {
    fixture *of = fixture_of(manifest, input);
    pintle_lister lister = fixture_lister(of);
    CHECK(pintle_uptime(&lister) == 12.5 && pintle_now_time(&lister) == time_of("2026-01-01T00:00:00Z"));
    EQUAL(ask(of, (pintle_need){.type = PINTLE_LIVE_OBJECT, .kind = DEPLOYMENT, .ns = "default", .name = "web", .subresource = "scale"}),
          "0 {\"spec\":{\"replicas\":3}}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_REVIEW, .kind = ACCESS_REVIEW, .body = j("{'spec': {'user': 'ann', 'uid': '1'}}")}),
          "0 {\"spec\":{\"user\":\"ann\",\"uid\":\"1\"},\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
          "\"status\":{\"allowed\":true}}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_SIGN_JWT, .key = "key", .body = j("{'sub': {'name': 'ann', 'ns': 'x'}}")}), "0 \"for.ann.x\"");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_SIGN_CERTIFICATE, .authority = "authority", .request = "R",
                                .usages = (const char *const[]){"client auth", "server auth", NULL}, .not_before = "B", .not_after = "A"}),
          "0 \"PEM\"");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_CALL, .endpoint = "desk", .operation = "ask", .body = j("{'n': 1, 'm': 2}"), .timeout_ms = 250}),
          "0 {\"a\":[1]}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_CALL, .endpoint = "desk", .operation = "tell", .body = j("[]")}), "0 null");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_REVIEW, .kind = ACCESS_REVIEW, .ns = "x", .body = j("{'spec': {'user': 'ann'}}")}),
          "404 {\"reason\":\"NotFound\",\"message\":\"a verdict on authorization.k8s.io/v1/SubjectAccessReview"
          " {\\\"user\\\":\\\"ann\\\"}; a case has it in"
          " `reviews` not found\"}");
    EQUAL(shown_needs(of),
          "[\"get apps/v1/Deployment/scale default/web\","
          "{\"review\":\"authorization.k8s.io/v1/SubjectAccessReview\",\"object\":{\"spec\":{\"user\":\"ann\",\"uid\":\"1\"}}},"
          "{\"sign-jwt\":\"key\",\"claims\":{\"sub\":{\"name\":\"ann\",\"ns\":\"x\"}}},"
          "{\"sign-certificate\":\"authority\",\"request\":\"R\",\"usages\":[\"client auth\",\"server auth\"],\"notBefore\":\"B\","
          "\"notAfter\":\"A\"},"
          "{\"call\":\"desk/ask\",\"body\":{\"n\":1,\"m\":2},\"timeoutMs\":250},{\"call\":\"desk/tell\",\"body\":[]},"
          "{\"review\":\"authorization.k8s.io/v1/SubjectAccessReview in x\",\"object\":{\"spec\":{\"user\":\"ann\"}}}]");
}

void refused_questions_have_a_code_and_a_reason(void) {
    fixture *of = fixture_of(manifest, input);
    /* 0 stands for no HTTP answer, which is -1 as 0 is no refusal. */
    EQUAL(ask(of, (pintle_need){.type = PINTLE_SIGN_JWT, .key = "key", .body = j("{'sub': 'bob'}")}),
          "-1 {\"reason\":\"NotGranted\",\"message\":\"not bound\"}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_CALL, .endpoint = "desk", .operation = "ask", .body = j("{'n': 2}")}),
          "503 {\"reason\":\"Unavailable\",\"message\":\"\"}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_CALL, .endpoint = "other", .operation = "ask", .body = j("{'n': 1}")}),
          "404 {\"reason\":\"NotFound\",\"message\":\"an answer to other/ask {\\\"n\\\":1}; a case has it in `calls` not found\"}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_SIGN_CERTIFICATE, .authority = "other"}),
          "404 {\"reason\":\"NotFound\",\"message\":\"a signature by other; a case has it in `signatures` not found\"}");
    EQUAL(ask(of, (pintle_need){.type = PINTLE_LIVE_OBJECT, .kind = DEPLOYMENT, .ns = "default", .name = "web", .subresource = "status"}),
          "404 {\"reason\":\"NotFound\",\"message\":\"apps/v1/Deployment/status default/web; a case has it in `subresources` not found\"}");
}

static int refusal_code;

static pintle_answer refuse(void *of, pintle_need need) {
    (void)of, (void)need;
    return (pintle_answer){true, refusal_code, refusal_code == 0 ? j("{'spec': {}}") : j("{'reason': 'Forbidden', 'message': 'not for you'}")};
}

void a_verdict_that_is_refused_is_a_retry(void) {
    static const pintle_lister_functions functions = {.answer = refuse};
    pintle_json *answer;
    refusal_code = 403;
    pintle_lister lister = {.functions = &functions};
    CHECK(!pintle_review(&lister, ACCESS_REVIEW, "", j("{}"), &answer) && answer == NULL);
    SAME(show(pintle_unfinished(&lister), NULL), "{'retry': 'ask for a SubjectAccessReview: not for you'}");
    pintle_lister reading = {.functions = &functions};
    CHECK(!pintle_live_subresource(&reading, DEPLOYMENT, "default", "web", "scale", &answer) && answer == NULL);
    SAME(show(pintle_unfinished(&reading), NULL), "{'retry': 'read scale of apps/v1/Deployment default/web: not for you'}");
    refusal_code = 404;
    pintle_lister gone = {.functions = &functions};
    CHECK(pintle_live_subresource(&gone, DEPLOYMENT, "default", "web", "scale", &answer) && answer == NULL);
    CHECK(!pintle_review(&gone, ACCESS_REVIEW, "", j("{}"), &answer));
    /* A verdict without a status is none. */
    refusal_code = 0;
    pintle_lister empty = {.functions = &functions};
    CHECK(!pintle_review(&empty, ACCESS_REVIEW, "", j("{}"), &answer) && answer == NULL);
    SAME(show(pintle_unfinished(&empty), NULL), "{'terminal': 'the answer to a SubjectAccessReview has no status'}");
}

static pintle_outcome *verdict(const pintle_key *key, pintle_lister *lister) {
    pintle_json *status, *scale;
    const pintle_json *ask = j("{'spec': {'user': 'ann'}}");
    bool has_all = pintle_review(lister, ACCESS_REVIEW, "", ask, &status);
    has_all = pintle_live_subresource(lister, DEPLOYMENT, key->ns, "web", "scale", &scale) && has_all;
    if (!has_all) {
        return pintle_unfinished(lister);
    }
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_keep(outcome, "all", pintle_printf("%s %s", pintle_write(status), pintle_write(scale)));
    return outcome;
}

/* The need is in the outcome after its block has ended, and after its body was changed. */
static pintle_outcome *ask_of_a_block(void) {
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_json *body = j("{'n': 1}");
    const char *usages[] = {"client auth", NULL};
    pintle_ask_for(outcome, (pintle_need){.type = PINTLE_SIGN_CERTIFICATE, .authority = "a", .request = "r", .usages = usages});
    pintle_ask_for(outcome, (pintle_need){.type = PINTLE_CALL, .endpoint = "desk", .operation = "ask", .body = body});
    pintle_set(body, "n", j("2"));
    usages[0] = "other";
    return outcome;
}

void what_is_asked_stays_what_it_was(void) {
    SAME(pintle_at(show(ask_of_a_block(), NULL), "needs"),
         "[{'sign-certificate': 'a', 'request': 'r', 'usages': ['client auth'], 'notBefore': null, 'notAfter': null},"
         " {'call': 'desk/ask', 'body': {'n': 1}}]");
    SAME(fixture_run(fixture_of(manifest, input), verdict),
         "{'steps': [], 'state': {'all': '{\\\"allowed\\\":true} {\\\"spec\\\":{\\\"replicas\\\":3}}'}, 'asked': ["
         "{'review': 'authorization.k8s.io/v1/SubjectAccessReview', 'object': {'spec': {'user': 'ann'}}},"
         " 'get apps/v1/Deployment/scale default/web']}");
}

void needs_differ_in_every_field(void) {
    static const char *const one[] = {"a", NULL}, *const two[] = {"a", "b", NULL}, *const none[] = {NULL};
    const pintle_json *body = j("{'a': 1}"), *other = j("{'a': 2}");
    const pintle_need all[] = {
        {.type = PINTLE_LIVE_LIST},    {.kind = POD},          {.ns = "a"},         {.name = "a"},           {.subresource = "a"},
        {.label_selector = "a"},       {.field_selector = "a"}, {.detail = PINTLE_WHOLE}, {.limit = 1},       {.path = "a"},
        {.body = body},                {.body = other},        {.key = "a"},        {.authority = "a"},      {.request = "a"},
        {.usages = one},               {.usages = two},        {.not_before = "a"}, {.not_after = "a"},      {.endpoint = "a"},
        {.operation = "a"},            {.timeout_ms = 1},      {0},
    };
    size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            if (pintle_same_need(&all[i], &all[k]) != (i == k)) {
                printf("%zu and %zu\n", i, k);
                CHECK(false);
            }
        }
    }
    CHECK(pintle_same_need(&(pintle_need){.ns = "", .usages = none, .body = j("null")}, &(pintle_need){0}));
    CHECK(pintle_same_need(&(pintle_need){.body = j("{'a': 1}")}, &(pintle_need){.body = body}));
}

static const char *listed(const char *fields, pintle_detail detail, uint32_t limit) {
    pintle_need need = {.type = PINTLE_LIVE_LIST, .kind = POD, .ns = "default", .field_selector = fields, .detail = detail, .limit = limit};
    return ask(fixture_of(manifest, input), need);
}

void live_lists_select_by_fields_and_show_as_much_as_asked_for(void) {
#define POD_A "\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"ua\""
    EQUAL(listed("spec.nodeName=n1", PINTLE_METADATA, 9), "0 [{" POD_A ",\"labels\":{\"app\":\"web\"},\"resourceVersion\":\"1\"}}]");
    EQUAL(listed("spec.nodeName==n1,", PINTLE_PROJECTION, 9), "0 [{" POD_A ",\"resourceVersion\":\"1\"},\"spec\":{\"nodeName\":\"n1\"}}]");
    EQUAL(listed("spec.priority=5", PINTLE_WHOLE, 9),
          "0 [{" POD_A ",\"labels\":{\"app\":\"web\"},\"resourceVersion\":\"1\"},\"spec\":{\"nodeName\":\"n1\",\"priority\":5}}]");
    EQUAL(listed("spec.nodeName=n3", PINTLE_WHOLE, 9), "0 []");
    static const struct {
        const char *fields;
        uint32_t limit;
        const char *names;
    } all[] = {
        {NULL, 9, "a b c"},
        {"", 2, "a b"},
        {"spec.nodeName!=n1", 9, "b c"},
        {"spec.nodeName=", 9, "c"},
        {"spec.nodeName!=n1,metadata.name!=b", 9, "c"},
        {"spec.nodeName!=n1,metadata.name==b", 9, "b"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fixture *of = fixture_of(manifest, input);
        pintle_need need = {.type = PINTLE_LIVE_LIST, .kind = POD, .field_selector = all[i].fields, .limit = all[i].limit};
        const pintle_json *items = answers_find(of, &need).body;
        const char *names = "";
        for (size_t k = 0; k < pintle_length(items); k++) {
            names = pintle_printf("%s%s%s", names, k == 0 ? "" : " ", pintle_metadata(pintle_item(items, k), "name"));
        }
        EQUAL(names, all[i].names);
    }
    fixture *of = fixture_of(manifest, input);
    pintle_need whole = {.type = PINTLE_LIVE_LIST, .kind = SECRET, .detail = PINTLE_WHOLE, .limit = 1}, projection = whole;
    /* The manifest does not watch them. */
    EQUAL(pintle_text(pintle_at(pintle_item(answers_find(of, &whole).body, 0), "data", "k"), ""), "eA==");
    projection.detail = PINTLE_PROJECTION;
    FAULTS(answers_find(of, &projection), "fault: the manifest does not watch v1/Secret");
    FAULTS(answers_find(of, &(pintle_need){.type = PINTLE_LIVE_LIST, .kind = POD, .field_selector = "spec", .limit = 1}),
           "fault: spec is not a term of a field selector");
    of->asked = (pintle_need[]){
        {.type = PINTLE_LIVE_LIST, .kind = POD, .ns = "default", .field_selector = "a=b", .detail = PINTLE_PROJECTION, .limit = 3},
        {.type = PINTLE_LIVE_LIST, .kind = POD, .label_selector = "c", .detail = PINTLE_WHOLE, .limit = 4},
    };
    of->n_asked = 2;
    EQUAL(shown_needs(of), "[\"list v1/Pod in \\\"default\\\" with \\\"\\\" and fields \\\"a=b\\\", at most 3, as projections\","
                           "\"list v1/Pod in \\\"\\\" with \\\"c\\\", at most 4, whole\"]");
}

void answers_of_a_case_that_make_no_sense_are_refused(void) {
    static const struct {
        const char *part, *wrong;
    } all[] = {
        {"'uptime': -1", "uptime: -1 is not a number of seconds, 0 or more"},
        {"'uptime': 'x'", "uptime: \"x\" is not a number of seconds, 0 or more"},
        {"'uptime': 1e999", "uptime: 1e999 is not a number of seconds, 0 or more"},
        {"'calls': {}", "calls is no list"},
        {"'calls': [1]", "calls[0] is no object"},
        {"'calls': [{'endpoint': 'desk'}]", "calls[0] needs operation"},
        {"'calls': [{'endpoint': 'desk', 'operation': 'ask', 'anwser': 1}]", "calls[0] has no member anwser"},
        {"'reviews': [{'kind': 'a/v1/B'}]", "reviews[0] needs status"},
        {"'subresources': [{'kind': 'a/v1/B', 'name': 'x', 'answer': 1}]", "subresources[0] needs subresource"},
        {"'signatures': [{'by': 'key', 'answer': 'x'}, {}]", "signatures[1] needs by"},
        {"'signatures': [{'by': 'key', 'error': {'code': 0}}]", "signatures[0]: an error needs code, an HTTP status code or 0, and reason"},
        {"'signatures': [{'by': 'key', 'error': {'code': 70000, 'reason': 'x'}}]",
         "signatures[0]: an error needs code, an HTTP status code or 0, and reason"},
        {"'discovery': {'error': {'code': 500, 'reason': 'x', 'msg': 'y'}}", "discovery: an error has no member msg"},
    };
    fixture unused;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *text = pintle_printf("{'key': {'kind': 'v1/Pod', 'name': 'a'}, %s}", all[i].part);
        EQUAL(fixture_read(&unused, j(manifest), j(text)), all[i].wrong);
    }
}

void a_duration_is_in_milliseconds(void) {
    static const char settings[] = "{'config': {'every': {'type': 'duration', 'default': '1h30m'}, 'text': {'type': 'string', 'default': '1s'}},"
                                   " 'queues': [{'name': 'first'}]}";
    static const struct {
        const char *given, *seen;
    } all[] = {
        {"{}", "{\"every\":5400000,\"text\":\"1s\"}"},
        {"{'every': '1.5s20ms', 'text': '2s'}", "{\"every\":1520,\"text\":\"2s\"}"},
        {"{'every': '1µs'}", "{\"every\":1,\"text\":\"1s\"}"},
        {"{'every': '0'}", "{\"every\":0,\"text\":\"1s\"}"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *text = pintle_printf("{'key': {'kind': 'v1/Pod', 'name': 'a'}, 'config': %s}", all[i].given);
        pintle_lister lister = fixture_lister(fixture_of(settings, text));
        EQUAL(pintle_write(pintle_config(&lister)), all[i].seen);
    }
    static const char *const wrong[] = {"", "soon", "1", "s", "1s!", "-1s", "1.2.3s"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fixture unused;
        const char *text = pintle_printf("{'key': {'kind': 'v1/Pod', 'name': 'a'}, 'config': {'every': '%s'}}", wrong[i]);
        EQUAL(fixture_read(&unused, j(settings), j(text)), pintle_printf("config: every: \"%s\" is not a duration", wrong[i]));
    }
}

void an_empty_selector_matches_what_the_watch_declares(void) {
    static const pintle_kind BUDGET = {"policy", "v1", "PodDisruptionBudget"};
    static const char objects[] =
        "{'key': {'kind': 'v1/Pod', 'name': 'a'}, 'objects': ["
        "{'apiVersion': 'policy/v1', 'kind': 'PodDisruptionBudget', 'metadata': {'name': 'absent', 'namespace': 'default'}, 'spec': {}},"
        "{'apiVersion': 'policy/v1', 'kind': 'PodDisruptionBudget', 'metadata': {'name': 'elsewhere', 'namespace': 'x'}, 'spec': {'selector': {}}},"
        "{'apiVersion': 'policy/v1', 'kind': 'PodDisruptionBudget', 'metadata': {'name': 'empty', 'namespace': 'default'}, 'spec': {'selector': {}}},"
        "{'apiVersion': 'policy/v1', 'kind': 'PodDisruptionBudget', 'metadata': {'name': 'other', 'namespace': 'default'},"
        " 'spec': {'selector': {'matchLabels': {'app': 'api'}}}}]}";
    static const struct {
        const char *empty;
        size_t n;
    } all[] = {{"", 0}, {", 'empty': 'nothing'", 0}, {", 'empty': 'everything'", 1}};
    for (size_t i = 0; i < 3; i++) {
        const char *text = pintle_printf(
            "{'queues': [{'name': 'q'}], 'watches': [{'kind': 'policy/v1/PodDisruptionBudget', 'selects': {'field': 'spec.selector',"
            " 'form': 'labelSelector'%s}}]}",
            all[i].empty);
        pintle_lister lister = fixture_lister(fixture_of(text, objects));
        const pintle_json *found = pintle_selecting(&lister, BUDGET, "default", j("{'app': 'web'}"));
        CHECK(pintle_length(found) == all[i].n && (all[i].n == 0 || strcmp(pintle_metadata(pintle_item(found, 0), "name"), "empty") == 0));
    }
}

void mapped_keys_can_wait(void) {
    pintle_json *keys = j("[]");
    pintle_add_key(keys, (pintle_key){"pods", POD, "default", "a"});
    pintle_add_key_after(keys, pintle_tick_key("rounds"), 250);
    SAME(keys, "[{'queue': 'pods', 'kind': 'v1/Pod', 'namespace': 'default', 'name': 'a'},"
               " {'queue': 'rounds', 'kind': 'pintle/v1/Tick', 'namespace': '', 'name': 'rounds', 'afterMs': 250}]");
}
