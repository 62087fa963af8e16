package protobuf

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// text is what a quoted string says; ok is false if it is none, or not UTF-8, which the decoder
// replaces.
func text(quoted []byte) (content []byte, ok bool) {
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
