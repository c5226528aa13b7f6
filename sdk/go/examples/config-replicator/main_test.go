package main

import (
	"maps"
	"testing"
)

func TestLabelsAreReadWithSpacesAndWithoutValues(t *testing.T) {
	labels, err := parseLabels("team=web, stage=")
	if err != nil || !maps.Equal(labels, map[string]string{"team": "web", "stage": ""}) {
		t.Errorf("%v, %v", labels, err)
	}
	for _, text := range []string{"", "team", "=web", "team=web,"} {
		if labels, err := parseLabels(text); err == nil {
			t.Errorf("%q was read: %v", text, labels)
		}
	}
}
