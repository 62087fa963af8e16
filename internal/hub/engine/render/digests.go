package render

import (
	"sync"
	"weak"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// keptDigests is about half of how many digests are kept besides those that entries have:
	// enough for a few hundred objects that are different at each of a thousand locations.
	keptDigests = 1 << 18
	// keptContents is the same for the contents of entries that have several.
	keptContents = 1 << 14
)

// digests keeps digests of entries for several classes, those that were not used for long
// excepted. It keeps neither entries nor classes alive. It is safe for concurrent use.
type digests struct {
	mu sync.Mutex
	recent[digestOf, wire.Sum]
	contents recent[weak.Pointer[table.Entry], content]
}

func newDigests() digests {
	return digests{recent: recent[digestOf, wire.Sum]{most: keptDigests}, contents: recent[weak.Pointer[table.Entry], content]{most: keptContents}}
}

// content begins the digest of what travels of an entry. It is the same for the entries before
// and after a write of a status, so that such a write renders nothing anew.
type content [2]uint64

type digestOf struct {
	content content
	class   weak.Pointer[placement.Class]
}

// known is the digest of an entry for a class, if it is kept.
func (r *Renderer) known(e *table.Entry, class *placement.Class) (sum wire.Sum, ok bool) {
	if e.Rendered.Load() == nil { // it may have only this class
		return sum, false
	}
	of, ok := r.contentOf(e)
	if !ok {
		return sum, false
	}
	r.digests.mu.Lock()
	defer r.digests.mu.Unlock()
	return r.digests.get(digestOf{of, weak.Make(class)})
}

// keep keeps what an entry had until now.
func (r *Renderer) keep(e *table.Entry, had *table.Rendered) {
	class, ok := had.Inputs.(*placement.Class)
	if !ok {
		return
	}
	if of, ok := r.contentOf(e); ok {
		r.digests.mu.Lock()
		defer r.digests.mu.Unlock()
		r.digests.put(digestOf{of, weak.Make(class)}, had.Digest)
	}
}

func (r *Renderer) contentOf(e *table.Entry) (of content, ok bool) {
	d, w := &r.digests, weak.Make(e)
	d.mu.Lock()
	of, ok = d.contents.get(w)
	d.mu.Unlock()
	if ok {
		return of, true
	}
	object, err := r.travel(e)
	if err != nil {
		return of, false
	}
	sum := wire.SumOf(object)
	copy(of[:], sum[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contents.put(w, of)
	return of, true
}

// recent keeps values by keys, between most and twice as many, those that were used last.
type recent[K comparable, V any] struct {
	most int
	// young has up to most; when it is full, it takes the place of old.
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
