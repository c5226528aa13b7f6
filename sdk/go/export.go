package pintle

import (
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"strings"
)

// ReconcileFunc computes the changes for one key. It is pure: the same view gives the same outcome, so it looks at nothing but
// its arguments, keeps nothing in variables, and starts no goroutine that outlives it.
//
// It is never called twice at once for the same key, and without the reason for the run. A nil outcome changes nothing. An error is tried again with a
// growing delay unless it is a [TerminalError]; an outcome beside it is dropped, and [Outcome.Fail] keeps it. A panic ends the run as a
// fault, is written to the log, and the instance is replaced.
type ReconcileFunc func(key Key, lister Lister) (*Outcome, error)

// MappingFunc says which keys a change of an object touches, where the rules of the manifest cannot: for watches with to: plugin.
// old is nil for a new object, new for a deleted one; both are projections. It gives each [Key] at once, or a [Wake], which can wait;
// at most 10,000 of them for one change.
type MappingFunc[K Key | Wake] func(kind Kind, old, new json.RawMessage, lister Lister) []K

var (
	reconcileFunc ReconcileFunc
	mappingFunc   MappingFunc[Wake]
)

// Export makes a function the plugin's reconcile. Call it in an init function of the main package, whose main function stays empty,
// because a component is a library: main never runs.
func Export(reconcile ReconcileFunc) { reconcileFunc = reconcile }

// ExportMapping makes a function the plugin's mapping, as [Export] does.
func ExportMapping[K Key | Wake](keysOf MappingFunc[K]) { mappingFunc = wakesOf(keysOf) }

// wakesOf is the mapping as the contract has it.
func wakesOf[K Key | Wake](keysOf MappingFunc[K]) MappingFunc[Wake] {
	return func(kind Kind, old, new json.RawMessage, lister Lister) []Wake {
		keys := keysOf(kind, old, new, lister)
		wakes := make([]Wake, len(keys))
		for i, key := range keys {
			switch key := any(key).(type) {
			case Key:
				wakes[i] = Wake{Key: key}
			case Wake:
				wakes[i] = key
			}
		}
		return wakes
	}
}

// panicMessage describes a panic: what was thrown, where, and for which key. The deferred function that recovers calls it.
func panicMessage(recovered any, what string) string {
	return fmt.Sprintf("panic: %s at %s (%s)", panicText(recovered), panicPlace(), what)
}

func panicText(recovered any) string {
	switch value := recovered.(type) {
	case error:
		return fmt.Sprintf("%T: %v", value, value)
	default:
		return fmt.Sprint(value)
	}
}

// panicPlace is the first function on the stack that is neither the runtime's nor of this package.
func panicPlace() string {
	counters := make([]uintptr, 64)
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	panicking := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic" || strings.HasPrefix(frame.Function, "runtime.sig") || strings.HasPrefix(frame.Function, "runtime.panic"):
			panicking = true
		case panicking && !strings.HasPrefix(frame.Function, "runtime.") && !strings.HasPrefix(frame.Function, "pintle.dev/sdk."):
			return fmt.Sprintf("%s:%d in %s", path.Base(frame.File), frame.Line, frame.Function)
		}
		if !more {
			return "an unknown place"
		}
	}
}
