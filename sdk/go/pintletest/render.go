package pintletest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	pintle "pintle.dev/sdk"
)

// shown is a result in the form of the expected one of a case.
func shown(result pintle.Result, asked []pintle.Need, lister *Lister) map[string]any {
	var show map[string]any
	if result.Outcome != nil {
		show = shownOutcome(result.Outcome, lister)
	} else {
		show = shownError(result.Err)
	}
	if len(asked) > 0 {
		show["asked"] = mapAll(asked, shownNeed)
	}
	return show
}

func shownError(err error) map[string]any {
	if terminal := (*pintle.TerminalError)(nil); errors.As(err, &terminal) {
		return map[string]any{"terminal": err.Error()}
	}
	show := map[string]any{"retry": err.Error()}
	if retry := (*pintle.RetryError)(nil); errors.As(err, &retry) && retry.After > 0 {
		show["after"] = shownDuration(retry.After)
	}
	return show
}

func mapAll[A any](from []A, convert func(A) any) []any {
	to := make([]any, len(from))
	for i := range from {
		to[i] = convert(from[i])
	}
	return to
}

func shownOutcome(outcome *pintle.Outcome, lister *Lister) map[string]any {
	show := map[string]any{}
	if len(outcome.Needs) > 0 {
		show["needs"] = mapAll(outcome.Needs, shownNeed)
	}
	show["steps"] = mapAll(outcome.Steps, func(step pintle.Step) any {
		one := map[string]any{"order": string(step.Order), "mutations": shownMutations(step.Mutations, lister)}
		if step.Always {
			one["always"] = true
		}
		return one
	})
	if outcome.RequeueAfter > 0 {
		show["requeueAfter"] = shownDuration(outcome.RequeueAfter)
	}
	if len(outcome.State) > 0 {
		state := map[string]any{}
		for _, write := range outcome.State {
			if write.Forget {
				state[write.Name] = nil
			} else {
				state[write.Name] = write.Value
			}
		}
		show["state"] = state
	}
	if len(outcome.Observations) > 0 {
		show["observations"] = mapAll(outcome.Observations, func(sample pintle.Observation) any {
			labels, value := strings.Join(sample.Labels, ","), shownFloat(sample.Value)
			return fmt.Sprintf("%s{%s} %s%s", sample.Metric, labels, value, shownMoment(sample.At))
		})
	}
	if len(outcome.Wakes) > 0 {
		show["wake"] = mapAll(outcome.Wakes, func(wake pintle.Wake) any {
			key := wake.Key
			text := fmt.Sprintf("%s: %s", key.Queue, pintle.Ref{Kind: key.Kind, Namespace: key.Namespace, Name: key.Name})
			if wake.After > 0 {
				text += " after " + shownDuration(wake.After)
			}
			return text
		})
	}
	if len(outcome.RunLabels) > 0 {
		show["runLabels"] = outcome.RunLabels
	}
	if outcome.Err != nil {
		show["error"] = shownError(outcome.Err)
	}
	return show
}

func shownMoment(at pintle.Moment) string {
	place := fmt.Sprintf("steps[%d].mutations[%d]", at.Place.Step, at.Place.Position)
	switch at.When {
	case pintle.WhenDone:
		return " when " + place + " is done"
	case pintle.WhenFailed:
		return " when " + place + " has failed"
	default:
		return ""
	}
}

// shownMutations shows equal mutations in a row once, with times.
func shownMutations(mutations []pintle.Mutation, lister *Lister) []any {
	show := []any{}
	for i := 0; i < len(mutations); {
		times := 1
		for i+times < len(mutations) && reflect.DeepEqual(mutations[i], mutations[i+times]) {
			times++
		}
		one := shownMutation(mutations[i], lister)
		if times > 1 {
			one["times"] = times
		}
		show = append(show, one)
		i += times
	}
	return show
}

