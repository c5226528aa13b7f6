/* Makes a PodDisruptionBudget for a Deployment or StatefulSet that says how many of its Pods may be away at once:
 *
 *     pdb-maker.example.com/max-unavailable: 25%
 *
 * With one replica there is none: the Pod could never be evicted. Nor is there one if somebody else has made one for these Pods. */
#include <stdlib.h>
#include <string.h>

#include "pintle.h"

#define MAX_UNAVAILABLE "pdb-maker.example.com/max-unavailable"

static const pintle_kind BUDGET = {"policy", "v1", "PodDisruptionBudget"};

/* A number of Pods, or of hundredths such as 25%; NULL if it is neither. */
static pintle_json *parse_max_unavailable(const char *text) {
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 4) {
        return NULL;
    }
    int number = atoi(text);
    if (strcmp(text + digits, "%") == 0) {
        return number <= 100 ? pintle_format("%s", text) : NULL;
    }
    return text[digits] == '\0' ? pintle_format("%d", number) : NULL;
}

/* Whether there is a budget of somebody else for the Pods. With two, the API server would evict none of them. */
static bool has_budget_of_another(const pintle_json *workload, pintle_lister *lister) {
    pintle_json *labels = pintle_at(workload, "spec", "template", "metadata", "labels");
    if (labels == NULL) {
        return false;
    }
    pintle_json *budgets = pintle_selecting(lister, BUDGET, pintle_metadata(workload, "namespace"), labels);
    for (size_t i = 0; i < pintle_length(budgets); i++) {
        if (!pintle_is_controlled_by(pintle_item(budgets, i), pintle_metadata(workload, "uid"))) {
            return true;
        }
    }
    return false;
}

static pintle_outcome *complain(const pintle_json *workload, const char *text) {
    const char *message = pintle_printf(MAX_UNAVAILABLE " is \"%s\", neither a number nor hundredths such as 25%%", text);
    pintle_mutations mutations = {0};
    pintle_add(&mutations, pintle_record(pintle_event_on(workload, PINTLE_WARNING, "InvalidMaxUnavailable", message)));
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_then(outcome, PINTLE_SEQUENTIAL, mutations);
    return outcome;
}

/* Says what should become of the budget of one Deployment or StatefulSet. */
static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    pintle_json *workload = pintle_get(lister, key->kind, key->ns, key->name);
    if (workload == NULL || pintle_is_deleting(workload)) {
        return NULL;
    }
    pintle_children *children = pintle_children_of(workload, "pdb-maker");
    pintle_own(children, BUDGET);
    const char *text = pintle_text(pintle_at(workload, "metadata", "annotations", MAX_UNAVAILABLE), NULL);
    if (text != NULL) {
        pintle_json *max_unavailable = parse_max_unavailable(text);
        if (max_unavailable == NULL) {
            return complain(workload, text);
        }
        if (pintle_int(pintle_at(workload, "spec", "replicas"), 1) > 1 && !has_budget_of_another(workload, lister)) {
            pintle_want(children, pintle_format(
                "{'apiVersion': 'policy/v1', 'kind': 'PodDisruptionBudget', 'metadata': {'name': %s},"
                " 'spec': {'selector': %j, 'maxUnavailable': %j}}",
                key->name, pintle_at(workload, "spec", "selector"), max_unavailable));
        }
    }
    pintle_plan plan = pintle_children_plan(children, lister);
    if (plan.error != NULL) {
        return plan.error;
    }
    for (size_t i = 0; i < pintle_length(plan.conflicts); i++) {
        pintle_warn("%s", pintle_text(pintle_item(plan.conflicts, i), ""));
    }
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_then(outcome, PINTLE_SEQUENTIAL, plan.mutations);
    return outcome;
}

PINTLE_EXPORT(reconcile)
