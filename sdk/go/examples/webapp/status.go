package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	pintle "pintle.dev/sdk"
)

// many is how many failures in a row it takes to say that a WebApp fails, not that it is tried again.
const many = 5

// findings are what the run has found out besides.
type findings struct {
	// nChanges is the number of writes of this run.
	nChanges int
	// conflicts tell what is in the way.
	conflicts []string
	// waiting are objects that must go before they can be made anew.
	waiting []string
	// isHeld says whether the host is ours.
	isHeld bool
}

// verdict is a condition in the making.
type verdict struct {
	status  bool
	reason  string
	message string
}

// reportInvalid is the outcome for a WebApp that is wrong: it is told so, and nothing else changes.
func reportInvalid(app *WebApp, problems []string, lister pintle.Lister) (*pintle.Outcome, error) {
	status, err := statusOf(app)
	if err != nil {
		return nil, err
	}
	message := strings.Join(problems, "; ")
	outcome := new(pintle.Outcome)
	var mutations []pintle.Mutation
	if !says(status.Conditions, "Valid", false, message) {
		mutations = append(mutations, pintle.Record(pintle.NewEvent(app, pintle.Warning, "InvalidSpec", message)))
		outcome.Observe("webapp_invalid_specs_total", 1)
	}
	status.ObservedGeneration = app.Metadata.Generation
	status.set(app, "Valid", verdict{false, "InvalidSpec", message}, lister.Now())
	status.set(app, "Ready", verdict{false, "InvalidSpec", message}, lister.Now())
	mutations = append(mutations, pintle.PatchStatus(webAppKind, app, status)...)
	return outcome.Then(pintle.Sequential(mutations...)), nil
}

// reportValid gives the events and the status, if it changes, of a valid WebApp, and whether there is nothing left to look after.
func reportValid(app *WebApp, found findings, lister pintle.Lister) (mutations []pintle.Mutation, isReady bool, err error) {
	deployment, err := pintle.Get[Deployment](lister, deploymentKind, app.Metadata.Namespace, app.Metadata.Name)
	if err != nil {
		return nil, false, err
	}
	if deployment != nil && !pintle.IsControlledBy(deployment, app.Metadata.UID) {
		deployment = nil
	}
	status, err := statusOf(app)
	if err != nil {
		return nil, false, err
	}
	conflict := conflictOf(found)
	available := availableOf(deployment)
	progressing := progressingOf(deployment, found)
	ready := readyOf(conflict, available, progressing, lister)

	if conflict.status && !says(status.Conditions, "Conflict", true, conflict.message) {
		mutations = append(mutations, pintle.Record(pintle.NewEvent(app, pintle.Warning, "Conflict", conflict.message)))
	}
	if ready.status && !pintle.IsTrue(status.Conditions, "Ready") {
		mutations = append(mutations, pintle.Record(pintle.NewEvent(app, pintle.Normal, "Ready", ready.message)))
	}

	status = Status{ObservedGeneration: app.Metadata.Generation, Conditions: status.Conditions}
	if deployment != nil {
		status.Replicas, status.AvailableReplicas = deployment.Status.Replicas, deployment.Status.AvailableReplicas
	}
	if found.isHeld {
		status.URL = "http://" + app.Spec.Host
	}
	now := lister.Now()
	status.set(app, "Valid", verdict{true, "Valid", "the spec is valid"}, now)
	status.set(app, "Conflict", conflict, now)
	status.set(app, "Available", available, now)
	status.set(app, "Progressing", progressing, now)
	status.set(app, "Ready", ready, now)
	return append(mutations, pintle.PatchStatus(webAppKind, app, status)...), ready.status, nil
}

func conflictOf(found findings) verdict {
	if len(found.conflicts) == 0 {
		return verdict{false, "NoConflict", "nothing is in the way"}
	}
	return verdict{true, "InUse", strings.Join(found.conflicts, "; ")}
}

