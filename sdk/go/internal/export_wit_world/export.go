// Package export_wit_world is where the generated bindings look for the component's exports. Its name is theirs.
package export_wit_world

import (
	"pintle.dev/sdk/internal/wit/imports/pintle_controller_types"
	"pintle.dev/sdk/internal/wit/imports/pintle_controller_view"
	witTypes "pintle.dev/sdk/internal/wit/types"
)

// Result is what a run gives to the host.
type Result = witTypes.Result[pintle_controller_types.Outcome, pintle_controller_types.ReconcileError]

// Run is set by the SDK before the host can call.
var Run func(key pintle_controller_types.Key, lister *pintle_controller_view.Lister) Result

// Reconcile is called by the host.
func Reconcile(key pintle_controller_types.Key, lister *pintle_controller_view.Lister) Result {
	return Run(key, lister)
}
