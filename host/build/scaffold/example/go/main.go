// Command {{name}} is a plugin that keeps a ConfigMap with the members of each {{Kind}}.
package main

import (
	"fmt"
	"slices"
	"strings"

	"example.com/{{name}}/api"
	pintle "pintle.dev/sdk"
)

func init() { pintle.Export(reconcile) }

func main() {}

var (
	kind          = pintle.MustKind("{{apiKind}}")
	configMapKind = pintle.MustKind("v1/ConfigMap")
)

// reconcile says what should change for one {{Kind}}. It is pure: the same view gives the same outcome.
func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	owner, err := pintle.Get[api.{{Kind}}](lister, kind, key.Namespace, key.Name)
	if owner == nil || err != nil || pintle.IsDeleting(owner) {
		return nil, err
	}
	if owner.Spec.Lead != "" && !slices.Contains(owner.Spec.Members, owner.Spec.Lead) {
		problem := fmt.Sprintf("spec.lead %s is not in spec.members", owner.Spec.Lead)
		return new(pintle.Outcome).Then(report(owner, lister, "False", "InvalidSpec", problem)), nil
	}
	plan, err := pintle.NewChildren(owner, "{{name}}").Own(configMapKind).Want(members(owner)).Plan(lister)
	if err != nil {
		return nil, err
	}
	status, reason, message := "True", "Applied", "the ConfigMap is up to date"
	if len(plan.Conflicts) > 0 {
		status, reason, message = "False", "Conflict", plan.Conflicts[0].String()
	}
	outcome := new(pintle.Outcome).Then(pintle.Parallel(plan.Mutations...))
	return outcome.Then(report(owner, lister, status, reason, message)), nil
}

// members is the ConfigMap of a {{Kind}}.
func members(owner *api.{{Kind}}) pintle.Object {
	separator := "\n"
	if owner.Spec.Format == api.Commas {
		separator = ", "
	}
	data := pintle.Object{"members": strings.Join(owner.Spec.Members, separator)}
	if owner.Spec.Lead != "" {
		data["lead"] = owner.Spec.Lead
	}
	return pintle.Object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": pintle.Object{"name": owner.Metadata.Name + "-members"{{goNamespace}}}, "data": data,
	}
}

// report writes the status, unless it is right.
func report(owner *api.{{Kind}}, lister pintle.Lister, status, reason, message string) pintle.Step {
	wanted := api.{{Kind}}Status{
		Members:            int32(len(owner.Spec.Members)),
		ObservedGeneration: owner.Metadata.Generation,
		Conditions: pintle.SetCondition(owner.Status.Conditions, pintle.Condition{
			Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: owner.Metadata.Generation,
		}, lister.Now()),
	}
	return pintle.Sequential(pintle.PatchStatus(kind, owner, wanted)...)
}
