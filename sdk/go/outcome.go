package pintle

import (
	"math"
	"time"
)

// Outcome is the result of one run. The zero value, as well as nil, changes nothing.
//
// Its methods return it, so that calls can be chained:
//
//	return new(pintle.Outcome).Then(pintle.Parallel(mutations...)).Requeue(time.Minute), nil
type Outcome struct {
	// Needs are reads that the host must do first; it carries out nothing else of this outcome, and calls again.
	Needs []Need
	Steps []Step
	// RequeueAfter runs this key again after this time, whatever happens until then; not if it is 0. If a write
	// fails, it does not come before the retry of the run.
	// In milliseconds on the wire, rounded up.
	RequeueAfter time.Duration
	State        []StateWrite
	Observations []Observation
	// Wakes are other keys of this plugin to run, at most 10,000. They are added when the outcome is accepted, before its writes are sent.
	Wakes []Wake
	// RunLabels are values of labels for the metrics of runs, those with of: runs in the manifest, by label name.
	RunLabels map[string]string
	// Err fails the run all the same, once everything else of this outcome is carried out; not if it is nil. See [Outcome.Fail].
	Err error
}

// LongestRequeue is the longest time until a key runs again: the most milliseconds that the contract has, 24.8 days.
const LongestRequeue = math.MaxInt32 * time.Millisecond

// Wake is another key of the plugin to run.
type Wake struct {
	Key Key
	// After is the time that must pass first; at once if it is 0. In milliseconds on the wire, rounded up.
	After time.Duration
}

// StateWrite keeps a value under a name for later runs of this plugin, or forgets it.
type StateWrite struct {
	Name   string
	Value  string
	Forget bool
}

// Observation is a sample for one of the metrics that the manifest declares.
type Observation struct {
	Metric string
	// Labels are values in the order of the label names in the manifest.
	Labels []string
	// Value is added to a counter, set on a gauge, observed by a histogram.
	Value float64
	// At is when the sample counts; when the outcome is accepted if it is zero.
	At Moment
}

// Place is that of a mutation in an outcome, from 0.
type Place struct {
	Step     int
	Position int
}

// Done is when the mutation at this place has succeeded, or its refusal was tolerated.
func (p Place) Done() Moment { return Moment{When: WhenDone, Place: p} }

// Failed is when the mutation at this place has failed, or was not tried because another one had failed.
func (p Place) Failed() Moment { return Moment{When: WhenFailed, Place: p} }

// Moment says when a sample counts. See [Place.Done] and [Place.Failed]. The zero value: when the outcome is accepted, before its
// writes are sent, so that the next try of a failed run counts again.
type Moment struct {
	When When
	// Place is that of the mutation, for WhenDone and WhenFailed.
	Place Place
}

// When is a kind of moments.
type When string

// Kinds of moments.
const (
	WhenAccepted When = ""
	WhenDone     When = "done"
	WhenFailed   When = "failed"
)

// Then adds a step, unless it is empty.
func (o *Outcome) Then(step Step) *Outcome {
	if len(step.Mutations) > 0 {
		o.Steps = append(o.Steps, step)
	}
	return o
}

// Always adds a step that is carried out even if an earlier one failed, unless it is empty.
func (o *Outcome) Always(step Step) *Outcome {
	step.Always = true
	return o.Then(step)
}

// Requeue runs the key again after this time. The earliest of several calls counts; 0 and less count as a millisecond.
func (o *Outcome) Requeue(after time.Duration) *Outcome {
	after = max(after, time.Millisecond)
	if o.RequeueAfter == 0 || after < o.RequeueAfter {
		o.RequeueAfter = after
	}
	return o
}

// RequeueAt runs the key again at a time; now is that of the run, [Lister.Now]. The earliest of several calls counts.
//
// A key waits for at most [LongestRequeue]. A run for a later time comes then, and calls this again: do what is due by the clock, not
// because the key runs.
func (o *Outcome) RequeueAt(at, now time.Time) *Outcome {
	return o.Requeue(min(at.Sub(now), LongestRequeue))
}

