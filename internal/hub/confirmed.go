package hub

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// maxConfirmations bounds how many confirmations an agent is told.
const maxConfirmations = 100

// confirmations are the digests of removals that owners of Placements let go,
// from the annotations of the Placements. It is told of changes by one goroutine
// and may be asked by any.
type confirmations struct {
	// changed is called, without the lock, when there are others.
	changed func()

	mu    sync.RWMutex
	known map[string]wire.Confirmation // by the key of the Placement
	list  []wire.Confirmation
}

var _ table.Observer = (*confirmations)(nil)

func newConfirmations(changed func()) *confirmations {
	return &confirmations{changed: changed, known: map[string]wire.Confirmation{}}
}

// of are the confirmations by owners in the given spaces, in order.
func (c *confirmations) of(spaces []wire.SpacePrune) []wire.Confirmation {
	if len(spaces) == 0 {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	var of []wire.Confirmation
	for _, one := range c.list {
		if len(of) < maxConfirmations && slices.ContainsFunc(spaces, func(s wire.SpacePrune) bool { return s.Space == one.Space }) {
			of = append(of, one)
		}
	}
	return of
}

// Reset forgets all confirmations.
func (c *confirmations) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.known)
	c.list = nil
}

// Observe notes the confirmations among the changes of a revision.
func (c *confirmations) Observe(_ int64, changes []table.Change) {
	news := false
	for _, ch := range changes {
		k := ch.Row().Key
		if !strings.Contains(k, "/placements/") { // which costs less than taking the key apart
			continue
		}
		o, err := key.ParseObject(k)
		if err != nil || o.Resource != key.Placements {
			continue
		}
		digest := ""
		if ch.Cur != nil {
			digest = ch.Cur.Annotation(v1alpha1.ConfirmPruneAnnotation)
		}
		news = c.note(k, wire.Confirmation{Space: string(o.Space), Digest: digest}) || news
	}
	if news {
		c.changed()
	}
}

func (c *confirmations) note(k string, one wire.Confirmation) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.known[k] == one, c.known[k].Digest == "" && one.Digest == "":
		return false
	case one.Digest == "":
		delete(c.known, k)
	default:
		c.known[k] = one
	}
	all := slices.SortedFunc(maps.Values(c.known), func(a, b wire.Confirmation) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Digest, b.Digest))
	})
	c.list = slices.Compact(all)
	return true
}
