package fencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// longestRetry is the longest wait before Leases are read again, noKindRetry the wait if the cluster does
	// not serve Leases.
	longestRetry = 5 * time.Second
	noKindRetry  = 30 * time.Second
	// pulses is the number of times, in the duration of a Lease, at which the agent of a whole location records
	// that it runs. pulseLasts is the number of pulses for which it acts after that. An agent that was stopped
	// for longer, or whose machine was suspended, reads the Leases again before it acts.
	pulses, pulseLasts = 3, 4
	// looksEach is the number of durations for which the agent uses one watch if a dead connection may not be
	// noticed in time. sentLasts is the number of durations, after it may not act any more, in which its running
	// requests end. All of that is over before the first shards of a location act, after noticeTimes durations.
	looksEach, sentLasts = 2, 2
)

// whole watches Leases for the agent of a whole location, which acts only while there is no Lease of a shard.
type whole struct {
	*Fence
	self   ownership.Owner
	labels string
	// shared names a Lease that existed at the last read; empty: there was none.
	shared string
	// rest is the time until which deleted Leases count, because their holders may not know of the deletion yet.
	rest time.Time
	// failures is the number of failed watches and lists in a row, since the time blind.
	failures uint8
	blind    time.Time
}

// errMoved ends a watch after a change, errSlept one during which the process was stopped, and errOld one whose
// connection may be dead.
var (
	errMoved = errors.New("the Leases of the location have changed")
	errSlept = errors.New("the process was stopped for a while")
	errOld   = errors.New("the Leases of the location are read again")
)

// pulse is the interval at which the agent records that it runs.
func (w *whole) pulse() time.Duration { return w.config.Duration / pulses }

// lasts is the time for which the agent acts after a pulse.
func (w *whole) lasts() time.Duration { return pulseLasts * w.pulse() }

// watch lets the agent act while there is no Lease of a shard, until ctx ends. Without changes its cost is an
// open watch, and repeated lists if a dead connection would not be noticed.
func (t *Fence) watch(ctx context.Context, self ownership.Owner) {
	w := &whole{Fence: t, self: self, labels: labelsOf(self), blind: time.Now()}
	if t.config.IsMoved { // the holder of a deleted Lease may still act
		w.rest = time.Now().Add(t.config.Duration)
	}
	for ctx.Err() == nil {
		began := time.Now()
		revision, err := w.list(ctx)
		if err == nil {
			err = w.follow(ctx, revision)
		}
		if err == nil || errors.Is(err, errMoved) || errors.Is(err, errSlept) || errors.Is(err, errOld) {
			w.failures, w.blind = 0, time.Now()
			if err == nil { // the watch has ended, perhaps at once
				retry.Pause(ctx, time.Until(began.Add(time.Second)))
			}
			continue
		}
		if ctx.Err() == nil {
			retry.Pause(ctx, max(w.failed(ctx, err), kubeclient.RetryAfter(err)))
		}
	}
}

// list reads the Leases, and decides whether the agent may act.
func (w *whole) list(ctx context.Context) (revision string, err error) {
	start, previous := now(), w.shared
	w.shared = ""
	var mark *ownership.Meta
	revision, err = w.config.Target.Pages(ctx, kubeclient.Leases, "", w.labels, false, func(p *kubeclient.Page) (more bool, err error) {
		for i := range p.Items {
			m := &p.Items[i].Metadata
			if isLeaseOf(w.self, w.config.Namespace, m.Namespace, m.Name) {
				w.shared = nameOf(m)
			}
			if w.config.Mark.is(w.self, m) {
				mark = m
			}
		}
		return true, nil
	})
	if err != nil {
		w.shared = previous
		return "", err
	}
	w.config.Mark.show(w.self, mark)
	if previous != "" {
		w.rest = time.Now().Add(w.config.Duration)
	}
	switch {
	case w.shared != "":
		w.deny(fmt.Sprintf("the location is shared by shards at this cluster, as the Lease %s shows, and this agent is for the whole location: "+
			"give it --shards, or stop the others and delete their Leases", w.shared))
	case time.Now().Before(w.rest):
		w.deny("the Leases of shards were just deleted, and their holders may not know it yet")
	case w.failures == 0: // otherwise the watch fails, and the result of the list is soon outdated
		w.allow(start.add(w.lasts()))
	}
	return revision, nil
}

// noticesDeath reports whether a watch over a dead connection fails so early that the agent stops before the
// first shards of the location act.
func (w *whole) noticesDeath() bool {
	after := w.config.Target.Silence()
	return after > 0 && after+w.lasts()+sentLasts*w.config.Duration < noticeTimes*w.config.Duration
}

// follow watches until a Lease changes, the watch ends, or it fails.
func (w *whole) follow(ctx context.Context, revision string) error {
	if !w.noticesDeath() {
		var old context.CancelFunc
		ctx, old = context.WithTimeoutCause(ctx, looksEach*w.config.Duration, errOld)
		defer old()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if rest := time.Until(w.rest); rest > 0 && w.shared == "" {
		defer time.AfterFunc(rest, func() { cancel(errMoved) }).Stop()
	}
	beats, may := make(chan struct{}), w.shared == "" && !time.Now().Before(w.rest)
	go func() {
		defer close(beats)
		w.beat(ctx, may, cancel)
	}()
	defer func() { cancel(nil); <-beats }()
	_, err := w.config.Target.Watch(ctx, kubeclient.Leases, w.labels, revision, false, func(o *ownership.Answer, gone bool) error {
		switch m := &o.Metadata; {
		case w.config.Mark.is(w.self, m) && gone:
			w.config.Mark.show(w.self, nil)
		case w.config.Mark.is(w.self, m):
			w.config.Mark.show(w.self, m)
		case isLeaseOf(w.self, w.config.Namespace, m.Namespace, m.Name):
			w.shared = nameOf(m)
			cancel(errMoved)
			return errMoved
		}
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err // nil: it has ended, and is listed anew
}

// beat lets the agent act, if it may, while the process runs and the watch is open, until ctx ends.
func (w *whole) beat(ctx context.Context, may bool, slept context.CancelCauseFunc) {
	last := now()
	for ctx.Err() == nil {
		retry.Pause(ctx, w.pulse())
		if ctx.Err() != nil {
			return
		}
		is := now()
		if !is.before(last.add(w.lasts())) {
			w.deny("the process was stopped for a while; the Leases of the location are read again")
			slept(errSlept)
			return
		}
		if last = is; may {
			w.allow(is.add(w.lasts()))
		}
	}
}

// failed handles a failed list or watch of Leases, and returns the wait before the next.
func (w *whole) failed(ctx context.Context, err error) time.Duration {
	wait := retry.Backoff(w.failures, retry.First, longestRetry)
	w.failures = min(w.failures+1, retry.MaxFailures)
	if kubeclient.MissingKind(err) {
		served, why := w.config.Target.ServesLeases(ctx)
		if why == nil && !served { // then no shard can work here
			w.allow(now().add(noKindRetry + w.lasts()))
			return noKindRetry
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		w.deny("the agent may not list and watch the Leases by which agents share a location, so it can't be sure to be the only one: " +
			"apply again what \"orrery-agent rbac\" prints. " + wire.Brief(err.Error()))
	case time.Since(w.blind) >= wholeTimeout:
		w.deny("the Leases of shards can't be read: " + wire.Brief(err.Error()))
	}
	return wait
}

func nameOf(m *ownership.Meta) string { return m.Namespace + "/" + m.Name }
