package pintle_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pintle "pintle.dev/sdk"
)

var (
	widget    = pintle.MustKind("example.com/v1/Widget")
	configMap = pintle.MustKind("v1/ConfigMap")
	secret    = pintle.MustKind("v1/Secret")
	owner     = pintle.Object{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": pintle.Object{"name": "w", "namespace": "default", "uid": "u"}}
)

func children() *pintle.Children {
	return pintle.NewChildren(owner, "me").Own(configMap, secret)
}

func wanted(name string) pintle.Object {
	return pintle.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": pintle.Object{"name": name}, "data": pintle.Object{"a": "1"}}
}

// plan is what children say of a cache.
func plan(t *testing.T, children *pintle.Children, objects ...pintle.Object) (*pintle.ChildrenPlan, error) {
	t.Helper()
	return children.Plan(cached{objects: objects})
}

func only(t *testing.T, children *pintle.Children, cached ...pintle.Object) pintle.Mutation {
	t.Helper()
	p, err := plan(t, children, cached...)
	if err != nil || len(p.Mutations) != 1 || len(p.Conflicts) != 0 || len(p.Waiting) != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	return p.Mutations[0]
}

// applied is the object as it comes into the cache after it was applied.
func applied(t *testing.T, object pintle.Object) pintle.Object {
	t.Helper()
	var there pintle.Object
	if err := json.Unmarshal(only(t, children().Want(object)).Body, &there); err != nil {
		t.Fatal(err)
	}
	metadata(there)["uid"] = "child"
	return there
}

func metadata(object pintle.Object) pintle.Object { return object["metadata"].(pintle.Object) }

func equalJSON(t *testing.T, got json.RawMessage, expected any) {
	t.Helper()
	text, err := json.Marshal(expected)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(text, &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("got %s, expected %s", got, text)
	}
}

func TestWhatIsMissingIsAppliedWithOwnerAndHash(t *testing.T) {
	object := wanted("a")
	apply := only(t, children().Want(object))
	if len(metadata(object)) != 1 {
		t.Errorf("the wanted object was changed: %v", object)
	}
	metadata(object)["namespace"] = "default"
	hash, err := pintle.Hash(object)
	if err != nil {
		t.Fatal(err)
	}
	metadata(object)["annotations"] = pintle.Object{pintle.AppliedAnnotation: hash}
	metadata(object)["ownerReferences"] = []any{pintle.Object{
		"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": true, "blockOwnerDeletion": true,
	}}
	equalJSON(t, apply.Body, object)
	expected := pintle.Apply(configMap, "default", "a", "me", true, object)
	expected.Body, apply.Body = nil, nil
	if !reflect.DeepEqual(apply, expected) {
		t.Errorf("%+v", apply)
	}
}

func TestWhatIsAsWantedIsLeftAloneWhateverOthersHaveAdded(t *testing.T) {
	there := applied(t, wanted("a"))
	there["data"].(pintle.Object)["other"] = "x"
	metadata(there)["labels"] = pintle.Object{"team": "a"}
	if p, err := plan(t, children().Want(wanted("a")), there); err != nil || !reflect.DeepEqual(p, &pintle.ChildrenPlan{}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAChangeAndADriftAreAppliedWithTheUID(t *testing.T) {
	changed := wanted("a")
	changed["data"] = pintle.Object{}
	drifted := applied(t, wanted("a"))
	drifted["data"].(pintle.Object)["a"] = "2"
	for name, apply := range map[string]pintle.Mutation{
		"changed": only(t, children().Want(changed), applied(t, wanted("a"))),
		"drifted": only(t, children().Want(wanted("a")), drifted),
	} {
		if apply.Verb != pintle.VerbPatch || apply.UID != "child" || apply.ResourceVersion != "" {
			t.Errorf("%s: %+v", name, apply)
		}
	}
}

func TestAnObjectWithoutAControllerIsAdoptedBeforeAnythingElseOfItChanges(t *testing.T) {
	node := func(uid string) pintle.Object {
		return pintle.Object{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid}
	}
	reference := func(controller bool) pintle.Object {
		return pintle.Object{
			"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u", "controller": controller, "blockOwnerDeletion": true,
		}
	}
	for _, test := range []struct{ there, expected []any }{
		{[]any{}, []any{reference(true)}},
		{[]any{reference(false)}, []any{reference(true)}},
		{[]any{node("x"), reference(false), node("y")}, []any{node("x"), node("y"), reference(true)}},
	} {
		// It is what it should be, or anything else.
		for _, orphan := range []pintle.Object{applied(t, wanted("a")), wanted("a")} {
			m := metadata(orphan)
			m["namespace"], m["uid"], m["resourceVersion"], m["ownerReferences"] = "default", "child", "7", test.there
			adoption := only(t, children().Want(wanted("a")), orphan)
			equalJSON(t, adoption.Body, pintle.Object{"metadata": pintle.Object{"ownerReferences": test.expected}})
			expected := pintle.Patch(configMap, "default", "a", pintle.MergePatch, nil).WithUID("child").WithResourceVersion("7")
			expected.Body, adoption.Body = nil, nil
			if !reflect.DeepEqual(adoption, expected) {
				t.Errorf("%+v", adoption)
			}
		}
	}
}

func TestObjectsOfOthersAndThoseThatGoAreOnlyNamed(t *testing.T) {
	other := wanted("a")
	metadata(other)["namespace"] = "default"
	metadata(other)["ownerReferences"] = []any{pintle.Object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "x", "controller": true}}
	going := applied(t, wanted("b"))
	metadata(going)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	p, err := plan(t, children().Want(wanted("b"), wanted("a")), other, going)
	if err != nil || len(p.Mutations) != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if got := fmt.Sprint(p.Waiting, p.Conflicts); got != "[v1/ConfigMap default/b] [v1/ConfigMap default/a is controlled by apps/v1/Deployment d]" {
		t.Error(got)
	}
}

func TestWhatIsNoLongerWantedIsDeletedKindByKind(t *testing.T) {
	of := func(kind, name string, change func(metadata pintle.Object)) pintle.Object {
		object := applied(t, wanted(name))
		object["kind"] = kind
		metadata(object)["uid"] = "uid-" + name
		change(metadata(object))
		return object
	}
	asItIs := func(pintle.Object) {}
	going := func(m pintle.Object) { m["deletionTimestamp"] = "2026-01-01T00:00:00Z" }
	p, err := plan(t, children().Own(configMap).Want(wanted("kept")),
		of("Secret", "b", asItIs), of("Secret", "z", asItIs), of("Secret", "going", going), of("ConfigMap", "going", going),
		of("Secret", "elsewhere", func(m pintle.Object) { m["namespace"] = "other" }),
		of("Secret", "foreign", func(m pintle.Object) { m["ownerReferences"].([]any)[0].(pintle.Object)["uid"] = "x" }),
		of("ConfigMap", "twice", asItIs), applied(t, wanted("kept")),
	)
	if err != nil {
		t.Fatal(err)
	}
	gone := func(kind pintle.Kind, name string) pintle.Mutation {
		return pintle.Delete(kind, "default", name).WithUID("uid-" + name).WithPropagation(pintle.Background)
	}
	expected := []pintle.Mutation{gone(configMap, "twice"), gone(secret, "b"), gone(secret, "z")}
	if !reflect.DeepEqual(p, &pintle.ChildrenPlan{Mutations: expected}) {
		t.Errorf("%+v", p)
	}
}

func TestMistakesInChildrenAreNamed(t *testing.T) {
	elsewhere := wanted("a")
	metadata(elsewhere)["namespace"] = "other"
	for expected, mistaken := range map[string]*pintle.Children{
		"children: a v1/ConfigMap has no metadata.name":                                   children().Want(pintle.Object{"apiVersion": "v1", "kind": "ConfigMap"}),
		"children: v1/ConfigMap other/a is in another namespace than its owner":           children().Want(elsewhere),
		"children: v1/ConfigMap default/a is wanted twice":                                children().Want(wanted("a"), wanted("a")),
		"children: v1/Pod default/p is of a kind that is not owned: call Own":             children().Want(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}`),
		"hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1":               children().Want(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p"}, "data": 0.5}`),
		"children: a map[string]interface {} has no apiVersion or kind: set its TypeMeta": children().Want(pintle.Object{"metadata": pintle.Object{"name": "p"}}),
	} {
		if p, err := plan(t, mistaken); err == nil || err.Error() != expected {
			t.Errorf("got %v (%+v), expected %s", err, p, expected)
		}
	}
}

func TestFinalizersOfOthersStay(t *testing.T) {
	with := func(finalizers ...string) pintle.Object {
		return pintle.Object{"metadata": pintle.Object{"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "7", "finalizers": finalizers}}
	}
	check := func(mutation pintle.Mutation, finalizers ...string) {
		t.Helper()
		if finalizers == nil {
			finalizers = []string{}
		}
		equalJSON(t, mutation.Body, pintle.Object{"metadata": pintle.Object{"finalizers": finalizers}})
		if mutation.Name != "w" || mutation.Namespace != "default" || mutation.UID != "u" || mutation.ResourceVersion != "7" || mutation.Patch != pintle.MergePatch {
			t.Errorf("%+v", mutation)
		}
	}
	check(pintle.AddFinalizer(widget, with("a"), "b"), "a", "b")
	check(pintle.AddFinalizer(widget, with("b", "a"), "b"), "b", "a")
	check(pintle.AddFinalizer(widget, with(), "b"), "b")
	check(pintle.RemoveFinalizer(widget, with("a", "b", "c"), "b"), "a", "c")
	check(pintle.RemoveFinalizer(widget, with("b"), "b"))
	if pintle.HasFinalizer(with("a"), "b") || !pintle.HasFinalizer(with("a", "b"), "b") {
		t.Error("HasFinalizer")
	}
}

func TestAStatusIsWrittenOnlyIfItDiffers(t *testing.T) {
	body := func(current, wanted string) string {
		t.Helper()
		object := json.RawMessage(`{"metadata": {"name": "w", "resourceVersion": "7"}, "status": ` + current + `}`)
		mutations := pintle.PatchStatus(widget, object, json.RawMessage(wanted))
		if len(mutations) == 0 {
			return ""
		}
		m := mutations[0]
		if m.Subresource != "status" || m.Patch != pintle.MergePatch || m.ResourceVersion != "7" || m.UID != "" || m.Name != "w" {
			t.Errorf("%+v", m)
		}
		return string(m.Body)
	}
	for _, one := range []struct{ current, wanted, expected string }{
		{`{"a": [1], "b": {"c": null}}`, `{"b": {}, "a": [1]}`, ""},
		{`[1, 2]`, `[2, 1]`, `{"status":[2,1]}`},
		{`[null]`, `[]`, `{"status":[]}`},
		{`{"a": 1, "b": {"c": 1, "d": 2}, "e": {"f": 1}}`, `{"a": 1, "b": {"c": 2}, "g": [{}]}`, `{"status":{"a":1,"b":{"c":2,"d":null},"e":null,"g":[{}]}}`},
		{`null`, `{"a": 1, "b": null}`, `{"status":{"a":1}}`},
	} {
		if got := body(one.current, one.wanted); got != one.expected {
			t.Errorf("%s -> %s: got %s, expected %s", one.current, one.wanted, got, one.expected)
		}
	}
}

func TestATransitionIsAChangeOfTheStatusAlone(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 999_999_000, time.UTC) }
	own := pintle.SetCondition(nil, pintle.Condition{Type: "A", Status: "False", Reason: "x"}, at(1))
	own = pintle.SetCondition(own, pintle.Condition{Type: "B", Status: "True", Reason: "y"}, at(2))
	first := own
	own = pintle.SetCondition(own, pintle.Condition{Type: "A", Status: "False", Reason: "z"}, at(3))
	own = pintle.SetCondition(own, pintle.Condition{Type: "B", Status: "False", Reason: "y", LastTransitionTime: at(50)}, at(4))
	expected := `[{"type":"A","status":"False","lastTransitionTime":"2026-01-01T00:00:01Z","reason":"z","message":""},` +
		`{"type":"B","status":"False","lastTransitionTime":"2026-01-01T00:00:04Z","reason":"y","message":""}]`
	if text, _ := json.Marshal(own); string(text) != expected {
		t.Errorf("%s", text)
	}
	if first[0].Reason != "x" {
		t.Error("the old conditions were changed")
	}
	if pintle.IsTrue(own, "B") || !pintle.IsTrue(first, "B") || pintle.FindCondition(own, "C") != nil || pintle.FindCondition(own, "A").Reason != "z" {
		t.Error("FindCondition or IsTrue")
	}

	upstream := pintle.SetCondition(nil, metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "x"}, at(1))
	upstream = pintle.SetCondition(upstream, metav1.Condition{Type: "B", Status: metav1.ConditionTrue, Reason: "y"}, at(2))
	upstream = pintle.SetCondition(upstream, metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "z"}, at(3))
	upstream = pintle.SetCondition(upstream, metav1.Condition{Type: "B", Status: metav1.ConditionFalse, Reason: "y"}, at(4))
	if text, _ := json.Marshal(upstream); !strings.Contains(string(text), `"lastTransitionTime":"2026-01-01T00:00:04Z"`) || !strings.Contains(string(text), `"2026-01-01T00:00:01Z","reason":"z"`) {
		t.Errorf("%s", text)
	}

	timeless := []pintle.Condition{{Type: "A", Status: "True"}}
	if again := pintle.SetCondition(timeless, timeless[0], at(5)); !again[0].LastTransitionTime.Equal(at(5).Truncate(time.Second)) {
		t.Errorf("%v", again)
	}
}

func TestTheEarliestRequeueCountsAndEmptyStepsAreLeftOut(t *testing.T) {
	outcome := new(pintle.Outcome).Requeue(time.Minute).Requeue(time.Hour).Requeue(time.Second).Then(pintle.Parallel()).Always(pintle.Sequential())
	if outcome.RequeueAfter != time.Second || len(outcome.Steps) != 0 {
		t.Errorf("%+v", outcome)
	}
	if soon := new(pintle.Outcome).Requeue(0); soon.RequeueAfter != time.Millisecond {
		t.Errorf("%+v", soon)
	}
}

func TestANumberOrATextIsWrittenAsItWasRead(t *testing.T) {
	for _, text := range []string{`8589934592`, `-1`, `"http"`, `""`} {
		var value pintle.IntOrString
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if written, err := json.Marshal(value); err != nil || string(written) != text {
			t.Errorf("%s became %s (%v)", text, written, err)
		}
	}
	for _, text := range []string{`true`, `1.5`, `{}`} {
		if err := json.Unmarshal([]byte(text), new(pintle.IntOrString)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	if (pintle.FromInt(3) == pintle.FromString("3")) || pintle.FromString("a").String != "a" {
		t.Error("a number is not a text")
	}
}
