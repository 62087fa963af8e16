package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// acked is the newest revision in any response of an embedded etcd. All writes and reads go through
// this process, which records the revision before it passes a response on, so acked includes every
// acknowledged write. A read of etcd's store would block for as long as etcd waits for its disk.
type acked struct{ rev atomic.Int64 }

func (a *acked) record(rev int64) {
	for {
		previous := a.rev.Load()
		if rev <= previous || a.rev.CompareAndSwap(previous, rev) {
			return
		}
	}
}

// errSilent is reported when etcd did not answer a health probe in time.
var errSilent = errors.New("the log does not answer")

// Ping makes a linearizable read, and returns an error if etcd does not answer before the context
// ends. Committed does not detect that an embedded etcd hangs, because it makes no request. Ping
// returns in time, but its request to an etcd that waits for its disk may continue in the background.
func (l *Log) Ping(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() {
		_, err := l.revision(ctx)
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ping the log: %w", ctx.Err())
	}
}

// healthProbe checks whether an embedded etcd answers. The probe runs in a goroutine of its own,
// because the tail must not block. The methods are for the goroutine of the tail only.
type healthProbe struct {
	log *Log
	// results receives the result of the probe that started at begun; its buffer holds one result.
	results chan error
	// begun is zero if no probe is running.
	begun time.Time
}

func newHealthProbe(l *Log) *healthProbe {
	return &healthProbe{log: l, results: make(chan error, 1)}
}

// start starts a probe unless one is running. It reports errSilent if that one has run for
// checkTimeout or longer: while etcd waits for its disk, a request can outlive its context.
func (p *healthProbe) start(ctx context.Context, now time.Time, report func(error)) {
	switch {
	case p.begun.IsZero():
		p.begun = now
		go func() {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			_, err := p.log.revision(ctx)
			p.results <- err
		}()
	case now.Sub(p.begun) >= checkTimeout:
		report(errSilent)
	}
}

// finish ends the running probe and reports its result.
func (p *healthProbe) finish(err error, report func(error)) {
	p.begun = time.Time{}
	report(err)
}
