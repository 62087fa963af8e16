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
	// purgeLook is the interval at which the agent checks whether a purge is requested.
	purgeLook = time.Second
	// maxPurgeRetry is the longest wait before resources that could not be listed are listed again.
	maxPurgeRetry = 5 * time.Minute
)

// Purge finds all objects at the target that the agent has made, when an operator requests a purge. They include
// objects that neither the store nor the hub has. The agent removes them like any others, since the hub then
// sends no objects.
type Purge struct {
	finder
	log *slog.Logger

	swept atomic.Bool // a sweep has succeeded since the purge was requested
	// listed are the resources that have been listed, closed those that the agent may not list. again is the
	// time of the next sweep.
	listed, closed map[key.Resource]struct{}
	again          time.Time
	failures       uint8
}

// NewPurge returns a Purge, which searches the target when a purge is requested.
func NewPurge(e *worklist.Worklist, t *kubeclient.Client, st *store.Store, log *slog.Logger) *Purge {
	p := &Purge{finder: finder{engine: e, target: t, store: st}, log: log}
	p.reset()
	return p
}

// isRequested reports whether a purge is requested and the agent knows that the hub desires no objects.
func (p *Purge) isRequested() bool {
	m := p.store.Meta()
	return m.Settings.Purge && m.Revision > 0 && m.Count == 0 && m.Deferred == 0
}

// reset starts the purge from the beginning.
func (p *Purge) reset() {
	p.swept.Store(false)
	p.listed, p.closed = map[key.Resource]struct{}{}, map[key.Resource]struct{}{}
	p.again, p.failures = time.Time{}, 0
}

// Run sweeps the target each time a purge is requested, until ctx ends.
func (p *Purge) Run(ctx context.Context) {
	for ctx.Err() == nil {
		switch {
		case !p.isRequested():
			p.reset()
		case (!p.swept.Load() || len(p.closed) > 0) && !time.Now().Before(p.again):
			if err := p.sweep(ctx); err != nil {
				p.log.Info("the objects to purge cannot be listed now", "error", err)
			} else {
				p.swept.Store(true)
			}
			p.again = time.Now().Add(retry.Backoff(p.failures, purgeLook, maxPurgeRetry))
			p.failures = min(p.failures+1, retry.MaxFailures)
		}
		retry.Pause(ctx, purgeLook)
	}
}

// sweep finds all objects of ours at the target, of every kind that was not listed yet. A kind that cannot be
// listed does not stop it.
func (p *Purge) sweep(ctx context.Context) error {
	all, err := p.target.Removable(ctx)
	for _, served := range all {
		if _, done := p.listed[served.Resource]; done {
			continue
		}
		switch e := p.all(ctx, served); {
		case apierrors.IsForbidden(e), apierrors.IsMethodNotSupported(e):
			if _, known := p.closed[served.Resource]; !known {
				p.log.Warn("a resource cannot be listed, so its objects that neither store nor hub know are not removed", "resource", served.String(), "error", e)
			}
			p.closed[served.Resource] = struct{}{}
		case e != nil:
			err = errors.Join(err, e)
		default:
			p.listed[served.Resource] = struct{}{}
			delete(p.closed, served.Resource)
		}
	}
	return err
}

// Status returns the progress of the purge. It is nil if no purge is requested or the first sweep has not
// succeeded yet.
func (p *Purge) Status() *wire.PurgeStatus {
	if !p.isRequested() || !p.swept.Load() {
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
