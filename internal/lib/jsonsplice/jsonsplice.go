// Package jsonsplice changes fields in the text of a JSON object. All other text stays as it is
// written, so fields that the program does not know survive.
//
// It must know nothing of what the JSON means. Functions are safe for concurrent use.
package jsonsplice

import (
	"bytes"
	"errors"
	"slices"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// Path names a field: of the object itself, or, with two names, of an object in one of its
// fields. Names are in quotes, as they are written.
type Path []string

// Field is the Path of a field by its plain names, which need no escapes in JSON.
func Field(names ...string) Path {
	p := make(Path, len(names))
	for i, name := range names {
		p[i] = `"` + name + `"`
	}
	return p
}

// ErrNoObject is returned for a text that is no JSON object.
var ErrNoObject = errors.New("not a JSON object")

// member is a field of an object: its name in quotes, and its value as it is written.
type member struct {
	name  string
	value []byte
}

// membersOf are the fields of an object in their order, and the text behind it.
func membersOf(object []byte) (all []member, rest []byte, err error) {
	c := jsonscan.NewCursor(object)
	if !c.Open('{') {
		return nil, nil, ErrNoObject
	}
	for c.More() {
		name, ok := c.Name()
		if !ok {
			return nil, nil, ErrNoObject
		}
		value, ok := c.Value()
		if !ok {
			return nil, nil, ErrNoObject
		}
		all = append(all, member{string(name), value})
	}
	if !c.Close() {
		return nil, nil, ErrNoObject
	}
	return all, object[c.Offset():], nil
}

func index(all []member, name string) int {
	return slices.IndexFunc(all, func(m member) bool { return m.name == name })
}

// Copy returns an object in which the fields at some paths are as in another object: set, added
// or removed. A field that is added comes before the first that follows it in the other object.
// If nothing changes, it returns the object itself; it never changes its arguments.
func Copy(object, other []byte, paths ...Path) ([]byte, error) {
	for _, path := range paths {
		var err error
		if object, err = copyField(object, other, path); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func copyField(object, other []byte, path Path) ([]byte, error) {
	fields, rest, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	others, _, err := membersOf(other)
	if err != nil {
		return nil, err
	}
	i, j := index(fields, path[0]), index(others, path[0])
	switch {
	case i < 0 && j < 0:
		return object, nil
	case j < 0 && len(path) == 1:
		fields = slices.Delete(fields, i, i+1)
	case i < 0:
		fields = slices.Insert(fields, before(fields, others[j+1:]), others[j])
	default:
		value := []byte("{}")
		if j >= 0 {
			value = others[j].value
		}
		if len(path) > 1 {
			if value, err = copyField(fields[i].value, value, path[1:]); err != nil {
				return nil, err
			}
		}
		if bytes.Equal(value, fields[i].value) {
			return object, nil
		}
		fields[i].value = value
	}
	return join(fields, rest), nil
}

// before is where to insert a field that others follow.
func before(fields, others []member) int {
	for i, f := range fields {
		if index(others, f.name) >= 0 {
			return i
		}
	}
	return len(fields)
}

func join(fields []member, rest []byte) []byte {
	size := 2 + len(rest)
	for _, f := range fields {
		size += len(f.name) + len(f.value) + 2
	}
	text := make([]byte, 0, size)
	text = append(text, '{')
	for i, f := range fields {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, f.name...), ':'), f.value...)
	}
	return append(append(text, '}'), rest...)
}

// Differing are the paths of the fields that are not written in the same way in two objects.
// Fields of the objects in the field that deep names are compared one by one.
func Differing(a, b []byte, deep string) ([]Path, error) {
	as, _, err := membersOf(a)
	if err != nil {
		return nil, err
	}
	bs, _, err := membersOf(b)
	if err != nil {
		return nil, err
	}
	var all []Path
	for _, f := range as {
		j := index(bs, f.name)
		switch {
		case j >= 0 && bytes.Equal(f.value, bs[j].value):
		case j >= 0 && f.name == `"`+deep+`"`:
			below, err := Differing(f.value, bs[j].value, "")
			if err != nil {
				return nil, err
			}
			for _, path := range below {
				all = append(all, append(Path{f.name}, path...))
			}
		default:
			all = append(all, Path{f.name})
		}
	}
	for _, f := range bs {
		if index(as, f.name) < 0 {
			all = append(all, Path{f.name})
		}
	}
	return all, nil
}
