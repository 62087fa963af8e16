package downsync

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// Filter says what to leave out of a JSON value. A nil filter leaves out
// nothing. Filters of recursive Go types are cyclic; they are never changed
// once made.
type Filter struct {
	// fields is by name, for objects that are structs; names that are not in it stay as they are.
	fields map[string]*fieldFilter
	// each is for the elements of a list, or the values of an object that is a map.
	each *Filter
}

// fieldFilter says what to do with one field.
type fieldFilter struct {
	// drop leaves the field out whatever it is.
	drop bool
	// dropNull leaves it out if it is null.
	dropNull bool
	// zero leaves it out if it comes to these canonical bytes; nil for never.
	zero []byte
	// inner is for what the field holds.
	inner *Filter
}

func (f *Filter) field(name string) (*fieldFilter, bool) {
	if f == nil {
		return nil, false
	}
	field, ok := f.fields[name]
	return field, ok
}

func (f *Filter) ofEach() *Filter {
	if f == nil {
		return nil
	}
	return f.each
}

// appendScalar copies what is canonical as it stands, and encodes other strings anew.
func appendScalar(dst []byte, raw string) []byte {
	if raw[0] != '"' || isPlain(raw[1:len(raw)-1]) {
		return append(dst, raw...)
	}
	return appendQuoted(dst, gjson.Parse(raw).String())
}

func appendQuoted(dst []byte, s string) []byte {
	if isPlain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// isPlain says that a string is the same inside quotes as without.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
