package hub

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// hubMarker is the trace of one hub start in the log.
type hubMarker struct {
	name string
	rev  int64
}

// lineage keeps the markers of the log in the order of their revisions. It is
// told of changes by one goroutine and may be asked by any.
type lineage struct {
	mu  sync.RWMutex
	all []hubMarker
}

var _ table.Observer = (*lineage)(nil)

// Reset forgets all markers.
func (l *lineage) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

// Observe notes the markers among the changes of a revision.
func (l *lineage) Observe(_ int64, changes []table.Change) {
	prefix := string(key.Markers) + "/"
	for _, ch := range changes {
		name, ok := strings.CutPrefix(ch.Row().Key, prefix)
		if !ok {
			continue
		}
		l.mu.Lock()
		l.all = slices.DeleteFunc(l.all, func(m hubMarker) bool { return m.name == name })
		if ch.Cur != nil {
			l.all = append(l.all, hubMarker{name, ch.Cur.CreateRev})
		}
		slices.SortFunc(l.all, func(a, b hubMarker) int { return cmp.Compare(a.rev, b.rev) })
		l.mu.Unlock()
	}
}

// at is the newest marker at or below a revision, "" if there is none.
func (l *lineage) at(rev int64) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, m := range slices.Backward(l.all) {
		if m.rev <= rev {
			return m.name
		}
	}
	return ""
}

// continuous says whether an agent that remembers a marker and a revision has
// seen this hub's log: the marker is in it and no later marker lies at or below
// the revision. An agent that remembers nothing has nothing to lose.
func (l *lineage) continuous(marker string, rev int64) bool {
	return marker == "" && rev == 0 || marker != "" && l.at(rev) == marker
}
