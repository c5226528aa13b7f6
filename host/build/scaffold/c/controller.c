/* Keeps a ConfigMap with its ports beside each Service. */
#include "pintle.h"

static const pintle_kind SERVICE = {"", "v1", "Service"};
static const pintle_kind CONFIG_MAP = {"", "v1", "ConfigMap"};

/* Says what should change for one Service. It is pure: the same view gives the same outcome. */
static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    pintle_json *service = pintle_get(lister, SERVICE, key->ns, key->name);
    if (service == NULL || pintle_is_deleting(service)) {
        return NULL;
    }
    pintle_json *data = pintle_format("{}");
    pintle_json *ports = pintle_at(service, "spec", "ports");
    for (size_t i = 0; i < pintle_length(ports); i++) {
        pintle_json *port = pintle_item(ports, i);
        char *number = pintle_printf("%lld", (long long)pintle_int(pintle_at(port, "port"), 0));
        pintle_set(data, pintle_text(pintle_at(port, "name"), number), pintle_format("%s", number));
    }
    pintle_children *children = pintle_children_of(service, "{{name}}");
    pintle_own(children, CONFIG_MAP);
    pintle_want(children, pintle_format("{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': %s}, 'data': %j}",
                                        pintle_printf("%s-ports", key->name), data));
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
