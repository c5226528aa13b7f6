// Package pintletest runs a plugin natively against files: a case is a file with two YAML documents, the input and the expected
// outcome, and a line --- between them.
//
//	func TestCases(t *testing.T) {
//		pintletest.CheckCases(t, ".", reconcile)
//	}
//
// [CheckCases] reads manifest.yaml and every *.yaml of cases. The lister of a case gives what the host would give: only watched
// kinds, only projected fields, only declared indexes; anything else fails the case. The input has
//
//   - key: kind, namespace, name, and queue if it is not the manifest's first;
//   - now: 2026-01-01T00:00:00Z if absent; uptime in seconds, 0 if absent;
//   - objects: the cache. A missing uid becomes uid-NAME, a missing resourceVersion 1;
//   - live: what the API server itself has, for needs; the same as objects if absent;
//   - raw: path to body, for needs of raw paths; another path is not found;
//   - subresources, each with kind, namespace, name, subresource and answer, for live reads of them;
//   - reviews, each with kind, namespace, status, and the fields of the spec that it is about (all if absent);
//   - signatures, each with by (a setting), an answer or an error, and the claims of the tokens that it is about (all if absent);
//   - calls, each with endpoint, operation, an answer or an error, and the fields of the body that it is about (all if absent);
//   - discovery: what a need for discovery finds: resources (those below if absent), failed (group versions), or an error;
//   - config (the manifest's defaults if absent), state, attempt, failures, resources;
//   - settle, with a third document, for pintle test, which carries the outcomes out; it is ignored here;
//   - define: a place for YAML anchors. They and merge keys (<<: *pod) work.
//
// Needs are answered until there are no more. The expected outcome shows updates as the difference to the cached object (in the
// form of a merge patch), equal mutations in a row once, with times, and in error that of an outcome which fails all the same, as one that
// is returned: retry and after, or terminal. It is compared as a value, so order of members and style do not matter. "pintle test --update"
// writes it anew, and "pintle test" runs the same cases against the component.
//
// [Parse] makes a fixture without files.
package pintletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pintle "pintle.dev/sdk"
)

// CheckCases runs every case below folder/cases with folder/manifest.yaml, each as a subtest, and compares the outcomes.
// The test fails if there is no case.
func CheckCases(t *testing.T, folder string, reconcile pintle.ReconcileFunc) {
	t.Helper()
	CheckCasesOf(t, filepath.Join(folder, "manifest.yaml"), filepath.Join(folder, "cases"), reconcile)
}

// CheckCasesOf is [CheckCases] with a manifest and cases that are not in one folder.
func CheckCasesOf(t *testing.T, manifest, cases string, reconcile pintle.ReconcileFunc) {
	t.Helper()
	manifestYAML, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if old, _ := filepath.Glob(filepath.Join(cases, "*", "input.yaml")); len(old) > 0 {
		name := filepath.Dir(old[0])
		t.Fatalf("%s is a folder, but a case is one file: write input.yaml, a line --- and expected.yaml to %[1]s.yaml", name)
	}
	files, err := filepath.Glob(filepath.Join(cases, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: a case is a file NAME.yaml with the input, a line --- and the expected outcome", cases)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			caseYAML, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			inputYAML, rest, _ := bytes.Cut(caseYAML, []byte("\n---\n"))
			// A third document is the end of a case that settles, for pintle test.
			expectedYAML, _, _ := bytes.Cut(rest, []byte("\n---\n"))
			for _, difference := range check(manifestYAML, inputYAML, expectedYAML, reconcile) {
				t.Error(difference)
			}
		})
	}
}

// check gives the differences between what a case should give and what it gives.
func check(manifestYAML, inputYAML, expectedYAML []byte, reconcile pintle.ReconcileFunc) (differences []string) {
	fixture, err := Parse(manifestYAML, inputYAML)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			fault, ok := recovered.(fault)
			if !ok {
				panic(recovered)
			}
			differences = []string{fault.Error()}
		}
	}()
	result, asked := fixture.Run(reconcile)
	got, err := treeOf(shown(result, asked, fixture.Lister))
	if err != nil {
		return []string{err.Error()}
	}
	expectedJSON, err := yamlToJSON(expectedYAML)
	if err != nil {
		return []string{"expected: " + err.Error()}
	}
	wanted, err := parse(expectedJSON)
	if err != nil {
		return []string{"expected: " + err.Error()}
	}
	return compare("", wanted, got)
}

// compare tells of each place at which two values differ.
func compare(place string, wanted, got any) []string {
	var differences []string
	switch wanted := wanted.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if value, there := members[name]; there {
				differences = append(differences, compare(place+"."+name, wanted[name], value)...)
			} else {
				differences = append(differences, fmt.Sprintf("%s.%s: missing, expected %s", place, name, text(wanted[name])))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if _, there := wanted[name]; !there {
				differences = append(differences, fmt.Sprintf("%s.%s: not expected: %s", place, name, text(members[name])))
			}
		}
		return differences
	case []any:
		items, ok := got.([]any)
		if !ok {
			break
		}
		for i := range max(len(wanted), len(items)) {
			at := fmt.Sprintf("%s[%d]", place, i)
			switch {
			case i >= len(items):
				differences = append(differences, fmt.Sprintf("%s: missing, expected %s", at, text(wanted[i])))
			case i >= len(wanted):
				differences = append(differences, fmt.Sprintf("%s: not expected: %s", at, text(items[i])))
			default:
				differences = append(differences, compare(at, wanted[i], items[i])...)
			}
		}
		return differences
	case json.Number:
		number, ok := got.(json.Number)
		if !ok {
			break
		}
		x, errX := wanted.Float64()
		y, errY := number.Float64()
		if wanted == number || errX == nil && errY == nil && x == y {
			return nil
		}
	default:
		if wanted == got {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: expected %s, got %s", strings.TrimPrefix(place, "."), text(wanted), text(got))}
}

func text(tree any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}
