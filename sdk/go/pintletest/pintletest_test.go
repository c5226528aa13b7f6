package pintletest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	pintle "pintle.dev/sdk"
)

const manifestOfAll = `
name: all
watches:
  - kind: v1/Pod
    namespace: default
    labelSelector: app
    fields: [metadata.labels, metadata.ownerReferences, "metadata.annotations['a.b/c']", spec.containers.name]
    indexes: [{name: node, field: spec.nodeName}, {name: port, field: spec.containers.ports.containerPort}]
    enqueue: [{to: self, on: [add]}]
  - {kind: v1/ConfigMap, whole: true}
  - {kind: v1/Service, selects: {field: spec.selector, form: map}}
  - {kind: apps/v1/ReplicaSet, selects: {field: spec.selector, form: labelSelector}}
  - {kind: policy/v1/PodDisruptionBudget, selects: {field: spec.selector, form: labelSelector, empty: everything}}
queues: [{name: first}, {name: second}]
config:
  size: {type: integer, default: 3}
  name: {type: string, default: a}
discovery: true
`

const inputOfAll = `
key: {kind: v1/Pod, namespace: default, name: a}
define:
  pod: &pod
    apiVersion: v1
    kind: Pod
    metadata: {name: a, namespace: default, labels: {app: web, tier: x}, annotations: {a.b/c: "1", other: "2"}}
    spec: {nodeName: n1, containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}
objects:
  - {<<: *pod, metadata: {name: b, namespace: default, labels: {app: api}, creationTimestamp: 2025-12-31T00:00:00Z,
      ownerReferences: [{apiVersion: v1, kind: Owner, name: o, uid: u, controller: true}]}}
  - *pod
  - {<<: *pod, metadata: {name: unlabelled, namespace: default}}
  - {<<: *pod, metadata: {name: elsewhere, namespace: other, labels: {app: web}}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {y: "1", t: 2026-01-01T00:00:00.500000Z}}
  - {apiVersion: v1, kind: Service, metadata: {name: s, namespace: default}, spec: {selector: {app: web}}}
  - {apiVersion: v1, kind: Service, metadata: {name: empty, namespace: default}, spec: {selector: {}}}
  - {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: default}, spec: {selector: {matchExpressions: [{key: app, operator: In, values: [web]}]}}}
  - {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r-empty, namespace: default}, spec: {selector: {}}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all, namespace: default}, spec: {selector: {}}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: none, namespace: default}, spec: {}}
  - {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: other, namespace: default}, spec: {selector: {matchLabels: {app: api}}}}
uptime: 12.5
live:
  - {apiVersion: v1, kind: Pod, metadata: {name: live, namespace: default, labels: {app: web}}, spec: {nodeName: n1, priority: 5, containers: [{name: c, image: i}]}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: a}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, uid: b}}
subresources:
  - {kind: apps/v1/Deployment, namespace: default, name: web, subresource: scale, answer: {spec: {replicas: 3}}}
reviews:
  - {kind: authorization.k8s.io/v1/SubjectAccessReview, spec: {user: ann, n: 1}, status: {allowed: true}}
  - {kind: authorization.k8s.io/v1/LocalSubjectAccessReview, namespace: default, status: {allowed: false}}
signatures:
  - {by: tokens, claims: {sub: ann, aud: {a: 1}}, answer: for.ann.x}
  - {by: ca, error: {code: 0, reason: Expired, message: the authority has expired}}
calls:
  - {endpoint: desk, operation: look-up, body: {name: ann}, answer: {place: third floor}}
  - {endpoint: desk, operation: look-up, error: {code: 404, reason: NotFound, message: nobody}}
raw: {/apis/x: {a: 1}}
discovery: {resources: [], failed: [x/v1]}
resources: [{kind: v1/Pod, plural: pods, namespaced: true, verbs: [list]}]
config: {name: b}
state: {kept: value}
attempt: 2
failures: [{verb: create, kind: v1/Pod, object: {namespace: default, name: x}, code: 409, reason: AlreadyExists, message: m}]
`

