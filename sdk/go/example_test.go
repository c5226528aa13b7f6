package pintle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pintle "pintle.dev/sdk"
)

// cached is a lister with these objects in the cache, and with one answer to each type of needs. Other reads panic.
type cached struct {
	pintle.Lister
	objects []pintle.Object
	answers map[pintle.NeedType]string
}

func (c cached) GetJSON(kind pintle.Kind, namespace, name string) json.RawMessage {
	for _, text := range c.ListJSON(kind, pintle.Query{}) {
		var of struct{ Metadata pintle.ObjectMeta }
		if json.Unmarshal(text, &of) == nil && of.Metadata.Namespace == namespace && of.Metadata.Name == name {
			return text
		}
	}
	return nil
}

// ListJSON takes the kind, the namespace and the owner of a query into account. The order is that of the objects.
func (c cached) ListJSON(kind pintle.Kind, query pintle.Query) []json.RawMessage {
	var found []json.RawMessage
	for _, object := range c.objects {
		text, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		var of struct {
			APIVersion, Kind string
			Metadata         pintle.ObjectMeta
		}
		if err := json.Unmarshal(text, &of); err != nil {
			panic(err)
		}
		isOwned := func(owner pintle.OwnerReference) bool { return owner.UID == query.Owner.UID }
		if pintle.KindOf(of.APIVersion, of.Kind) == kind && (query.Namespace == "" || query.Namespace == of.Metadata.Namespace) &&
			(query.Owner.UID == "" || slices.ContainsFunc(of.Metadata.OwnerReferences, isOwned)) {
			found = append(found, text)
		}
	}
	return found
}

// Answer prints what is asked for.
func (c cached) Answer(need pintle.Need) *pintle.Answer {
	fmt.Println(strings.TrimSpace(string(need.Type) + " " + need.Body))
	return &pintle.Answer{Body: []byte(c.answers[need.Type])}
}

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

func Example() {
	namespace := pintle.Object{"apiVersion": "v1", "kind": "Namespace", "metadata": pintle.Object{"name": "default", "uid": "u"}}
	outcome, err := robots(pintle.Key{Kind: namespaces, Name: "default"}, cached{objects: []pintle.Object{namespace}})
	if err != nil {
		panic(err)
	}
	for _, mutation := range outcome.Steps[0].Mutations {
		fmt.Println(mutation.Patch, mutation.Kind, mutation.Namespace, mutation.Name)
	}
	// Output: apply v1/ServiceAccount default robot
}

// sweep deletes one Pod of a node, counts that, and looks at the next node in a minute.
func sweep(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	pods := pintle.MustKind("v1/Pod")
	text, err := pintle.Ask(lister, pintle.NeedList(pods, "", "", 1).WithFields("spec.nodeName="+key.Name))
	if err != nil {
		return nil, err
	}
	var found []struct {
		Metadata pintle.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, pintle.Terminal("pods of %s: %w", key.Name, err)
	}
	outcome := new(pintle.Outcome).RunLabel("node", key.Name)
	for _, pod := range found {
		deletion := pintle.Delete(pods, pod.Metadata.Namespace, pod.Metadata.Name).WithUID(pod.Metadata.UID)
		outcome.Then(pintle.Sequential(deletion))
		if place, ok := outcome.LastPlace(); ok {
			outcome.ObserveAt(place.Done(), "pods_deleted_total", 1)
		}
	}
	return outcome.WakeAfter(pintle.Key{Queue: "nodes", Kind: key.Kind, Name: "n2"}, time.Minute), nil
}

func ExampleOutcome_ObserveAt() {
	found := `[{"metadata": {"name": "web", "namespace": "default"}}]`
	lister := cached{answers: map[pintle.NeedType]string{pintle.LiveList: found}}
	outcome, err := sweep(pintle.Key{Kind: pintle.MustKind("v1/Node"), Name: "n1"}, lister)
	if err != nil {
		panic(err)
	}
	for _, sample := range outcome.Observations {
		fmt.Println(sample.Metric, sample.At.When, sample.At.Place)
	}
	fmt.Println(outcome.Steps[0].Mutations[0].Name, outcome.Wakes[0].Key.Name, outcome.Wakes[0].After)
	// Output:
	// list
	// pods_deleted_total done {0 0}
	// web n2 1m0s
}

// admit asks whether a user may read Pods, and gets a token for one who may.
func admit(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	reviews := pintle.MustKind("authorization.k8s.io/v1/SubjectAccessReview")
	verdict, err := pintle.Review[struct{ Allowed bool }](lister, reviews, "", pintle.Object{"spec": pintle.Object{
		"user": key.Name, "resourceAttributes": pintle.Object{"verb": "get", "resource": "pods"},
	}})
	if err != nil || !verdict.Allowed {
		return nil, err
	}
	token, err := pintle.Ask(lister, pintle.NeedJWT("signer", pintle.Object{"sub": key.Name}))
	if refusal := (*pintle.APIError)(nil); errors.As(err, &refusal) {
		return nil, pintle.RetryAfter(time.Minute, "no token: %s", refusal.Reason)
	} else if err != nil {
		return nil, err
	}
	_, err = pintle.Ask(lister, pintle.NeedCall("desk", "hand-over", pintle.Object{"token": string(token)}))
	return nil, err
}

func ExampleAsk() {
	answers := map[pintle.NeedType]string{
		pintle.LiveReview: `{"status": {"allowed": true}}`, pintle.SignedJWT: "for.ann.x", pintle.EndpointCall: "{}",
	}
	_, err := admit(pintle.Key{Kind: pintle.MustKind("example.com/v1/User"), Name: "ann"}, cached{answers: answers})
	fmt.Println(err)
	// Output:
	// review {"spec":{"resourceAttributes":{"resource":"pods","verb":"get"},"user":"ann"}}
	// sign-jwt {"sub":"ann"}
	// call {"token":"for.ann.x"}
	// <nil>
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
