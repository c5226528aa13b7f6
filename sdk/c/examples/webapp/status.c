/* What a WebApp is told of itself: status, conditions and events. */
#include <inttypes.h>
#include <string.h>

#include "webapp.h"

/* Consecutive failures after which a WebApp is reported as failing, rather than retrying. */
#define MANY 5

/* A condition in the making. */
typedef struct {
    bool status;
    const char *reason, *message;
} verdict;

static pintle_json *conditions_of(const pintle_json *status) { return pintle_at(status, "conditions"); }

static int64_t number(const pintle_json *value, const char *name) { return pintle_int(pintle_at(value, name), 0); }

static void set(const pintle_json *app, pintle_json *status, const char *type, verdict is, pintle_lister *lister) {
    pintle_json *condition = pintle_format(
        "{'type': %s, 'status': %s, 'observedGeneration': %i, 'reason': %s, 'message': %s}", type, is.status ? "True" : "False",
        number(pintle_at(app, "metadata"), "generation"), is.reason, is.message);
    pintle_set(status, "conditions", pintle_set_condition(conditions_of(status), condition, pintle_now(lister)));
}

/* Whether the condition has been told already. */
static bool says(const pintle_json *status, const char *type, bool is, const char *message) {
    const pintle_json *condition = pintle_find_condition(conditions_of(status), type);
    return pintle_is_true(conditions_of(status), type) == is && strcmp(pintle_text(pintle_at(condition, "message"), ""), message) == 0 &&
           (is || strcmp(pintle_text(pintle_at(condition, "status"), ""), "False") == 0);
}

pintle_outcome *report_invalid(const pintle_json *app, const pintle_json *problems, pintle_lister *lister) {
    const char *message = joined(problems);
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_mutations mutations = {0};
    /* All else is what it was. */
    const pintle_json *old = pintle_at(app, "status");
    pintle_json *status = pintle_format(
        "{'replicas': %i, 'availableReplicas': %i, 'url': %j, 'conditions': %j, 'observedGeneration': %i}", number(old, "replicas"),
        number(old, "availableReplicas"), pintle_at(old, "url"), conditions_of(old), number(pintle_at(app, "metadata"), "generation"));
    if (!says(old, "Valid", false, message)) {
        pintle_add(&mutations, pintle_record(pintle_event_on(app, PINTLE_WARNING, "InvalidSpec", message)));
        pintle_observe(outcome, "webapp_invalid_specs_total", 1, NULL);
    }
    set(app, status, "Valid", (verdict){false, "InvalidSpec", message}, lister);
    set(app, status, "Ready", (verdict){false, "InvalidSpec", message}, lister);
    pintle_add(&mutations, pintle_patch_status(WEBAPP, app, status));
    pintle_then(outcome, PINTLE_SEQUENTIAL, mutations);
    return outcome;
}

static verdict available_of(const pintle_json *deployment) {
    if (deployment == NULL) {
        return (verdict){false, "NoDeployment", "there is no Deployment of this WebApp"};
    }
    const pintle_json *status = pintle_at(deployment, "status");
    const char *message = pintle_printf("replicas available: %" PRId64, number(status, "availableReplicas"));
    if (pintle_is_true(conditions_of(status), "Available")) {
        return (verdict){true, "MinimumReplicasAvailable", message};
    }
    return (verdict){false, "MinimumReplicasUnavailable", message};
}

static verdict progressing_of(const pintle_json *deployment, const findings *found) {
    if (found->changes.length > 0) {
        return (verdict){true, "Applying", pintle_printf("changes being applied: %zu", found->changes.length)};
    }
    if (pintle_length(found->waiting) > 0) {
        return (verdict){true, "Waiting", pintle_printf("waiting for the deletion of %s", joined(found->waiting))};
    }
    if (deployment == NULL) {
        return (verdict){false, "Blocked", "there is no Deployment of this WebApp"};
    }
    const pintle_json *status = pintle_at(deployment, "status");
    int64_t desired = pintle_int(spec_of(deployment, "replicas"), 1);
    int64_t updated = number(status, "updatedReplicas"), available = number(status, "availableReplicas");
    const char *message =
        pintle_printf("replicas updated: %" PRId64 ", available: %" PRId64 ", desired: %" PRId64, updated, available, desired);
    if (number(status, "observedGeneration") < number(pintle_at(deployment, "metadata"), "generation")) {
        return (verdict){true, "RollingOut", message};
    }
    if (updated == desired && number(status, "replicas") == desired && available == desired) {
        return (verdict){false, "Complete", message};
    }
    const pintle_json *progressing = pintle_find_condition(conditions_of(status), "Progressing");
    if (strcmp(pintle_text(pintle_at(progressing, "reason"), ""), "ProgressDeadlineExceeded") == 0) {
        return (verdict){false, "Stalled", message};
    }
    return (verdict){true, "RollingOut", message};
}