var (
	pods       = pintle.MustKind("v1/Pod")
	configMaps = pintle.MustKind("v1/ConfigMap")
)

func TestADurationIsInMilliseconds(t *testing.T) {
	manifest := strings.Replace(manifestOfAll, "config:\n", "config:\n  every: {type: duration, default: 1h30m}\n", 1)
	parse := func(given string) (*Fixture, error) {
		return Parse([]byte(manifest), fmt.Appendf(nil, "key: {kind: v1/Pod, name: a}\nconfig: %s", given))
	}
	for given, expected := range map[string]string{
		"{}": "5400000", "{every: 1.5s20ms}": "1520", "{every: 1µs}": "1", "{every: \"0\"}": "0",
	} {
		f, err := parse(given)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(f.Lister.ConfigJSON()); text != `{"every":`+expected+`,"name":"a","size":3}` {
			t.Errorf("%s: %s", given, text)
		}
	}
	for _, wrong := range []string{"", "soon", "1", "s", "1s!", "1.2.3s"} {
		if _, err := parse(fmt.Sprintf("{every: %q}", wrong)); err == nil || !strings.Contains(err.Error(), "config: every: ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func fixture(t *testing.T) *Fixture {
	t.Helper()
	f, err := Parse([]byte(manifestOfAll), []byte(inputOfAll))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func names(texts []json.RawMessage) string {
	var names []string
	for _, text := range texts {
		var object struct{ Metadata pintle.ObjectMeta }
		if err := json.Unmarshal(text, &object); err != nil {
			return err.Error()
		}
		names = append(names, object.Metadata.Name)
	}
	return strings.Join(names, " ")
}

func TestTheListerGivesWhatTheHostWouldGive(t *testing.T) {
	f := fixture(t)
	l := f.Lister
	if f.Key != (pintle.Key{Queue: "first", Kind: pods, Namespace: "default", Name: "a"}) {
		t.Errorf("%+v", f.Key)
	}
	projected := `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a.b/c":"1"},"labels":{"app":"web","tier":"x"},"name":"a",` +
		`"namespace":"default","resourceVersion":"1","uid":"uid-a"},"spec":{"containers":[{"name":"c"}]}}`
	if text := l.GetJSON(pods, "default", "a"); string(text) != projected {
		t.Errorf("%s", text)
	}
	for expected, got := range map[string]string{
		"a b":         names(l.ListJSON(pods, pintle.Query{})),
		"b":           names(l.ListJSON(pods, pintle.Query{LabelSelector: "app in (api)"})),
		"b ":          names(l.ListJSON(pods, pintle.Query{Owner: pintle.Controller("u")})) + " ",
		" b":          " " + names(l.ListJSON(pods, pintle.Query{Owner: pintle.AnyOwner("u")})),
		"a":           names(l.ListJSON(pods, pintle.Query{Owner: pintle.ControllerOrOrphan("x")})),
		"a b ":        names(l.ListJSON(pods, pintle.Query{Index: pintle.Index{Name: "node", Value: "n1"}})) + " ",
		" a b":        " " + names(l.ListJSON(pods, pintle.Query{Index: pintle.Index{Name: "port", Value: "80"}})),
		"":            names(l.ListJSON(pods, pintle.Query{Namespace: "other"})),
		"s":           names(l.SelectingJSON(pintle.MustKind("v1/Service"), "default", map[string]string{"app": "web"})),
		"r":           names(l.SelectingJSON(pintle.MustKind("apps/v1/ReplicaSet"), "default", map[string]string{"app": "web"})),
		"all":         names(l.SelectingJSON(pintle.MustKind("policy/v1/PodDisruptionBudget"), "default", map[string]string{"app": "web"})),
		"dependent b": "dependent " + names(l.DependentsJSON("u")),
		"m":           names([]json.RawMessage{l.ByUIDJSON("uid-m")}),
	} {
		if got != expected {
			t.Errorf("got %q, expected %q", got, expected)
		}
	}
	if l.GetJSON(pods, "other", "elsewhere") != nil || l.GetJSON(pods, "default", "unlabelled") != nil || l.Count(pods, pintle.Query{}) != 2 {
		t.Error("objects that the watch leaves out are there")
	}
	if text := l.GetJSON(configMaps, "", "m"); !strings.Contains(string(text), `"data":{"t":"2026-01-01T00:00:00.500000Z","y":"1"}`) {
		t.Errorf("%s", text)
	}
	if string(l.ConfigJSON()) != `{"name":"b","size":3}` || l.Attempt() != 2 || l.Failures()[0].Kind != pods || len(l.Resources()) != 1 {
		t.Errorf("%s %d %+v", l.ConfigJSON(), l.Attempt(), l.Failures())
	}
	if l.Uptime() != 12500*time.Millisecond {
		t.Error(l.Uptime())
	}
	if value, kept := l.State("kept"); value != "value" || !kept || !l.Now().Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Error(value, l.Now())
	}
}

func TestWhatTheHostWouldNotGiveIsAFault(t *testing.T) {
	l := fixture(t).Lister
	for expected, read := range map[string]func(){
		"fault: the manifest does not watch v1/Secret":            func() { l.GetJSON(pintle.MustKind("v1/Secret"), "", "a") },
		"fault: the watch of v1/Pod does not declare whole":       func() { l.ListJSON(pods, pintle.Query{Whole: true}) },
		`fault: the watch of v1/Pod declares no index "x"`:        func() { l.Count(pods, pintle.Query{Index: pintle.Index{Name: "x", Value: "1"}}) },
		"fault: the watch of v1/Pod does not declare selects":     func() { l.SelectingJSON(pods, "default", nil) },
		`fault: label selector "a in b" does not parse`:           func() { l.ListJSON(pods, pintle.Query{LabelSelector: "a in b"}) },
		"fault: the plugin still asks for reads after 8 rounds: ": func() { fixture(t).Run(askForEver) },
		"fault: 300 needs in one round, more than 256":            func() { fixture(t).Run(askForMuch) },
		"fault: the plugin wrote bad JSON: ":                      func() { mustParse(json.RawMessage("{")) },
	} {
		func() {
			defer func() {
				if recovered := fmt.Sprint(recover()); !strings.HasPrefix(recovered, expected) {
					t.Errorf("got %s, expected %s", recovered, expected)
				}
			}()
			read()
		}()
	}
}

func askForEver(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
	for i := 0; ; i++ {
		if _, err := pintle.Ask(l, pintle.NeedPath(fmt.Sprint(i))); err != nil {
			if refusal, ok := err.(*pintle.APIError); !ok || refusal.Code != 404 {
				return nil, err
			}
		}
	}
}

func askForMuch(pintle.Key, pintle.Lister) (*pintle.Outcome, error) {
	return &pintle.Outcome{Needs: make([]pintle.Need, 300)}, nil
}

func TestResourcesOfAKindAreThoseOfAllItsVersions(t *testing.T) {
	const inputOfResources = `
key: {kind: v1/Pod, name: a}
resources:
  - {kind: apps/v1/Deployment, plural: deployments, preferred: true}
  - {kind: apps/v1/ReplicaSet, plural: replicasets, preferred: true}
  - {kind: apps/v1beta1/Deployment, plural: deployments}
  - {kind: extensions/v1beta1/Deployment, plural: deployments}
  - {kind: v1/Pod, plural: pods, preferred: true}
discovery: {resources: [{kind: apps/v2/Deployment, plural: deployments}]}
`
	of := func(manifest string, reconcile pintle.ReconcileFunc) []pintle.Need {
		t.Helper()
		f, err := Parse([]byte(manifest), []byte(inputOfResources))
		if err != nil {
			t.Fatal(err)
		}
		result, asked := f.Run(reconcile)
		if result.Err != nil {
			t.Error(result.Err)
		}
		return asked
	}
	kinds := func(l pintle.Lister, group, kind string) string {
		var kinds []string
		for _, resource := range l.ResourcesOf(group, kind) {
			kinds = append(kinds, fmt.Sprintf("%s %s %t", resource.Kind, resource.Plural, resource.Preferred))
		}
		return strings.Join(kinds, ", ")
	}
	asked := of(manifestOfAll, func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
		deployments := "apps/v1/Deployment deployments true, apps/v1beta1/Deployment deployments false"
		_, err := pintle.Ask(l, pintle.NeedDiscovery())
		if err == nil {
			deployments = "apps/v2/Deployment deployments false"
		} else if got := kinds(l, "", "Pod"); got != "v1/Pod pods true" {
			t.Error(got)
		}
		if got := kinds(l, "apps", "Deployment"); got != deployments {
			t.Errorf("got %s, expected %s", got, deployments)
		}
		for _, one := range [][2]string{{"", "Deployment"}, {"apps/v1", "Deployment"}, {"batch", "Deployment"}, {"apps", "deployments"}, {"apps", ""}} {
			if got := l.ResourcesOf(one[0], one[1]); len(got) != 0 {
				t.Errorf("%q: %+v", one, got)
			}
		}
		return nil, err
	})
	if len(asked) != 1 {
		t.Error(asked)
	}
	defer func() {
		if recovered := fmt.Sprint(recover()); recovered != "fault: the manifest does not declare discovery: true" {
			t.Error(recovered)
		}
	}()
	of("queues: [{name: first}]", func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
		l.ResourcesOf("apps", "Deployment")
		return nil, nil
	})
}

