package pieces

import (
	"bytes"
	"sync"
)

// Buffers is a pool of buffers for single values. It is safe for concurrent use.
type Buffers struct{ pool sync.Pool }

// Get returns an empty buffer.
func (b *Buffers) Get() *bytes.Buffer {
	if buffer, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buffer
	}
	return &bytes.Buffer{}
}

// Put returns a buffer to the pool, unless it has become too large to keep.
func (b *Buffers) Put(buffer *bytes.Buffer) {
	const keep = 256 << 10
	if buffer.Cap() <= keep {
		buffer.Reset()
		b.pool.Put(buffer)
	}
}
