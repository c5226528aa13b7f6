// Command webapp is a plugin that runs web applications: a WebApp becomes a Deployment, a Service, a ConfigMap, and what else its spec
// asks for.
//
// What exactly it does is said in tests/webapp/README.md of the repository, and shown by the cases there.
package main

import (
	"encoding/json"
	"fmt"

	pintle "pintle.dev/sdk"
)

func init() { pintle.Export(reconcile) }

func main() {}

// reconcile computes the changes for one WebApp.
func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	app, err := pintle.Get[WebApp](lister, webAppKind, key.Namespace, key.Name)
	if app == nil || err != nil {
		return nil, err
	}
	claims, err := pintle.List[ExternalName](lister, externalNameKind, pintle.Query{
		Index: pintle.Index{Name: "claimant", Value: app.Metadata.UID},
	})
	if err != nil {
		return nil, err
	}
	if pintle.IsDeleting(app) {
		return cleanUp(app, claims, lister)
	}
	if problems := problemsOf(app); len(problems) > 0 {
		return reportInvalid(app, problems, lister)
	}
	// Before anything is made that only this plugin removes.
	if !pintle.HasFinalizer(app, finalizer) {
		return new(pintle.Outcome).Then(pintle.Sequential(pintle.AddFinalizer(webAppKind, app, finalizer))), nil
	}
	settings, err := pintle.Config[Settings](lister)
	if err != nil {
		return nil, err
	}
	claim, err := planClaim(app, claims, lister)
	if err != nil {
		return nil, err
	}
	wanted, err := wantedChildren(app, settings, claim.isHeld)
	if err != nil {
		return nil, err
	}
	children, err := wanted.Plan(lister)
	if err != nil {
		return nil, err
	}

	changes := withEvents(app, append(claim.mutations, children.Mutations...))
	if len(changes) > 0 {
		pintle.Infof("changes: %d", len(changes))
	}
	found := findings{nChanges: len(changes), isHeld: claim.isHeld}
	for _, conflict := range children.Conflicts {
		found.conflicts = append(found.conflicts, conflict.String())
	}
	found.conflicts = append(found.conflicts, claim.conflicts...)
	for _, child := range children.Waiting {
		found.waiting = append(found.waiting, child.String())
	}
	found.waiting = append(found.waiting, claim.waiting...)

	report, isReady, err := reportValid(app, found, lister)
	if err != nil {
		return nil, err
	}
	outcome := new(pintle.Outcome).Then(pintle.Parallel(changes...)).Always(pintle.Sequential(report...))
	if !isReady {
		outcome.Requeue(settings.retry())
	}
	return outcome, nil
}

// withEvents tells what is created and deleted. An apply of what was not seen has no precondition.
func withEvents(app *WebApp, changes []pintle.Mutation) []pintle.Mutation {
	told := make([]pintle.Mutation, len(changes))
	for i, change := range changes {
		switch {
		case change.Verb == pintle.VerbCreate:
			var object struct{ Metadata pintle.ObjectMeta }
			if json.Unmarshal(change.Body, &object) == nil {
				change = change.WithEvent(eventOf(app, "Created", "created", change.Kind, object.Metadata.Name))
			}
		case change.Verb == pintle.VerbPatch && change.UID == "":
			change = change.WithEvent(eventOf(app, "Created", "created", change.Kind, change.Name))
		case change.Verb == pintle.VerbDelete:
			change = change.WithEvent(eventOf(app, "Deleted", "deleted", change.Kind, change.Name))
		}
		told[i] = change
	}
	return told
}

func eventOf(app *WebApp, reason, verb string, kind pintle.Kind, name string) pintle.Event {
	return pintle.NewEvent(app, pintle.Normal, reason, fmt.Sprintf("%s %s %s", verb, kind, name))
}
