// Package jsonscan reads JSON value by value without decoding it, for callers that need only few of
// the values. It must not depend on the meaning of the JSON.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Cursor visits the members of a JSON object or the elements of an array, and those of opened
// members. It expects valid JSON. For invalid JSON the results are undefined, but it always ends.
type Cursor struct {
	text   []byte
	offset int
}

// NewCursor returns a cursor at the start of text, which must not change while the cursor is in use.
func NewCursor(text []byte) Cursor { return Cursor{text: text} }

// End returns the offset after the value that starts at begin; ok is false if the value does not
// end.
func End(text []byte, begin int) (end int, ok bool) {
	c := Cursor{text, begin}
	_, ok = c.Value()
	return c.offset, ok
}

// Offset returns the offset of the next value.
func (c *Cursor) Offset() int { return c.offset }

// Open enters the object or array that is next, by its opening bracket. It returns false, and does
// not move, if the next value is different.
func (c *Cursor) Open(bracket byte) bool {
	c.space()
	if c.offset >= len(c.text) || c.text[c.offset] != bracket {
		return false
	}
	c.offset++
	return true
}

// More reports whether there is another member or element, and moves to it.
func (c *Cursor) More() bool {
	c.space()
	if c.offset < len(c.text) && c.text[c.offset] == ',' {
		c.offset++
		c.space()
	}
	return c.offset < len(c.text) && c.text[c.offset] != '}' && c.text[c.offset] != ']'
}

// Close leaves an object or array without further elements; it returns false if the object or array
// does not end.
func (c *Cursor) Close() bool {
	if c.offset >= len(c.text) {
		return false
	}
	c.offset++
	return true
}

// Name returns the name of a member in its quotes as written; the member's value is next.
func (c *Cursor) Name() ([]byte, bool) {
	name, ok := c.Value()
	if !ok || name[0] != '"' {
		return nil, false
	}
	c.space()
	if c.offset >= len(c.text) || c.text[c.offset] != ':' {
		return nil, false
	}
	c.offset++
	return name, true
}

// Value returns the next value as written; ok is false if there is none, or it does not end.
func (c *Cursor) Value() (value []byte, ok bool) {
	c.space()
	from := c.offset
	if from >= len(c.text) {
		return nil, false
	}
	switch c.text[from] {
	case '"':
		ok = c.quoted()
	case '{', '[':
		ok = c.nested()
	default:
		for c.offset < len(c.text) && !ends(c.text[c.offset]) {
			c.offset++
		}
		ok = c.offset > from
	}
	return c.text[from:c.offset], ok
}

