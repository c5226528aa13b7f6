//go:build wasip1

package pintle

import (
	"encoding/json"
	"fmt"
	"log"
	"runtime"
	"strings"
	"time"

	"pintle.dev/sdk/internal/export_pintle_controller_mapping"
	"pintle.dev/sdk/internal/export_wit_world"
	_ "pintle.dev/sdk/internal/wit/exports/wit_exports" // The functions that the host calls.
	wlog "pintle.dev/sdk/internal/wit/imports/pintle_controller_log"
	w "pintle.dev/sdk/internal/wit/imports/pintle_controller_types"
	v "pintle.dev/sdk/internal/wit/imports/pintle_controller_view"
	wit "pintle.dev/sdk/internal/wit/types"
)

func init() {
	export_wit_world.Run = run
	export_pintle_controller_mapping.Map = runMapping
	log.SetFlags(0)
	log.SetOutput(hostLog{})
}

func writeLog(level level, message string) { wlog.Write(wlog.Level(level), message) }

// hostLog is where the standard library's log goes.
type hostLog struct{}

func (hostLog) Write(line []byte) (int, error) {
	writeLog(levelInfo, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

func run(key w.Key, lister *v.Lister) export_wit_world.Result {
	// The order matters: first the handle goes, then the clean-ups of what has become garbage get a turn. Control returns to the host
	// as soon as this function ends, so otherwise they would never run, and memory would grow without end.
	defer runtime.Gosched()
	defer lister.Drop()
	k := Key{Queue: key.Queue, Kind: kindFrom(key.Kind), Namespace: key.Object.Namespace, Name: key.Object.Name}
	defer tellPanic(func() string { return "key " + Ref{k.Kind, k.Namespace, k.Name}.String() })
	if reconcileFunc == nil {
		panic("the program exports nothing: call pintle.Export in an init function of package main")
	}
	result := Conclude(reconcileFunc(k, wasmLister{lister}))
	if result.Err != nil {
		return wit.Err[w.Outcome](errorTo(result.Err))
	}
	return wit.Ok[w.Outcome, w.ReconcileError](outcomeTo(result.Outcome))
}

func runMapping(kind w.Kind, old, new wit.Option[string], lister *v.Lister) []w.Wake {
	defer runtime.Gosched()
	defer lister.Drop()
	defer tellPanic(func() string { return "mapping of " + kindFrom(kind).String() })
	if mappingFunc == nil {
		panic("the manifest maps changes with to: plugin, but the program exports no mapping: call pintle.ExportMapping in an init function")
	}
	return convertAll(mappingFunc(kindFrom(kind), textFrom(old), textFrom(new), wasmLister{lister}), wakeTo)
}

// tellPanic writes a panic to the log and lets it go on, so that it ends the instance as a trap, and the host counts a fault.
func tellPanic(what func() string) {
	if recovered := recover(); recovered != nil {
		writeLog(levelError, panicMessage(recovered, what()))
		panic(recovered)
	}
}

// wasmLister is the host's lister.
type wasmLister struct{ handle *v.Lister }

func (l wasmLister) Now() time.Time {
	text := l.handle.Now()
	now, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(fmt.Sprintf("the host's time %q: %v", text, err))
	}
	return now.UTC()
}

func (l wasmLister) Uptime() time.Duration { return durationOf(l.handle.Uptime()) }

func (l wasmLister) GetJSON(kind Kind, namespace, name string) json.RawMessage {
	return textFrom(l.handle.Get(kindTo(kind), w.ObjectKey{Namespace: namespace, Name: name}))
}

func (l wasmLister) ListJSON(kind Kind, query Query) []json.RawMessage {
	return textsFrom(l.handle.List(kindTo(kind), queryTo(query)))
}

func (l wasmLister) Count(kind Kind, query Query) int {
	return int(l.handle.Count(kindTo(kind), queryTo(query)))
}

func (l wasmLister) SelectingJSON(kind Kind, namespace string, labels map[string]string) []json.RawMessage {
	return textsFrom(l.handle.Selecting(kindTo(kind), namespace, pairsOf(labels)))
}

func (l wasmLister) DependentsJSON(uid string) []json.RawMessage {
	return textsFrom(l.handle.Dependents(uid))
}

func (l wasmLister) ByUIDJSON(uid string) json.RawMessage { return textFrom(l.handle.ByUid(uid)) }

func (l wasmLister) Resources() []APIResource { return convertAll(l.handle.Resources(), resourceFrom) }

func (l wasmLister) ResourcesOf(group, kind string) []APIResource {
	return convertAll(l.handle.ResourcesOf(group, kind), resourceFrom)
}

func (l wasmLister) ConfigJSON() json.RawMessage { return json.RawMessage(l.handle.Config()) }

func (l wasmLister) State(name string) (string, bool) {
	value := l.handle.State(name)
	return value.SomeOr(""), value.IsSome()
}

func (l wasmLister) Attempt() int { return int(l.handle.Attempt()) }

func (l wasmLister) Failures() []MutationFailure {
	failures := l.handle.Failures()
	converted := make([]MutationFailure, len(failures))
	for i, f := range failures {
		converted[i] = MutationFailure{
			Step: int(f.Step), Position: int(f.Position), Verb: f.Verb, Kind: kindFrom(f.Kind), Subresource: f.Subresource.SomeOr(""),
			Code: int(f.Code), Reason: f.Reason, Message: f.Message, Causes: f.Causes,
		}
		converted[i].Object.Namespace, converted[i].Object.Name = f.Object.Namespace, f.Object.Name
	}
	return converted
}

func (l wasmLister) Answer(need Need) *Answer {
	answer := l.handle.Answer(needTo(need))
	if answer.IsNone() {
		return nil
	}
	result := answer.Some()
	if result.IsOk() {
		return &Answer{Body: json.RawMessage(result.Ok())}
	}
	refusal := result.Err()
	return &Answer{Refusal: &APIError{Code: int(refusal.Code), Reason: refusal.Reason, Message: refusal.Message}}
}
