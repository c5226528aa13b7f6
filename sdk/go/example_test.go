package pintle_test

import (
	"errors"
	"fmt"
	"time"

	pintle "pintle.dev/sdk"
	"pintle.dev/sdk/pintletest"
)

var (
	namespaces      = pintle.MustKind("v1/Namespace")
	serviceAccounts = pintle.MustKind("v1/ServiceAccount")
)

// Namespace has what is read of one.
type Namespace struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
}

// robots sees to it that every namespace has a ServiceAccount "robot".
func robots(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	namespace, err := pintle.Get[Namespace](lister, namespaces, "", key.Name)
	if err != nil || namespace == nil || pintle.IsDeleting(namespace) {
		return nil, err
	}
	plan, err := pintle.NewChildren(namespace, "robots").
		Own(serviceAccounts).
		Want(pintle.Object{
			"apiVersion": "v1", "kind": "ServiceAccount",
			"metadata": pintle.Object{"name": "robot", "namespace": key.Name},
		}).
		Plan(lister)
	if err != nil {
		return nil, err
	}
	return new(pintle.Outcome).Then(pintle.Parallel(plan.Mutations...)), nil
}

const robotsManifest = `
watches:
  - {kind: v1/Namespace, fields: [metadata.deletionTimestamp]}
  - {kind: v1/ServiceAccount, whole: true}
queues: [{name: robots}]
`

func Example() {
	fixture, err := pintletest.Parse([]byte(robotsManifest), []byte(`
key: {kind: v1/Namespace, name: default}
objects:
  - {apiVersion: v1, kind: Namespace, metadata: {name: default}}
`))
	if err != nil {
		panic(err)
	}
	result, _ := fixture.Run(robots)
	for _, mutation := range result.Outcome.Steps[0].Mutations {
		fmt.Println(mutation.Patch, mutation.Kind, mutation.Namespace, mutation.Name)
	}
	// Output: apply v1/ServiceAccount default robot
}

func ExampleHash() {
	a, _ := pintle.Hash(map[string]any{"a": 1, "b": nil})
	b, _ := pintle.Hash(struct {
		A int `json:"a"`
	}{1})
	fmt.Println(a == b, len(a))
	// Output: true 16
}

func ExampleSetCondition() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	conditions := pintle.SetCondition(nil, pintle.Condition{Type: "Ready", Status: "False", Reason: "Starting"}, now)
	conditions = pintle.SetCondition(conditions, pintle.Condition{Type: "Ready", Status: "False", Reason: "Waiting"}, now.Add(time.Hour))
	fmt.Println(conditions[0].Reason, conditions[0].LastTransitionTime.Format(time.RFC3339), pintle.IsTrue(conditions, "Ready"))
	// Output: Waiting 2026-01-01T00:00:00Z false
}

func ExampleTerminal() {
	err := fmt.Errorf("widget web: %w", pintle.Terminal("size %d is too large", 11))
	var terminal *pintle.TerminalError
	fmt.Println(err, errors.As(err, &terminal))
	// Output: widget web: size 11 is too large true
}
