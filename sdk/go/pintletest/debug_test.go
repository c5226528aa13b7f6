package pintletest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	pintle "pintle.dev/sdk"
	"pintle.dev/sdk/pintletest"
)

// recorded is written by a test of the host: it has each read once.
const recorded = "../../vectors/debug.json"

func TestEachReadHasTheRecordedAnswer(t *testing.T) {
	pods, services := pintle.MustKind("v1/Pod"), pintle.MustKind("v1/Service")
	request := pintle.CertificateRequest{
		Authority: "authority", Request: "PEM", Usages: []string{"client auth"},
		NotBefore: "2026-01-01T00:00:00Z", NotAfter: "2026-01-02T00:00:00Z",
	}
	list := pintle.NeedList(pods, "default", "app=web", 5).WithFields("spec.nodeName=n1").WithDetail(pintle.DetailProjection)
	var read []string
	note := func(values ...any) { read = append(read, strings.TrimSpace(fmt.Sprintln(values...))) }
	result := pintletest.Debug(recorded, func(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
		seen, kept := lister.State("seen")
		note(key.Queue, key.Kind, key.Namespace, key.Name, lister.Now().Year(), lister.Uptime(), lister.Attempt(), seen, kept)
		failure := lister.Failures()[0]
		note(failure.Verb, failure.Kind, failure.Object.Name, failure.Subresource, failure.Code, failure.Reason)
		pod, err := pintle.Get[struct{ Spec struct{ NodeName string } }](lister, pods, "default", "web")
		note(pod.Spec.NodeName, err, lister.GetJSON(pods, "default", "gone") == nil, lister.ByUIDJSON("uid-web") != nil)
		query := pintle.Query{
			Namespace: "default", LabelSelector: "app=web", Owner: pintle.Controller("r"),
			Index: pintle.Index{Name: "node", Value: "n1"}, Whole: true,
		}
		selecting := lister.SelectingJSON(services, "default", map[string]string{"app": "web"})
		note(len(lister.ListJSON(pods, query)), lister.Count(pods, pintle.Query{}), len(selecting), len(lister.DependentsJSON("r")))
		note(len(lister.Resources()) > len(lister.ResourcesOf("", "Pod")), lister.ResourcesOf("", "Pod")[0].Plural)
		for _, need := range []pintle.Need{
			pintle.NeedObject(pods, "default", "web"), pintle.NeedObject(pods, "default", "web").WithSubresource("scale"), list,
			pintle.NeedPath("/version"), pintle.NeedDiscovery(),
			pintle.NeedReview(pintle.MustKind("authorization.k8s.io/v1/SubjectAccessReview"), "", `{"spec":{"user":"ann"}}`),
			pintle.NeedJWT("signer", `{"sub":"ann"}`), pintle.NeedCertificate(request),
			pintle.NeedCall("desk", "look-up", `{"name":"ann"}`).WithTimeout(2 * time.Second),
		} {
			answer := lister.Answer(need)
			if answer.Refusal != nil {
				note(answer.Refusal.Code, answer.Refusal.Reason)
			} else {
				note(len(answer.Body) > 0)
			}
		}
		return nil, pintle.Terminal("the end")
	})
	expected := []string{
		"pods v1/Pod default web 2026 1.5s 2 yes true", "patch v1/Pod web status 409 Conflict", "n1 <nil> true true", "1 1 1 1", "true pods",
		"true", "404 NotFound", "true", "true", "true", "true", "true", "0 Expired", "true",
	}
	if fmt.Sprintf("%q", read) != fmt.Sprintf("%q", expected) {
		t.Errorf("%q", read)
	}
	if fmt.Sprint(result.Err) != "the end" {
		t.Error(result.Err)
	}
}

func TestAReadThatIsNotRecordedSaysWhatToDo(t *testing.T) {
	defer func() {
		if told := fmt.Sprint(recover()); !strings.Contains(told, "the case has no answer to") || !strings.Contains(told, "export it again") {
			t.Error(told)
		}
	}()
	pintletest.Debug(recorded, func(_ pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
		lister.DependentsJSON("other")
		return nil, nil
	})
}
