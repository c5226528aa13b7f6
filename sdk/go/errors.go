package pintle

import (
	"errors"
	"fmt"
	"time"
)

// RetryError ends a run that may succeed later: the key is tried again after the queue's own backoff, or after After.
// Every error that is no [TerminalError] counts as one, so it is only needed for After. Make one with [RetryAfter].
type RetryError struct {
	Err error
	// After replaces the queue's backoff if it is more than 0. In milliseconds on the wire, rounded up.
	After time.Duration
}

// Error is the message for the log.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter makes a [RetryError] of a message in the form of [fmt.Errorf].
func RetryAfter(after time.Duration, format string, args ...any) error {
	return &RetryError{Err: fmt.Errorf(format, args...), After: after}
}

// TerminalError ends a run that is useless to try again until the world changes. Make one with [Terminal].
type TerminalError struct {
	Err error
}

// Error is the message for the log.
func (e *TerminalError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *TerminalError) Unwrap() error { return e.Err }

// Terminal makes a [TerminalError] of a message in the form of [fmt.Errorf].
func Terminal(format string, args ...any) error {
	return &TerminalError{Err: fmt.Errorf(format, args...)}
}

// NeedsError ends a round of a run that needs reads from the API server itself: return it as it is, or wrapped. The host then
// does the reads and calls again, so this is no failure. Several can be joined with [errors.Join], to be answered at once.
type NeedsError struct {
	Needs []Need
}

// Error says how many reads are needed.
func (e *NeedsError) Error() string {
	return fmt.Sprintf("%d reads from the API server are needed", len(e.Needs))
}

// needsOf collects the needs of all errors that err wraps.
func needsOf(err error) []Need {
	switch e := err.(type) {
	case *NeedsError:
		return e.Needs
	case interface{ Unwrap() []error }:
		var needs []Need
		for _, one := range e.Unwrap() {
			needs = append(needs, needsOf(one)...)
		}
		return needs
	default:
		if inner := errors.Unwrap(err); inner != nil {
			return needsOf(inner)
		}
		return nil
	}
}

// Result is the end of a run, as the host receives it: an outcome, or an error of one of two kinds.
type Result struct {
	// Outcome is nil if Err is not. Its own Err is nil, or of one of the two kinds, too.
	Outcome *Outcome
	// Err is a *[RetryError] or a *[TerminalError].
	Err error
}

// maxNeeds is how many reads the host takes from one outcome. More are asked for by the next round, which still misses them.
const maxNeeds = 256

// Conclude turns the return values of a reconcile function into what the host receives. Tests use it; plugins need not.
func Conclude(outcome *Outcome, err error) Result {
	if err == nil {
		if outcome == nil {
			outcome = &Outcome{}
		}
		return Result{Outcome: concluded(outcome)}
	}
	if needs := needsOf(err); len(needs) > 0 {
		return Result{Outcome: &Outcome{Needs: needs[:min(len(needs), maxNeeds)]}}
	}
	if terminal := (*TerminalError)(nil); errors.As(err, &terminal) {
		return Result{Err: &TerminalError{Err: err}}
	}
	retry := &RetryError{Err: err}
	if inner := (*RetryError)(nil); errors.As(err, &inner) {
		retry.After = inner.After
	}
	return Result{Err: retry}
}

// concluded is an outcome whose error, if there is one, is as that of a run.
func concluded(outcome *Outcome) *Outcome {
	if outcome.Err == nil {
		return outcome
	}
	result := Conclude(nil, outcome.Err)
	if result.Outcome != nil && len(outcome.Needs) == 0 {
		// The error needs reads.
		return result.Outcome
	}
	copied := *outcome
	copied.Err = result.Err
	return &copied
}
