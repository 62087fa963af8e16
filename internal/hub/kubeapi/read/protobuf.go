package read

import (
	"encoding/binary"
	"sync"

	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
)

// chunks are the bytes of a list that is about to be written. Their memory comes from a pool, to
// spare the garbage collector.
type chunks struct {
	all  []*[]byte
	size int
}

var chunkPool = sync.Pool{New: func() any {
	chunk := make([]byte, 0, pieces.Bytes)
	return &chunk
}}

// add appends a field.
func (c *chunks) add(tag byte, value []byte) {
	needs := 1 + binary.MaxVarintLen64 + len(value)
	last := len(c.all) - 1
	if last < 0 || len(*c.all[last])+needs > cap(*c.all[last]) {
		next := chunkPool.Get().(*[]byte)
		if needs > cap(*next) {
			larger := make([]byte, 0, needs)
			next = &larger
		}
		c.all = append(c.all, next)
		last++
	}
	to := c.all[last]
	before := len(*to)
	*to = append(binary.AppendUvarint(append(*to, tag), uint64(len(value))), value...)
	c.size += len(*to) - before
}

// writeTo writes all chunks, and releases each.
func (c *chunks) writeTo(w *pieces.Writer) error {
	to, err := w.Direct()
	if err != nil {
		return err
	}
	for len(c.all) > 0 {
		if _, err := to.Write(*c.all[0]); err != nil {
			return err
		}
		c.letGo()
	}
	return nil
}

func (c *chunks) letGo() {
	if chunk := c.all[0]; cap(*chunk) == pieces.Bytes {
		*chunk = (*chunk)[:0]
		chunkPool.Put(chunk)
	}
	c.all[0] = nil
	c.all = c.all[1:]
}

// drop releases the chunks that have not been written.
func (c *chunks) drop() {
	for len(c.all) > 0 {
		c.letGo()
	}
}
