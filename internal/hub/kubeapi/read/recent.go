package read

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// recent caches the latest encodings of events that had to be decoded, because an event is often
// sent to many watches at about the same time. Its number of entries and their size are limited.
// It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	known map[encodedKey][]byte
	order [recentEvents]encodedKey
	next  int
}

const (
	recentEvents = 256
	recentBytes  = 32 << 10 // maximum size of an entry
)

// encodedKey has all inputs of an encoded event.
type encodedKey struct {
	entry   *table.Entry
	rev     int64
	display display
	class   *placement.Class
	id      runtime.Identifier
}

func (r *recent) get(k encodedKey) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[k]
}

func (r *recent) put(k encodedKey, encoded []byte) {
	if len(encoded) > recentBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[encodedKey][]byte, recentEvents)
	}
	if _, ok := r.known[k]; ok {
		return
	}
	delete(r.known, r.order[r.next])
	r.known[k], r.order[r.next] = encoded, k
	r.next = (r.next + 1) % recentEvents
}
