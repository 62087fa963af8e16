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
	// longestRetry is the longest wait before Leases are asked for again, seldom that where
	// the cluster has no such kind.
	longestRetry = 5 * time.Second
	seldom       = 30 * time.Second
	// pulses is how often in the duration of a Lease the agent of a whole location notes that it
	// runs, and pulseLasts for how many pulses it acts after that: one that was stopped, or whose
	// machine slept, for longer looks anew before it acts.
	pulses, pulseLasts = 3, 4
	// looksEach is for how many durations it goes by one watch where the connection may be dead,
	// and nobody say so in time. What it sends is given up sentLasts durations after it may act no
	// more. All of that is over before the first shards of a location act, after noticeTimes
	// durations.
	looksEach, sentLasts = 2, 2
)

// whole is the watch of the agent of a whole location: it acts only while there is no Lease of
// a shard.
type whole struct {
	*Fence
	self   ownership.Owner
	labels string
	// shared names a Lease that was there when it was last looked; empty: none was.
	shared string
	// rest is until when Leases that have gone count: their holders may not know it yet.
	rest time.Time
	// failures counts watches and lists that have failed in a row, since blind.
	failures uint8
	blind    time.Time
}

// errMoved ends a watch that has shown something, errSlept one beside which the process was
// stopped for a while, and errOld one that may be over without anybody's having said so.
var (
	errMoved = errors.New("the Leases of the location have changed")
	errSlept = errors.New("the process was stopped for a while")
	errOld   = errors.New("the Leases of the location are looked at again")
)

// pulse is how often the agent notes that it runs.
func (w *whole) pulse() time.Duration { return w.config.Duration / pulses }

// lasts is for how long the agent acts after it has noted that.
func (w *whole) lasts() time.Duration { return pulseLasts * w.pulse() }

// watch has the agent act while there is no Lease of a shard, until ctx ends. While nothing
// happens that costs an open watch, and a list now and then where a dead connection is not noticed.
func (t *Fence) watch(ctx context.Context, self ownership.Owner) {
	w := &whole{Fence: t, self: self, labels: labelsOf(self), blind: time.Now()}
	if t.config.Was { // whose Lease has just been deleted may still act
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

// list reads which Leases there are, and says by that whether the agent may act.
func (w *whole) list(ctx context.Context) (revision string, err error) {
	asked, was := now(), w.shared
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
		w.shared = was
		return "", err
	}
	w.config.Mark.show(w.self, mark)
	if was != "" {
		w.rest = time.Now().Add(w.config.Duration)
	}
	switch {
	case w.shared != "":
		w.deny(fmt.Sprintf("the location is shared by shards at this cluster, as the Lease %s says, and this agent is for the whole: "+
			"give it --shards, or stop the others and delete their Leases", w.shared))
	case time.Now().Before(w.rest):
		w.deny("the Leases of shards have just gone, and their holders may not know it yet")
	case w.failures == 0: // or else it is the watch that fails, without which this is soon not known any more
		w.allow(asked.add(w.lasts()))
	}
	return revision, nil
}

// noticesDeath says that a watch over a dead connection fails so early that all is over before
// the first shards of the location act.
func (w *whole) noticesDeath() bool {
	after := w.config.Target.Silence()
	return after > 0 && after+w.lasts()+sentLasts*w.config.Duration < noticeTimes*w.config.Duration
}

// follow waits until something changes, or is over, or the watch can't be had.
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

// beat notes that the process runs and the watch stands, which lets the agent act if it may,
// until ctx ends.
func (w *whole) beat(ctx context.Context, may bool, slept context.CancelCauseFunc) {
	last := now()
	for ctx.Err() == nil {
		retry.Pause(ctx, w.pulse())
		if ctx.Err() != nil {
			return
		}
		is := now()
		if !is.before(last.add(w.lasts())) {
			w.deny("the process was stopped for a while; the Leases of the location are looked at anew")
			slept(errSlept)
			return
		}
		if last = is; may {
			w.allow(is.add(w.lasts()))
		}
	}
}

// failed says what it means that Leases can't be listed or watched, and how long to wait.
func (w *whole) failed(ctx context.Context, err error) time.Duration {
	wait := retry.Backoff(w.failures, retry.First, longestRetry)
	w.failures = min(w.failures+1, retry.MaxFailures)
	if kubeclient.MissingKind(err) {
		served, why := w.config.Target.ServesLeases(ctx)
		if why == nil && !served { // then no shard can work here
			w.allow(now().add(seldom + w.lasts()))
			return seldom
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		w.deny("the agent may not list and watch the Leases by which agents share a location, so it can't be sure to be the only one: " +
			"apply again what \"orrery-agent rbac\" prints. " + wire.Brief(err.Error()))
	case time.Since(w.blind) >= wholePatience:
		w.deny("whether there are Leases of shards can't be seen: " + wire.Brief(err.Error()))
	}
	return wait
}

func nameOf(m *ownership.Meta) string { return m.Namespace + "/" + m.Name }
