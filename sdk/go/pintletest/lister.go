package pintletest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	pintle "pintle.dev/sdk"
)

// Lister is a [pintle.Lister] over the objects of a fixture. It panics where the host would end the run with a fault.
type Lister struct {
	manifest manifest
	input    input
	objects  []*stored
	live     []*stored
	asked    []pintle.Need
}

// alwaysKept is what every projection has.
var alwaysKept = []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}

func (l *Lister) watch(kind pintle.Kind) *watch {
	for i := range l.manifest.Watches {
		if watch := &l.manifest.Watches[i]; watch.Kind != nil && *watch.Kind == kind {
			return watch
		}
	}
	for i := range l.manifest.Watches {
		if watch := &l.manifest.Watches[i]; watch.Every != nil {
			return watch
		}
	}
	panic(fault(fmt.Sprintf("the manifest does not watch %s", kind)))
}

// cached says whether the watch would have the object in the cache.
func (w *watch) cached(object *stored) bool {
	return (w.Namespace == nil || *w.Namespace == object.ref.Namespace) &&
		(w.LabelSelector == nil || parseSelector(*w.LabelSelector).Matches(labels.Set(object.meta.Labels)))
}

func parseSelector(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		panic(fault(fmt.Sprintf("label selector %q does not parse: %v", text, err)))
	}
	return selector
}

func (l *Lister) text(object *stored, whole bool) json.RawMessage {
	var tree any = object.tree
	if watch := l.watch(object.ref.Kind); !whole {
		fields := watch.Fields
		if watch.Every != nil {
			// Watches of every kind hold the metadata.
			fields = []string{"metadata"}
		}
		var paths [][]string
		for _, field := range slices.Concat(alwaysKept, fields) {
			paths = append(paths, segments(field))
		}
		tree = project(tree, paths)
	}
	return textOf(tree)
}

func textOf(tree any) json.RawMessage {
	text, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	return text
}

func (l *Lister) texts(objects []*stored, whole bool) []json.RawMessage {
	texts := make([]json.RawMessage, len(objects))
	for i, object := range objects {
		texts[i] = l.text(object, whole)
	}
	return texts
}

func (l *Lister) matching(kind pintle.Kind, query pintle.Query) []*stored {
	watch := l.watch(kind)
	if query.Whole && !watch.Whole {
		panic(fault(fmt.Sprintf("the watch of %s does not declare whole", kind)))
	}
	var path []string
	if query.Index.Name != "" {
		at := slices.IndexFunc(watch.Indexes, func(index index) bool { return index.Name == query.Index.Name })
		if at < 0 {
			panic(fault(fmt.Sprintf("the watch of %s declares no index %q", kind, query.Index.Name)))
		}
		path = segments(watch.Indexes[at].Field)
	}
	selector := parseSelector(query.LabelSelector)
	var found []*stored
	for _, object := range l.objects {
		if object.ref.Kind == kind && watch.cached(object) &&
			(query.Namespace == "" || query.Namespace == object.ref.Namespace) &&
			selector.Matches(labels.Set(object.meta.Labels)) &&
			(query.Owner == (pintle.Owner{}) || object.owned(query.Owner)) &&
			(path == nil || slices.ContainsFunc(valuesAt(object.tree, path), func(value any) bool { return isValue(value, query.Index.Value) })) {
			found = append(found, object)
		}
	}
	return found
}

// isValue compares a value of an index with the text that is asked for.
func isValue(value any, wanted string) bool {
	switch value := value.(type) {
	case string:
		return value == wanted
	case json.Number:
		return value.String() == wanted
	case bool:
		return strconv.FormatBool(value) == wanted
	default:
		return false
	}
}

// watched is the objects of all watched kinds.
func (l *Lister) watched(matches func(*stored) bool) []*stored {
	var found []*stored
	for _, object := range l.objects {
		cached := slices.ContainsFunc(l.manifest.Watches, func(watch watch) bool {
			return (watch.Every != nil || watch.Kind != nil && *watch.Kind == object.ref.Kind) && watch.cached(object)
		})
		if cached && matches(object) {
			found = append(found, object)
		}
	}
	return found
}

// original is the cached object that an update would replace.
func (l *Lister) original(ref pintle.Ref) map[string]any {
	for _, object := range l.objects {
		if object.ref == ref {
			return object.tree
		}
	}
	return nil
}

