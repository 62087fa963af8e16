package upsync

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
)

// rediscoverAfter is the interval of discovery requests while a kind that is requested by name is missing. An
// aggregated API has no definition that would announce it.
const rediscoverAfter = 5 * time.Minute

// discoveryDelays returns the waits between discovery requests after a definition has changed. API servers serve
// the kind some time after that.
func discoveryDelays() []time.Duration {
	return []time.Duration{time.Second, 2 * time.Second, 7 * time.Second, 20 * time.Second}
}

// planner starts and stops watchers so that the requested kinds are observed. It is for one goroutine.
type planner struct {
	*Syncer
	// served is the result of the last discovery, and whole is true if it had all APIs. discover is true if it must
	// be repeated.
	served          []kubeclient.Served
	discover, whole bool
	// due fires at the time of the next discovery. later has the waits between further ones.
	due   <-chan time.Time
	later []time.Duration
	// definitions are watched while any object is requested.
	definitions *definitions
}

// plan starts the watchers that are needed, and stops the others.
func (p *planner) plan(ctx context.Context) {
	p.mu.Lock()
	some := p.ledger.requests()
	p.ledger.associated.plan()
	p.mu.Unlock()
	if !some {
		p.stop()
		p.served, p.whole = nil, true
		p.arrange(ctx, nil)
		return
	}
	p.follow(ctx)
	if p.served == nil || p.discover || p.stale() {
		p.rediscover(ctx)
	}
	p.arrange(ctx, p.needed())
	p.schedule()
}

// stale reports whether the result of the last discovery may be out of date: a definition has changed, or a watcher
// has found its kind missing.
func (p *planner) stale() bool {
	select {
	case <-p.definitions.changed:
		p.later = discoveryDelays()
		return true
	default:
		return p.missing.Swap(false)
	}
}

// rediscover requests the kinds that the target serves.
func (p *planner) rediscover(ctx context.Context) {
	p.discover = false
	served, err := p.target.Watchable(ctx)
	switch {
	case err == nil, errors.Is(err, kubeclient.ErrStale):
		p.served, p.whole = served, err == nil
	default:
		p.whole = false
		p.gate.Trouble(err)
		p.log.Info("the discovery of the cluster's kinds failed; it is repeated", "error", err)
	}
	if err != nil && len(p.later) == 0 {
		p.later = []time.Duration{listRetry}
	}
}

// schedule sets the time of the next discovery.
func (p *planner) schedule() {
	switch {
	case len(p.later) > 0:
		p.due, p.later = time.After(p.later[0]), p.later[1:]
	case p.due == nil && p.lacks():
		p.due = time.After(rediscoverAfter)
	}
}

// lacks reports whether a kind that is requested by name is not served, or definitions can't be read.
func (p *planner) lacks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.definitions.blind.Load() {
		return true
	}
	return slices.ContainsFunc(p.ledger.upsynced.requests.named(), func(r key.Resource) bool { return p.ledger.graph.kinds[r] == nil })
}

// need is a kind to observe, see kind.
type need struct {
	kubeclient.Served
	full, requested bool
}

// needed returns the kinds to observe, of those that are served.
func (p *planner) needed() map[key.Resource]need {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[key.Resource]need{}
	for _, s := range p.served {
		if full, requested, link := p.ledger.needs(s); full || link {
			all[s.Resource] = need{s, full, requested}
		}
	}
	return all
}

// arrange stops the watchers that are not needed any more, and starts those that are. The reports of a kind that
// is not served any more are removed only if the discovery had all APIs.
func (p *planner) arrange(ctx context.Context, all map[key.Resource]need) {
	var stopped []*watcher
	p.mu.Lock()
	for r, w := range p.watchers {
		n, needed := all[r]
		isMissing := p.wants(w.kind)
		same := needed && n.Place == w.kind.Place && n.full == w.kind.full
		if same || !needed && isMissing && !p.whole {
			w.kind.requested = w.kind.requested || n.requested
			continue
		}
		stopped = append(stopped, w)
		delete(p.watchers, r)
		delete(p.unread, r)
	}
	p.mu.Unlock()
	for _, w := range stopped {
		w.stop()
	}
	p.with(ctx, func(l *ledger) {
		for _, w := range stopped {
			if n, again := all[w.kind.Resource]; again && (n.full || !w.kind.full) {
				l.restart(w.kind)
			} else {
				l.forget(w.kind)
			}
		}
		if p.whole {
			l.out.removeEach(func(r key.Report) bool { _, needed := all[r.Resource]; return !needed || !all[r.Resource].full })
		}
		for r, n := range all {
			if p.watchers[r] == nil {
				p.watchers[r] = p.watch(ctx, l.graph.observe(n.Served, n.full, n.requested))
			}
		}
		l.conclude()
		kinds := sortedKinds(p.watchers)
		p.kinds.Store(&kinds)
	})
}

// wants reports whether a kind must be observed if it is served.
func (p *planner) wants(k *kind) bool {
	full, _, link := p.ledger.needs(k.Served)
	return full || link
}

// stopAll ends all watchers and waits for them.
func (c *Syncer) stopAll() {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.watchers))
	c.watchers = nil
	c.mu.Unlock()
	for _, w := range all {
		w.stop()
	}
}

func sortedKinds[T any](all map[key.Resource]T) []key.Resource {
	return slices.SortedFunc(maps.Keys(all), func(a, b key.Resource) int { return cmp.Compare(a.String(), b.String()) })
}
