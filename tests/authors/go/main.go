// Command mistakes is a plugin that makes the mistake which the name of its key says. What is told of each: tests/tests/mistakes.rs.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	pintle "pintle.dev/sdk"
)

var (
	mistakeKind   = pintle.MustKind("example.com/v1/Mistake")
	configMapKind = pintle.MustKind("v1/ConfigMap")
	secretKind    = pintle.MustKind("v1/Secret")
)

// Mistake is the object of a key.
type Mistake struct {
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		// Settings is JSON, or what should be.
		Settings string `json:"settings"`
		Replicas int    `json:"replicas"`
	} `json:"spec"`
}

func init() { pintle.Export(reconcile) }

func main() {}

func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	switch key.Name {
	case "panic":
		return thirdOf([]int{1}), nil
	case "null":
		var mistake *Mistake
		return keep("settings", mistake.Spec.Settings), nil
	case "clock":
		return keep("now", time.Now().Format(time.RFC3339)), nil
	case "random":
		return keep("random", strconv.Itoa(rand.IntN(1<<30))), nil
	case "global":
		runs++
		return keep("runs", strconv.Itoa(runs)), nil
	case "bad-json":
		return parse(key, lister)
	case "bad-type":
		return replicas(key, lister)
	case "undeclared-kind":
		object := pintle.Object{"metadata": pintle.Object{"name": key.Name}}
		return step(pintle.Create(secretKind, key.Namespace, object)), nil
	case "forgotten-grant":
		return step(pintle.Delete(configMapKind, key.Namespace, key.Name)), nil
	case "unwatched":
		secret := lister.GetJSON(secretKind, key.Namespace, key.Name)
		return keep("secret", string(secret)), nil
	case "loop":
		for n := 1; n != 0; n |= 1 {
			sink = n
		}
		return nil, nil
	case "memory":
		return fillMemory(), nil
	case "deep":
		return keep("depth", strconv.Itoa(depth(0))), nil
	case "churn":
		return churn(key, lister)
	}
	return nil, pintle.Terminal("there is no mistake %s", key.Name)
}

var (
	runs int
	sink int
)

func keep(name, value string) *pintle.Outcome { return new(pintle.Outcome).Keep(name, value) }

func step(mutation pintle.Mutation) *pintle.Outcome {
	return new(pintle.Outcome).Then(pintle.Sequential(mutation))
}

func thirdOf(items []int) *pintle.Outcome {
	at := len(items) + 1
	return keep("third", strconv.Itoa(items[at]))
}

func parse(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	mistake, err := pintle.Get[Mistake](lister, mistakeKind, key.Namespace, key.Name)
	if mistake == nil || err != nil {
		return nil, err
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(mistake.Spec.Settings), &settings); err != nil {
		panic(fmt.Errorf("spec.settings: %w", err))
	}
	return keep("settings", fmt.Sprint(settings)), nil
}

func replicas(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	mistake, err := pintle.Get[Mistake](lister, mistakeKind, key.Namespace, key.Name)
	if mistake == nil || err != nil {
		return nil, err
	}
	return keep("replicas", strconv.Itoa(mistake.Spec.Replicas)), nil
}

func fillMemory() *pintle.Outcome {
	var all [][]byte
	for {
		all = append(all, make([]byte, 1<<20))
		sink = len(all)
	}
}

func depth(level int) int {
	return depth(level+1) + level
}
