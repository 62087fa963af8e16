package render

import (
	"container/list"
	"encoding/json"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

// result identifies a result by entry and class. The address of the entry is not reused while the
// result is cached.
type result struct {
	entry *table.Entry
	class *placement.Class
}

// results caches recent results, errors included, so that concurrent requests render once. It is
// bounded in bytes and safe for concurrent use.
type results struct {
	most int

	mu    sync.Mutex
	known map[result]*list.Element // values are *kept
	used  *list.List               // values are *kept, the last used first
	size  int
}

// Rendered is an object as it is sent to a location.
type Rendered struct {
	// Object is canonical JSON: the object without the fields that stay in the space, with the
	// rules of the class applied. It is valid by the class's definition.
	Object json.RawMessage
	// Digest is the SHA-256 of Object.
	Digest wire.Sum
}

// kept is one cached result. Its size is 0 until it is computed.
type kept struct {
	result result
	made   func() (Rendered, error)
	size   int
}

// keptOverhead is the size of a result without its object, in bytes.
const keptOverhead = 512

func newResults(most int) results {
	return results{most: most, known: map[result]*list.Element{}, used: list.New()}
}

// get returns a result. If it is not cached, the first caller computes it with fresh while the
// others wait.
func (r *results) get(result result, fresh func() (Rendered, error)) (Rendered, error) {
	r.mu.Lock()
	if known, ok := r.known[result]; ok {
		r.used.MoveToFront(known)
		r.mu.Unlock()
		return known.Value.(*kept).made()
	}
	k := &kept{result: result, made: sync.OnceValues(fresh)}
	r.known[result] = r.used.PushFront(k)
	r.mu.Unlock()
	made, err := k.made()
	r.weigh(k, keptOverhead+len(result.entry.Value)+cap(made.Object)) // the object's buffer may be larger than the object
	return made, err
}

// weigh sets the size of a result, and drops the least recently used results beyond the
// bound.
func (r *results) weigh(k *kept, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[k.result]; !ok || known.Value != k {
		return // dropped in the meantime
	}
	k.size, r.size = size, r.size+size
	for r.size > r.most {
		last := r.used.Remove(r.used.Back()).(*kept)
		delete(r.known, last.result)
		r.size -= last.size
	}
}
