package read

import (
	"io"
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

// encodeShared encodes an event once for all watches that send the same bytes.
func (o *object) encodeShared(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	k := encodedKey{entry: o.row.Entry, rev: o.rev, display: o.reader.display, id: id}
	if location := o.reader.display.location; location != "" {
		k.class = classAt(o.row, location)
	}
	encoded := o.reader.server.recent.get(k)
	if encoded == nil {
		made, err := o.encodable(o.reader.shape.catalog[id].form)
		if err != nil {
			return err
		}
		buffer := o.reader.server.buffers.get()
		defer o.reader.server.buffers.put(buffer)
		if err := encode(made, buffer); err != nil {
			return err
		}
		encoded = append([]byte(nil), buffer.Bytes()...)
		o.reader.server.recent.put(k, encoded)
	}
	return writeAll(w, encoded)
}