func TestNeedsAreAnsweredUntilThereAreNoMore(t *testing.T) {
	result, asked := fixture(t).Run(func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
		live, err := pintle.Live[pintle.Object](l, pods, "default", "live")
		if err != nil || live == nil {
			return nil, err
		}
		gone, err := pintle.Live[pintle.Object](l, pods, "default", "a")
		if err != nil || gone != nil {
			return nil, err
		}
		list, err := pintle.Ask(l, pintle.NeedList(pods, "default", "app=web", 5))
		if err != nil {
			return nil, err
		}
		path, err := pintle.Ask(l, pintle.NeedPath("/apis/x"))
		if err != nil {
			return nil, err
		}
		discovery, err := pintle.Ask(l, pintle.NeedDiscovery())
		if err != nil {
			return nil, err
		}
		return new(pintle.Outcome).Keep("list", names(mustList(list))).Keep("path", string(path)).Keep("discovery", fmt.Sprint(string(discovery), len(l.Resources()))), nil
	})
	shown := fmt.Sprint(shown(result, asked, nil))
	for _, part := range []string{
		`asked:[get v1/Pod default/live get v1/Pod default/a list v1/Pod in "default" with "app=web", at most 5 get /apis/x discover]`,
		`state:map[discovery:["x/v1"]0 list:live path:{"a":1}]`,
	} {
		if !strings.Contains(shown, part) {
			t.Errorf("%s is not in %s", part, shown)
		}
	}
}

