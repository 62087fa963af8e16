package protobuf

import "math/bits"

// keep is the maximum size in bytes of a writer's memory that is used again, and keepValues the
// maximum capacity of its stack. Otherwise the memory for one object with a long list would be kept
// for all later objects.
const (
	keep       = 256 << 10
	keepValues = 8 << 10
)

// writer writes from the end to the beginning, so that the length of a message, which precedes it, is
// known when it is written.
type writer struct {
	memory []byte
	// begin is the index of the first written byte; the written bytes end with the memory.
	begin int
	// values is a stack of JSON values that are yet to be written. Its unused capacity is nil.
	values [][]byte
	// depth is the nesting of the message that is being written.
	depth int
}

// reset prepares the writer for another object. It keeps the memory unless that has become too large.
func (w *writer) reset() {
	if cap(w.memory) > keep {
		w.memory = nil
	}
	w.begin, w.depth = len(w.memory), 0
	w.release(0)
	if cap(w.values) > keepValues {
		w.values = nil
	}
}

func (w *writer) written() []byte { return w.memory[w.begin:] }

// length returns the number of written bytes.
func (w *writer) length() int { return len(w.memory) - w.begin }

// room returns the free memory before the written bytes, which is at least n bytes.
func (w *writer) room(n int) []byte {
	if w.begin < n {
		larger := make([]byte, 2*len(w.memory)+n+512)
		begin := len(larger) - w.length()
		copy(larger[begin:], w.written())
		w.memory, w.begin = larger, begin
	}
	return w.memory[:w.begin]
}

func (w *writer) bytes(b []byte) {
	free := w.room(len(b))
	w.begin -= len(b)
	copy(free[w.begin:], b)
}

func (w *writer) byte(b byte) {
	free := w.room(1)
	w.begin--
	free[w.begin] = b
}

func (w *writer) varint(v uint64) {
	n := (bits.Len64(v|1) + 6) / 7
	free := w.room(n)
	w.begin -= n
	i := w.begin
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
