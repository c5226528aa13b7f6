/* "Here is the set of children that I want." */
#include <string.h>

#include "internal.h"

typedef struct {
    pintle_kind kind;
    const char *ns, *name;
    const pintle_json *object;
} child;

struct pintle_children {
    const pintle_json *owner;
    const char *manager;
    pintle_kind *kinds;
    size_t n_kinds, kinds_capacity;
    const pintle_json **wanted;
    size_t n_wanted, wanted_capacity;
};

pintle_children *pintle_children_of(const pintle_json *owner, const char *field_manager) {
    pintle_children *children = pintle_alloc(sizeof *children);
    children->owner = owner;
    children->manager = field_manager;
    return children;
}

void pintle_own(pintle_children *children, pintle_kind kind) {
    PINTLE_GROW(children->kinds, children->n_kinds, children->kinds_capacity);
    children->kinds[children->n_kinds++] = kind;
}

void pintle_want(pintle_children *children, const pintle_json *object) {
    PINTLE_GROW(children->wanted, children->n_wanted, children->wanted_capacity);
    children->wanted[children->n_wanted++] = object;
}

static const char *text_of(const child *c) {
    return pintle_printf("%s %s", pintle_kind_text(c->kind), pintle_full_name(c->ns, c->name));
}

static bool is_child(const child *c, pintle_kind kind, const char *ns, const char *name) {
    return pintle_same_kind(c->kind, kind) && strcmp(c->ns, ns) == 0 && strcmp(c->name, name) == 0;
}

static bool is_owned(const pintle_children *children, pintle_kind kind) {
    for (size_t i = 0; i < children->n_kinds; i++) {
        if (pintle_same_kind(children->kinds[i], kind)) {
            return true;
        }
    }
    return false;
}

/* The name of a wanted object, and a copy of it with its namespace filled in. NULL, or what is wrong. */
static pintle_outcome *complete(const pintle_children *children, const pintle_json *wanted, child *c) {
    const char *owners = pintle_metadata(children->owner, "namespace");
    c->kind = pintle_kind_of(wanted);
    c->name = pintle_metadata(wanted, "name");
    c->ns = pintle_metadata(wanted, "namespace");
    if (c->ns[0] == 0) {
        c->ns = owners;
    }
    if (c->name[0] == 0) {
        return pintle_terminal("children: a %s has no metadata.name", pintle_kind_text(c->kind));
    }
    if (!is_owned(children, c->kind)) {
        return pintle_terminal("children: %s is of a kind that is not owned: call pintle_own", text_of(c));
    }
    if (owners[0] != 0 && strcmp(owners, c->ns) != 0) {
        return pintle_terminal("children: %s is in another namespace than its owner", text_of(c));
    }
    pintle_json *object = pintle_copy(wanted);
    if (c->ns[0] != 0) {
        pintle_set(pintle_at(object, "metadata"), "namespace", pintle_new_text(c->ns, strlen(c->ns)));
    }
    c->object = object;
    return NULL;
}

static pintle_mutation *apply(const pintle_children *children, const child *c, const char *hash) {
    pintle_json *object = pintle_copy(c->object);
    pintle_json *metadata = pintle_at(object, "metadata");
    pintle_set(metadata, "ownerReferences", pintle_format("[%j]", pintle_controller_ref(children->owner)));
    if (pintle_type_of(pintle_at(metadata, "annotations")) != PINTLE_OBJECT) {
        pintle_set(metadata, "annotations", pintle_new(PINTLE_OBJECT));
    }
    pintle_set(pintle_at(metadata, "annotations"), PINTLE_APPLIED, pintle_new_text(hash, strlen(hash)));
    return pintle_apply(c->kind, c->ns, c->name, children->manager, true, object);
}

/* Adds the owner to the owner references of an object without a controller, as its controller. The resourceVersion is a precondition, so
 * that all other owner references are kept. */
static pintle_mutation *adopt(const pintle_children *children, const child *c, const pintle_json *existing) {
    const pintle_json *there = pintle_at(existing, "metadata", "ownerReferences");
    pintle_json *owners = pintle_new(PINTLE_LIST);
    for (size_t i = 0; i < pintle_length(there); i++) {
        const char *uid = pintle_text(pintle_at(pintle_item(there, i), "uid"), "");
        if (strcmp(uid, pintle_metadata(children->owner, "uid")) != 0) {
            pintle_append(owners, pintle_item(there, i));
        }
    }
    pintle_append(owners, pintle_controller_ref(children->owner));
    pintle_mutation *made = pintle_patch(
        c->kind, c->ns, c->name, PINTLE_MERGE_PATCH, pintle_format("{'metadata': {'ownerReferences': %j}}", owners));
    made->uid = pintle_metadata(existing, "uid");
    made->resource_version = pintle_metadata(existing, "resourceVersion");
    return made;
}

static pintle_json *text_value(const char *text) { return pintle_new_text(text, strlen(text)); }

