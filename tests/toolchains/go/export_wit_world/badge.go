// Package export_wit_world is called by the bindings. `../../README.md` describes this controller.
package export_wit_world

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	. "go.bytecodealliance.org/pkg/wit/types"
	. "wit_component/pintle_controller_types"
	"wit_component/pintle_controller_view"
)

// The adapter of WASI must not call the host while the host allocates memory for arguments, and a garbage collection reads the clock.
func init() { debug.SetGCPercent(-1) }

type namespace struct {
	Metadata struct {
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
	} `json:"metadata"`
}

// Reconcile is the export of the contract.
func Reconcile(key Key, lister *pintle_controller_view.Lister) Result[Outcome, ReconcileError] {
	defer runtime.GC()
	defer lister.Drop()
	name := key.Object.Name
	text := lister.Get(key.Kind, key.Object)
	if text.IsNone() {
		return outcome()
	}
	var object namespace
	if err := json.Unmarshal([]byte(text.Some()), &object); err != nil {
		return terminal(err)
	}
	kind := Kind{Version: "v1", Name: "ConfigMap"}
	if object.Metadata.DeletionTimestamp != nil || lister.Get(kind, ObjectKey{Namespace: name, Name: "badge"}).IsSome() {
		return outcome()
	}
	fmt.Println("a badge for", name)
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return terminal(err)
	}
	data := map[string]string{
		"now":    lister.Now(),
		"clock":  strconv.FormatInt(time.Now().UnixMilli(), 10),
		"random": hex.EncodeToString(random),
	}
	switch object.Metadata.Labels["badge"] {
	case "exit":
		os.Exit(3)
	case "file":
		data["file"] = "opened"
		if _, err := os.Open("/etc/hostname"); err != nil {
			data["file"] = err.Error()
		}
	}
	badge, err := json.Marshal(map[string]any{"metadata": map[string]string{"name": "badge"}, "data": data})
	if err != nil {
		return terminal(err)
	}
	create := MakeActionCreate(Create{Kind: kind, Namespace: name, Object: string(badge), Subresource: None[string]()})
	return outcome(Mutation{Action: create, OnSuccess: None[Event](), OnFailure: None[Event]()})
}

func outcome(mutations ...Mutation) Result[Outcome, ReconcileError] {
	outcome := Outcome{RequeueAfterMs: None[uint32]()}
	if len(mutations) > 0 {
		outcome.Steps = []Step{{Order: Order_Sequential, Mutations: mutations}}
	}
	return Ok[Outcome, ReconcileError](outcome)
}

func terminal(err error) Result[Outcome, ReconcileError] {
	return Err[Outcome, ReconcileError](MakeReconcileErrorTerminal(err.Error()))
}
