// Command {{name}} is a plugin that keeps a ConfigMap with the text of each {{Kind}}.
package main

import (
	"example.com/{{name}}/api"
	pintle "pintle.dev/sdk"
)

func init() { pintle.Export(reconcile) }

func main() {}

var (
	kind          = pintle.MustKind("{{apiKind}}")
	configMapKind = pintle.MustKind("v1/ConfigMap")
)

// reconcile computes the changes for one {{Kind}}. It is pure: the same view gives the same outcome.
func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	owner, err := pintle.Get[api.{{Kind}}](lister, kind, key.Namespace, key.Name)
	if owner == nil || err != nil || pintle.IsDeleting(owner) {
		return nil, err
	}
	plan, err := pintle.NewChildren(owner, "{{name}}").Own(configMapKind).Want(configMap(owner)).Plan(lister)
	if err != nil {
		return nil, err
	}
	ready := pintle.Condition{
		Type: "Ready", Status: "True", Reason: "Applied", Message: "the ConfigMap is up to date",
		ObservedGeneration: owner.Metadata.Generation,
	}
	if len(plan.Conflicts) > 0 {
		ready.Status, ready.Reason, ready.Message = "False", "Conflict", plan.Conflicts[0].String()
	} else if failures := lister.Failures(); len(failures) > 0 && len(plan.Mutations) > 0 {
		ready.Status, ready.Reason, ready.Message = "False", "WriteFailed", failures[0].Message
	}
	status := api.{{Kind}}Status{
		ObservedGeneration: owner.Metadata.Generation,
		Conditions:         pintle.SetCondition(owner.Status.Conditions, ready, lister.Now()),
	}
	report := pintle.Sequential(pintle.PatchStatus(kind, owner, status)...)
	// The next write may fail, too.
	report.Always = ready.Reason == "WriteFailed"
	return new(pintle.Outcome).Then(pintle.Parallel(plan.Mutations...)).Then(report), nil
}

// configMap is the ConfigMap of a {{Kind}}.
func configMap(owner *api.{{Kind}}) pintle.Object {
	return pintle.Object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": pintle.Object{"name": owner.Metadata.Name{{goNamespace}}},
		"data":     pintle.Object{"text": owner.Spec.Text},
	}
}
