package presence

import (
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Newer contains the running hubs on the log with newer schemas than this hub. It is safe for
// concurrent use, and a table.Observer.
type Newer struct {
	schema int
	logger *slog.Logger

	mu sync.Mutex
	// hubs are the newer hubs, by ID; anew reports that the next change belongs to a reloaded
	// table.
	hubs map[string]Hub
	anew bool
	// changed is closed and replaced when the first newer hub appears, or the last one ends.
	changed chan struct{}
}

var _ table.Observer = (*Newer)(nil)

// NewNewer returns a Newer for a hub whose schemas have a version.
func NewNewer(schema int, logger *slog.Logger) *Newer {
	return &Newer{schema: schema, logger: logger, hubs: map[string]Hub{}, changed: make(chan struct{})}
}

// Live reports whether a newer hub runs. changed is closed when the result changes.
func (n *Newer) Live() (live bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.hubs) > 0, n.changed
}

// Knowing returns the newest hub that has a newer schema for a kind, such as placements.orrery.dev,
// than this one.
func (n *Newer) Knowing(kind string) (newest Hub, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hubs {
		if h.Kinds[kind] > n.schema && (!ok || h.Schema > newest.Schema) {
			newest, ok = h, true
		}
	}
	return newest, ok
}

// Reset implements table.Observer.
func (n *Newer) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.anew = true
}

// Observe implements table.Observer.
func (n *Newer) Observe(_ int64, changes []table.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := len(n.hubs) > 0
	if n.anew {
		clear(n.hubs)
		n.anew = false
	}
	for _, ch := range changes {
		id, is := strings.CutPrefix(ch.Row().Key, key.Hubs.Prefix())
		if !is {
			continue
		}
		_, known := n.hubs[id]
		delete(n.hubs, id)
		var h Hub
		if ch.Cur == nil || json.Unmarshal(ch.Cur.Value, &h) != nil || h.Schema <= n.schema {
			continue
		}
		if n.hubs[id] = h; !known {
			n.logger.Warn("a newer hub is on the log: until this hub is upgraded or that one is gone, this one is elected for nothing and refuses to write the kinds of which it knows less",
				"hub", h.URL, "version", h.Version, "schema", h.Schema, "own", n.schema)
		}
	}
	if is := len(n.hubs) > 0; is != before {
		close(n.changed)
		n.changed = make(chan struct{})
	}
}