static pintle_outcome *plan_wanted(const pintle_children *children, const child *c, pintle_lister *lister, pintle_plan *plan) {
    const char *hash = pintle_hash(c->object);
    if (hash == NULL) {
        return pintle_terminal("hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1");
    }
    pintle_mutation *made = apply(children, c, hash);
    const pintle_json *existing = pintle_get(lister, c->kind, c->ns, c->name);
    if (existing == NULL) {
        pintle_add(&plan->mutations, made);
        return NULL;
    }
    if (pintle_is_deleting(existing)) {
        pintle_append(plan->waiting, text_value(text_of(c)));
        return NULL;
    }
    const pintle_json *controller = pintle_controller_of(existing);
    if (controller == NULL) {
        pintle_add(&plan->mutations, adopt(children, c, existing));
        return NULL;
    }
    if (!pintle_is_controlled_by(existing, pintle_metadata(children->owner, "uid"))) {
        const char *by = pintle_text(pintle_at(controller, "name"), "");
        const char *text = pintle_printf("%s is controlled by %s %s", text_of(c), pintle_kind_text(pintle_kind_of(controller)), by);
        pintle_append(plan->conflicts, text_value(text));
        return NULL;
    }
    const char *applied = pintle_text(pintle_at(existing, "metadata", "annotations", PINTLE_APPLIED), "");
    if (strcmp(applied, hash) != 0 || !pintle_covers(existing, c->object)) {
        made->uid = pintle_metadata(existing, "uid");
        pintle_add(&plan->mutations, made);
    }
    return NULL;
}

/* Deletes a child, unless that has been done. It is read by name, because a list gives less than what a whole watch has. */
static void prune(pintle_kind kind, const char *ns, const char *name, pintle_lister *lister, pintle_plan *plan) {
    const pintle_json *existing = pintle_get(lister, kind, ns, name);
    if (existing != NULL && !pintle_is_deleting(existing)) {
        pintle_mutation *gone = pintle_delete(kind, ns, name);
        gone->uid = pintle_metadata(existing, "uid");
        gone->propagation = PINTLE_BACKGROUND;
        pintle_add(&plan->mutations, gone);
    }
}

pintle_plan pintle_children_plan(pintle_children *children, pintle_lister *lister) {
    pintle_plan plan = {.conflicts = pintle_new(PINTLE_LIST), .waiting = pintle_new(PINTLE_LIST)};
    child *all = pintle_alloc(children->n_wanted * sizeof *all);
    for (size_t i = 0; i < children->n_wanted; i++) {
        plan.error = complete(children, children->wanted[i], &all[i]);
        for (size_t j = 0; plan.error == NULL && j < i; j++) {
            if (is_child(&all[j], all[i].kind, all[i].ns, all[i].name)) {
                plan.error = pintle_terminal("children: %s is wanted twice", text_of(&all[i]));
            }
        }
        if (plan.error == NULL) {
            plan.error = plan_wanted(children, &all[i], lister, &plan);
        }
        if (plan.error != NULL) {
            return plan;
        }
    }
    pintle_query query = {
        .ns = pintle_metadata(children->owner, "namespace"),
        .owned_by = PINTLE_CONTROLLER,
        .owner_uid = pintle_metadata(children->owner, "uid"),
    };
    for (size_t i = 0; i < children->n_kinds; i++) {
        const pintle_json *owned = pintle_list(lister, children->kinds[i], query);
        for (size_t j = 0; j < pintle_length(owned); j++) {
            const char *ns = pintle_metadata(pintle_item(owned, j), "namespace");
            const char *name = pintle_metadata(pintle_item(owned, j), "name");
            bool is_wanted = false;
            for (size_t k = 0; k < children->n_wanted; k++) {
                is_wanted = is_wanted || is_child(&all[k], children->kinds[i], ns, name);
            }
            if (!is_wanted) {
                prune(children->kinds[i], ns, name, lister, &plan);
            }
        }
    }
    return plan;
}

static bool is_zero(const pintle_json *value) {
    switch (pintle_type_of(value)) {
    case PINTLE_BOOL:
        return !value->truth;
    case PINTLE_NUMBER:
        return pintle_double(value) == 0;
    case PINTLE_STRING:
        return value->text_length == 0;
    case PINTLE_LIST:
    case PINTLE_OBJECT:
        return value->length == 0;
    case PINTLE_NULL:
        break;
    }
    return true;
}

/* Whether an object has all that is wanted of it: every member of a wanted object is there and covered, lists have the same length and
 * cover item by item, scalars are equal. What is wanted to be null, "", 0, false, [] or {} may be missing. */
bool pintle_covers(const pintle_json *existing, const pintle_json *wanted) {
    pintle_type type = pintle_type_of(wanted);
    if (type != pintle_type_of(existing)) {
        return false;
    }
    if (type != PINTLE_LIST && type != PINTLE_OBJECT) {
        return pintle_equal(existing, wanted);
    }
    if (type == PINTLE_LIST && existing->length != wanted->length) {
        return false;
    }
    for (size_t i = 0; i < wanted->length; i++) {
        const pintle_json *there = type == PINTLE_LIST ? existing->items[i] : pintle_member(existing, wanted->names[i]);
        bool is_missing = type == PINTLE_OBJECT && pintle_type_of(there) == PINTLE_NULL;
        if (is_missing ? !is_zero(wanted->items[i]) : !pintle_covers(there, wanted->items[i])) {
            return false;
        }
    }
    return true;
}
