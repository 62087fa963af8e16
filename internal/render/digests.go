package render

import (
	"sync"
	"weak"

	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

// keptDigests is about half of how many digests are kept besides those that entries have:
// enough for a few hundred objects that are different at each of a thousand locations.
const keptDigests = 1 << 18

// digests keeps digests of entries for several classes, those that were not used for long
// excepted. It keeps neither entries nor classes alive. It is safe for concurrent use.
type digests struct {
	most int

	mu sync.Mutex
	// young has up to most digests; when it is full, it takes the place of old.
	young, old map[digestOf]wire.Sum
}

type digestOf struct {
	entry weak.Pointer[table.Entry]
	class weak.Pointer[placement.Class]
}

func (d *digests) get(e *table.Entry, class *placement.Class) (sum wire.Sum, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.young)+len(d.old) == 0 {
		return sum, false
	}
	of := digestOf{weak.Make(e), weak.Make(class)}
	if sum, ok = d.young[of]; ok {
		return sum, true
	}
	if sum, ok = d.old[of]; ok {
		delete(d.old, of)
		d.keep(of, sum)
	}
	return sum, ok
}

// put keeps what an entry had until now.
func (d *digests) put(e *table.Entry, had *table.Rendered) {
	class, ok := had.By.(*placement.Class)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(digestOf{weak.Make(e), weak.Make(class)}, had.Digest)
}

func (d *digests) keep(of digestOf, sum wire.Sum) {
	if len(d.young) >= d.most || d.young == nil {
		d.young, d.old = map[digestOf]wire.Sum{}, d.young
	}
	d.young[of] = sum
}
