package pintle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// vectors are what all SDKs must agree on.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	text, err := os.ReadFile("../vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("%s has only %d entries", name, len(all))
	}
	return all
}

func TestCanonicalTextsAndHashesAreThoseOfEveryLanguage(t *testing.T) {
	type vector struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
		Text  string          `json:"text"`
		Hash  string          `json:"hash"`
	}
	for _, vector := range vectors[vector](t, "hash.json") {
		text, err := canonical(vector.Value)
		if err != nil || string(text) != vector.Text {
			t.Errorf("%s: %v, got %s, expected %s", vector.Name, err, text, vector.Text)
		}
		if hash, err := Hash(vector.Value); err != nil || hash != vector.Hash {
			t.Errorf("%s: %v, got %s, expected %s", vector.Name, err, hash, vector.Hash)
		}
	}
}

func TestNumbersThatLanguagesWriteDifferentlyAreErrors(t *testing.T) {
	for _, number := range []string{"0.5", "1e300", "9007199254740992", "18446744073709551615", "-9007199254740992", "1e400"} {
		_, err := Hash(json.RawMessage(`{"a": [` + number + `]}`))
		if terminal := (*TerminalError)(nil); !errors.As(err, &terminal) {
			t.Errorf("%s: %v", number, err)
		}
	}
	text, err := canonical(json.RawMessage("[2.0, -0.0, 1e3, -9007199254740991]"))
	if err != nil || string(text) != "[2,0,1000,-9007199254740991]" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestCoveringIsThatOfEveryLanguage(t *testing.T) {
	type vector struct {
		Name             string
		Existing, Wanted json.RawMessage
		Covers           bool
	}
	for _, vector := range vectors[vector](t, "covers.json") {
		existing, _ := parseTree(vector.Existing)
		wanted, _ := parseTree(vector.Wanted)
		if covers(existing, wanted) != vector.Covers {
			t.Errorf("%s: expected %t", vector.Name, vector.Covers)
		}
	}
}

func TestZeroStructsOfTypedObjectsAreLeftOut(t *testing.T) {
	replicas := int32(2)
	typed := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "web", Image: "web:1",
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}},
					}},
					Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
	wanted := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2,` +
		`"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":` +
		`[{"image":"web:1","name":"web","readinessProbe":{"tcpSocket":{"port":80}}}],"volumes":[{"emptyDir":{},"name":"tmp"}]}}}}`
	for _, object := range []any{typed, *typed, map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": typed.ObjectMeta, "spec": typed.Spec}} {
		if body := bodyOf(object); string(body) != wanted {
			t.Errorf("%T:\n%s\nexpected\n%s", object, body, wanted)
		}
	}
}

func TestHeadersAreReadFromObjectsOfEveryType(t *testing.T) {
	yes := true
	reference := metav1.OwnerReference{APIVersion: "v1", Kind: "Owner", Name: "o", UID: "u", Controller: &yes}
	meta := metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "1", OwnerReferences: []metav1.OwnerReference{reference}, Finalizers: []string{"f"}}
	tree := map[string]any{
		"apiVersion": "v1", "kind": "Pod", "other": make(chan int),
		"metadata": map[string]any{"name": "a", "namespace": "n", "uid": "1", "finalizers": []string{"f"},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "u", "controller": true}}},
	}
	type embedded struct {
		TypeMeta
		Metadata ObjectMeta `json:"metadata"`
		Status   chan int   `json:"status"`
	}
	delete(tree, "missing")
	objects := []any{
		tree, &tree,
		&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta},
		embedded{TypeMeta{"v1", "Pod"}, ObjectMeta{
			Name: "a", Namespace: "n", UID: "1", Finalizers: []string{"f"},
			OwnerReferences: []OwnerReference{{APIVersion: "v1", Kind: "Owner", Name: "o", UID: "u", Controller: &yes}},
		}, nil},
		json.RawMessage(bodyOf(&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta})),
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": tree["metadata"]}},
	}
	for _, object := range objects {
		h := headerOf(object)
		if got := fmt.Sprint(h.kind(), h.Metadata.Namespace, h.Metadata.Name, h.Metadata.UID); got != fmt.Sprint("v1/Pod", "n", "a", "1") {
			t.Errorf("%T: %s", object, got)
		}
		if !IsControlledBy(object, meta.OwnerReferences[0].UID) || IsControlledBy(object, "x") || !HasFinalizer(object, "f") || IsDeleting(object) {
			t.Errorf("%T: owner or finalizer is wrong: %+v", object, h.Metadata)
		}
	}
}

func TestNeedsOfJoinedAndWrappedErrorsAreAskedTogether(t *testing.T) {
	a, b := NeedPath("/a"), NeedPath("/b")
	err := fmt.Errorf("outer: %w", errors.Join(&NeedsError{[]Need{a}}, fmt.Errorf("inner: %w", &NeedsError{[]Need{b}})))
	result := Conclude(nil, err)
	if result.Err != nil || len(result.Outcome.Needs) != 2 || result.Outcome.Needs[0] != a || result.Outcome.Needs[1] != b {
		t.Errorf("%+v", result)
	}
	many := Conclude(nil, &NeedsError{make([]Need, 300)})
	if n := len(many.Outcome.Needs); n != 256 {
		t.Errorf("%d needs", n)
	}
}

func TestErrorsAreRetriedUnlessTheyWrapATerminalOne(t *testing.T) {
	plain := Conclude(nil, errors.New("plain")).Err.(*RetryError)
	if plain.Error() != "plain" || plain.After != 0 {
		t.Errorf("%+v", plain)
	}
	later := Conclude(nil, fmt.Errorf("outer: %w", RetryAfter(time.Minute, "soon"))).Err.(*RetryError)
	if later.Error() != "outer: soon" || later.After != time.Minute {
		t.Errorf("%+v", later)
	}
	terminal := Conclude(nil, fmt.Errorf("outer: %w", Terminal("never"))).Err.(*TerminalError)
	if terminal.Error() != "outer: never" {
		t.Errorf("%+v", terminal)
	}
	if result := Conclude(nil, nil); result.Err != nil || result.Outcome == nil {
		t.Errorf("%+v", result)
	}
}

func TestAPanicIsToldWithTypeMessagePlaceAndKey(t *testing.T) {
	told := func(run func()) (message string) {
		defer func() { message = panicMessage(recover(), "key v1/Pod a/b") }()
		run()
		return ""
	}
	// Functions of this package are passed over, so the place is that of the caller: the testing package here.
	for _, message := range []string{
		told(func() { panic("no data") }),
		told(func() { var m map[string]int; m["a"] = 1 }),
		told(func() { var p *ObjectMeta; _ = p.Name }),
	} {
		if !strings.HasPrefix(message, "panic: ") || !strings.HasSuffix(message, "(key v1/Pod a/b)") || !strings.Contains(message, "testing.go:") {
			t.Error(message)
		}
	}
	if message := told(func() { var p *ObjectMeta; _ = p.Name }); !strings.Contains(message, "runtime.errorString") && !strings.Contains(message, "nil pointer") {
		t.Error(message)
	}
}

func TestKindsHaveATextForm(t *testing.T) {
	for text, kind := range map[string]Kind{"v1/Pod": {"", "v1", "Pod"}, "apps/v1/Deployment": {"apps", "v1", "Deployment"}} {
		parsed, err := ParseKind(text)
		if err != nil || parsed != kind || kind.String() != text {
			t.Errorf("%s: %v, %v", text, parsed, err)
		}
	}
	for _, text := range []string{"", "Pod", "/Pod", "v1/", "a/b/c/d"} {
		if kind, err := ParseKind(text); err == nil {
			t.Errorf("%q: %v", text, kind)
		}
	}
}

func TestIntegersOfUntypedObjectsStayExact(t *testing.T) {
	object, err := decode[Object](Kind{}, json.RawMessage(`{"a": 9007199254740993, "b": [1, 0.5]}`))
	if err != nil || (*object)["a"] != int64(9007199254740993) || fmt.Sprint((*object)["b"]) != "[1 0.5]" {
		t.Errorf("%v, %v", object, err)
	}
	if _, err := decode[Object](MustKind("v1/Pod"), json.RawMessage("[]")); err == nil {
		t.Error("a list is no object")
	}
	_, err = decode[corev1.Pod](Kind{}, json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"},"spec":5}`))
	if err == nil || !strings.HasPrefix(err.Error(), "decode v1/Pod n/a: ") {
		t.Error(err)
	}
}
