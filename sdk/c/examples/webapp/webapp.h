/* What the parts of the plugin know of one another. */
#ifndef WEBAPP_H
#define WEBAPP_H

#include "pintle.h"

/* Keeps a deleted WebApp until its claims are gone. */
#define FINALIZER "example.com/external-name"

extern const pintle_kind WEBAPP, EXTERNAL_NAME, DEPLOYMENT;

/* What a run has found out. */
typedef struct {
    pintle_mutations changes;
    /* Lists of texts. */
    pintle_json *conflicts, *waiting;
    /* Whether the host is this WebApp's. */
    bool is_held;
} findings;

/* A member of the spec; NULL if it is absent. */
pintle_json *spec_of(const pintle_json *app, const char *name);
/* The host, "" if none is wanted. */
const char *host_of(const pintle_json *app);
/* An event once the change is made: applies without a precondition create. */
void tell(const pintle_json *app, pintle_mutations changes);
/* The texts of a list with "; " between them. */
const char *joined(const pintle_json *texts);
/* A value of a text. */
pintle_json *text_json(const char *text);

/* What is wrong with a WebApp, in the order of the spec: a list of texts. */
pintle_json *problems_of(const pintle_json *app);

void plan_claim(const pintle_json *app, const pintle_json *claims, pintle_lister *lister, findings *found);
/* Gives a name back. */
pintle_mutation *release(const pintle_json *claim);

/* The children that a valid WebApp wants. */
pintle_children *wanted_children(const pintle_json *app, const pintle_json *settings, bool is_host_held);

/* The outcome for an invalid WebApp: the status reports the problems, and nothing else changes. */
pintle_outcome *report_invalid(const pintle_json *app, const pintle_json *problems, pintle_lister *lister);
/* Events, then the status if it changes. Says whether there is nothing left to look after. */
bool report_valid(const pintle_json *app, const findings *found, pintle_lister *lister, pintle_mutations *report);

#endif