func TestNeedsAreShownAndAnsweredAsTheHostWould(t *testing.T) {
	deployments := pintle.MustKind("apps/v1/Deployment")
	review := pintle.MustKind("authorization.k8s.io/v1/SubjectAccessReview")
	local := pintle.MustKind("authorization.k8s.io/v1/LocalSubjectAccessReview")
	certificate := pintle.CertificateRequest{Authority: "ca", Request: "PEM", Usages: []string{"client auth"}, NotBefore: "a", NotAfter: "b"}
	list := pintle.NeedList(pods, "default", "", 5)
	for _, one := range []struct {
		need   pintle.Need
		shown  string
		answer string
	}{
		{pintle.NeedObject(deployments, "default", "web").WithSubresource("scale"), `"get apps/v1/Deployment/scale default/web"`, `{"spec":{"replicas":3}}`},
		{pintle.NeedObject(deployments, "default", "web").WithSubresource("status"), `"get apps/v1/Deployment/status default/web"`,
			"404 NotFound apps/v1/Deployment/status default/web; a case has it in `subresources` not found"},
		{pintle.NeedObject(deployments, "other", "web").WithSubresource("scale"), `"get apps/v1/Deployment/scale other/web"`,
			"404 NotFound apps/v1/Deployment/scale other/web; a case has it in `subresources` not found"},
		{list.WithFields("spec.nodeName=n1,spec.priority=5,spec.nodeName!=x"),
			`"list v1/Pod in \"default\" with \"\" and fields \"spec.nodeName=n1,spec.priority=5,spec.nodeName!=x\", at most 5"`,
			`[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"live","namespace":"default","resourceVersion":"1","uid":"uid-live"}}]`},
		{list.WithFields("spec.nodeName=n2"), `"list v1/Pod in \"default\" with \"\" and fields \"spec.nodeName=n2\", at most 5"`, `[]`},
		{list.WithFields("spec.none="), `"list v1/Pod in \"default\" with \"\" and fields \"spec.none=\", at most 5"`,
			`[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"live","namespace":"default","resourceVersion":"1","uid":"uid-live"}}]`},
		{list.WithFields("nothing"), `"list v1/Pod in \"default\" with \"\" and fields \"nothing\", at most 5"`,
			`400 BadRequest invalid selector: 'nothing'; can't understand 'nothing'`},
		{list.WithDetail(pintle.DetailProjection), `"list v1/Pod in \"default\" with \"\", at most 5, as projections"`,
			`[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"live","namespace":"default","resourceVersion":"1","uid":"uid-live"},"spec":{"containers":[{"name":"c"}]}}]`},
		{list.WithDetail(pintle.DetailWhole), `"list v1/Pod in \"default\" with \"\", at most 5, whole"`,
			`[{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"live","namespace":"default","resourceVersion":"1","uid":"uid-live"},"spec":{"containers":[{"image":"i","name":"c"}],"nodeName":"n1","priority":5}}]`},
		{pintle.NeedList(configMaps, "", "", 2), `"list v1/ConfigMap in \"\" with \"\", at most 2"`,
			`[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1","uid":"a"}},` +
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","resourceVersion":"1","uid":"b"}}]`},
		{pintle.NeedList(configMaps, "", "", 1), `"list v1/ConfigMap in \"\" with \"\", at most 1"`,
			`[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1","uid":"a"}}]`},
		{pintle.NeedReview(review, "", pintle.Object{"spec": pintle.Object{"user": "ann", "n": 1, "more": "x"}}),
			`{"object":{"spec":{"more":"x","n":1,"user":"ann"}},"review":"authorization.k8s.io/v1/SubjectAccessReview"}`,
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"more":"x","n":1,"user":"ann"},"status":{"allowed":true}}`},
		{pintle.NeedReview(review, "", `{"spec":{"user":"ann"}}`), `{"object":{"spec":{"user":"ann"}},"review":"authorization.k8s.io/v1/SubjectAccessReview"}`,
			"404 NotFound a verdict on authorization.k8s.io/v1/SubjectAccessReview {\"user\":\"ann\"}; a case has it in `reviews` not found"},
		{pintle.NeedReview(local, "default", `{}`), `{"object":{},"review":"authorization.k8s.io/v1/LocalSubjectAccessReview in default"}`,
			`{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","status":{"allowed":false}}`},
		{pintle.NeedReview(local, "default", `[]`), `{"object":[],"review":"authorization.k8s.io/v1/LocalSubjectAccessReview in default"}`,
			`400 BadRequest a review is an object, not []`},
		{pintle.NeedJWT("tokens", `{"sub": "ann", "aud": {"a": 1, "b": 2}}`), `{"claims":{"aud":{"a":1,"b":2},"sub":"ann"},"sign-jwt":"tokens"}`, `for.ann.x`},
		{pintle.NeedJWT("tokens", `{"sub": "ann", "aud": "a"}`), `{"claims":{"aud":"a","sub":"ann"},"sign-jwt":"tokens"}`,
			"404 NotFound a signature by tokens; a case has it in `signatures` not found"},
		{pintle.NeedCertificate(certificate), `{"notAfter":"b","notBefore":"a","request":"PEM","sign-certificate":"ca","usages":["client auth"]}`,
			`0 Expired the authority has expired`},
		{pintle.NeedCall("desk", "look-up", pintle.Object{"name": "ann"}).WithTimeout(1500 * time.Millisecond),
			`{"body":{"name":"ann"},"call":"desk/look-up","timeoutMs":1500}`, `{"place":"third floor"}`},
		{pintle.NeedCall("desk", "look-up", pintle.Object{"name": "bob"}), `{"body":{"name":"bob"},"call":"desk/look-up"}`, `404 NotFound nobody`},
		{pintle.NeedCall("desk", "forget", pintle.Object{"name": "ann"}), `{"body":{"name":"ann"},"call":"desk/forget"}`,
			"404 NotFound an answer to desk/forget {\"name\":\"ann\"}; a case has it in `calls` not found"},
	} {
		f := fixture(t)
		var answer string
		result, asked := f.Run(func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
			// A need with the same contents is the same need.
			if need := one.need; need.Certificate != nil {
				copied := *need.Certificate
				one.need.Certificate = &copied
			}
			body, err := pintle.Ask(l, one.need)
			if refusal, ok := err.(*pintle.APIError); ok {
				answer = fmt.Sprintf("%d %s %s", refusal.Code, refusal.Reason, refusal.Message)
			} else if err != nil {
				return nil, err
			}
			answer += string(body)
			return nil, nil
		})
		if result.Err != nil || len(asked) != 1 || answer != one.answer {
			t.Errorf("%+v: %v, %d asked, got\n%s, expected\n%s", one.need, result.Err, len(asked), answer, one.answer)
			continue
		}
		if got := text(shownNeed(asked[0])); got != one.shown {
			t.Errorf("got\n%s, expected\n%s", got, one.shown)
		}
	}
}

