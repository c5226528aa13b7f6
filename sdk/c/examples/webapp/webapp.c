/* Runs web applications: a WebApp becomes a Deployment, a Service, a ConfigMap, and what else its spec asks for.
 *
 * What exactly it does is said in tests/webapp/README.md of the repository, and shown by the cases there. */
#include "webapp.h"

const pintle_kind WEBAPP = {"example.com", "v1", "WebApp"};
const pintle_kind EXTERNAL_NAME = {"example.com", "v1", "ExternalName"};
const pintle_kind DEPLOYMENT = {"apps", "v1", "Deployment"};

pintle_json *spec_of(const pintle_json *app, const char *name) { return pintle_at(app, "spec", name); }

const char *host_of(const pintle_json *app) { return pintle_text(spec_of(app, "host"), ""); }

pintle_json *text_json(const char *text) { return pintle_format("%s", text); }

const char *joined(const pintle_json *texts) {
    const char *all = "";
    for (size_t i = 0; i < pintle_length(texts); i++) {
        all = pintle_printf("%s%s%s", all, i == 0 ? "" : "; ", pintle_text(pintle_item(texts, i), ""));
    }
    return all;
}

void tell(const pintle_json *app, pintle_mutations changes) {
    for (size_t i = 0; i < changes.length; i++) {
        pintle_mutation *change = changes.items[i];
        const char *kind = pintle_kind_text(change->kind);
        if (change->verb == PINTLE_DELETE) {
            change->on_success = pintle_event_on(app, PINTLE_NORMAL, "Deleted", pintle_printf("deleted %s %s", kind, change->name));
        } else if (change->verb == PINTLE_CREATE || change->uid == NULL) {
            const char *name = change->verb == PINTLE_CREATE ? pintle_metadata(change->body, "name") : change->name;
            change->on_success = pintle_event_on(app, PINTLE_NORMAL, "Created", pintle_printf("created %s %s", kind, name));
        }
    }
}

/* What is left to do for a WebApp that is being deleted: its claims go first, then its finalizer. Its children are the garbage
 * collector's business. */
static pintle_outcome *clean_up(const pintle_json *app, const pintle_json *claims, pintle_lister *lister) {
    if (!pintle_has_finalizer(app, FINALIZER)) {
        return NULL;
    }
    pintle_outcome *outcome = pintle_outcome_new();
    pintle_mutations changes = {0};
    if (pintle_length(claims) > 0) {
        for (size_t i = 0; i < pintle_length(claims); i++) {
            if (!pintle_is_deleting(pintle_item(claims, i))) {
                pintle_add(&changes, release(pintle_item(claims, i)));
            }
        }
        tell(app, changes);
        pintle_then(outcome, PINTLE_PARALLEL, changes);
        return outcome;
    }
    /* The finalizer is the last that knows of the claim, so the cache's word is not enough. */
    const char *host = host_of(app);
    if (host[0] != 0) {
        pintle_json *claim;
        if (!pintle_live(lister, EXTERNAL_NAME, "", host, &claim)) {
            return pintle_unfinished(lister);
        }
        if (claim != NULL && pintle_equal(spec_of(claim, "uid"), pintle_at(app, "metadata", "uid"))) {
            return pintle_retry_after(1000, "the cache does not show %s %s yet", pintle_kind_text(EXTERNAL_NAME), host);
        }
    }
    pintle_add(&changes, pintle_remove_finalizer(WEBAPP, app, FINALIZER));
    pintle_then(outcome, PINTLE_SEQUENTIAL, changes);
    return outcome;
}

static pintle_outcome *reconcile(const pintle_key *key, pintle_lister *lister) {
    const pintle_json *app = pintle_get(lister, WEBAPP, key->ns, key->name);
    if (app == NULL) {
        return NULL;
    }
    pintle_query own = {.index = "claimant", .index_value = pintle_metadata(app, "uid")};
    const pintle_json *claims = pintle_list(lister, EXTERNAL_NAME, own);
    if (pintle_is_deleting(app)) {
        return clean_up(app, claims, lister);
    }
    const pintle_json *problems = problems_of(app);
    if (pintle_length(problems) > 0) {
        return report_invalid(app, problems, lister);
    }
    pintle_outcome *outcome = pintle_outcome_new();
    /* Before anything is made that only this plugin removes. */
    if (!pintle_has_finalizer(app, FINALIZER)) {
        pintle_mutations first = {0};
        pintle_add(&first, pintle_add_finalizer(WEBAPP, app, FINALIZER));
        pintle_then(outcome, PINTLE_SEQUENTIAL, first);
        return outcome;
    }
    const pintle_json *settings = pintle_config(lister);
    findings claimed = {.conflicts = pintle_format("[]"), .waiting = pintle_format("[]")};
    plan_claim(app, claims, lister, &claimed);
    pintle_plan children = pintle_children_plan(wanted_children(app, settings, claimed.is_held), lister);
    if (children.error != NULL) {
        return children.error;
    }

    findings found = {claimed.changes, children.conflicts, children.waiting, claimed.is_held};
    for (size_t i = 0; i < children.mutations.length; i++) {
        pintle_add(&found.changes, children.mutations.items[i]);
    }
    for (size_t i = 0; i < pintle_length(claimed.conflicts); i++) {
        pintle_append(found.conflicts, pintle_item(claimed.conflicts, i));
    }
    for (size_t i = 0; i < pintle_length(claimed.waiting); i++) {
        pintle_append(found.waiting, pintle_item(claimed.waiting, i));
    }
    tell(app, found.changes);
    if (found.changes.length > 0) {
        pintle_info("changes: %zu", found.changes.length);
    }

    pintle_mutations report = {0};
    bool is_ready = report_valid(app, &found, lister, &report);
    pintle_then(outcome, PINTLE_PARALLEL, found.changes);
    pintle_always(outcome, PINTLE_SEQUENTIAL, report);
    if (!is_ready) {
        pintle_requeue(outcome, 1000 * pintle_int(pintle_at(settings, "retrySeconds"), 30));
    }
    return outcome;
}

PINTLE_EXPORT(reconcile)
