package custom

import (
	"container/list"
	"sync"
)

// lru keeps the values that were used last, up to a total weight. The value
// that was asked for last stays even if it alone is heavier.
type lru[K comparable, V any] struct {
	limit int64

	mu     sync.Mutex
	weight int64
	order  list.List // of *lruItem, the last used in front
	items  map[K]*list.Element
}

type lruItem[K comparable, V any] struct {
	key    K
	value  V
	weight int64
}

func newLRU[K comparable, V any](limit int64) *lru[K, V] {
	return &lru[K, V]{limit: limit, items: map[K]*list.Element{}}
}

// get returns the value of a key, creating it if it is not there. That must be
// cheap, for it happens under the lock: so two callers get the same value.
func (l *lru[K, V]) get(key K, weight int64, create func() V) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.items[key]; ok {
		l.order.MoveToFront(e)
		return e.Value.(*lruItem[K, V]).value
	}
	value := create()
	l.insert(key, value, weight)
	return value
}

// peek returns the value of a key if it is there.
func (l *lru[K, V]) peek(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.items[key]
	if !ok {
		var none V
		return none, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruItem[K, V]).value, true
}

func (l *lru[K, V]) insert(key K, value V, weight int64) {
	l.items[key] = l.order.PushFront(&lruItem[K, V]{key, value, weight})
	l.weight += weight
	for l.weight > l.limit && l.order.Len() > 1 {
		l.remove(l.order.Back())
	}
}

func (l *lru[K, V]) remove(e *list.Element) {
	item := l.order.Remove(e).(*lruItem[K, V])
	delete(l.items, item.key)
	l.weight -= item.weight
}

func (l *lru[K, V]) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len()
}
