package worklist

import (
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// Reached is the newest revision at which any object of a kind was seen; 0: none was.
func Reached(e *Worklist, r key.Resource) (newest uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[r]
	for _, it := range e.items {
		if it.kind == k {
			newest = max(newest, it.seen.revision)
		}
	}
	return newest
}

// Rewind forgets what was seen of a kind by the marks of an owner, or, if r is nil, of all kinds, and has
// those listed again: the cluster was restored, or is another one, so that its revisions are those of
// another history. Answers that turns under way have received no longer count.
func Rewind(e *Worklist, as ownership.Owner, r *key.Resource) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if as != e.as {
		return
	}
	for _, k := range e.kinds {
		if r == nil || k.resource == *r {
			k.rewind(r == nil)
		}
	}
	for _, it := range e.items {
		if r == nil || it.kind.resource == *r {
			it.setSeen(decide.Observed{}, 0)
			delete(e.endings, it.ID)
		}
	}
	if r == nil {
		e.News.Raise()
	}
}

// rewind begins another history of the kind. The caller has the engine's lock.
func (k *kind) rewind(again bool) {
	k.sight = decide.Unseen
	k.history++
	if again {
		k.statusRequests++
	}
}
