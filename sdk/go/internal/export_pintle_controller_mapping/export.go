// Package export_pintle_controller_mapping is where the generated bindings look for the mapping. Its name is theirs.
package export_pintle_controller_mapping

import (
	"pintle.dev/sdk/internal/wit/imports/pintle_controller_types"
	"pintle.dev/sdk/internal/wit/imports/pintle_controller_view"
	witTypes "pintle.dev/sdk/internal/wit/types"
)

// Map is set by the SDK before the host can call.
var Map func(kind pintle_controller_types.Kind, old, new witTypes.Option[string], lister *pintle_controller_view.Lister) []pintle_controller_types.Wake

// KeysOf is called by the host. An export that the plugin's world lacks is dropped when the component is made.
func KeysOf(kind pintle_controller_types.Kind, old, new witTypes.Option[string], lister *pintle_controller_view.Lister) []pintle_controller_types.Wake {
	return Map(kind, old, new, lister)
}
