package pintle

import (
	"encoding/json"
	"fmt"
	"time"
)

// Lister is the world at one instant, for one run: repeated reads give the same answer.
//
// All reads together are one state of the host's caches, never older than this key's own last writes. Only kinds that the manifest
// watches can be read; another is a fault that ends the run, and so is a call after the run has ended.
//
// The methods in JSON are the contract's own. [Get], [List] and their like decode what they give.
type Lister interface {
	// Now is the time at which this run began, to the microsecond, in UTC. The clock of the program itself shows nothing real.
	Now() time.Time
	// Uptime is the time from the start of the host to the beginning of this run, by a monotonic clock. Only differences of two
	// values of the same host have a meaning: keep one by [Outcome.Keep], which is lost together with this clock.
	Uptime() time.Duration
	// GetJSON is the object, whole if its watch declares whole; nil if it is not in the cache.
	GetJSON(kind Kind, namespace, name string) json.RawMessage
	// ListJSON is the objects that match, ordered by namespace and name.
	ListJSON(kind Kind, query Query) []json.RawMessage
	// Count is how many objects match.
	Count(kind Kind, query Query) int
	// SelectingJSON is the objects of the namespace whose own selector (declared as selects) matches these labels.
	SelectingJSON(kind Kind, namespace string, labels map[string]string) []json.RawMessage
	// DependentsJSON is the objects of any watched kind that name this uid among their owners, ordered by kind, namespace and name.
	DependentsJSON(uid string) []json.RawMessage
	// ByUIDJSON is the object of any watched kind with this uid, or nil.
	ByUIDJSON(uid string) json.RawMessage
	// Resources is what the API server offers, as of the last discovery, seconds ago. The manifest must say discovery: true.
	Resources() []APIResource
	// ResourcesOf is those of Resources whose kind has this group and name, of all versions, at a small part of the cost; none if there is
	// no such kind. The manifest must say discovery: true.
	ResourcesOf(group, kind string) []APIResource
	// ConfigJSON is the plugin's configuration, defaults filled in.
	ConfigJSON() json.RawMessage
	// State is what an earlier outcome of this plugin kept under this name.
	State(name string) (value string, kept bool)
	// Attempt is how often this key has failed in a row: 0 on the first try.
	Attempt() int
	// Failures is what failed of this key's previous outcome; empty after a success.
	Failures() []MutationFailure
	// Answer is the answer to a need of an earlier round of this run; nil if it was not asked.
	Answer(need Need) *Answer
}

// Get reads an object from the cache; nil if it is not there. T is any type that fits its JSON: a struct with JSON tags, such as
// those of k8s.io/api, or [Object].
//
// The error is a [TerminalError]: the object does not fit T, and trying again is useless until it changes.
func Get[T any](lister Lister, kind Kind, namespace, name string) (*T, error) {
	text := lister.GetJSON(kind, namespace, name)
	if text == nil {
		return nil, nil
	}
	return decode[T](kind, text)
}

// List reads the objects that match from the cache, ordered by namespace and name. They are projections: what the manifest declares
// as fields, unless the query says Whole. Errors as for [Get].
func List[T any](lister Lister, kind Kind, query Query) ([]T, error) {
	return decodeAll[T](kind, lister.ListJSON(kind, query))
}

// Selecting reads the objects of a namespace whose own selector (declared as selects) matches these labels: which Services select
// this Pod. Errors as for [Get].
func Selecting[T any](lister Lister, kind Kind, namespace string, labels map[string]string) ([]T, error) {
	return decodeAll[T](kind, lister.SelectingJSON(kind, namespace, labels))
}

// Dependents reads the objects of any watched kind that name this uid among their owners. Errors as for [Get].
func Dependents[T any, U ~string](lister Lister, uid U) ([]T, error) {
	return decodeAll[T](Kind{}, lister.DependentsJSON(string(uid)))
}

// ByUID reads the object of any watched kind with this uid; nil if there is none. Errors as for [Get].
func ByUID[T any, U ~string](lister Lister, uid U) (*T, error) {
	text := lister.ByUIDJSON(string(uid))
	if text == nil {
		return nil, nil
	}
	return decode[T](Kind{}, text)
}

// Config reads the plugin's configuration. The error is a [TerminalError]: T does not fit the manifest's schema.
func Config[T any](lister Lister) (T, error) {
	var config T
	if err := json.Unmarshal(lister.ConfigJSON(), &config); err != nil {
		return config, Terminal("configuration: %w", err)
	}
	return config, nil
}

