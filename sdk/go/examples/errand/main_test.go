package main

import (
	"testing"

	"pintle.dev/sdk/pintletest"
)

// The cases are the same in every language; the manifest is this folder's.
func TestCases(t *testing.T) {
	pintletest.CheckCasesOf(t, "manifest.yaml", "../../../../tests/errand/cases", reconcile)
}
