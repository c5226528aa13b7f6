// Package pintletest has helpers of native tests: [StartDev] starts pintle dev, and [Debug] runs one case under a debugger.
package pintletest

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	pintle "pintle.dev/sdk"
)

// exported is what "pintle test --export" writes.
type exported struct {
	Key       pintle.Key
	Now       time.Time
	Uptime    float64
	Attempt   int
	Failures  []pintle.MutationFailure
	Config    json.RawMessage
	State     map[string]string
	Resources []pintle.APIResource
	Reads     []read
}

// read is one, with its answer.
type read struct {
	Read                 string
	Kind                 pintle.Kind
	Namespace, Name, UID string
	Query                pintle.Query
	Labels               map[string]string
	Need                 pintle.Need
	Found                json.RawMessage
	Refusal              *pintle.APIError
}

// Debug calls reconcile with the case in a file that "pintle test --filter NAME --export FOLDER" has written. Each read gets the answer that
// the component got. It panics at any other read: export the case again after a change of what is read.
func Debug(file string, reconcile pintle.ReconcileFunc) pintle.Result {
	var of exported
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		panic(fmt.Errorf("read the case %s: %w", file, err))
	}
	return pintle.Conclude(reconcile(of.Key, lister{of}))
}

type lister struct{ of exported }

func (l lister) answer(wanted read) read {
	for _, one := range l.of.Reads {
		question := one
		question.Found, question.Refusal = nil, nil
		if reflect.DeepEqual(question, wanted) {
			return one
		}
	}
	panic(fmt.Sprintf("the case has no answer to %+v: export it again", wanted))
}

// found is the answer to a read.
func found[T any](l lister, wanted read) (value T) {
	if err := json.Unmarshal(l.answer(wanted).Found, &value); err != nil {
		panic(fmt.Errorf("the answer to %+v: %w", wanted, err))
	}
	return value
}

func (l lister) Now() time.Time                     { return l.of.Now }
func (l lister) Uptime() time.Duration              { return time.Duration(l.of.Uptime * float64(time.Second)) }
func (l lister) ConfigJSON() json.RawMessage        { return l.of.Config }
func (l lister) Attempt() int                       { return l.of.Attempt }
func (l lister) Failures() []pintle.MutationFailure { return l.of.Failures }
func (l lister) Resources() []pintle.APIResource    { return l.of.Resources }
func (l lister) State(name string) (string, bool) {
	value, kept := l.of.State[name]
	return value, kept
}
func (l lister) GetJSON(kind pintle.Kind, namespace, name string) json.RawMessage {
	return object(l.answer(read{Read: "get", Kind: kind, Namespace: namespace, Name: name}).Found)
}
func (l lister) ListJSON(kind pintle.Kind, query pintle.Query) []json.RawMessage {
	return found[[]json.RawMessage](l, read{Read: "list", Kind: kind, Query: query})
}
func (l lister) Count(kind pintle.Kind, query pintle.Query) int {
	return found[int](l, read{Read: "count", Kind: kind, Query: query})
}
func (l lister) SelectingJSON(kind pintle.Kind, namespace string, labels map[string]string) []json.RawMessage {
	return found[[]json.RawMessage](l, read{Read: "selecting", Kind: kind, Namespace: namespace, Labels: labels})
}
func (l lister) DependentsJSON(uid string) []json.RawMessage {
	return found[[]json.RawMessage](l, read{Read: "dependents", UID: uid})
}
func (l lister) ByUIDJSON(uid string) json.RawMessage {
	return object(l.answer(read{Read: "byUid", UID: uid}).Found)
}
func (l lister) ResourcesOf(group, kind string) []pintle.APIResource {
	isOther := func(r pintle.APIResource) bool { return r.Kind.Group != group || r.Kind.Name != kind }
	return slices.DeleteFunc(slices.Clone(l.of.Resources), isOther)
}
func (l lister) Answer(need pintle.Need) *pintle.Answer {
	need.Timeout = 0
	asked := read{Read: "answer", Need: need}
	if refusal := l.answer(asked).Refusal; refusal != nil {
		return &pintle.Answer{Refusal: refusal}
	}
	return &pintle.Answer{Body: []byte(found[string](l, asked))}
}

func object(text json.RawMessage) json.RawMessage {
	if string(text) == "null" {
		return nil
	}
	return text
}