// Now is the time of the fixture.
func (l *Lister) Now() time.Time {
	now, err := time.Parse(time.RFC3339Nano, l.input.Now)
	if err != nil {
		panic(fault(fmt.Sprintf("now: %v", err)))
	}
	return now.UTC().Truncate(time.Microsecond)
}

// Uptime implements [pintle.Lister].
func (l *Lister) Uptime() time.Duration {
	return time.Duration(l.input.Uptime * float64(time.Second))
}

// GetJSON implements [pintle.Lister].
func (l *Lister) GetJSON(kind pintle.Kind, namespace, name string) json.RawMessage {
	watch := l.watch(kind)
	for _, object := range l.objects {
		if object.ref == (pintle.Ref{Kind: kind, Namespace: namespace, Name: name}) && watch.cached(object) {
			return l.text(object, watch.Whole)
		}
	}
	return nil
}

// ListJSON implements [pintle.Lister].
func (l *Lister) ListJSON(kind pintle.Kind, query pintle.Query) []json.RawMessage {
	return l.texts(l.matching(kind, query), query.Whole)
}

// Count implements [pintle.Lister].
func (l *Lister) Count(kind pintle.Kind, query pintle.Query) int {
	return len(l.matching(kind, query))
}

// SelectingJSON implements [pintle.Lister].
func (l *Lister) SelectingJSON(kind pintle.Kind, namespace string, of map[string]string) []json.RawMessage {
	watch := l.watch(kind)
	if watch.Selects == nil {
		panic(fault(fmt.Sprintf("the watch of %s does not declare selects", kind)))
	}
	var found []*stored
	for _, object := range l.objects {
		if object.ref.Kind == kind && object.ref.Namespace == namespace && watch.cached(object) {
			selector := ownSelector(object, watch.Selects)
			isPossible := selector != nil && (!selector.Empty() || watch.Selects.Empty == "everything")
			if isPossible && selector.Matches(labels.Set(of)) {
				found = append(found, object)
			}
		}
	}
	return l.texts(found, false)
}

// ownSelector is nil if the object has none that makes sense.
func ownSelector(object *stored, selects *selects) labels.Selector {
	var value any = object.tree
	for _, name := range segments(selects.Field) {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	if value == nil {
		return nil
	}
	if selects.Form == "map" {
		var set labels.Set
		if json.Unmarshal(textOf(value), &set) != nil {
			return nil
		}
		return labels.SelectorFromSet(set)
	}
	var form metav1.LabelSelector
	if json.Unmarshal(textOf(value), &form) != nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&form)
	if err != nil {
		return nil
	}
	return selector
}

// DependentsJSON implements [pintle.Lister].
func (l *Lister) DependentsJSON(uid string) []json.RawMessage {
	return l.texts(l.watched(func(object *stored) bool { return object.owned(pintle.AnyOwner(uid)) }), false)
}

// ByUIDJSON implements [pintle.Lister].
func (l *Lister) ByUIDJSON(uid string) json.RawMessage {
	for _, object := range l.watched(func(object *stored) bool { return object.meta.UID == uid }) {
		return l.text(object, false)
	}
	return nil
}

// Resources implements [pintle.Lister].
func (l *Lister) Resources() []pintle.APIResource {
	l.mustDiscover()
	if discovered := l.input.Discovery.Resources; discovered != nil && l.isAsked(pintle.NeedDiscovery()) {
		return *discovered
	}
	return l.input.Resources
}

// ResourcesOf implements [pintle.Lister].
func (l *Lister) ResourcesOf(group, kind string) []pintle.APIResource {
	var found []pintle.APIResource
	for _, resource := range l.Resources() {
		if resource.Kind.Group == group && resource.Kind.Name == kind {
			found = append(found, resource)
		}
	}
	return found
}

func (l *Lister) mustDiscover() {
	if !l.manifest.Discovery {
		panic(fault("the manifest does not declare discovery: true"))
	}
}

// ConfigJSON implements [pintle.Lister].
func (l *Lister) ConfigJSON() json.RawMessage { return textOf(l.input.Config) }

// State implements [pintle.Lister].
func (l *Lister) State(name string) (string, bool) {
	value, kept := l.input.State[name]
	return value, kept
}

// Attempt implements [pintle.Lister].
func (l *Lister) Attempt() int { return l.input.Attempt }

// Failures implements [pintle.Lister].
func (l *Lister) Failures() []pintle.MutationFailure { return l.input.Failures }
