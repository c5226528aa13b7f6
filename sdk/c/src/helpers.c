/* Owner references, finalizers, conditions and statuses. */
#include <string.h>

#include "internal.h"

const char *pintle_metadata(const pintle_json *object, const char *name) { return pintle_text(pintle_at(object, "metadata", name), ""); }

bool pintle_is_deleting(const pintle_json *object) { return pintle_at(object, "metadata", "deletionTimestamp") != NULL; }

pintle_json *pintle_controller_ref(const pintle_json *owner) {
    return pintle_format(
        "{'apiVersion': %s, 'kind': %s, 'name': %s, 'uid': %s, 'controller': true, 'blockOwnerDeletion': true}",
        pintle_text(pintle_at(owner, "apiVersion"), ""), pintle_text(pintle_at(owner, "kind"), ""), pintle_metadata(owner, "name"),
        pintle_metadata(owner, "uid"));
}

pintle_json *pintle_controller_of(const pintle_json *object) {
    const pintle_json *references = pintle_at(object, "metadata", "ownerReferences");
    for (size_t i = 0; i < pintle_length(references); i++) {
        pintle_json *reference = pintle_item(references, i);
        if (pintle_bool(pintle_at(reference, "controller"), false)) {
            return reference;
        }
    }
    return NULL;
}

bool pintle_is_controlled_by(const pintle_json *object, const char *uid) {
    const char *controller = pintle_text(pintle_at(pintle_controller_of(object), "uid"), NULL);
    return controller != NULL && strcmp(controller, uid) == 0;
}

bool pintle_has_finalizer(const pintle_json *object, const char *name) {
    const pintle_json *finalizers = pintle_at(object, "metadata", "finalizers");
    for (size_t i = 0; i < pintle_length(finalizers); i++) {
        if (pintle_same_text(pintle_text(pintle_item(finalizers, i), ""), name)) {
            return true;
        }
    }
    return false;
}

/* A patch with the finalizers of the object but for this one, which comes last if it is added. */
static pintle_mutation *replace_finalizers(pintle_kind kind, const pintle_json *object, const char *name, bool is_added) {
    const pintle_json *finalizers = pintle_at(object, "metadata", "finalizers");
    pintle_json *wanted = pintle_new(PINTLE_LIST);
    bool is_there = false;
    for (size_t i = 0; i < pintle_length(finalizers); i++) {
        bool is_it = pintle_same_text(pintle_text(pintle_item(finalizers, i), ""), name);
        is_there = is_there || is_it;
        if (!is_it || is_added) {
            pintle_append(wanted, pintle_item(finalizers, i));
        }
    }
    if (is_added && !is_there) {
        pintle_append(wanted, pintle_new_text(name, strlen(name)));
    }
    pintle_mutation *patch = pintle_patch(
        kind, pintle_metadata(object, "namespace"), pintle_metadata(object, "name"), PINTLE_MERGE_PATCH,
        pintle_format("{'metadata': {'finalizers': %j}}", wanted));
    patch->uid = pintle_metadata(object, "uid");
    patch->resource_version = pintle_metadata(object, "resourceVersion");
    return patch;
}

pintle_mutation *pintle_add_finalizer(pintle_kind kind, const pintle_json *object, const char *name) {
    return replace_finalizers(kind, object, name, true);
}

pintle_mutation *pintle_remove_finalizer(pintle_kind kind, const pintle_json *object, const char *name) {
    return replace_finalizers(kind, object, name, false);
}

static size_t index_of_condition(const pintle_json *conditions, const char *type) {
    size_t i = 0;
    while (i < pintle_length(conditions) && !pintle_same_text(pintle_text(pintle_at(pintle_item(conditions, i), "type"), ""), type)) {
        i++;
    }
    return i;
}

pintle_json *pintle_find_condition(const pintle_json *conditions, const char *type) {
    return pintle_item(conditions, index_of_condition(conditions, type));
}

bool pintle_is_true(const pintle_json *conditions, const char *type) {
    return pintle_same_text(pintle_text(pintle_at(pintle_find_condition(conditions, type), "status"), ""), "True");
}

pintle_json *pintle_set_condition(const pintle_json *conditions, const pintle_json *condition, const char *now) {
    const char *type = pintle_text(pintle_at(condition, "type"), NULL);
    if (type == NULL || strlen(now) < 20) {
        PINTLE_PANIC("pintle_set_condition: a condition needs a type, and now a time such as pintle_now gives it");
    }
    pintle_json *set = pintle_type_of(conditions) == PINTLE_LIST ? pintle_copy(conditions) : pintle_new(PINTLE_LIST);
    pintle_json *made = pintle_copy(condition);
    size_t i = index_of_condition(set, type);
    const pintle_json *before = pintle_item(set, i);
    const pintle_json *time = pintle_at(before, "lastTransitionTime");
    if (time == NULL || !pintle_equal(pintle_at(before, "status"), pintle_at(made, "status"))) {
        /* Whole seconds: 2026-01-01T00:00:00.000000Z has 19 bytes before them. */
        time = pintle_format("%s", pintle_printf("%.19sZ", now));
    }
    pintle_set(made, "lastTransitionTime", time);
    if (before == NULL) {
        pintle_append(set, made);
    } else {
        set->items[i] = made;
    }
    return set;
}

static pintle_json *without_nulls(const pintle_json *value) {
    pintle_json *copy = pintle_copy(value);
    for (size_t i = pintle_length(copy); i > 0; i--) {
        pintle_json *item = copy->items[i - 1];
        if (copy->type == PINTLE_OBJECT && item->type == PINTLE_NULL) {
            pintle_remove(copy, copy->names[i - 1]);
        } else {
            copy->items[i - 1] = without_nulls(item);
        }
    }
    return copy;
}

/* What is wanted in full, with null for what must go: a merge patch leaves alone what it does not name. */
static pintle_json *replacing(const pintle_json *current, const pintle_json *wanted) {
    pintle_json *patch = pintle_copy(wanted);
    if (pintle_type_of(current) != PINTLE_OBJECT || pintle_type_of(wanted) != PINTLE_OBJECT) {
        return patch;
    }
    for (size_t i = 0; i < wanted->length; i++) {
        patch->items[i] = replacing(pintle_member(current, wanted->names[i]), wanted->items[i]);
    }
    for (size_t i = 0; i < current->length; i++) {
        if (pintle_member(wanted, current->names[i]) == NULL) {
            pintle_set(patch, current->names[i], NULL);
        }
    }
    return patch;
}

pintle_mutation *pintle_patch_status(pintle_kind kind, const pintle_json *object, const pintle_json *status) {
    const pintle_json *current = without_nulls(pintle_at(object, "status"));
    const pintle_json *wanted = without_nulls(status);
    if (pintle_equal(current, wanted)) {
        return NULL;
    }
    pintle_mutation *patch = pintle_patch(
        kind, pintle_metadata(object, "namespace"), pintle_metadata(object, "name"), PINTLE_MERGE_PATCH,
        pintle_format("{'status': %j}", replacing(current, wanted)));
    patch->subresource = "status";
    patch->resource_version = pintle_metadata(object, "resourceVersion");
    return patch;
}