func shownMutation(m pintle.Mutation, lister *Lister) map[string]any {
	show := map[string]any{}
	put := func(name, text string) {
		if text != "" {
			show[name] = text
		}
	}
	conditions := func() {
		all := map[string]any{}
		if m.UID != "" {
			all["uid"] = m.UID
		}
		if m.ResourceVersion != "" {
			all["resourceVersion"] = m.ResourceVersion
		}
		if len(all) > 0 {
			show["if"] = all
		}
	}
	switch m.Verb {
	case pintle.VerbCreate:
		show["create"] = target(m, "", m.Namespace)
		show["object"] = mustParse(m.Body)
	case pintle.VerbUpdate:
		object, _ := mustParse(m.Body).(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		name, _ := metadata["name"].(string)
		show["update"] = target(m, namespace, name)
		if old := lister.original(pintle.Ref{Kind: m.Kind, Namespace: namespace, Name: name}); old != nil {
			show["changes"] = difference(old, object)
		} else {
			show["object"] = object
		}
	case pintle.VerbPatch:
		show["patch"] = target(m, m.Namespace, m.Name)
		form := string(m.Patch)
		if m.Patch == pintle.ApplyPatch {
			form = fmt.Sprintf("apply by %s, force: %t", m.FieldManager, m.Force)
		}
		show["form"] = form
		conditions()
		show["body"] = mustParse(m.Body)
	case pintle.VerbDelete:
		m.Subresource = ""
		show["delete"] = target(m, m.Namespace, m.Name)
		conditions()
		put("propagation", string(m.Propagation))
		if m.GracePeriodSeconds != nil {
			show["gracePeriodSeconds"] = *m.GracePeriodSeconds
		}
	case pintle.VerbDeleteCollection:
		m.Subresource = ""
		show["deleteCollection"] = target(m, "", m.Namespace)
		put("labelSelector", m.LabelSelector)
		put("propagation", string(m.Propagation))
	case pintle.VerbEvent:
		show["event"] = shownEvent(m.Event)
	}
	if m.OnSuccess != nil {
		show["onSuccess"] = shownEvent(m.OnSuccess)
	}
	if m.OnFailure != nil {
		show["onFailure"] = shownEvent(m.OnFailure)
	}
	if len(m.Tolerate) > 0 {
		show["tolerate"] = mapAll(m.Tolerate, func(refusal pintle.Refusal) any { return string(refusal) })
	}
	return show
}

func target(m pintle.Mutation, namespace, name string) string {
	kind := m.Kind.String()
	if m.Subresource != "" {
		kind += "/" + m.Subresource
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimRight(kind+" "+name, " ")
}

func mustParse(body json.RawMessage) any {
	tree, err := parse(body)
	if err != nil {
		panic(fault(fmt.Sprintf("the plugin wrote bad JSON: %v: %s", err, body)))
	}
	return tree
}

func shownEvent(event *pintle.Event) string {
	return fmt.Sprintf("%s %s on %s (%s): %s", event.Type, event.Reason, event.Regarding, event.RegardingUID, event.Message)
}

func shownNeed(need pintle.Need) any {
	switch need.Type {
	case pintle.LiveObject:
		return "get " + shownNeedTarget(need)
	case pintle.LiveList:
		text := fmt.Sprintf("list %s in %q with %q", need.Kind, need.Namespace, need.LabelSelector)
		if need.FieldSelector != "" {
			text += fmt.Sprintf(" and fields %q", need.FieldSelector)
		}
		text += fmt.Sprintf(", at most %d", need.Limit)
		switch need.Detail {
		case pintle.DetailProjection:
			text += ", as projections"
		case pintle.DetailWhole:
			text += ", whole"
		}
		return text
	case pintle.RawPath:
		return "get " + need.Path
	case pintle.LiveReview:
		review := need.Kind.String()
		if need.Namespace != "" {
			review += " in " + need.Namespace
		}
		return map[string]any{"review": review, "object": mustParse(json.RawMessage(need.Body))}
	case pintle.SignedJWT:
		return map[string]any{"sign-jwt": need.Key, "claims": mustParse(json.RawMessage(need.Body))}
	case pintle.SignedCertificate:
		request := need.Certificate
		return map[string]any{
			"sign-certificate": request.Authority, "request": request.Request, "usages": mapAll(request.Usages, func(usage string) any { return usage }),
			"notBefore": request.NotBefore, "notAfter": request.NotAfter,
		}
	case pintle.EndpointCall:
		show := map[string]any{"call": need.Endpoint + "/" + need.Operation, "body": mustParse(json.RawMessage(need.Body))}
		if need.Timeout > 0 {
			show["timeoutMs"] = need.Timeout.Milliseconds()
		}
		return show
	default:
		return "discover"
	}
}

func shownNeedTarget(need pintle.Need) string {
	kind := need.Kind.String()
	if need.Subresource != "" {
		kind += "/" + need.Subresource
	}
	if need.Namespace != "" {
		return kind + " " + need.Namespace + "/" + need.Name
	}
	return kind + " " + need.Name
}

// difference is what changes, in the form of a merge patch (RFC 7386).
func difference(old, new any) any {
	before, isObject := old.(map[string]any)
	after, isAlso := new.(map[string]any)
	if !isObject || !isAlso {
		return new
	}
	changes := map[string]any{}
	for name, value := range after {
		if was, there := before[name]; !there {
			changes[name] = value
		} else if !reflect.DeepEqual(was, value) {
			changes[name] = difference(was, value)
		}
	}
	for name := range before {
		if _, stays := after[name]; !stays {
			changes[name] = nil
		}
	}
	return changes
}

// shownDuration is in the largest unit of which there is at least one: 1.5s, 250ms, 90s.
func shownDuration(duration time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if duration >= unit.size {
			digits := len(strconv.Itoa(int(unit.size))) - 1
			text := fmt.Sprintf("%d.%0*d", duration/unit.size, digits, duration%unit.size)
			return strings.TrimRight(strings.TrimRight(text, "0"), ".") + unit.name
		}
	}
	return strconv.Itoa(int(duration)) + "ns"
}

func shownFloat(value float64) string {
	switch {
	case math.IsInf(value, 1):
		return "inf"
	case math.IsInf(value, -1):
		return "-inf"
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
