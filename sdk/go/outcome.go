package pintle

import "time"

// Outcome is what one run wants. The zero value, as well as nil, wants nothing.
//
// Its methods return it, so that calls can be chained:
//
//	return new(pintle.Outcome).Then(pintle.Parallel(mutations...)).Requeue(time.Minute), nil
type Outcome struct {
	// Needs are reads that the host must do first; it carries out nothing else of this outcome, and calls again.
	Needs []Need
	Steps []Step
	// RequeueAfter runs this key again after this time, whatever happens until then; not if it is 0.
	// In milliseconds on the wire, rounded up.
	RequeueAfter time.Duration
	State        []StateWrite
	Observations []Observation
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
}

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
