package render

import (
	"sync"
	"weak"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// keptDigests is about half of the number of cached digests, besides those that entries hold:
	// enough for a few hundred objects that differ at each of a thousand locations.
	keptDigests = 1 << 18
	// keptContents is the same for the contents of entries with several digests.
	keptContents = 1 << 14
)

// digests caches digests of entries for several classes, by last use. It keeps neither entries nor
// classes in memory. It is safe for concurrent use.
type digests struct {
	mu sync.Mutex
	recent[digestOf, wire.Sum]
	contents recent[weak.Pointer[table.Entry], content]
}

func newDigests() digests {
	return digests{recent: recent[digestOf, wire.Sum]{most: keptDigests}, contents: recent[weak.Pointer[table.Entry], content]{most: keptContents}}
}

// content is a prefix of the hash of an entry's content that leaves the space. It does not change
// with a write of the status, so that such a write causes no rendering.
type content [2]uint64

type digestOf struct {
	content content
	class   weak.Pointer[placement.Class]
}

// known returns the cached digest of an entry for a class.
func (r *Renderer) known(e *table.Entry, class *placement.Class) (sum wire.Sum, ok bool) {
	if e.Rendered.Load() == nil { // it may have only one class
		return sum, false
	}
	hashed, ok := r.contentOf(e)
	if !ok {
		return sum, false
	}
	r.digests.mu.Lock()
	defer r.digests.mu.Unlock()
	return r.digests.get(digestOf{hashed, weak.Make(class)})
}

// keep caches the digest that an entry held until now.
func (r *Renderer) keep(e *table.Entry, previous *table.Rendered) {
	class, ok := previous.Inputs.(*placement.Class)
	if !ok {
		return
	}
	if hashed, ok := r.contentOf(e); ok {
		r.digests.mu.Lock()
		defer r.digests.mu.Unlock()
		r.digests.put(digestOf{hashed, weak.Make(class)}, previous.Digest)
	}
}

func (r *Renderer) contentOf(e *table.Entry) (hashed content, ok bool) {
	d, w := &r.digests, weak.Make(e)
	d.mu.Lock()
	hashed, ok = d.contents.get(w)
	d.mu.Unlock()
	if ok {
		return hashed, true
	}
	object, err := r.travel(e)
	if err != nil {
		return hashed, false
	}
	sum := wire.SumOf(object)
	copy(hashed[:], sum[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contents.put(w, hashed)
	return hashed, true
}

// recent caches values by keys: between most and twice as many, those used last.
type recent[K comparable, V any] struct {
	most int
	// young has up to most entries. When it is full, it replaces old.
	young, old map[K]V
}

func (r *recent[K, V]) get(k K) (v V, ok bool) {
	if v, ok = r.young[k]; ok {
		return v, true
	}
	if v, ok = r.old[k]; ok {
		delete(r.old, k)
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if len(r.young) >= r.most || r.young == nil {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[k] = v
}
