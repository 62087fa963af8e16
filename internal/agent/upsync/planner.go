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

const (
	// mostLinks is how many kinds are observed only for what owns their objects.
	mostLinks = 16
	// lookAgain is how often the target is asked what it serves while a kind that is asked
	// for by name is missing: an API that needs no definition tells nobody that it is there.
	lookAgain = 5 * time.Minute
)

// settling is when, after a definition has changed, the target is asked what it serves:
// discovery follows by and by.
func settling() []time.Duration {
	return []time.Duration{time.Second, 2 * time.Second, 7 * time.Second, 20 * time.Second}
}

// planner starts and stops watchers so that what is asked for is observed. It is for one
// goroutine.
type planner struct {
	*Syncer
	// served is what the target served when it was last asked, discover says that it is to
	// be asked again, and whole that it knew of all APIs then.
	served          []kubeclient.Served
	discover, whole bool
	// due is when to ask again; later is how long after that, and so on.
	due   <-chan time.Time
	later []time.Duration
	// definitions are watched while anything is asked for.
	definitions *definitions
}

// plan makes the watchers those that are needed.
func (p *planner) plan(ctx context.Context) {
	p.mu.Lock()
	l := p.ledger
	some := len(l.asks.rules) > 0 || len(l.roots) > 0
	for of := range l.lacking {
		if len(l.links) < mostLinks {
			l.links[of] = struct{}{}
		}
	}
	clear(l.lacking)
	if len(l.roots) == 0 {
		clear(l.links)
	}
	p.mu.Unlock()
	if !some {
		p.stop()
		p.served, p.whole = nil, true
		p.arrange(ctx, nil)
		return
	}
	p.follow(ctx)
	if p.served == nil || p.discover || p.stale() {
		p.ask(ctx)
	}
	p.arrange(ctx, p.needed())
	p.schedule()
}

// stale says that a watcher has found its kind missing.
func (p *planner) stale() bool {
	select {
	case <-p.definitions.changed:
		p.later = settling()
		return true
	default:
		return p.missing.Swap(false)
	}
}

// ask asks the target what it serves.
func (p *planner) ask(ctx context.Context) {
	p.discover = false
	served, err := p.target.Watchable(ctx)
	switch {
	case err == nil, errors.Is(err, kubeclient.ErrStale):
		p.served, p.whole = served, err == nil
	default:
		p.whole = false
		p.gate.Trouble(err)
		p.log.Info("what the target serves is not known now", "error", err)
	}
	if err != nil && len(p.later) == 0 {
		p.later = []time.Duration{listRetry}
	}
}

// schedule sets when the target is asked next.
func (p *planner) schedule() {
	switch {
	case len(p.later) > 0:
		p.due, p.later = time.After(p.later[0]), p.later[1:]
	case p.due == nil && p.lacks():
		p.due = time.After(lookAgain)
	}
}

// lacks says that a kind that is asked for by name is not served, or that nobody tells of new
// ones.
func (p *planner) lacks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.definitions.blind.Load() {
		return true
	}
	return slices.ContainsFunc(p.ledger.asks.named(), func(r key.Resource) bool { return p.ledger.kinds[r] == nil })
}

// need is a kind that is to be observed.
type need struct {
	kubeclient.Served
	full, asked bool
}

// needed are the kinds that are to be observed, of those that are served.
func (p *planner) needed() map[key.Resource]need {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[key.Resource]need{}
	for _, s := range p.served {
		_, link := p.ledger.links[[2]string{s.APIGroup(), s.Kind}]
		born, owned := p.ledger.asks.kind(s.Resource), p.ledger.wants(s.Resource)
		full := born || owned || s.Resource == key.StatefulSets && p.ledger.wants(key.PersistentVolumeClaims)
		if full || link {
			all[s.Resource] = need{s, full, born || owned}
		}
	}
	return all
}

// arrange stops the watchers that are not needed any more, and starts those that are. A kind
// that is no longer served is forgotten only if the target is known to serve all that it does.
func (p *planner) arrange(ctx context.Context, all map[key.Resource]need) {
	var stopped []*watcher
	p.mu.Lock()
	for r, w := range p.watchers {
		n, needed := all[r]
		unserved := p.wanted(w.kind)
		same := needed && n.Place == w.kind.Place && n.full == w.kind.full
		if same || !needed && unserved && !p.whole {
			w.kind.asked = w.kind.asked || n.asked
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
				l.empties(w.kind)
			} else {
				l.forgets(w.kind)
			}
		}
		if p.whole {
			l.dropUnclaimed(func(r key.Report) bool { _, needed := all[r.Resource]; return !needed || !all[r.Resource].full })
		}
		for r, n := range all {
			if p.watchers[r] == nil {
				p.watchers[r] = p.watch(ctx, l.observes(n.Served, n.full, n.asked))
			}
		}
		l.conclude()
		kinds := sortedKinds(p.watchers)
		p.kinds.Store(&kinds)
	})
}

// wanted says whether a kind is asked for, or observed for what owns its objects, whether or
// not it is served.
func (p *planner) wanted(k *kind) bool {
	_, link := p.ledger.links[[2]string{k.APIGroup(), k.Kind}]
	return link || p.ledger.asks.kind(k.Resource) || p.ledger.wants(k.Resource) || k.Resource == key.StatefulSets && p.ledger.wants(key.PersistentVolumeClaims)
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
