/* Keeps a ConfigMap with the members of each {{Kind}}. */
#include <string.h>

#include "pintle.h"

static const pintle_kind KIND = {"{{group}}", "{{version}}", "{{Kind}}"};
static const pintle_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/* The members in one text. */
static const char *joined(const pintle_json *members, const char *separator) {
    const char *text = "";
    for (size_t i = 0; i < pintle_length(members); i++) {
        text = pintle_printf("%s%s%s", text, i == 0 ? "" : separator, pintle_text(pintle_item(members, i), ""));
    }
    return text;
}

static bool has(const pintle_json *members, const char *name) {
    for (size_t i = 0; i < pintle_length(members); i++) {
        if (strcmp(pintle_text(pintle_item(members, i), ""), name) == 0) {
            return true;
        }
    }
    return false;
}

/* The ConfigMap of a {{Kind}}. */
static pintle_json *config_map(const pintle_json *owner) {
    pintle_json *spec = pintle_at(owner, "spec");
    bool commas = strcmp(pintle_text(pintle_at(spec, "format"), ""), "Commas") == 0;
    pintle_json *data = pintle_format("{'members': %s}", joined(pintle_at(spec, "members"), commas ? ", " : "\n"));
    const char *lead = pintle_text(pintle_at(spec, "lead"), "");
    if (*lead != '\0') {
        pintle_set(data, "lead", pintle_format("%s", lead));
    }
    return pintle_format("{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': %s{{cNamespace}}}, 'data': %j}",
                         pintle_printf("%s-members", pintle_metadata(owner, "name")), data);
}

/* Writes the status, unless it is right. */
static void report(pintle_outcome *outcome, const pintle_json *owner, pintle_lister *lister, const char *status, const char *reason,
                   const char *message) {
    int64_t generation = pintle_int(pintle_at(owner, "metadata", "generation"), 0);
    pintle_json *ready = pintle_format("{'type': 'Ready', 'status': %s, 'reason': %s, 'message': %s, 'observedGeneration': %i}", status,
                                       reason, message, generation);
    pintle_json *conditions = pintle_set_condition(pintle_at(owner, "status", "conditions"), ready, pintle_now(lister));
    pintle_json *wanted = pintle_format("{'members': %i, 'observedGeneration': %i, 'conditions': %j}",
                                        (int64_t)pintle_length(pintle_at(owner, "spec", "members")), generation, conditions);
    pintle_mutations mutations = {0};
    pintle_add(&mutations, pintle_patch_status(KIND, owner, wanted));
    pintle_then(outcome, PINTLE_SEQUENTIAL, mutations);
}

/* Says what should change for one {{Kind}}. It is pure: the same view gives the same outcome. */
static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    pintle_json *owner = pintle_get(lister, KIND, key->ns, key->name);
    if (owner == NULL || pintle_is_deleting(owner)) {
        return NULL;
    }
    pintle_outcome *outcome = pintle_outcome_new();
    const char *lead = pintle_text(pintle_at(owner, "spec", "lead"), "");
    if (*lead != '\0' && !has(pintle_at(owner, "spec", "members"), lead)) {
        report(outcome, owner, lister, "False", "InvalidSpec", pintle_printf("spec.lead %s is not in spec.members", lead));
        return outcome;
    }
    pintle_children *children = pintle_children_of(owner, "{{name}}");
    pintle_own(children, CONFIG_MAP);
    pintle_want(children, config_map(owner));
    pintle_plan plan = pintle_children_plan(children, lister);
    if (plan.error != NULL) {
        return plan.error;
    }
    pintle_then(outcome, PINTLE_PARALLEL, plan.mutations);
    if (pintle_length(plan.conflicts) > 0) {
        report(outcome, owner, lister, "False", "Conflict", pintle_text(pintle_item(plan.conflicts, 0), ""));
    } else {
        report(outcome, owner, lister, "True", "Applied", "the ConfigMap is up to date");
    }
    return outcome;
}

PINTLE_EXPORT(reconcile)
