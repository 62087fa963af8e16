package render

import (
	"container/list"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// result identifies a result by entry and class. The entry's address can't be reused as
// long as its result is kept.
type result struct {
	entry *table.Entry
	class *placement.Class
}

// results caches recent results, errors included, so that what many ask for at about the
// same time is rendered once. It is bounded in bytes and safe for concurrent use.
type results struct {
	most int

	mu    sync.Mutex
	known map[result]*list.Element // of kept
	used  *list.List               // kept, the last used first
	size  int
}

// kept is one result. Its size is 0 until it is made.
type kept struct {
	of   result
	made func() (Rendered, error)
	size int
}

// keptOverhead is how many bytes a result takes besides those of objects.
const keptOverhead = 512

func newResults(most int) results {
	return results{most: most, known: map[result]*list.Element{}, used: list.New()}
}

// get returns a result. If it is not kept, the first caller makes it with fresh and the
// others wait for that.
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
	r.weigh(k, keptOverhead+len(of.entry.Value)+cap(made.Object)) // the object's buffer may be larger than the object
	return made, err
}

// weigh sets the size of a result, and drops the least recently used results beyond the
// bound.
func (r *results) weigh(k *kept, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[k.of]; !ok || known.Value != k {
		return // dropped meanwhile
	}
	k.size, r.size = size, r.size+size
	for r.size > r.most {
		last := r.used.Remove(r.used.Back()).(*kept)
		delete(r.known, last.of)
		r.size -= last.size
	}
}
