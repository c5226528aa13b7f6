package main

import (
	"fmt"

	pintle "pintle.dev/sdk"
)

// claimPlan is what is to be done about claims. The claim of a host is an ExternalName of that name; whoever has it may have an Ingress.
type claimPlan struct {
	// mutations are releases in the order of their names, then the new claim.
	mutations []pintle.Mutation
	// isHeld says whether the cache shows that the host is ours.
	isHeld bool
	// conflicts tells whose the host is, if it is somebody else's.
	conflicts []string
	// waiting is the claim, if it is ours and being deleted.
	waiting []string
}

// planClaim compares the claims of a WebApp with its host.
func planClaim(app *WebApp, claims []ExternalName, lister pintle.Lister) (plan claimPlan, err error) {
	host := app.Spec.Host
	for i := range claims {
		if claims[i].Metadata.Name != host && !pintle.IsDeleting(claims[i]) {
			plan.mutations = append(plan.mutations, release(&claims[i]))
		}
	}
	if host == "" {
		return plan, nil
	}
	claim, err := pintle.Get[ExternalName](lister, externalNameKind, "", host)
	switch {
	case err != nil:
		return plan, err
	case claim == nil:
		plan.mutations = append(plan.mutations, claimOf(app))
	case claim.Spec.UID != app.Metadata.UID:
		plan.conflicts = append(plan.conflicts, fmt.Sprintf("%s %s is claimed by %s", externalNameKind, host, claim.Spec.WebApp))
	case pintle.IsDeleting(claim):
		plan.waiting = append(plan.waiting, fmt.Sprintf("%s %s", externalNameKind, host))
	default:
		plan.isHeld = true
	}
	return plan, nil
}

// release gives a name back.
func release(claim *ExternalName) pintle.Mutation {
	return pintle.Delete(externalNameKind, "", claim.Metadata.Name).WithUID(claim.Metadata.UID)
}

func claimOf(app *WebApp) pintle.Mutation {
	return pintle.Create(externalNameKind, "", pintle.Object{
		"apiVersion": "example.com/v1",
		"kind":       "ExternalName",
		"metadata":   pintle.Object{"name": app.Spec.Host},
		"spec":       pintle.Object{"webapp": app.Metadata.Namespace + "/" + app.Metadata.Name, "uid": app.Metadata.UID},
	})
}