func availableOf(deployment *Deployment) verdict {
	if deployment == nil {
		return verdict{false, "NoDeployment", "there is no Deployment of this WebApp"}
	}
	message := fmt.Sprintf("replicas available: %d", deployment.Status.AvailableReplicas)
	if pintle.IsTrue(deployment.Status.Conditions, "Available") {
		return verdict{true, "MinimumReplicasAvailable", message}
	}
	return verdict{false, "MinimumReplicasUnavailable", message}
}

func progressingOf(deployment *Deployment, found findings) verdict {
	switch {
	case found.nChanges > 0:
		return verdict{true, "Applying", fmt.Sprintf("changes being applied: %d", found.nChanges)}
	case len(found.waiting) > 0:
		return verdict{true, "Waiting", "waiting for the deletion of " + strings.Join(found.waiting, "; ")}
	case deployment == nil:
		return verdict{false, "Blocked", "there is no Deployment of this WebApp"}
	}
	desired, status := or(deployment.Spec.Replicas, 1), &deployment.Status
	message := fmt.Sprintf("replicas updated: %d, available: %d, desired: %d", status.UpdatedReplicas, status.AvailableReplicas, desired)
	switch progressing := pintle.FindCondition(status.Conditions, "Progressing"); {
	case status.ObservedGeneration < deployment.Metadata.Generation:
		return verdict{true, "RollingOut", message}
	case status.UpdatedReplicas == desired && status.Replicas == desired && status.AvailableReplicas == desired:
		return verdict{false, "Complete", message}
	case progressing != nil && progressing.Reason == "ProgressDeadlineExceeded":
		return verdict{false, "Stalled", message}
	}
	return verdict{true, "RollingOut", message}
}

// readyOf is the first of these that is not as it should be, or ready.
func readyOf(conflict, available, progressing verdict, lister pintle.Lister) verdict {
	if conflict.status {
		return verdict{false, "Conflict", conflict.message}
	}
	if failures := failuresOf(lister); len(failures) > 0 {
		reason := "Retrying"
		if lister.Attempt() >= many {
			reason = "Failing"
		}
		return verdict{false, reason, strings.Join(failures, "; ")}
	}
	if progressing.reason != "Complete" {
		return verdict{false, progressing.reason, progressing.message}
	}
	if !available.status {
		return verdict{false, "Unavailable", available.message}
	}
	return verdict{true, "Ready", available.message}
}

// failuresOf are the writes of the previous run that were refused. A conflict only says that the cache was behind.
func failuresOf(lister pintle.Lister) []string {
	var failures []string
	for _, failure := range lister.Failures() {
		if failure.Reason != "Conflict" {
			object := pintle.Ref{Kind: failure.Kind, Namespace: failure.Object.Namespace, Name: failure.Object.Name}
			failures = append(failures, fmt.Sprintf("%s %s: %s", failure.Verb, object, failure.Message))
		}
	}
	return failures
}

// statusOf is the status that was read.
func statusOf(app *WebApp) (status Status, err error) {
	if app.Status == nil {
		return status, nil
	}
	if err := json.Unmarshal(app.Status, &status); err != nil {
		return status, pintle.Terminal("decode status: %w", err)
	}
	return status, nil
}

func (s *Status) set(app *WebApp, conditionType string, is verdict, now time.Time) {
	s.Conditions = pintle.SetCondition(s.Conditions, pintle.Condition{
		Type: conditionType, Status: text(is.status), Reason: is.reason, Message: is.message,
		ObservedGeneration: app.Metadata.Generation,
	}, now)
}

// says tells whether the condition has been told already.
func says(conditions []pintle.Condition, conditionType string, status bool, message string) bool {
	condition := pintle.FindCondition(conditions, conditionType)
	return condition != nil && condition.Status == text(status) && condition.Message == message
}

func text(status bool) string {
	if status {
		return "True"
	}
	return "False"
}
