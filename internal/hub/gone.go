package hub

import (
	"sync"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/table"
)

// goneSpaces tells watches that their space was deleted: a deleted space is
// gone for its users at once, while its content goes in steps.
type goneSpaces struct {
	mu       sync.Mutex
	channels map[key.Space]chan struct{}
}

var _ table.Observer = (*goneSpaces)(nil)

func newGoneSpaces() *goneSpaces { return &goneSpaces{channels: map[key.Space]chan struct{}{}} }

// of is a channel that is closed when the space is deleted.
func (g *goneSpaces) of(s key.Space) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.channels[s]
	if c == nil {
		c = make(chan struct{})
		g.channels[s] = c
	}
	return c
}

// end closes a space's channel and forgets it.
func (g *goneSpaces) end(s key.Space) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.channels[s]; c != nil {
		close(c)
		delete(g.channels, s)
	}
}

// goneSpace is a channel that is closed when a space is deleted, or has been.
func (h *Hub) goneSpace(s key.Space) <-chan struct{} {
	c := h.gone.of(s)
	// Asked after the channel was made: a deletion before that closed none.
	if s != key.AllSpaces && !space.Exists(h.table, s) {
		h.gone.end(s)
	}
	return c
}

// Reset does nothing: the table ends all watches then.
func (g *goneSpaces) Reset() {}

// Observe closes the channels of spaces that begin to go.
func (g *goneSpaces) Observe(_ int64, changes []table.Change) {
	for _, ch := range changes {
		s, r, name, ok := key.Split(ch.Row().Key)
		if !ok || s != key.Root || r != key.Spaces || ch.Cur != nil && !ch.Cur.Meta.Deleting {
			continue
		}
		g.end(key.Space(name))
	}
}
