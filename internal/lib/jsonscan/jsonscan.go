// Package jsonscan goes through JSON value by value, where what is in most of them is of no interest:
// texts are jumped over, and nothing is decoded. It must know nothing of what the JSON says.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// Cursor goes through the members of a JSON object, or the elements of an array, and through those
// of a member if it is opened, too. It takes the JSON to be valid: of what is not, it may give anything,
// but it ends.
type Cursor struct {
	text []byte
	at   int
}

// Of is at the beginning of a text, which must not change meanwhile.
func Of(text []byte) Cursor { return Cursor{text: text} }

// End is where the value ends that begins at an offset of a text; ok is false if it does not.
func End(text []byte, begin int) (end int, ok bool) {
	c := Cursor{text, begin}
	_, ok = c.Value()
	return c.at, ok
}

// At is the offset of what is next.
func (c *Cursor) At() int { return c.at }

// Open steps into the object or array that is next, by its bracket; it is false, and stays, if that is
// something else.
func (c *Cursor) Open(bracket byte) bool {
	c.space()
	if c.at >= len(c.text) || c.text[c.at] != bracket {
		return false
	}
	c.at++
	return true
}

// More says whether there is another member or element, and steps to it.
func (c *Cursor) More() bool {
	c.space()
	if c.at < len(c.text) && c.text[c.at] == ',' {
		c.at++
		c.space()
	}
	return c.at < len(c.text) && c.text[c.at] != '}' && c.text[c.at] != ']'
}

// Close steps out of an object or array that has no more; it is false if that does not end.
func (c *Cursor) Close() bool {
	if c.at >= len(c.text) {
		return false
	}
	c.at++
	return true
}

// Name is the name of a member, whose value is next, in its quotes and as it is written.
func (c *Cursor) Name() ([]byte, bool) {
	name, ok := c.Value()
	if !ok || name[0] != '"' {
		return nil, false
	}
	c.space()
	if c.at >= len(c.text) || c.text[c.at] != ':' {
		return nil, false
	}
	c.at++
	return name, true
}

// Value is the next value, as it is written; ok is false if there is none, or it does not end.
func (c *Cursor) Value() (value []byte, ok bool) {
	c.space()
	from := c.at
	if from >= len(c.text) {
		return nil, false
	}
	switch c.text[from] {
	case '"':
		ok = c.quoted()
	case '{', '[':
		ok = c.nested()
	default:
		for c.at < len(c.text) && !ends(c.text[c.at]) {
			c.at++
		}
		ok = c.at > from
	}
	return c.text[from:c.at], ok
}

func ends(b byte) bool {
	switch b {
	case ',', ':', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

func (c *Cursor) space() {
	for c.at < len(c.text) {
		switch c.text[c.at] {
		case ' ', '\n', '\t', '\r':
			c.at++
		default:
			return
		}
	}
}

// quoted steps over a string: to the first quote that is not escaped.
func (c *Cursor) quoted() bool {
	begin := c.at + 1
	for c.at = begin; ; c.at++ {
		i := bytes.IndexByte(c.text[c.at:], '"')
		if i < 0 {
			c.at = len(c.text)
			return false
		}
		c.at += i
		escapes := 0
		for j := c.at - 1; j >= begin && c.text[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			c.at++
			return true
		}
	}
}

// nested steps over an object or array with all that is in it.
func (c *Cursor) nested() bool {
	for depth := 0; c.at < len(c.text); {
		switch c.text[c.at] {
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
		if c.at++; depth == 0 {
			return true
		}
	}
	return false
}

// Deeper reports whether arrays and objects are nested more deeply than most, in what may be JSON. Code that reads
// it by recursion must ask before, since a stack that is too deep ends the process.
func Deeper(text []byte, most int) bool {
	if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) <= most {
		return false
	}
	c := Cursor{text: text}
	for depth := 0; c.at < len(text); {
		switch text[c.at] {
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
		c.at++
	}
	return false
}

// Nesting follows how deeply arrays and objects are nested in JSON that comes in chunks. It is for one reader.
type Nesting struct {
	depth           int
	quoted, escaped bool
}

// Exceeds reads the next chunk, and reports whether arrays and objects are nested more deeply than most there.
// A bracket that closes nothing does not count, so text before a value does not make the value look less deep.
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

// Scalars calls visit with each string, number and literal of valid JSON, as it is written and in order, until
// visit returns false. It leaves out the names of members. It reads the text once, however deeply it is nested.
func Scalars(text []byte, visit func(value []byte) bool) {
	for c := Of(text); ; {
		value, isName, ok := c.scalar()
		if !ok || !isName && !visit(value) {
			return
		}
	}
}

// scalar steps over brackets and separators to the next scalar or name, and over that.
func (c *Cursor) scalar() (value []byte, isName, ok bool) {
	for c.space(); c.at < len(c.text); c.space() {
		switch c.text[c.at] {
		case '{', '}', '[', ']', ',', ':':
			c.at++
			continue
		}
		quoted := c.text[c.at] == '"'
		value, ok = c.Value()
		c.space()
		return value, quoted && c.at < len(c.text) && c.text[c.at] == ':', ok
	}
	return nil, false, false
}

// fewNames is up to how many names of an object are compared with each other; more are sorted.
const fewNames = 16

// Repeated returns a name that an object in valid JSON has more than once, in whatever spelling; ok is false if
// there is none. Readers disagree about which of the values counts. It reads the text once, however deeply it
// is nested, and takes memory for the names of the objects that are open at a time.
func Repeated(text []byte) (name string, ok bool) {
	c := Of(text)
	var names []string
	var begins []int // of the open objects, where their names begin; -1: an array
	for c.space(); c.at < len(text); c.space() {
		switch text[c.at] {
		case '{':
			begins = append(begins, len(names))
		case '[':
			begins = append(begins, -1)
		case '}', ']':
			if len(begins) == 0 {
				return "", false // not valid
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
		c.at++
	}
	return "", false
}

// repeatedOf finds a name that is among names more than once. It may change their order.
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

// decoded is what a string in its quotes means.
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

// IsPlain says of what is in a JSON string that nobody writes it in another way, nor means anything
// else by it: nothing in it is escaped, nor has to be.
func IsPlain(text []byte) bool { return !slices.ContainsFunc(text, isEscaped) }

func isEscaped(c byte) bool {
	return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}
