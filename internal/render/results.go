package render

import (
	"container/list"
	"sync"

	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
)

// result names what was made: of an entry, for a class. An entry is known by where it
// is in memory, which nothing else can be as long as its result is kept.
type result struct {
	entry *table.Entry
	class *placement.Class
}

// results keeps what was made last, errors included, so that what many ask for at
// about the same time is made once. It is bounded in bytes and safe for concurrent use.
type results struct {
	most int

	mu    sync.Mutex
	known map[result]*list.Element // of kept
	used  *list.List               // kept, the last used first
	size  int
}

// kept is one result. While it is made it counts as nothing.
type kept struct {
	of   result
	made func() (Rendered, error)
	size int
}

// keptOverhead is what a result takes besides bytes of objects.
const keptOverhead = 512

func newResults(most int) results {
	return results{most: most, known: map[result]*list.Element{}, used: list.New()}
}

// get gives a result. Of those who ask for one that is not there, the first makes it
// and the others wait for that.
func (r *results) get(of result, fresh func() (Rendered, error)) (Rendered, error) {
	r.mu.Lock()
	if known, ok := r.known[of]; ok {
		r.used.MoveToFront(known)
		r.mu.Unlock()
		return known.Value.(*kept).made()
	}
	k := &kept{of: of, made: sync.OnceValues(fresh)}
	r.known[of] = r.used.PushFront(k)
	r.mu.Unlock()
	made, err := k.made()
	r.weigh(k, keptOverhead+len(of.entry.Value)+cap(made.Object)) // more is made room for than travels
	return made, err
}

// weigh notes what a result takes, and forgets what was used least recently for it.
func (r *results) weigh(k *kept, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[k.of]; !ok || known.Value != k {
		return // forgotten since
	}
	k.size, r.size = size, r.size+size
	for r.size > r.most {
		last := r.used.Remove(r.used.Back()).(*kept)
		delete(r.known, last.of)
		r.size -= last.size
	}
}