// Wake runs another key of this plugin at once. One that waits already is not added twice; the earlier time counts.
func (o *Outcome) Wake(key Key) *Outcome { return o.WakeAfter(key, 0) }

// WakeAfter runs another key of this plugin after this time, as [Outcome.Wake].
func (o *Outcome) WakeAfter(key Key, after time.Duration) *Outcome {
	o.Wakes = append(o.Wakes, Wake{Key: key, After: after})
	return o
}

// Keep keeps a value under a name, for later runs of this plugin. It survives swaps of the plugin, but not a restart of the host.
func (o *Outcome) Keep(name, value string) *Outcome {
	o.State = append(o.State, StateWrite{Name: name, Value: value})
	return o
}

// Forget forgets what is kept under a name.
func (o *Outcome) Forget(name string) *Outcome {
	o.State = append(o.State, StateWrite{Name: name, Forget: true})
	return o
}

// Observe adds a sample of a metric; labels are values in the order of the manifest.
func (o *Outcome) Observe(metric string, value float64, labels ...string) *Outcome {
	o.Observations = append(o.Observations, Observation{Metric: metric, Labels: labels, Value: value})
	return o
}

// ObserveAt is [Outcome.Observe] of a sample that counts at another moment, for example once a write has succeeded:
//
//	outcome.Then(pintle.Sequential(pintle.Delete(pods, namespace, name)))
//	if deletion, ok := outcome.LastPlace(); ok {
//		outcome.ObserveAt(deletion.Done(), "pods_deleted_total", 1)
//	}
func (o *Outcome) ObserveAt(at Moment, metric string, value float64, labels ...string) *Outcome {
	o.Observations = append(o.Observations, Observation{Metric: metric, Labels: labels, Value: value, At: at})
	return o
}

// LastPlace is the place of the mutation that was added last; not ok if there is none.
func (o *Outcome) LastPlace() (place Place, ok bool) {
	step := len(o.Steps) - 1
	if step < 0 || len(o.Steps[step].Mutations) == 0 {
		return Place{}, false
	}
	return Place{Step: step, Position: len(o.Steps[step].Mutations) - 1}, true
}

// RunLabel sets a label for the metrics of runs: those with of: runs in the manifest, which declare it. Labels that no run sets are empty.
func (o *Outcome) RunLabel(name, value string) *Outcome {
	if o.RunLabels == nil {
		o.RunLabels = map[string]string{}
	}
	o.RunLabels[name] = value
	return o
}

// Fail fails the run all the same, once everything else of this outcome is carried out: the key is tried again as after an error that is
// returned, and [Lister.Attempt] counts it. For work that goes on beside what has failed. The error of the last call counts; nil changes
// nothing.
//
//	return outcome.Fail(err), nil
//
// With needs, it is not looked at; an error that is a [NeedsError] asks for its reads, and nothing else is carried out. Where a mutation
// fails too, that decides when the key is tried again.
func (o *Outcome) Fail(err error) *Outcome {
	if err != nil {
		o.Err = err
	}
	return o
}

// Step is mutations that belong together. A failed step stops those after it that are not Always.
type Step struct {
	Order     Order
	Mutations []Mutation
	// Always: carried out even if an earlier step failed.
	Always bool
}

// Order says how the mutations of one step are carried out.
type Order string

// Orders of a step.
const (
	OrderSequential Order = "sequential"
	OrderParallel   Order = "parallel"
	OrderSlowStart  Order = "slow-start"
)

// Sequential is a step of mutations one after the other, stopping at the first failure.
func Sequential(mutations ...Mutation) Step {
	return Step{Order: OrderSequential, Mutations: mutations}
}

// Parallel is a step of mutations all at once (within the plugin's own limit); all are tried.
func Parallel(mutations ...Mutation) Step { return Step{Order: OrderParallel, Mutations: mutations} }

// SlowStart is a step of mutations in batches of 1, 2, 4, ...; after the first failure no more are begun.
// For many writes that would all be refused for the same reason.
func SlowStart(mutations ...Mutation) Step { return Step{Order: OrderSlowStart, Mutations: mutations} }
