//go:build wasip1

package pintle

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	w "pintle.dev/sdk/internal/wit/imports/pintle_controller_types"
	v "pintle.dev/sdk/internal/wit/imports/pintle_controller_view"
	wit "pintle.dev/sdk/internal/wit/types"
)

func kindTo(k Kind) w.Kind { return w.Kind{Group: k.Group, Version: k.Version, Name: k.Name} }

func kindFrom(k w.Kind) Kind { return Kind{Group: k.Group, Version: k.Version, Name: k.Name} }

func textFrom(text wit.Option[string]) json.RawMessage {
	if text.IsNone() {
		return nil
	}
	return json.RawMessage(text.Some())
}

func textsFrom(texts []string) []json.RawMessage {
	converted := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		converted[i] = json.RawMessage(text)
	}
	return converted
}

func resourceFrom(r v.ApiResource) APIResource {
	return APIResource{
		Kind: kindFrom(r.Kind), Plural: r.Plural, Namespaced: r.Namespaced,
		Verbs: r.Verbs, Subresources: r.Subresources, Preferred: r.Preferred,
	}
}

// optional is absent if it is empty.
func optional(text string) wit.Option[string] {
	if text == "" {
		return wit.None[string]()
	}
	return wit.Some(text)
}

// number stays within the contract's range.
func number(n int64) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }

// milliseconds are rounded up, so that what was waited for has happened then. 0 is absent.
func milliseconds(duration time.Duration) wit.Option[uint32] {
	if duration <= 0 {
		return wit.None[uint32]()
	}
	whole := int64(duration / time.Millisecond)
	if duration%time.Millisecond != 0 {
		whole++
	}
	return wit.Some(number(whole))
}

