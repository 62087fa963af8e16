package read

import (
	"bytes"
	"sync"
)

// buffers is a pool of buffers for single values.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *bytes.Buffer {
	if buffer, ok := b.pool.Get().(*bytes.Buffer); ok {
		return buffer
	}
	return &bytes.Buffer{}
}

// put returns a buffer to the pool, unless it has become too large to keep.
func (b *buffers) put(buffer *bytes.Buffer) {
	const keep = 256 << 10
	if buffer.Cap() <= keep {
		buffer.Reset()
		b.pool.Put(buffer)
	}
}