/* Writes of the previous run that were refused. A conflict only says that the cache was behind. */
static pintle_json *failures_of(pintle_lister *lister) {
    const pintle_json *all = pintle_failures(lister);
    pintle_json *failures = pintle_format("[]");
    for (size_t i = 0; i < pintle_length(all); i++) {
        const pintle_json *failure = pintle_item(all, i);
        const char *ns = pintle_text(pintle_at(failure, "object", "namespace"), "");
        if (strcmp(pintle_text(pintle_at(failure, "reason"), ""), "Conflict") != 0) {
            const char *text = pintle_printf(
                "%s %s %s%s%s: %s", pintle_text(pintle_at(failure, "verb"), ""), pintle_text(pintle_at(failure, "kind"), ""), ns,
                ns[0] == 0 ? "" : "/", pintle_text(pintle_at(failure, "object", "name"), ""),
                pintle_text(pintle_at(failure, "message"), ""));
            pintle_append(failures, text_json(text));
        }
    }
    return failures;
}

/* The first of these that is not as it should be, or ready. */
static verdict ready_of(verdict conflict, verdict available, verdict progressing, pintle_lister *lister) {
    if (conflict.status) {
        return (verdict){false, "Conflict", conflict.message};
    }
    const pintle_json *failures = failures_of(lister);
    if (pintle_length(failures) > 0) {
        return (verdict){false, pintle_attempt(lister) >= MANY ? "Failing" : "Retrying", joined(failures)};
    }
    if (strcmp(progressing.reason, "Complete") != 0) {
        return (verdict){false, progressing.reason, progressing.message};
    }
    if (!available.status) {
        return (verdict){false, "Unavailable", available.message};
    }
    return (verdict){true, "Ready", available.message};
}

bool report_valid(const pintle_json *app, const findings *found, pintle_lister *lister, pintle_mutations *report) {
    const pintle_json *deployment = pintle_get(lister, DEPLOYMENT, pintle_metadata(app, "namespace"), pintle_metadata(app, "name"));
    if (!pintle_is_controlled_by(deployment, pintle_metadata(app, "uid"))) {
        deployment = NULL;
    }
    const pintle_json *old = pintle_at(app, "status");
    verdict conflict = {false, "NoConflict", "nothing is in the way"};
    if (pintle_length(found->conflicts) > 0) {
        conflict = (verdict){true, "InUse", joined(found->conflicts)};
    }
    verdict available = available_of(deployment);
    verdict progressing = progressing_of(deployment, found);
    verdict ready = ready_of(conflict, available, progressing, lister);

    if (conflict.status && !says(old, "Conflict", true, conflict.message)) {
        pintle_add(report, pintle_record(pintle_event_on(app, PINTLE_WARNING, "Conflict", conflict.message)));
    }
    if (ready.status && !pintle_is_true(conditions_of(old), "Ready")) {
        pintle_add(report, pintle_record(pintle_event_on(app, PINTLE_NORMAL, "Ready", ready.message)));
    }

    const pintle_json *of_deployment = pintle_at(deployment, "status");
    pintle_json *status = pintle_format(
        "{'observedGeneration': %i, 'replicas': %i, 'availableReplicas': %i, 'url': %s, 'conditions': %j}",
        number(pintle_at(app, "metadata"), "generation"), number(of_deployment, "replicas"), number(of_deployment, "availableReplicas"),
        found->is_held ? pintle_printf("http://%s", host_of(app)) : NULL, conditions_of(old));
    set(app, status, "Valid", (verdict){true, "Valid", "the spec is valid"}, lister);
    set(app, status, "Conflict", conflict, lister);
    set(app, status, "Available", available, lister);
    set(app, status, "Progressing", progressing, lister);
    set(app, status, "Ready", ready, lister);
    pintle_add(report, pintle_patch_status(WEBAPP, app, status));
    return ready.status;
}
