package placement

import "weak"

// A pool interns one value per key for as long as the value is in use.
type pool[V any] struct {
	values  map[string]weak.Pointer[V]
	sweepAt int
}

// minSweep is the size up to which a pool is not swept.
const minSweep = 64

// get returns the value for a key. If there is none, fresh makes it.
func (p *pool[V]) get(key string, fresh func() *V) *V {
	if w, ok := p.values[key]; ok {
		if v := w.Value(); v != nil {
			return v
		}
	}
	if len(p.values) >= p.sweepAt {
		p.sweep()
	}
	v := fresh()
	p.values[key] = weak.Make(v)
	return v
}

// sweep drops values that are no longer in use. It runs when the pool has doubled, so that its cost
// per value is constant.
func (p *pool[V]) sweep() {
	if p.values == nil {
		p.values = map[string]weak.Pointer[V]{}
	}
	for k, w := range p.values {
		if w.Value() == nil {
			delete(p.values, k)
		}
	}
	p.sweepAt = max(minSweep, 2*len(p.values))
}