// durationOf is a time in seconds. What no Duration can be is none at all.
func durationOf(seconds float64) time.Duration {
	if !(seconds > 0 && seconds < float64(math.MaxInt64)/float64(time.Second)) {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// oneOf finds a name in the order of the contract. Names come from constants, so another one is a mistake of the program.
func oneOf[T ~string](name T, names ...T) uint8 {
	for i, known := range names {
		if name == known {
			return uint8(i)
		}
	}
	panic(fmt.Sprintf("%T %q is not one of %q", name, name, names))
}

func queryTo(query Query) v.Query {
	converted := v.Query{
		Namespace: optional(query.Namespace), LabelSelector: optional(query.LabelSelector),
		Owner: wit.None[v.OwnedBy](), Index: wit.None[v.IndexQuery](), Whole: query.Whole,
	}
	if query.Owner != (Owner{}) {
		makers := [...]func(string) v.OwnedBy{v.MakeOwnedByController, v.MakeOwnedByControllerOrOrphan, v.MakeOwnedByAny}
		by := oneOf(query.Owner.By, OwnedByController, OwnedByControllerOrOrphan, OwnedByAny)
		converted.Owner = wit.Some(makers[by](query.Owner.UID))
	}
	if query.Index != (Index{}) {
		converted.Index = wit.Some(v.IndexQuery{Index: query.Index.Name, Value: query.Index.Value})
	}
	return converted
}

func needTo(need Need) w.Need {
	switch need.Type {
	case LiveObject:
		object := w.ObjectKey{Namespace: need.Namespace, Name: need.Name}
		return w.MakeNeedLiveObject(w.LiveObject{Kind: kindTo(need.Kind), Object: object, Subresource: optional(need.Subresource)})
	case LiveList:
		return w.MakeNeedLiveList(w.LiveList{
			Kind: kindTo(need.Kind), Namespace: need.Namespace,
			LabelSelector: optional(need.LabelSelector), FieldSelector: optional(need.FieldSelector),
			Detail: oneOf(need.Detail, DetailMetadata, DetailProjection, DetailWhole), Limit: number(int64(need.Limit)),
		})
	case RawPath:
		return w.MakeNeedRawPath(need.Path)
	case Discovery:
		return w.MakeNeedDiscovery()
	case LiveReview:
		return w.MakeNeedReview(w.Review{Kind: kindTo(need.Kind), Namespace: need.Namespace, Object: need.Body})
	case SignedJWT:
		return w.MakeNeedSignJwt(w.SignJwt{Key: need.Key, Claims: need.Body})
	case SignedCertificate:
		return w.MakeNeedSignCertificate(w.SignCertificate(*need.Certificate))
	case EndpointCall:
		return w.MakeNeedCall(w.Call{
			Endpoint: need.Endpoint, Operation: need.Operation, Body: need.Body, TimeoutMs: milliseconds(need.Timeout),
		})
	}
	panic(fmt.Sprintf("need of type %q: make needs by NeedObject, NeedList, NeedPath, NeedDiscovery, NeedReview, NeedJWT, "+
		"NeedCertificate or NeedCall", need.Type))
}

func convertAll[A, B any](from []A, convert func(A) B) []B {
	to := make([]B, len(from))
	for i := range from {
		to[i] = convert(from[i])
	}
	return to
}

func outcomeTo(outcome *Outcome) w.Outcome {
	return w.Outcome{
		Needs: convertAll(outcome.Needs, needTo),
		Steps: convertAll(outcome.Steps, func(step Step) w.Step {
			order := OrderSequential
			if step.Order != "" {
				order = step.Order
			}
			return w.Step{
				Order:     oneOf(order, OrderSequential, OrderParallel, OrderSlowStart),
				Mutations: convertAll(step.Mutations, mutationTo), Always: step.Always,
			}
		}),
		RequeueAfterMs: milliseconds(outcome.RequeueAfter),
		State: convertAll(outcome.State, func(write StateWrite) w.StateWrite {
			if write.Forget {
				return w.StateWrite{Name: write.Name, Value: wit.None[string]()}
			}
			return w.StateWrite{Name: write.Name, Value: wit.Some(write.Value)}
		}),
		Observations: convertAll(outcome.Observations, func(sample Observation) w.Observation {
			return w.Observation{Metric: sample.Metric, Labels: sample.Labels, Value: sample.Value, At: momentTo(sample.At)}
		}),
		Wake:      convertAll(outcome.Wakes, wakeTo),
		RunLabels: pairsOf(outcome.RunLabels),
		Error:     optionalError(outcome.Err),
	}
}

// errorTo takes an error as [Conclude] makes it.
func errorTo(err error) w.ReconcileError {
	if retry, ok := err.(*RetryError); ok {
		return w.MakeReconcileErrorRetry(w.Retry{Message: retry.Error(), AfterMs: milliseconds(retry.After)})
	}
	return w.MakeReconcileErrorTerminal(err.Error())
}

func optionalError(err error) wit.Option[w.ReconcileError] {
	if err == nil {
		return wit.None[w.ReconcileError]()
	}
	return wit.Some(errorTo(err))
}

func wakeTo(wake Wake) w.Wake {
	object := w.ObjectKey{Namespace: wake.Key.Namespace, Name: wake.Key.Name}
	return w.Wake{Key: w.Key{Queue: wake.Key.Queue, Kind: kindTo(wake.Key.Kind), Object: object}, AfterMs: milliseconds(wake.After)}
}

func momentTo(moment Moment) w.Moment {
	place := w.Place{Step: number(int64(moment.Place.Step)), Position: number(int64(moment.Place.Position))}
	makers := [...]func(w.Place) w.Moment{func(w.Place) w.Moment { return w.MakeMomentNow() }, w.MakeMomentDone, w.MakeMomentFailed}
	return makers[oneOf(moment.When, WhenAccepted, WhenDone, WhenFailed)](place)
}

// pairsOf is sorted: the order of a map is another one each time, and a run shall be the same each time.
func pairsOf(values map[string]string) []wit.Tuple2[string, string] {
	pairs := make([]wit.Tuple2[string, string], 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, wit.Tuple2[string, string]{F0: name, F1: values[name]})
	}
	return pairs
}

func mutationTo(m Mutation) w.Mutation {
	return w.Mutation{
		Action: actionTo(m), OnSuccess: optionalEvent(m.OnSuccess), OnFailure: optionalEvent(m.OnFailure),
		Tolerate: convertAll(m.Tolerate, func(refusal Refusal) w.Refusal {
			return oneOf(refusal, NotFound, AlreadyExists, Conflict, Invalid, Forbidden, NamespaceTerminating)
		}),
	}
}

func actionTo(m Mutation) w.Action {
	kind, object := kindTo(m.Kind), w.ObjectKey{Namespace: m.Namespace, Name: m.Name}
	subresource := optional(m.Subresource)
	preconditions := w.Preconditions{Uid: optional(m.UID), ResourceVersion: optional(m.ResourceVersion)}
	propagation := wit.None[w.Propagation]()
	if m.Propagation != "" {
		propagation = wit.Some(w.Propagation(oneOf(m.Propagation, Background, Foreground, Orphan)))
	}
	switch m.Verb {
	case VerbCreate:
		return w.MakeActionCreate(w.Create{Kind: kind, Namespace: m.Namespace, Object: string(m.Body), Subresource: subresource})
	case VerbUpdate:
		return w.MakeActionUpdate(w.Update{Kind: kind, Object: string(m.Body), Subresource: subresource})
	case VerbPatch:
		return w.MakeActionPatch(w.Patch{
			Kind: kind, Object: object, Subresource: subresource, PatchType: patchTypeTo(m),
			Body: string(m.Body), Preconditions: preconditions,
		})
	case VerbDelete:
		grace := wit.None[uint32]()
		if m.GracePeriodSeconds != nil {
			grace = wit.Some(number(int64(*m.GracePeriodSeconds)))
		}
		return w.MakeActionDelete(w.Delete{
			Kind: kind, Object: object, Preconditions: preconditions, Propagation: propagation, GracePeriodSeconds: grace,
		})
	case VerbDeleteCollection:
		return w.MakeActionDeleteCollection(w.DeleteCollection{
			Kind: kind, Namespace: m.Namespace, LabelSelector: optional(m.LabelSelector), Propagation: propagation,
		})
	case VerbEvent:
		return w.MakeActionEvent(eventTo(*m.Event))
	}
	panic(fmt.Sprintf("mutation with verb %q: make mutations by Create, Update, Patch, Apply, Delete, DeleteCollection or Record", m.Verb))
}

func patchTypeTo(m Mutation) w.PatchType {
	switch m.Patch {
	case JSONPatch:
		return w.MakePatchTypeJson()
	case MergePatch:
		return w.MakePatchTypeMerge()
	case StrategicMergePatch:
		return w.MakePatchTypeStrategicMerge()
	case ApplyPatch:
		return w.MakePatchTypeApply(w.Apply{FieldManager: m.FieldManager, Force: m.Force})
	}
	panic(fmt.Sprintf("patch of form %q", m.Patch))
}

func eventTo(event Event) w.Event {
	return w.Event{
		RegardingKind: kindTo(event.Regarding.Kind),
		Regarding:     w.ObjectKey{Namespace: event.Regarding.Namespace, Name: event.Regarding.Name},
		RegardingUid:  event.RegardingUID, EventType: oneOf(event.Type, Normal, Warning),
		Reason: event.Reason, Message: event.Message,
	}
}

func optionalEvent(event *Event) wit.Option[w.Event] {
	if event == nil {
		return wit.None[w.Event]()
	}
	return wit.Some(eventTo(*event))
}
