package read

import (
	"sync"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// pages keeps the states of lists that clients read page by page, so that every page is of the
// same revision. States share most of their memory with the table. Their number and lifetime are
// limited, because the rest of their memory has no limit. It is safe for concurrent use.
type pages struct {
	keep  time.Duration
	limit int

	mu   sync.Mutex
	kept []page // the least recently used first
}

type page struct {
	pageKey
	state state
	used  time.Time
}

type pageKey struct {
	lens            string
	resource        key.Resource
	namespace, name string
	rev             int64
}

func keyOfPage(l Lens, q query, rev int64) pageKey {
	return pageKey{l.String(), q.resource, q.namespace, q.name, rev}
}

// put stores a state for the next page.
func (p *pages) put(k pageKey, st state, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(k, now)
	if len(p.kept) >= p.limit {
		p.kept = append(p.kept[:0], p.kept[len(p.kept)-p.limit+1:]...)
	}
	p.kept = append(p.kept, page{k, st, now})
}

// get returns a stored state; ok is false if there is none.
func (p *pages) get(k pageKey, now time.Time) (st state, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.drop(k, now)
	if found == nil {
		return state{}, false
	}
	found.used = now
	p.kept = append(p.kept, *found)
	return found.state, true
}

// drop removes expired pages, and the page of a key, which it returns.
func (p *pages) drop(k pageKey, now time.Time) *page {
	var found *page
	rest := p.kept[:0]
	for _, page := range p.kept {
		switch {
		case now.Sub(page.used) > p.keep:
		case page.pageKey == k:
			found = &page
		default:
			rest = append(rest, page)
		}
	}
	clear(p.kept[len(rest):])
	p.kept = rest
	return found
}
