package downsync

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

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

// member is one field of an object being sorted.
type member struct {
	name  string
	value gjson.Result
}

// append adds the canonical JSON of v to dst, without what f leaves out: no
// white space, names sorted bytewise, no escapes but those JSON needs, numbers
// as they are.
func (f *Filter) append(dst []byte, v gjson.Result) []byte {
	switch {
	case v.IsObject():
		return f.appendObject(dst, v)
	case v.IsArray():
		dst = append(dst, '[')
		first := true
		v.ForEach(func(_, e gjson.Result) bool {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = f.ofEach().append(dst, e)
			return true
		})
		return append(dst, ']')
	case v.Type == gjson.String:
		return appendString(dst, v)
	default:
		return append(dst, strings.TrimSpace(v.Raw)...)
	}
}

func (f *Filter) appendObject(dst []byte, v gjson.Result) []byte {
	var space [16]member // most objects are small: no allocation for them
	members := space[:0]
	v.ForEach(func(name, value gjson.Result) bool {
		members = append(members, member{name.String(), value})
		return true
	})
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	start := len(dst)
	for i, m := range members {
		if i+1 < len(members) && members[i+1].name == m.name {
			continue // of a name that is there twice, the last counts
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, m.name)
		dst = append(dst, ':')
		dst = f.appendField(dst, before, m)
	}
	return append(dst, '}')
}

// appendField adds a field's value, or takes back what was added since before.
func (f *Filter) appendField(dst []byte, before int, m member) []byte {
	field, ok := f.field(m.name)
	if !ok {
		return f.ofEach().append(dst, m.value)
	}
	if field.drop || field.dropNull && m.value.Type == gjson.Null {
		return dst[:before]
	}
	at := len(dst)
	dst = field.inner.append(dst, m.value)
	if field.zero != nil && bytes.Equal(dst[at:], field.zero) {
		return dst[:before]
	}
	return dst
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

// appendString copies a string that is canonical as it stands, and encodes others anew.
func appendString(dst []byte, v gjson.Result) []byte {
	if isPlain(v.Raw[1 : len(v.Raw)-1]) {
		return append(dst, v.Raw...)
	}
	return appendQuoted(dst, v.String())
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
