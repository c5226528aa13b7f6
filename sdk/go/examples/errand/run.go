package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	pintle "pintle.dev/sdk"
)

// run adds what the errand wants to the outcome, and gives the answer, or nil if there is none.
func run(errand *Errand, lister pintle.Lister, outcome *pintle.Outcome) (*string, error) {
	of, namespace := errand.Spec.Of, errand.Metadata.Namespace
	switch errand.Spec.Do {
	case "wake":
		tick := pintle.Key{Queue: roundsQueue, Kind: tickKind, Name: roundsQueue}
		outcome.Wake(keyOf(namespace, of)).WakeAfter(tick, 1500*time.Millisecond)
		return say("woken")
	case "crowd":
		// One more than is allowed.
		for i := range 10_001 {
			outcome.Wake(keyOf(namespace, fmt.Sprintf("e%d", i)))
		}
		return say("woken")
	case "later":
		return later(errand, lister, outcome)
	case "uptime":
		return uptime(errand, lister, outcome)
	case "scale":
		return ask(lister, pintle.NeedObject(deploymentKind, namespace, of).WithSubresource("scale"), func(text json.RawMessage) (string, error) {
			var scale Scale
			err := json.Unmarshal(text, &scale)
			return strconv.FormatInt(scale.Spec.Replicas, 10), err
		})
	case "pods":
		need := pintle.NeedList(podKind, namespace, "", 10).WithFields("spec.nodeName=" + of).WithDetail(pintle.DetailProjection)
		return ask(lister, need, func(text json.RawMessage) (string, error) {
			var pods []Pod
			err := json.Unmarshal(text, &pods)
			places := make([]string, len(pods))
			for i, pod := range pods {
				places[i] = pod.Metadata.Name + " on " + pod.Spec.NodeName
			}
			return strings.Join(places, ", "), err
		})
	case "secrets":
		need := pintle.NeedList(secretKind, namespace, "", 10).WithDetail(pintle.DetailWhole)
		return ask(lister, need, func(text json.RawMessage) (string, error) {
			var secrets []json.RawMessage
			err := json.Unmarshal(text, &secrets)
			return strconv.Itoa(len(secrets)), err
		})
	case "review":
		attributes := ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "pods"}
		review := AccessReview{Spec: AccessReviewSpec{User: of, ResourceAttributes: attributes}}
		return ask(lister, pintle.NeedReview(accessReviewKind, "", review), func(text json.RawMessage) (string, error) {
			if err := json.Unmarshal(text, &review); err != nil || !review.Status.Allowed {
				return "denied", err
			}
			return "allowed", nil
		})
	case "token":
		return ask(lister, pintle.NeedJWT("key", pintle.Object{"sub": of}), asText)
	case "certificate":
		return ask(lister, pintle.NeedCertificate(pintle.CertificateRequest{
			Authority: "authority",
			Request:   of,
			Usages:    []string{"client auth"},
			NotBefore: lister.Now().Format(time.RFC3339Nano),
			NotAfter:  errand.Spec.Until,
		}), asText)
	case "call":
		need := pintle.NeedCall("desk", "look-up", pintle.Object{"name": of}).WithTimeout(10 * time.Second)
		return ask(lister, need, func(text json.RawMessage) (string, error) {
			var found any
			err := json.Unmarshal(text, &found)
			fields, _ := found.(map[string]any)
			place, _ := fields["place"].(string)
			return place, err
		})
	case "count":
		return count(errand, lister, outcome)
	case "greet":
		return greet(errand, lister)
	case "fail":
		outcome.Fail(pintle.RetryAfter(5*time.Second, "out of order"))
		return greet(errand, lister)
	case "kinds":
		var kinds []string
		for _, resource := range lister.ResourcesOf("apps", "Deployment") {
			kinds = append(kinds, resource.Plural+"."+resource.Kind.Version)
		}
		return say(strings.Join(kinds, ","))
	case "tally":
		pods := lister.Count(podKind, pintle.Query{Namespace: namespace})
		outcome.Observe("errand_controller_pods", float64(pods), namespace)
		return say(strconv.Itoa(pods))
	default:
		return nil, pintle.Terminal("nothing is called %s", errand.Spec.Do)
	}
}

// later waits until the time of the errand.
func later(errand *Errand, lister pintle.Lister, outcome *pintle.Outcome) (*string, error) {
	until, err := time.Parse(time.RFC3339, errand.Spec.Until)
	if err != nil {
		return nil, pintle.Terminal("spec.until is not a time")
	}
	if now := lister.Now(); until.After(now) {
		outcome.RequeueAt(until, now)
		return nil, nil
	}
	return say("due")
}

// uptime tells how long ago the first run of the errand was.
func uptime(errand *Errand, lister pintle.Lister, outcome *pintle.Outcome) (*string, error) {
	name := fmt.Sprintf("since/%s/%s", errand.Metadata.Namespace, errand.Metadata.Name)
	now := int64(lister.Uptime() / time.Second)
	kept, there := lister.State(name)
	if !there {
		outcome.Keep(name, strconv.FormatInt(now, 10))
		return say("started")
	}
	since, err := strconv.ParseInt(kept, 10, 64)
	if err != nil {
		return nil, pintle.Terminal("%q is not a number", kept)
	}
	return say(fmt.Sprintf("%d s", now-since))
}

// count deletes a Pod, and counts whether it could be deleted.
func count(errand *Errand, lister pintle.Lister, outcome *pintle.Outcome) (*string, error) {
	namespace, name := errand.Metadata.Namespace, errand.Spec.Of
	pod, err := pintle.Get[Pod](lister, podKind, namespace, name)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return say("absent")
	}
	outcome.Then(pintle.Sequential(pintle.Delete(podKind, namespace, name).WithUID(pod.Metadata.UID)))
	if deletion, ok := outcome.LastPlace(); ok {
		outcome.ObserveAt(deletion.Done(), "errand_controller_deletions_total", 1, "deleted")
		outcome.ObserveAt(deletion.Failed(), "errand_controller_deletions_total", 1, "kept")
	}
	return say("tried")
}

// greet greets with the word that the operator has set.
func greet(errand *Errand, lister pintle.Lister) (*string, error) {
	config, err := pintle.Config[Config](lister)
	if err != nil {
		return nil, err
	}
	return say(config.Greeting + ", " + errand.Spec.Of)
}

// ask gives what the answer to a need says; a refusal is an answer too.
func ask(lister pintle.Lister, need pintle.Need, read func(json.RawMessage) (string, error)) (*string, error) {
	text, err := pintle.Ask(lister, need)
	if refusal := (*pintle.APIError)(nil); errors.As(err, &refusal) {
		return say("refused: " + refusal.Reason)
	} else if err != nil {
		return nil, err
	}
	answer, err := read(text)
	if err != nil {
		return nil, pintle.Terminal("the answer is not as expected: %w", err)
	}
	return &answer, nil
}

func asText(text json.RawMessage) (string, error) { return string(text), nil }

func say(answer string) (*string, error) { return &answer, nil }
