package downsync

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// append adds the canonical JSON of a valid text to dst, without what f leaves out: no
// white space, names sorted bytewise, no escapes but those JSON needs, numbers
// as they are. It needs no stack for what is nested, and reads each byte once.
func (f *Filter) append(dst, text []byte) []byte {
	e := encoders.Get().(*encoder)
	e.read(text, f)
	dst = e.write(dst)
	e.release()
	return dst
}

// node is a value of the text that is being encoded. Those within it follow it, up to next.
type node struct {
	// name is that of a member, decoded. field is its filter, if it has one.
	name  string
	field *fieldFilter
	// filter is for what an object or list holds.
	filter *Filter
	// raw is a scalar as it is written; '{' and '[' stand for an object and a list.
	raw  string
	next int
}

// isContainer reports whether a node is an object or a list.
func (n *node) isContainer() bool { return n.raw[0] == '{' || n.raw[0] == '[' }

// leaves reports whether a member is left out whatever is within it.
func (n *node) leaves() bool {
	return n.field != nil && (n.field.drop || n.field.dropNull && n.raw == "null")
}

// frame is an object or list that is being written.
type frame struct {
	closing byte
	// The values within are order[next:end]; order[begin:end] is released at the end.
	begin, next, end int
	// empty reports that nothing has been written within yet.
	empty bool
	// before is where dst ends without the value that is being written, and start is where the value begins.
	before, start int
	zero          []byte
}

// encoder encodes one text at a time. It is for one goroutine.
type encoder struct {
	nodes  []node
	open   []int // while reading: the objects and lists that have not ended
	order  []int
	frames []frame
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// largestEncoder is how many nodes an encoder may have had that is used again.
const largestEncoder = 4096

// release keeps the encoder for other texts. It must not keep this one in memory.
func (e *encoder) release() {
	if cap(e.nodes) > largestEncoder {
		return
	}
	clear(e.nodes)
	e.nodes, e.open, e.order, e.frames = e.nodes[:0], e.open[:0], e.order[:0], e.frames[:0]
	encoders.Put(e)
}

// read finds the values of a valid text that the filter does not leave out.
func (e *encoder) read(value []byte, f *Filter) {
	c, text := jsonscan.NewCursor(value), string(value)
	e.value(&c, text, node{filter: f})
	for len(e.open) > 0 {
		in := &e.nodes[e.open[len(e.open)-1]]
		if !c.More() {
			if in.next = len(e.nodes); !c.Close() {
				return
			}
			e.open = e.open[:len(e.open)-1]
			continue
		}
		n := node{filter: in.filter.ofEach()}
		if in.raw[0] == '{' {
			end := c.Offset()
			quoted, ok := c.Name()
			if !ok {
				return
			}
			// The cursor may have stepped over spaces before the name, and stands behind the colon.
			begin := end + strings.IndexByte(text[end:], '"')
			n.name = nameOf(text[begin : begin+len(quoted)])
			if field, ok := in.filter.field(n.name); ok {
				n.field, n.filter = field, field.inner
			}
		}
		if !e.value(&c, text, n) {
			return
		}
	}
}

// value reads the next value. What a member leaves out is stepped over.
func (e *encoder) value(c *jsonscan.Cursor, text string, n node) bool {
	dropped := n.field != nil && n.field.drop
	for _, bracket := range []string{"{", "["} {
		if !dropped && c.Open(bracket[0]) {
			n.raw = bracket
			e.open = append(e.open, len(e.nodes))
			e.nodes = append(e.nodes, n)
			return true
		}
	}
	value, ok := c.Value()
	n.raw, n.next = text[c.Offset()-len(value):c.Offset()], len(e.nodes)+1
	e.nodes = append(e.nodes, n)
	return ok
}

// nameOf is a name without its quotes.
func nameOf(quoted string) string {
	if inner := quoted[1 : len(quoted)-1]; strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return gjson.Parse(quoted).Str
}

// write adds the values to dst.
func (e *encoder) write(dst []byte) []byte {
	if !e.nodes[0].isContainer() {
		return appendScalar(dst, e.nodes[0].raw)
	}
	dst = e.begin(dst, 0)
	for len(e.frames) > 0 {
		in := &e.frames[len(e.frames)-1]
		if in.next == in.end {
			dst = append(dst, in.closing)
			e.order, e.frames = e.order[:in.begin], e.frames[:len(e.frames)-1]
			dst = e.written(dst)
			continue
		}
		index := e.order[in.next]
		n := &e.nodes[index]
		in.next++
		isRepeated := in.closing == '}' && in.next < in.end && e.nodes[e.order[in.next]].name == n.name
		if isRepeated || n.leaves() { // of a name that is there twice, the last counts
			continue
		}
		in.before = len(dst)
		if !in.empty {
			dst = append(dst, ',')
		}
		if in.zero = nil; in.closing == '}' {
			dst = append(appendQuoted(dst, n.name), ':')
			if n.field != nil {
				in.zero = n.field.zero
			}
		}
		if in.start = len(dst); n.isContainer() {
			dst = e.begin(dst, index)
			continue
		}
		dst = e.written(appendScalar(dst, n.raw))
	}
	return dst
}

// begin begins an object or list.
func (e *encoder) begin(dst []byte, index int) []byte {
	n := &e.nodes[index]
	f := frame{closing: ']', begin: len(e.order), next: len(e.order), empty: true}
	for i := index + 1; i < n.next; i = e.nodes[i].next {
		e.order = append(e.order, i)
	}
	if f.end = len(e.order); n.raw[0] == '{' {
		f.closing = '}'
		slices.SortStableFunc(e.order[f.begin:], func(a, b int) int { return strings.Compare(e.nodes[a].name, e.nodes[b].name) })
	}
	e.frames = append(e.frames, f)
	return append(dst, n.raw...)
}

// written ends a value within the innermost object or list, and takes it back if it comes to the zero of its field.
func (e *encoder) written(dst []byte) []byte {
	if len(e.frames) == 0 {
		return dst
	}
	in := &e.frames[len(e.frames)-1]
	if in.zero != nil && bytes.Equal(dst[in.start:], in.zero) {
		return dst[:in.before]
	}
	in.empty = false
	return dst
}
