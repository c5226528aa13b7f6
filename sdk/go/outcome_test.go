package pintle

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestATimeThatIsTooFarAwayIsLookedAtAgain(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := begin.AddDate(1, 0, 0)
	now, nRuns := begin, 0
	for ; now.Before(due); nRuns++ {
		after := new(Outcome).RequeueAt(due, now).RequeueAfter
		if after <= 0 || after > math.MaxInt32*time.Millisecond {
			t.Fatal(after)
		}
		now = now.Add(after)
	}
	if !now.Equal(due) || nRuns != 15 {
		t.Error(now, nRuns)
	}
	// What is past is due now, and the earliest time counts.
	if after := new(Outcome).RequeueAt(begin, due).RequeueAfter; after != time.Millisecond {
		t.Error(after)
	}
	for _, outcome := range []*Outcome{
		new(Outcome).Requeue(5*time.Second).RequeueAt(due, begin), new(Outcome).RequeueAt(due, begin).Requeue(5 * time.Second),
	} {
		if outcome.RequeueAfter != 5*time.Second {
			t.Error(outcome.RequeueAfter)
		}
	}
	// More than a Duration can be.
	if after := new(Outcome).RequeueAt(begin.AddDate(1000, 0, 0), begin).RequeueAfter; after != LongestRequeue {
		t.Error(after)
	}
}

func TestTheLastPlaceIsThatOfTheLastMutation(t *testing.T) {
	outcome := new(Outcome)
	if place, ok := outcome.LastPlace(); ok {
		t.Error(place)
	}
	kind := MustKind("v1/Pod")
	a, b := Delete(kind, "n", "a"), Delete(kind, "n", "b")
	for _, one := range []struct {
		step  Step
		place Place
	}{
		{Sequential(a), Place{0, 0}},
		{Parallel(a, b), Place{1, 1}},
		// It is not added.
		{SlowStart(), Place{1, 1}},
	} {
		if place, ok := outcome.Then(one.step).LastPlace(); !ok || place != one.place {
			t.Errorf("got %v, expected %v", place, one.place)
		}
	}
	if place, _ := outcome.Always(Sequential(a, b, a)).LastPlace(); place.Done() != (Moment{WhenDone, Place{2, 2}}) || place.Failed() != (Moment{WhenFailed, Place{2, 2}}) {
		t.Error(place)
	}
}

func TestAnOutcomeFailsAsARunDoes(t *testing.T) {
	path, deletion := NeedPath("/a"), Sequential(Delete(MustKind("v1/Pod"), "n", "a"))
	for expected, outcome := range map[string]*Outcome{
		"<nil>":                      new(Outcome).Fail(nil),
		"*pintle.RetryError no":      new(Outcome).Fail(errors.New("no")).Fail(nil),
		"*pintle.RetryError last":    new(Outcome).Fail(Terminal("first")).Fail(errors.New("last")),
		"*pintle.RetryError a: b":    new(Outcome).Fail(fmt.Errorf("a: %w", RetryAfter(time.Minute, "b"))),
		"*pintle.TerminalError a: b": new(Outcome).Fail(fmt.Errorf("a: %w", Terminal("b"))),
	} {
		given := outcome.Err
		result := Conclude(outcome.Then(deletion), nil)
		got := fmt.Sprint(result.Outcome.Err)
		if result.Outcome.Err != nil {
			got = fmt.Sprintf("%T %v", result.Outcome.Err, result.Outcome.Err)
		}
		if got != expected || result.Err != nil || len(result.Outcome.Steps) != 1 || outcome.Err != given {
			t.Errorf("got %s, expected %s: %+v", got, expected, result)
		}
	}
	later := Conclude(new(Outcome).Fail(fmt.Errorf("a: %w", RetryAfter(time.Minute, "b"))), nil).Outcome.Err.(*RetryError)
	if later.After != time.Minute {
		t.Error(later.After)
	}
	// An error that is returned drops the outcome.
	if result := Conclude(new(Outcome).Fail(errors.New("a")), Terminal("b")); result.Outcome != nil || result.Err.Error() != "b" {
		t.Errorf("%+v", result)
	}
	// Reads are no failure.
	asking := Conclude(new(Outcome).Keep("a", "b").Fail(&NeedsError{[]Need{path}}), nil).Outcome
	if len(asking.Needs) != 1 || asking.Needs[0] != path || asking.Err != nil || len(asking.State) != 0 {
		t.Errorf("%+v", asking)
	}
	both := Conclude((&Outcome{Needs: []Need{NeedPath("/b"), path}}).Fail(&NeedsError{[]Need{path}}), nil).Outcome
	if len(both.Needs) != 2 || both.Err != nil {
		t.Errorf("%+v", both)
	}
}

func TestAMappingGivesKeysOrWakes(t *testing.T) {
	kind := MustKind("v1/Pod")
	key := Key{Queue: "q", Kind: kind, Namespace: "n", Name: "a"}
	keys := func(kind Kind, old, new json.RawMessage, lister Lister) []Key { return []Key{key, key} }
	wakes := func(kind Kind, old, new json.RawMessage, lister Lister) []Wake {
		return []Wake{{Key: key}, {Key: key, After: time.Second}}
	}
	for expected, mapping := range map[string]MappingFunc[Wake]{
		fmt.Sprint([]Wake{{key, 0}, {key, 0}}):           wakesOf(keys),
		fmt.Sprint([]Wake{{key, 0}, {key, time.Second}}): wakesOf(wakes),
	} {
		if got := fmt.Sprint(mapping(kind, nil, nil, nil)); got != expected {
			t.Errorf("got %s, expected %s", got, expected)
		}
	}
	t.Cleanup(func() { mappingFunc = nil })
	// Both compile without the type.
	ExportMapping(keys)
	ExportMapping(wakes)
	if n := len(mappingFunc(kind, nil, nil, nil)); n != 2 {
		t.Error(n)
	}
}

func TestBodiesOfNeedsStayAsTheyAreWritten(t *testing.T) {
	claims := struct {
		Sub string `json:"sub"`
		Aud string `json:"aud"`
	}{"<ann>", "b&c"}
	for expected, body := range map[string]any{
		`{"sub":"<ann>","aud":"b&c"}`: claims,
		`{"aud":"b","sub":"a"}`:       map[string]any{"sub": "a", "aud": "b"},
		`{ "sub": "a", "aud": 1.0 }`:  `{ "sub": "a", "aud": 1.0 }`,
	} {
		for _, need := range []Need{NeedJWT("key", body), NeedCall("desk", "look-up", body), NeedReview(Kind{}, "", body)} {
			if need.Body != expected {
				t.Errorf("%s: got %s, expected %s", need.Type, need.Body, expected)
			}
		}
	}
	for expected, body := range map[string]any{
		`pintle: "{" is not JSON`: "{",
		`pintle: chan int cannot be written as JSON: json: unsupported type: chan int`: make(chan int),
	} {
		func() {
			defer func() {
				if recovered := fmt.Sprint(recover()); recovered != expected {
					t.Errorf("got %s, expected %s", recovered, expected)
				}
			}()
			NeedJWT("key", body)
		}()
	}
}
