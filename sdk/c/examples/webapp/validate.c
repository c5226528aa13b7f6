/* Validation beyond the schema of the custom resource: an invalid WebApp reports all its problems at once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "webapp.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static void problem(pintle_json *problems, bool is_wrong, const char *text) {
    if (is_wrong) {
        pintle_append(problems, text_json(text));
    }
}

/* 1 to 63 lower-case letters, digits and -, with neither end a -. */
static bool is_label(const char *text, size_t length) {
    return length >= 1 && length <= 63 && strspn(text, LOWER DIGITS "-") >= length && text[0] != '-' && text[length - 1] != '-';
}

/* Labels with dots between them, at most 253 bytes. */
static bool is_dns_name(const char *text) {
    if (strlen(text) > 253) {
        return false;
    }
    for (;; text = strchr(text, '.') + 1) {
        size_t length = strcspn(text, ".");
        if (!is_label(text, length)) {
            return false;
        }
        if (text[length] == 0) {
            return true;
        }
    }
}

/* 1 to 253 letters, digits, -, _ and . */
static bool is_config_key(const char *text) {
    size_t length = strlen(text);
    return length >= 1 && length <= 253 && strspn(text, LOWER UPPER DIGITS "-_.") == length;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void check_config(const pintle_json *config, pintle_json *problems) {
    size_t length = pintle_length(config);
    const char **keys = pintle_alloc(length * sizeof *keys);
    for (size_t i = 0; i < length; i++) {
        keys[i] = pintle_name(config, i);
    }
    qsort(keys, length, sizeof *keys, by_bytes);
    for (size_t i = 0; i < length; i++) {
        problem(problems, !is_config_key(keys[i]), pintle_printf("spec.config: not a key: %s", keys[i]));
    }
}

static void check_autoscaling(const pintle_json *autoscaling, pintle_json *problems) {
    int64_t least = pintle_int(pintle_at(autoscaling, "minReplicas"), 1);
    int64_t most = pintle_int(pintle_at(autoscaling, "maxReplicas"), 0);
    problem(problems, least < 1, "spec.autoscaling.minReplicas: must be at least 1");
    problem(problems, most < 1, "spec.autoscaling.maxReplicas: must be at least 1");
    problem(
        problems, least >= 1 && most >= 1 && least > most,
        pintle_printf("spec.autoscaling: minReplicas %" PRId64 " is more than maxReplicas %" PRId64, least, most));
    problem(problems, pintle_int(pintle_at(autoscaling, "cpuPercent"), 80) < 1, "spec.autoscaling.cpuPercent: must be at least 1");
}

static void check_budget(const pintle_json *budget, pintle_json *problems) {
    const pintle_json *available = pintle_at(budget, "minAvailable"), *unavailable = pintle_at(budget, "maxUnavailable");
    problem(
        problems, (available == NULL) == (unavailable == NULL), "spec.disruptionBudget: needs either minAvailable or maxUnavailable");
    problem(problems, pintle_int(available, 0) < 0, "spec.disruptionBudget.minAvailable: must not be negative");
    problem(problems, pintle_int(unavailable, 0) < 0, "spec.disruptionBudget.maxUnavailable: must not be negative");
}

pintle_json *problems_of(const pintle_json *app) {
    pintle_json *problems = pintle_format("[]");
    const char *name = pintle_metadata(app, "name");
    bool is_service_name = is_label(name, strlen(name)) && strchr(LOWER, name[0]) != NULL;
    problem(problems, !is_service_name, pintle_printf("metadata.name: not a name for a Service: %s", name));
    problem(problems, pintle_text(spec_of(app, "image"), "")[0] == 0, "spec.image: is required");
    problem(problems, pintle_int(spec_of(app, "replicas"), 1) < 0, "spec.replicas: must not be negative");
    int64_t port = pintle_int(spec_of(app, "port"), 8080);
    problem(problems, port < 1 || port > 65535, "spec.port: must be between 1 and 65535");
    const char *host = host_of(app);
    problem(problems, host[0] != 0 && !is_dns_name(host), pintle_printf("spec.host: not a DNS name: %s", host));
    check_config(spec_of(app, "config"), problems);
    if (spec_of(app, "autoscaling") != NULL) {
        check_autoscaling(spec_of(app, "autoscaling"), problems);
    }
    if (spec_of(app, "disruptionBudget") != NULL) {
        check_budget(spec_of(app, "disruptionBudget"), problems);
    }
    return problems;
}
