package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzCursor: a cursor visits all values of valid JSON, and each value ends at its end. It also
// ends on invalid JSON.
func FuzzCursor(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `""`, `-1.5e3`, `{"a":{"b":[1,"}",{"c\"":"\\"}]},"d":""}`, " {\n\t\"a\" : [ ] ,\r\"a\":[1 , 2]} ",
		`["\\\"","\\\\",{"":{"":[[]]}}]`, `{"a":"`, `{"a":`, `[1,`, `{"a\`, `"\"`, `{]`, `[}`, `{,}`, `:`, ``, ` `, `{"a":{"b":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := NewCursor(text)
		got, ok := compacted(nil, &c)
		if !json.Valid(text) {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, text); err != nil {
			t.Fatal(err)
		}
		if !ok || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%s: %t, %s", text, ok, got)
		}
		if end, ok := End(text, 0); !ok || len(bytes.TrimSpace(text[end:])) > 0 {
			t.Fatalf("%s: ends at %d, %t", text, end, ok)
		}
	})
}

// compacted appends the next value without spaces, by visiting all values in it.
func compacted(to []byte, c *Cursor) (_ []byte, ok bool) {
	object := c.Open('{')
	if !object && !c.Open('[') {
		value, ok := c.Value()
		return append(to, value...), ok
	}
	to = append(to, "[{"[index(object)])
	for first := true; c.More(); first = false {
		if !first {
			to = append(to, ',')
		}
		if object {
			name, ok := c.Name()
			if !ok {
				return to, false
			}
			to = append(append(to, name...), ':')
		}
		if to, ok = compacted(to, c); !ok {
			return to, false
		}
	}
	return append(to, "]}"[index(object)]), c.Close()
}

func index(object bool) int {
	if object {
		return 1
	}
	return 0
}

// TestIsPlain: encoders with and without HTML escapes do not change plain text.
func TestIsPlain(t *testing.T) {
	for c := range 256 {
		text := []byte{'a', byte(c)}
		escaped, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if c != 0x7f && IsPlain(text) != (string(escaped) == `"`+string(text)+`"`) {
			t.Errorf("%q is encoded as %s, plain: %t", text, escaped, IsPlain(text))
		}
	}
	if !IsPlain(nil) {
		t.Error("nothing is not plain")
	}
}

// TestDeeper: brackets in strings, and adjacent values, do not add depth.
func TestDeeper(t *testing.T) {
	const most = 1000
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n/2) + strings.Repeat("]}", n/2) }
	for text, deeper := range map[string]bool{
		"": false, deep(most): false, deep(most + 2): true, strings.Repeat("[", 1<<20): true, strings.Repeat("]", 5) + strings.Repeat("[", most): false,
		`{"a":"` + strings.Repeat(`[\"{`, most) + `"}`: false, `{"a":"` + strings.Repeat("[", 2*most): false,
		`{"a":"x\\\\","b":` + deep(most) + "}": true, "[" + strings.Repeat("[],{},", 2*most) + "0]": false,
	} {
		if got := Deeper([]byte(text), most); got != deeper {
			t.Errorf("%.20s… of %d bytes: %t", text, len(text), got)
		}
	}
}