func ends(b byte) bool {
	switch b {
	case ',', ':', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

func (c *Cursor) space() {
	for c.offset < len(c.text) {
		switch c.text[c.offset] {
		case ' ', '\n', '\t', '\r':
			c.offset++
		default:
			return
		}
	}
}

// quoted skips a string: up to the first unescaped quote.
func (c *Cursor) quoted() bool {
	begin := c.offset + 1
	for c.offset = begin; ; c.offset++ {
		i := bytes.IndexByte(c.text[c.offset:], '"')
		if i < 0 {
			c.offset = len(c.text)
			return false
		}
		c.offset += i
		escapes := 0
		for j := c.offset - 1; j >= begin && c.text[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			c.offset++
			return true
		}
	}
}

// nested skips an object or array with its content.
func (c *Cursor) nested() bool {
	for depth := 0; c.offset < len(c.text); {
		switch c.text[c.offset] {
		case '"':
			if !c.quoted() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if c.offset++; depth == 0 {
			return true
		}
	}
	return false
}

// Deeper reports whether arrays and objects are nested more than most levels deep, in text that may
// be invalid JSON. Recursive readers must check this first, since a stack overflow ends the
// process.
func Deeper(text []byte, most int) bool {
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) <= most {
		return false
	}
	c := Cursor{text: text}
	for depth := 0; c.offset < len(text); {
		switch text[c.offset] {
		case '"':
			if !c.quoted() {
				return false
			}
			continue
		case '{', '[':
			if depth++; depth > most {
				return true
			}
		case '}', ']':
			depth--
		}
		c.offset++
	}
	return false
}

// Nesting tracks how deeply arrays and objects are nested in JSON that comes in chunks. It is for
// one goroutine.
type Nesting struct {
	depth           int
	quoted, escaped bool
}

// Exceeds reads the next chunk, and reports whether arrays and objects are nested more than most
// levels deep in it. Unmatched closing brackets do not count, so text before a value can't hide its
// depth.
func (n *Nesting) Exceeds(chunk []byte, most int) bool {
	for _, c := range chunk {
		switch {
		case n.escaped:
			n.escaped = false
		case n.quoted:
			n.escaped, n.quoted = c == '\\', c != '"'
		case c == '"':
			n.quoted = true
		case c == '{', c == '[':
			if n.depth++; n.depth > most {
				return true
			}
		case c == '}', c == ']':
			n.depth = max(0, n.depth-1)
		}
	}
	return false
}

// Scalars calls visit with each string, number and literal of valid JSON, as written and in order,
// until visit returns false. It skips the names of members. It reads the text once, regardless of
// nesting.
func Scalars(text []byte, visit func(value []byte) bool) {
	for c := NewCursor(text); ; {
		value, isName, ok := c.scalar()
		if !ok || !isName && !visit(value) {
			return
		}
	}
}

// scalar skips brackets and separators up to the next scalar or name, and returns that.
func (c *Cursor) scalar() (value []byte, isName, ok bool) {
	for c.space(); c.offset < len(c.text); c.space() {
		switch c.text[c.offset] {
		case '{', '}', '[', ']', ',', ':':
			c.offset++
			continue
		}
		quoted := c.text[c.offset] == '"'
		value, ok = c.Value()
		c.space()
		return value, quoted && c.offset < len(c.text) && c.text[c.offset] == ':', ok
	}
	return nil, false, false
}

// Up to fewNames names of an object are compared with each other; more are sorted.
const fewNames = 16

// Repeated returns a name that an object in valid JSON has more than once, in any spelling; ok is
// false if there is none. Readers disagree about which of the values is valid. It reads the text
// once, regardless of nesting, and uses memory for the names of open objects.
func Repeated(text []byte) (name string, ok bool) {
	c := NewCursor(text)
	var names []string
	var begins []int // for each open object, the index of its first name; -1 for an array
	for c.space(); c.offset < len(text); c.space() {
		switch text[c.offset] {
		case '{':
			begins = append(begins, len(names))
		case '[':
			begins = append(begins, -1)
		case '}', ']':
			if len(begins) == 0 {
				return "", false // invalid
			}
			begin := begins[len(begins)-1]
			begins = begins[:len(begins)-1]
			if begin >= 0 {
				if name, ok := repeatedOf(names[begin:]); ok {
					return name, true
				}
				names = names[:begin]
			}
		case ',', ':':
		default:
			value, isName, valid := c.scalar()
			if !valid {
				return "", false
			}
			if isName {
				names = append(names, decoded(value))
			}
			continue
		}
		c.offset++
	}
	return "", false
}

// repeatedOf returns a name that occurs more than once. It may reorder names.
func repeatedOf(names []string) (name string, ok bool) {
	if len(names) > fewNames {
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			if names[i] == names[i-1] {
				return names[i], true
			}
		}
		return "", false
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name, true
		}
	}
	return "", false
}

// decoded returns the value of a quoted string.
func decoded(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if !bytes.Contains(inner, []byte{'\\'}) && utf8.Valid(inner) {
		return string(inner)
	}
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return string(inner)
	}
	return text
}

// IsPlain reports whether the content of a JSON string has only one spelling: it contains no
// escapes, and no encoder escapes it.
func IsPlain(text []byte) bool { return !slices.ContainsFunc(text, isEscaped) }

func isEscaped(c byte) bool {
	return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}
