// Package jsonscan goes through JSON value by value, where what is in most of them is of no interest:
// texts are jumped over, and nothing is decoded. It must know nothing of what the JSON says.
package jsonscan

import (
	"bytes"
	"slices"
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

// Deeper says whether arrays and objects lie in each other more deeply than most, in what may be JSON: who reads
// that by recursion asks before, since a stack that is too deep ends the process.
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

// IsPlain says of what is in a JSON string that nobody writes it in another way, nor means anything
// else by it: nothing in it is escaped, nor has to be.
func IsPlain(text []byte) bool { return !slices.ContainsFunc(text, isEscaped) }

func isEscaped(c byte) bool {
	return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}
