package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// acked is the newest revision that an embedded etcd has answered anybody with. All writes and reads
// go through this process, which notes it before it gives the answer away: so it includes all that
// was acknowledged. To ask etcd's store instead would wait, without an end, while that writes to a
// disk which stands still.
type acked struct{ rev atomic.Int64 }

func (a *acked) note(rev int64) {
	for {
		was := a.rev.Load()
		if rev <= was || a.rev.CompareAndSwap(was, rev) {
			return
		}
	}
}

// errSilent says that the log has not answered a question.
var errSilent = errors.New("the log does not answer")

// Ask fails if the log does not answer, which Committed does not find out of an embedded one. It
// waits for no longer than the context; what waits for etcd's disk may go on until that is back.
func (l *Log) Ask(ctx context.Context) error {
	answer := make(chan error, 1)
	go func() {
		_, err := l.revision(ctx)
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ask the log whether it answers: %w", ctx.Err())
	}
}

// pulse asks an embedded etcd whether it answers, which no request does, beside the tail, which must
// not wait for that. It is used by the goroutine of the tail.
type pulse struct {
	log *Log
	// answers has room for the one question that is under way since begun; zero: none is.
	answers chan error
	begun   time.Time
}

func (l *Log) newPulse() *pulse { return &pulse{log: l, answers: make(chan error, 1)} }

// beat asks, or says that what was asked has no answer for too long: etcd may wait for its disk for
// longer than a question's context.
func (p *pulse) beat(ctx context.Context, now time.Time, asked func(error)) {
	switch {
	case p.begun.IsZero():
		p.begun = now
		go func() {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			_, err := p.log.revision(ctx)
			p.answers <- err
		}()
	case now.Sub(p.begun) >= checkTimeout:
		asked(errSilent)
	}
}

// answered ends a question.
func (p *pulse) answered(err error, asked func(error)) {
	p.begun = time.Time{}
	asked(err)
}
