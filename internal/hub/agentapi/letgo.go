package agentapi

import (
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
)

// maxLetGo limits the objects for each location.
const maxLetGo = 256

// letGo has the objects that agents were notified are no longer desired, although they have not
// reported them. An agent may have applied such an object right before, and then reports its removal.
// It is safe for concurrent use, and not persistent.
type letGo struct {
	mu  sync.Mutex
	all map[key.Location]map[string]struct{} // keys of reports
}

// record adds the report of an object.
func (g *letGo) record(l key.Location, report string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[key.Location]map[string]struct{}{}
	}
	if g.all[l] == nil || len(g.all[l]) >= maxLetGo { // older removals are completed by now
		g.all[l] = map[string]struct{}{}
	}
	g.all[l][report] = struct{}{}
}

// contains reports whether the object of a report was recorded.
func (g *letGo) contains(l key.Location, report string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.all[l][report]
	return ok
}

// forget removes a report, after the location has reported the removal.
func (g *letGo) forget(l key.Location, report string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.all[l], report); len(g.all[l]) == 0 {
		delete(g.all, l)
	}
}
