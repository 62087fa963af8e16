package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/cost"
)

// FuzzNesting checks that depth, scalars and repeated names equal those that encoding/json finds, for any
// division into chunks, and that finding them takes memory in proportion to the text.
func FuzzNesting(f *testing.F) {
	for i, text := range []string{
		`{}`, `[[[]]]`, `{"a":{"b":[1,"]",true]}}`, `{"a":1,"\u0061":2}`, `{"a\\":1,"a":2}`, `[{"a":1},{"a":2}]`, `{"a":{"b":1},"b":{"a":1}}`,
		`{"a":[{"b":1,"b":2}]}`, ` { "x" : "\"[" , "y" : -1.5e3 } `, `"[["`, `]]]]{"a":[`, `{"a`, "{\"\xff\":1,\"\xfe\":2}", `{"a":"` + strings.Repeat("[", 300) + `"}`,
		`{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"r":0,"b":1}`,
	} {
		f.Add([]byte(text), byte(i), byte(i/3))
	}
	f.Fuzz(func(t *testing.T, text []byte, size, most byte) {
		var n Nesting
		deeper, repeated := false, false
		var name string
		used := cost.Allocated(func() {
			for left := text; len(left) > 0 && !deeper; {
				end := min(len(left), int(size)+1)
				deeper = n.Exceeds(left[:end], int(most))
				left = left[end:]
			}
			name, repeated = Repeated(text)
			Scalars(text, func([]byte) bool { return true })
		})
		if used > 1<<20+uint64(200*len(text)) {
			t.Errorf("a text of %d bytes takes %d bytes", len(text), used)
		}
		var scalars []string
		Scalars(text, func(v []byte) bool { scalars = append(scalars, string(v)); return true })
		if !json.Valid(text) {
			return
		}
		is := described(t, text)
		if deeper != (is.depth > int(most)) || deeper != Deeper(text, int(most)) {
			t.Errorf("%q in chunks of %d: deeper than %d: %t, its depth is %d", text, int(size)+1, most, deeper, is.depth)
		}
		if repeated != is.repeated {
			t.Errorf("%q repeats %q: %t", text, name, repeated)
		}
		if len(scalars) != is.scalars {
			t.Errorf("%q has the scalars %q, want %d", text, scalars, is.scalars)
		}
		for _, v := range scalars {
			if !json.Valid([]byte(v)) {
				t.Errorf("%q has the scalar %q", text, v)
			}
		}
	})
}

// description contains what encoding/json finds in a text.
type description struct {
	depth, scalars int
	repeated       bool
}

func described(t *testing.T, text []byte) (is description) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var open []map[string]bool // nil for an array
	isValue := true
	for {
		token, err := d.Token()
		if err != nil {
			return is
		}
		within := len(open) > 0 && open[len(open)-1] != nil
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			is.depth = max(is.depth, len(open))
			isValue = len(open) == 0 || open[len(open)-1] == nil
		case string:
			if within && !isValue {
				names := open[len(open)-1]
				is.repeated = is.repeated || names[token]
				names[token], isValue = true, true
				continue
			}
			is.scalars++
			isValue = !within
		default:
			is.scalars++
			isValue = !within
		}
	}
}

// TestNestingReadsOnce: a text is read once, regardless of its nesting and the number of names in
// an object.
func TestNestingReadsOnce(t *testing.T) {
	const levels = 9000
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `"n%d":1,`, i)
	}
	for name, text := range map[string]string{
		"objects":    strings.Repeat(`{"a":`, levels) + `"` + strings.Repeat("x", 1<<16) + `"` + strings.Repeat("}", levels),
		"many names": strings.Repeat(`{"x":1,"a":`, levels) + `{` + many.String() + `"z":1}` + strings.Repeat("}", levels),
	} {
		t.Run(name, func(t *testing.T) {
			cost.Within(t, 200, func() { json.Valid([]byte(text)) }, func() {
				Repeated([]byte(text))
				Scalars([]byte(text), func([]byte) bool { return true })
				new(Nesting).Exceeds([]byte(text), levels)
			})
		})
	}
}
