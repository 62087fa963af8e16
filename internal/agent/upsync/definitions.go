package upsync

import (
	"context"
	"sync/atomic"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// definitions watches the metadata of CustomResourceDefinitions, so that the agent notices added and deleted kinds
// without discovery requests.
type definitions struct {
	// changed is raised when a definition may have changed. blind is true if definitions can't be read.
	changed retry.Signal
	blind   atomic.Bool
	cancel  context.CancelFunc
	done    chan struct{}
}

// follow starts the watch of definitions, unless it runs.
func (p *planner) follow(ctx context.Context) {
	if p.definitions != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &definitions{changed: retry.NewSignal(), cancel: cancel, done: make(chan struct{})}
	p.definitions = d
	go func() {
		defer close(d.done)
		p.watchDefinitions(ctx, d)
	}()
}

// stop ends the watch of definitions.
func (p *planner) stop() {
	if p.definitions != nil {
		p.definitions.cancel()
		<-p.definitions.done
		p.definitions = nil
	}
}

func (c *Syncer) watchDefinitions(ctx context.Context, d *definitions) {
	news := func() {
		d.changed.Raise()
		c.replan.Raise()
	}
	revision, listed := "", false
	for failures := uint8(0); ctx.Err() == nil; failures = min(failures+1, retry.MaxFailures) {
		var err error
		if revision == "" {
			revision, err = c.target.PagesAll(ctx, kubeclient.CRDs, false, func([]ownership.Answer) error { return nil })
			if err == nil && listed {
				news()
			}
			listed = listed || err == nil
		}
		if err == nil {
			d.blind.Store(false)
			from := revision
			if revision, err = c.target.FollowAll(ctx, kubeclient.CRDs, "", revision, false, func(*ownership.Answer, bool) error {
				news()
				return nil
			}); revision != from {
				failures = 0
			}
		}
		wait := retry.Backoff(failures, retry.First, listRetry)
		switch {
		case err == nil, ctx.Err() != nil:
		case unreadable(err):
			revision, wait = "", retry.Backoff(failures, retry.First, blindRetry)
			if !d.blind.Swap(true) {
				c.replan.Raise() // so that discovery is repeated from time to time
			}
		case kubeclient.Expired(err), kubeclient.MissingKind(err):
			revision = ""
		default:
			c.gate.Trouble(err)
		}
		retry.Pause(ctx, max(wait, kubeclient.RetryAfter(err)))
	}
}
