/* Gives a Node the role that one of its labels names, as kubectl shows it (node-role.kubernetes.io/ROLE), and its instance type under
 * another label, for those who select by a label of their own.
 *
 * The labels are written by server-side apply, so a label that is no longer wanted goes and those of others stay. An annotation names
 * what was applied, by which the next run sees whether anything is left to do. */
#include "pintle.h"

#define FIELD_MANAGER "node-labels"
#define APPLIED "node-labels.example.com/applied"

static const pintle_kind NODE = {"", "v1", "Node"};

/* The labels that a Node shall have, by its other labels. */
static pintle_json *wanted_labels(const pintle_json *node, const pintle_json *config) {
    pintle_json *wanted = pintle_format("{}");
    const pintle_json *labels = pintle_at(node, "metadata", "labels");
    const char *role = pintle_text(pintle_at(labels, pintle_text(pintle_at(config, "roleLabel"), "")), "");
    if (role[0] != '\0') {
        pintle_set(wanted, pintle_printf("node-role.kubernetes.io/%s", role), pintle_format("''"));
    }
    const char *copy = pintle_text(pintle_at(config, "instanceTypeLabel"), "");
    const pintle_json *instance_type = pintle_at(labels, "node.kubernetes.io/instance-type");
    if (copy[0] != '\0' && instance_type != NULL) {
        pintle_set(wanted, copy, instance_type);
    }
    return wanted;
}

/* The names of labels, with commas between them. */
static const char *names_of(const pintle_json *labels) {
    const char *names = "";
    for (size_t i = 0; i < pintle_length(labels); i++) {
        names = pintle_printf("%s%s%s", names, i == 0 ? "" : ",", pintle_name(labels, i));
    }
    return names;
}

static bool has_all(const pintle_json *labels, const pintle_json *wanted) {
    for (size_t i = 0; i < pintle_length(wanted); i++) {
        const pintle_json *label = pintle_at(labels, pintle_name(wanted, i));
        if (label == NULL || !pintle_equal(label, pintle_item(wanted, i))) {
            return false;
        }
    }
    return true;
}

/* Says which labels one Node shall have. */
static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    pintle_json *node = pintle_get(lister, NODE, "", key->name);
    if (node == NULL || pintle_is_deleting(node)) {
        return NULL;
    }
    pintle_json *wanted = wanted_labels(node, pintle_config(lister));
    const char *names = names_of(wanted);
    pintle_json *applied = pintle_at(node, "metadata", "annotations", APPLIED);
    pintle_json *metadata = pintle_format("{'name': %s}", key->name);
    if (names[0] != '\0') {
        pintle_json *is_applied = pintle_format("%s", names);
        if (applied != NULL && pintle_equal(applied, is_applied) && has_all(pintle_at(node, "metadata", "labels"), wanted)) {
            return NULL;
        }
        pintle_set(metadata, "labels", wanted);
        pintle_set(metadata, "annotations", pintle_format("{'" APPLIED "': %j}", is_applied));
    } else if (applied == NULL) {
        return NULL;
    }
    pintle_mutation *apply = pintle_apply(
        NODE, "", key->name, FIELD_MANAGER, true,
        pintle_format("{'apiVersion': 'v1', 'kind': 'Node', 'metadata': %j}", metadata));
    apply->uid = pintle_metadata(node, "uid");
    pintle_mutations mutations = {0};
    pintle_add(&mutations, apply);
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_then(outcome, PINTLE_SEQUENTIAL, mutations);
    return outcome;
}

PINTLE_EXPORT(reconcile)
