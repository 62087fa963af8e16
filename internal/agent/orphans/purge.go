package orphans

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// purgeLook is how often the agent looks whether a purge is asked for.
	purgeLook = time.Second
	// maxPurgeRetry is the longest wait until what could not be listed is tried again.
	maxPurgeRetry = 5 * time.Minute
)

// Purge finds, when an operator asks for a purge, all objects at the target that the
// agent has made, including those that neither store nor hub know. They are then removed
// like any others: the hub's content is empty.
type Purge struct {
	finder
	log *slog.Logger

	swept atomic.Bool // whether a sweep has succeeded since the purge was asked for
	// listed are the resources that have been listed, closed those that the agent may not
	// list. again is when to sweep next.
	listed, closed map[key.Resource]struct{}
	again          time.Time
	failures       uint8
}

// NewPurge makes what sweeps the target for a purge.
func NewPurge(e *worklist.Worklist, t *kubeclient.Client, st *store.Store, log *slog.Logger) *Purge {
	p := &Purge{finder: finder{engine: e, target: t, store: st}, log: log}
	p.reset()
	return p
}

// asked says whether a purge is asked for and the hub's content is known to be empty.
func (p *Purge) asked() bool {
	m := p.store.Meta()
	return m.Settings.Purge && m.Revision > 0 && m.Count == 0 && m.Deferred == 0
}

// reset begins anew.
func (p *Purge) reset() {
	p.swept.Store(false)
	p.listed, p.closed = map[key.Resource]struct{}{}, map[key.Resource]struct{}{}
	p.again, p.failures = time.Time{}, 0
}

// Run sweeps the target each time a purge is asked for, until ctx ends.
func (p *Purge) Run(ctx context.Context) {
	for ctx.Err() == nil {
		switch {
		case !p.asked():
			p.reset()
		case (!p.swept.Load() || len(p.closed) > 0) && !time.Now().Before(p.again):
			if err := p.sweep(ctx); err != nil {
				p.log.Info("what is to be removed cannot be found out now", "error", err)
			} else {
				p.swept.Store(true)
			}
			p.again = time.Now().Add(retry.Backoff(p.failures, purgeLook, maxPurgeRetry))
			p.failures = min(p.failures+1, retry.MaxFailures)
		}
		retry.Pause(ctx, purgeLook)
	}
}

// sweep finds all objects of ours at the target, of every kind that it has not listed
// yet. A kind that cannot be listed does not stop it.
func (p *Purge) sweep(ctx context.Context) error {
	all, err := p.target.Removable(ctx)
	for _, of := range all {
		if _, done := p.listed[of.Resource]; done {
			continue
		}
		switch e := p.all(ctx, of); {
		case apierrors.IsForbidden(e), apierrors.IsMethodNotSupported(e):
			if _, known := p.closed[of.Resource]; !known {
				p.log.Warn("a resource cannot be listed, so what neither store nor hub know of it is not removed", "resource", of.String(), "error", e)
			}
			p.closed[of.Resource] = struct{}{}
		case e != nil:
			err = errors.Join(err, e)
		default:
			p.listed[of.Resource] = struct{}{}
			delete(p.closed, of.Resource)
		}
	}
	return err
}

// Status is the progress of the purge; nil: none is asked for, or the first sweep has not
// succeeded yet.
func (p *Purge) Status() *wire.PurgeStatus {
	if !p.asked() || !p.swept.Load() {
		return nil
	}
	c := p.engine.Count()
	s := &wire.PurgeStatus{Kept: c.States[wire.Orphaned]}
	s.Left = c.Items - s.Kept
	for _, o := range p.engine.Those((*worklist.Item).Stays) {
		s.Objects = append(s.Objects, o.Identity.String())
	}
	slices.Sort(s.Objects)
	s.Objects = s.Objects[:min(store.MaxExamples, len(s.Objects))]
	return s
}
