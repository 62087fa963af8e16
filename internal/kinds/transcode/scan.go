package transcode

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// cursor goes through the members of a JSON object, or the elements of an array. It takes the
// JSON to be valid: of what is not, it may give anything.
type cursor struct {
	json []byte
	at   int
}

// open steps into an object or array.
func (c *cursor) open(bracket byte) bool {
	c.space()
	if c.at >= len(c.json) || c.json[c.at] != bracket {
		return false
	}
	c.at++
	return true
}

// more says whether there is another member or element, and steps to it.
func (c *cursor) more() bool {
	c.space()
	if c.at < len(c.json) && c.json[c.at] == ',' {
		c.at++
		c.space()
	}
	return c.at < len(c.json) && c.json[c.at] != '}' && c.json[c.at] != ']'
}

// name is the quoted name of a member, whose value is next.
func (c *cursor) name() ([]byte, bool) {
	name, ok := c.value()
	if !ok || name[0] != '"' {
		return nil, false
	}
	c.space()
	if c.at >= len(c.json) || c.json[c.at] != ':' {
		return nil, false
	}
	c.at++
	return name, true
}

// value is the next value, as it is written.
func (c *cursor) value() ([]byte, bool) {
	c.space()
	from := c.at
	if from >= len(c.json) {
		return nil, false
	}
	switch c.json[from] {
	case '"':
		c.text()
	case '{', '[':
		c.nested()
	default:
		for c.at < len(c.json) && !ends(c.json[c.at]) {
			c.at++
		}
	}
	return c.json[from:c.at], c.at > from
}

func ends(b byte) bool {
	switch b {
	case ',', ':', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

func (c *cursor) space() {
	for c.at < len(c.json) {
		switch c.json[c.at] {
		case ' ', '\n', '\t', '\r':
			c.at++
		default:
			return
		}
	}
}

// text steps over a string: to the first quote that is not escaped.
func (c *cursor) text() {
	begin := c.at + 1
	for c.at = begin; ; c.at++ {
		i := bytes.IndexByte(c.json[c.at:], '"')
		if i < 0 {
			c.at = len(c.json)
			return
		}
		c.at += i
		escapes := 0
		for j := c.at - 1; j >= begin && c.json[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			c.at++
			return
		}
	}
}

// nested steps over an object or array with all that is in it.
func (c *cursor) nested() {
	for depth := 0; c.at < len(c.json); {
		switch c.json[c.at] {
		case '"':
			c.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if c.at++; depth == 0 {
			return
		}
	}
}

// text is what a quoted string says; ok is false if it is none, or not UTF-8, which the decoder
// replaces.
func text(quoted []byte) (said []byte, ok bool) {
	if len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' || !utf8.Valid(quoted) {
		return nil, false
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], true
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, false
	}
	return []byte(s), true
}

func isNull(value []byte) bool { return string(value) == "null" }
