package fieldset

import "orrery.dev/orrery/internal/lib/jsonscan"

// member is a field of a JSON object.
type member struct{ name, value []byte }

// members appends the fields of an object; null or an empty value has none. ok is false if the
// value is not an object, or has names with escapes.
func members(all []member, v []byte) (_ []member, ok bool) {
	if len(v) == 0 || string(v) == "null" {
		return all, true
	}
	c := jsonscan.NewCursor(v)
	if !c.Open('{') {
		return nil, false
	}
	for c.More() {
		quoted, ok := c.Name()
		if !ok {
			return nil, false
		}
		m := member{name: quoted[1 : len(quoted)-1]}
		if m.value, ok = c.Value(); !ok || !jsonscan.IsPlain(m.name) {
			return nil, false
		}
		all = append(all, m)
	}
	return all, c.Close()
}

// values calls each for the elements of a list, until it returns false.
func values(v []byte, each func(v []byte) bool) bool {
	c := jsonscan.NewCursor(v)
	if !c.Open('[') {
		return false
	}
	for c.More() {
		if value, ok := c.Value(); !ok || !each(value) {
			return false
		}
	}
	return c.Close()
}
