package downsync

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// Filter determines the parts of a JSON value that are omitted; a nil filter omits nothing. Filters of
// recursive Go types are cyclic. A filter is immutable after its construction.
type Filter struct {
	// fields is by name, for objects that are structs; names that are not in it stay as they are.
	fields map[string]*fieldFilter
	// each is for the elements of a list, or the values of an object that is a map.
	each *Filter
}

// fieldFilter determines the treatment of one field.
type fieldFilter struct {
	// drop always omits the field.
	drop bool
	// dropNull omits the field if it is null.
	dropNull bool
	// zero omits the field if its canonical bytes are equal to these; nil for never.
	zero []byte
	// inner is applied to the value of the field.
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

// isPlain reports whether a string needs no escapes in JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
