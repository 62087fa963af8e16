package agentapi

import (
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
)

// maxLetGo is how many objects are remembered of each location.
const maxLetGo = 256

// letGo remembers what agents were told is no longer desired though they have not reported
// it: it may have been applied right before, so they may report that they remove it. It is
// safe for concurrent use, and forgotten with the process.
type letGo struct {
	mu  sync.Mutex
	all map[key.Location]map[string]struct{} // keys of reports
}

// note notes what a location was told.
func (g *letGo) note(l key.Location, report string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[key.Location]map[string]struct{}{}
	}
	if g.all[l] == nil || len(g.all[l]) >= maxLetGo { // what is older is done by now, or will be
		g.all[l] = map[string]struct{}{}
	}
	g.all[l][report] = struct{}{}
}

// has says whether a location was told of the object of a report.
func (g *letGo) has(l key.Location, report string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.all[l][report]
	return ok
}

// forget forgets it, once the location has said what became of it.
func (g *letGo) forget(l key.Location, report string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.all[l], report); len(g.all[l]) == 0 {
		delete(g.all, l)
	}
}
