package main

import (
	"testing"

	"pintle.dev/sdk/pintletest"
)

// TestCases runs every case below cases, without WebAssembly.
func TestCases(t *testing.T) {
	pintletest.CheckCases(t, ".", reconcile)
}
