/* The claim of the host: an ExternalName of that name. Whoever has it may have an Ingress for the host. */
#include <string.h>

#include "webapp.h"

pintle_mutation *release(const pintle_json *claim) {
    pintle_mutation *gone = pintle_delete(EXTERNAL_NAME, "", pintle_metadata(claim, "name"));
    gone->uid = pintle_metadata(claim, "uid");
    return gone;
}

static pintle_mutation *claim_of(const pintle_json *app, const char *host) {
    const char *name = pintle_printf("%s/%s", pintle_metadata(app, "namespace"), pintle_metadata(app, "name"));
    return pintle_create(
        EXTERNAL_NAME, "",
        pintle_format(
            "{'apiVersion': 'example.com/v1', 'kind': 'ExternalName', 'metadata': {'name': %s}, 'spec': {'webapp': %s, 'uid': %s}}", host,
            name, pintle_metadata(app, "uid")));
}

void plan_claim(const pintle_json *app, const pintle_json *claims, pintle_lister *lister, findings *found) {
    const char *host = host_of(app);
    for (size_t i = 0; i < pintle_length(claims); i++) {
        const pintle_json *claim = pintle_item(claims, i);
        if (strcmp(pintle_metadata(claim, "name"), host) != 0 && !pintle_is_deleting(claim)) {
            pintle_add(&found->changes, release(claim));
        }
    }
    if (host[0] == 0) {
        return;
    }
    const pintle_json *claim = pintle_get(lister, EXTERNAL_NAME, "", host);
    const char *what = pintle_printf("%s %s", pintle_kind_text(EXTERNAL_NAME), host);
    if (claim == NULL) {
        pintle_add(&found->changes, claim_of(app, host));
    } else if (strcmp(pintle_text(spec_of(claim, "uid"), ""), pintle_metadata(app, "uid")) != 0) {
        const char *by = pintle_text(spec_of(claim, "webapp"), "");
        pintle_append(found->conflicts, text_json(pintle_printf("%s is claimed by %s", what, by)));
    } else if (pintle_is_deleting(claim)) {
        pintle_append(found->waiting, text_json(what));
    } else {
        found->is_held = true;
    }
}
