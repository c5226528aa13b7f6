// Command errand is a plugin that runs errands: each one exercises one part of contract 0.2.
//
// tests/errand/README.md of the repository specifies its behaviour, and the cases there show it.
package main

import (
	pintle "pintle.dev/sdk"
)

func init() { pintle.Export(reconcile) }

func main() {}

// reconcile says what one errand wants, or, for the tick of the rounds, which errands run.
func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	if key.Queue == roundsQueue {
		return rounds(lister)
	}
	errand, err := pintle.Get[Errand](lister, errandKind, key.Namespace, key.Name)
	if errand == nil || err != nil {
		return nil, err
	}
	outcome := new(pintle.Outcome).RunLabel("do", errand.Spec.Do)
	answer, err := run(errand, lister, outcome)
	if err != nil {
		return nil, err
	}
	if now := errand.Status.Answer; answer != nil && (now == nil || *now != *answer) {
		body := pintle.Object{"status": pintle.Object{"answer": *answer}}
		patch := pintle.Patch(errandKind, key.Namespace, key.Name, pintle.MergePatch, body)
		outcome.Always(pintle.Sequential(patch.WithSubresource("status").WithUID(errand.Metadata.UID)))
	}
	return outcome, nil
}

// rounds wakes every errand.
func rounds(lister pintle.Lister) (*pintle.Outcome, error) {
	errands, err := pintle.List[Errand](lister, errandKind, pintle.Query{})
	if err != nil {
		return nil, err
	}
	outcome := new(pintle.Outcome).Observe("errand_controller_rounds_total", 1)
	for _, errand := range errands {
		outcome.Wake(keyOf(errand.Metadata.Namespace, errand.Metadata.Name))
	}
	return outcome, nil
}

// keyOf is the key of an errand.
func keyOf(namespace, name string) pintle.Key {
	return pintle.Key{Queue: errandsQueue, Kind: errandKind, Namespace: namespace, Name: name}
}