// Live reads an object as the API server itself has it now; nil if it is gone there. The manifest must grant get.
//
// In the first round of a run the error is a [NeedsError]: return it, the host then reads and runs the key again.
// A refusal of the server is an [APIError], and counts as a retry. Otherwise as for [Get].
func Live[T any](lister Lister, kind Kind, namespace, name string) (*T, error) {
	return live[T](lister, NeedObject(kind, namespace, name), Ref{kind, namespace, name}.String())
}

// LiveSubresource reads a subresource of an object, for example scale, as the API server itself has it now; nil if the object is gone
// there. The manifest must grant get of the subresource. Errors as for [Live].
func LiveSubresource[T any](lister Lister, kind Kind, namespace, name, subresource string) (*T, error) {
	what := subresource + " of " + Ref{kind, namespace, name}.String()
	return live[T](lister, NeedObject(kind, namespace, name).WithSubresource(subresource), what)
}

func live[T any](lister Lister, need Need, what string) (*T, error) {
	text, err := Ask(lister, need)
	switch refusal := (*APIError)(nil); {
	case asAPIError(err, &refusal) && refusal.Code == 404:
		return nil, nil
	case refusal != nil:
		return nil, fmt.Errorf("read %s: %w", what, refusal)
	case err != nil:
		return nil, err
	}
	return decode[T](need.Kind, text)
}

// Review asks the API server for a verdict, and gives the status of the review, for example of a SubjectAccessReview. review is the
// object with its spec; see [NeedReview]. namespace is empty for cluster-scoped kinds. Errors as for [Live].
func Review[T any](lister Lister, kind Kind, namespace string, review any) (*T, error) {
	text, err := Ask(lister, NeedReview(kind, namespace, review))
	if refusal := (*APIError)(nil); asAPIError(err, &refusal) {
		return nil, fmt.Errorf("ask for a %s: %w", kind.Name, refusal)
	} else if err != nil {
		return nil, err
	}
	answer, err := decode[struct {
		Status *T `json:"status"`
	}](kind, text)
	switch {
	case err != nil:
		return nil, err
	case answer.Status == nil:
		return nil, fmt.Errorf("ask for a %s: the answer has no status", kind.Name)
	}
	return answer.Status, nil
}

func asAPIError(err error, target **APIError) bool {
	refusal, ok := err.(*APIError)
	*target = refusal
	return ok
}

// Ask gives the answer to any need: JSON, but the text of a token or a certificate for signatures.
//
// The error is a [NeedsError] in the first round: return it; or a refusal, an [APIError].
func Ask(lister Lister, need Need) (json.RawMessage, error) {
	answer := lister.Answer(need)
	if answer == nil {
		return nil, &NeedsError{Needs: []Need{need}}
	}
	if answer.Refusal != nil {
		return nil, answer.Refusal
	}
	return answer.Body, nil
}

func decodeAll[T any](kind Kind, texts []json.RawMessage) ([]T, error) {
	objects := make([]T, len(texts))
	for i, text := range texts {
		if err := decodeInto(kind, text, &objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

func decode[T any](kind Kind, text json.RawMessage) (*T, error) {
	object := new(T)
	if err := decodeInto(kind, text, object); err != nil {
		return nil, err
	}
	return object, nil
}

// decodeInto keeps the integers of untyped objects exact: encoding/json alone makes float64 of them.
func decodeInto(kind Kind, text json.RawMessage, object any) error {
	var err error
	switch untyped := object.(type) {
	case *Object:
		var tree any
		if tree, err = parseTree(text); err == nil {
			var ok bool
			if *untyped, ok = plain(tree).(Object); !ok {
				err = fmt.Errorf("it is not an object")
			}
		}
	case *any:
		var tree any
		if tree, err = parseTree(text); err == nil {
			*untyped = plain(tree)
		}
	default:
		err = json.Unmarshal(text, object)
	}
	if err == nil {
		return nil
	}
	var h header
	if json.Unmarshal(text, &h) == nil {
		return Terminal("decode %s: %w", Ref{h.kind(), h.Metadata.Namespace, h.Metadata.Name}, err)
	}
	return Terminal("decode %s: %w", kind, err)
}

// plain turns the numbers of a tree into int64, or float64 where they are none.
func plain(tree any) any {
	switch value := tree.(type) {
	case map[string]any:
		for name, member := range value {
			value[name] = plain(member)
		}
	case []any:
		for i, item := range value {
			value[i] = plain(item)
		}
	case json.Number:
		if integer, err := value.Int64(); err == nil {
			return integer
		}
		float, _ := value.Float64()
		return float
	}
	return tree
}