func TestLiveReadsHaveAShortWay(t *testing.T) {
	type scale struct{ Spec struct{ Replicas int } }
	deployments, reviews := pintle.MustKind("apps/v1/Deployment"), pintle.MustKind("authorization.k8s.io/v1/SubjectAccessReview")
	result, asked := fixture(t).Run(func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
		found, err := pintle.LiveSubresource[scale](l, deployments, "default", "web", "scale")
		if err != nil {
			return nil, err
		}
		gone, err := pintle.LiveSubresource[scale](l, deployments, "default", "gone", "scale")
		if err != nil {
			return nil, err
		}
		verdict, err := pintle.Review[struct{ Allowed bool }](l, reviews, "", pintle.Object{"spec": pintle.Object{"user": "ann", "n": 1}})
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%d %v %t", found.Spec.Replicas, gone, verdict.Allowed)
	})
	if result.Err.Error() != "3 <nil> true" || len(asked) != 3 {
		t.Error(result.Err, asked)
	}
	result, _ = fixture(t).Run(func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
		_, err := pintle.Review[struct{}](l, reviews, "", pintle.Object{"spec": pintle.Object{"user": "bob"}})
		return nil, err
	})
	if !strings.HasPrefix(result.Err.Error(), "ask for a SubjectAccessReview: a verdict on ") {
		t.Error(result.Err)
	}
}

