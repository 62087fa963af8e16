package decide

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// FirstMutatedRetry is the first wait before the agent repeats an apply that admission has changed,
	// mostMutatedRetry the longest.
	FirstMutatedRetry = 10 * time.Second
	mostMutatedRetry  = 10 * time.Minute
)

// Insistence computes the times at which the agent repeats an apply that admission at the target has changed.
type Insistence struct {
	// First is the first wait. It doubles with each apply that has no effect.
	First time.Duration
	// Started is the start of this agent. Applies that were due before it are spread over the time until their
	// next retry, so that they do not all happen at once.
	Started time.Time
}

// After returns the mutation to record after an apply. before is the last one of the same object, nil if there
// is none.
func (i Insistence) After(before *store.Mutation, fields string, now time.Time) *store.Mutation {
	m := &store.Mutation{Fields: fields}
	if before != nil {
		m.Tries = min(before.Tries+1, retry.MaxFailures)
	}
	m.Due = now.Add(retry.Backoff(m.Tries, i.First, mostMutatedRetry)).UTC().Truncate(time.Millisecond)
	return m
}

// Wait returns the wait before an object is applied again. It is zero if the clock was set back since the last
// apply.
func (i Insistence) Wait(m *store.Mutation, id string, now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	due := m.Due
	if due.Before(i.Started) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id)) // a hash takes every write
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(i.Started.UnixNano())))
		share := float64(h.Sum32()) / (1 << 32)
		due = i.Started.Add(time.Duration(share * float64(retry.Backoff(m.Tries, i.First, mostMutatedRetry))))
	}
	if wait := due.Sub(now); wait <= mostMutatedRetry {
		return max(wait, 0)
	}
	return 0
}

// unchanged returns the decision about an object at the target that did not change since our last apply.
func (f Facts) unchanged(s store.Source, uid string) Decision {
	d, m := Applied(s), f.Record.Mutated
	switch {
	case m == nil || s.Policy.CreateOnly:
		return d
	case f.Again <= 0:
		return Decision{Do: DoApply, UID: uid, Again: true}
	}
	return MutatedBy(m, f.Again)
}

// SaysMutated begins the message of a report; the names of the fields follow.
const SaysMutated = "admission at the location sets other values than were applied; it is tried again: "

// MutatedBy returns the decision about an object that admission at the target has changed.
func MutatedBy(m *store.Mutation, retry time.Duration) Decision {
	return Decision{
		State: wire.Applied, Reason: v1alpha1.ReasonMutated, Retry: retry,
		Message: wire.Brief(SaysMutated + m.Fields),
	}
}
