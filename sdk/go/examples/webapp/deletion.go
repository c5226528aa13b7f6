package main

import (
	"time"

	pintle "pintle.dev/sdk"
)

// cleanUp says what is left to do for a WebApp that is being deleted: its claims go first, then its finalizer. Its children are the
// garbage collector's business.
func cleanUp(app *WebApp, claims []ExternalName, lister pintle.Lister) (*pintle.Outcome, error) {
	if !pintle.HasFinalizer(app, finalizer) {
		return nil, nil
	}
	if len(claims) > 0 {
		var releases []pintle.Mutation
		for i := range claims {
			if !pintle.IsDeleting(claims[i]) {
				releases = append(releases, release(&claims[i]))
			}
		}
		return new(pintle.Outcome).Then(pintle.Parallel(withEvents(app, releases)...)), nil
	}
	// The finalizer is the last that knows of the claim, so the cache's word is not enough.
	if host := app.Spec.Host; host != "" {
		claim, err := pintle.Live[ExternalName](lister, externalNameKind, "", host)
		if err != nil {
			return nil, err
		}
		if claim != nil && claim.Spec.UID == app.Metadata.UID {
			return nil, pintle.RetryAfter(time.Second, "the cache does not show %s %s yet", externalNameKind, host)
		}
	}
	return new(pintle.Outcome).Then(pintle.Sequential(pintle.RemoveFinalizer(webAppKind, app, finalizer))), nil
}