func mustList(text json.RawMessage) (items []json.RawMessage) {
	if err := json.Unmarshal(text, &items); err != nil {
		panic(err)
	}
	return items
}

func TestEveryPartOfAnOutcomeIsShown(t *testing.T) {
	about := pintle.Object{"apiVersion": "v1", "kind": "Pod", "metadata": pintle.Object{"name": "a", "namespace": "default", "uid": "1"}}
	event := pintle.NewEvent(about, pintle.Warning, "Why", "what")
	run := func(pintle.Key, pintle.Lister) (*pintle.Outcome, error) {
		outcome := new(pintle.Outcome).
			Then(pintle.Sequential(
				pintle.Create(pods, "default", pintle.Object{"metadata": pintle.Object{"generateName": "a-"}}).WithEvent(event),
				pintle.Create(pods, "default", pintle.Object{"metadata": pintle.Object{"generateName": "a-"}}).WithEvent(event),
				pintle.Update(configMaps, `{"metadata": {"name": "m", "uid": "uid-m", "resourceVersion": "1"}, "data": {"y": "2", "z": "3"}}`),
				pintle.UpdateStatus(configMaps, `{"metadata": {"name": "new"}}`),
				pintle.Patch(pods, "default", "a", pintle.JSONPatch, `[]`).WithUID("1").WithResourceVersion("2").WithEventOnFailure(event),
				pintle.Apply(configMaps, "", "m", "me", true, `{}`),
			)).
			Then(pintle.SlowStart(
				pintle.Delete(pods, "default", "a").WithUID("1").WithPropagation(pintle.Foreground).WithGracePeriod(0),
				pintle.DeleteCollection(pods, "default", "a=b").WithPropagation(pintle.Orphan),
			)).
			Always(pintle.Parallel(pintle.Record(event).Tolerating(pintle.NotFound, pintle.Conflict))).
			Requeue(1500*time.Millisecond).Keep("a", "1").Forget("b").Observe("m", 0.5, "x", "y").
			Wake(pintle.Key{Queue: "second", Kind: pods, Namespace: "default", Name: "b"}).
			WakeAfter(pintle.Key{Queue: "first", Kind: pintle.MustKind("pintle/v1/Tick"), Name: "first"}, 90*time.Second).
			RunLabel("result", "ok").RunLabel("code", "200").Fail(fmt.Errorf("outer: %w", pintle.RetryAfter(250*time.Millisecond, "not yet")))
		place, _ := outcome.LastPlace()
		return outcome.ObserveAt(place.Done(), "n", 1).ObserveAt(pintle.Place{Step: 1, Position: 1}.Failed(), "n", 2, "z"), nil
	}
	expected := `
steps:
- order: sequential
  mutations:
  - {create: v1/Pod default, object: {metadata: {generateName: a-}}, onSuccess: 'Warning Why on v1/Pod default/a (1): what', times: 2}
  - {update: v1/ConfigMap m, changes: {apiVersion: null, kind: null, data: {t: null, y: "2", z: "3"}}}
  - {update: v1/ConfigMap/status new, object: {metadata: {name: new}}}
  - {patch: v1/Pod default/a, form: json, if: {uid: "1", resourceVersion: "2"}, body: [], onFailure: 'Warning Why on v1/Pod default/a (1): what'}
  - {patch: v1/ConfigMap m, form: 'apply by me, force: true', body: {}}
- order: slow-start
  mutations:
  - {delete: v1/Pod default/a, if: {uid: "1"}, propagation: foreground, gracePeriodSeconds: 0}
  - {deleteCollection: v1/Pod default, labelSelector: a=b, propagation: orphan}
- order: parallel
  always: true
  mutations:
  - {event: 'Warning Why on v1/Pod default/a (1): what', tolerate: [not-found, conflict]}
requeueAfter: 1.5s
state: {a: "1", b: null}
observations: ['m{x,y} 0.5', 'n{} 1 when steps[2].mutations[0] is done', 'n{z} 2 when steps[1].mutations[1] has failed']
wake: ['second: v1/Pod default/b', 'first: pintle/v1/Tick first after 90s']
runLabels: {code: "200", result: ok}
error: {retry: 'outer: not yet', after: 250ms}
`
	differences := check([]byte(manifestOfAll), []byte(inputOfAll), []byte(expected), run)
	if differences != nil {
		t.Errorf("%q", differences)
	}
}

