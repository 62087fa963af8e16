package protobuf

import "math/bits"

// keep is how large a writer's memory may be to be used again, in bytes, and keepValues how
// many values its stack may have room for: else one object with a long list would have its
// room kept for all others.
const (
	keep       = 256 << 10
	keepValues = 8 << 10
)

// writer writes from the end to the beginning, so that the length of a message is known when it
// is written before it.
type writer struct {
	memory []byte
	// at is where what is written begins; it ends with the memory.
	at int
	// values is a stack of parts of the JSON that are waiting to be written. Above it, its room
	// is empty.
	values [][]byte
	// depth is how many messages deep what is written now is in another.
	depth int
}

// reset makes the writer as good as new, and keeps its memory unless that has become too large.
func (w *writer) reset() {
	if cap(w.memory) > keep {
		w.memory = nil
	}
	w.at, w.depth = len(w.memory), 0
	w.release(0)
	if cap(w.values) > keepValues {
		w.values = nil
	}
}

func (w *writer) written() []byte { return w.memory[w.at:] }

// length is how much has been written.
func (w *writer) length() int { return len(w.memory) - w.at }

// room has at least n bytes free before what has been written, and gives all that are.
func (w *writer) room(n int) []byte {
	if w.at < n {
		larger := make([]byte, 2*len(w.memory)+n+512)
		at := len(larger) - w.length()
		copy(larger[at:], w.written())
		w.memory, w.at = larger, at
	}
	return w.memory[:w.at]
}

func (w *writer) bytes(b []byte) {
	free := w.room(len(b))
	w.at -= len(b)
	copy(free[w.at:], b)
}

func (w *writer) byte(b byte) {
	free := w.room(1)
	w.at--
	free[w.at] = b
}

func (w *writer) varint(v uint64) {
	n := (bits.Len64(v|1) + 6) / 7
	free := w.room(n)
	w.at -= n
	i := w.at
	for ; v >= 1<<7; i++ {
		free[i] = byte(v) | 1<<7
		v >>= 7
	}
	free[i] = byte(v)
}

// reserve puts n empty values on the stack and returns the place of the first.
func (w *writer) reserve(n int) int {
	base := len(w.values)
	for range n {
		w.values = append(w.values, nil)
	}
	return base
}

// release takes off the stack what was put on it from a place on.
func (w *writer) release(base int) {
	clear(w.values[base:]) // they would keep the object in memory
	w.values = w.values[:base]
}