func TestErrorsAreShown(t *testing.T) {
	for expected, err := range map[string]error{
		`{retry: no}`:               fmt.Errorf("no"),
		`{retry: no, after: 1m30s}`: pintle.RetryAfter(90*time.Second, "no"),
		`{terminal: never}`:         pintle.Terminal("never"),
	} {
		expected = strings.Replace(expected, "1m30s", "90s", 1)
		returned := func(pintle.Key, pintle.Lister) (*pintle.Outcome, error) { return nil, err }
		declared := func(pintle.Key, pintle.Lister) (*pintle.Outcome, error) { return new(pintle.Outcome).Fail(err), nil }
		for expected, run := range map[string]pintle.ReconcileFunc{expected: returned, "{steps: [], error: " + expected + "}": declared} {
			if differences := check([]byte(manifestOfAll), []byte(inputOfAll), []byte(expected), run); differences != nil {
				t.Errorf("%q", differences)
			}
		}
	}
}

func TestDifferencesAreToldByTheirPlace(t *testing.T) {
	run := func(pintle.Key, pintle.Lister) (*pintle.Outcome, error) { return nil, fmt.Errorf("no") }
	for expected, one := range map[string]string{
		`retry: expected "yes", got "no"`:              `{retry: yes_}`,
		`.steps: missing, expected []`:                 `{retry: no_, steps: []}`,
		`.retry: not expected: "no"`:                   `{}`,
		`fault: the manifest does not watch v1/Secret`: ``,
	} {
		one = strings.NewReplacer("yes_", `"yes"`, "no_", `"no"`).Replace(one)
		reconcile := run
		if one == "" {
			reconcile = func(_ pintle.Key, l pintle.Lister) (*pintle.Outcome, error) {
				l.GetJSON(pintle.MustKind("v1/Secret"), "", "a")
				return nil, nil
			}
		}
		if differences := check([]byte(manifestOfAll), []byte(inputOfAll), []byte(one), reconcile); len(differences) != 1 || differences[0] != expected {
			t.Errorf("got %q, expected %q", differences, expected)
		}
	}
}

func TestUnknownFieldsOfAnInputAreMistakes(t *testing.T) {
	for _, input := range []string{"key: {kind: v1/Pod, name: a}\nobject: []", "key: {kind: Pod, name: a}", "key: {name: a}", "key: {kind: v1/Pod, name: a}\nobjects: [{}]",
		"key: {kind: v1/Pod, name: a}\nuptime: -1", "key: {kind: v1/Pod, name: a}\nuptime: 1e300", "key: {kind: v1/Pod, name: a}\nreviews: [{kind: v1/Pod, specs: {}}]"} {
		if _, err := Parse([]byte(manifestOfAll), []byte(input)); err == nil {
			t.Errorf("%q is taken", input)
		}
	}
}

func TestDurationsAreShownAsTheHostShowsThem(t *testing.T) {
	for expected, duration := range map[string]time.Duration{
		"1.5s": 1500 * time.Millisecond, "90s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1.000001s": time.Second + time.Microsecond,
		"2.5µs": 2500, "7ns": 7, "3600s": time.Hour,
	} {
		if got := shownDuration(duration); got != expected {
			t.Errorf("got %s, expected %s", got, expected)
		}
	}
}
