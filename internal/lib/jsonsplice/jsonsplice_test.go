package jsonsplice_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"orrery.dev/orrery/internal/lib/jsonsplice"
)

// TestCopy: fields are set, added where the other object has them, and removed; everything else
// keeps its bytes, also numbers and names in an unusual form.
func TestCopy(t *testing.T) {
	status, managed := jsonsplice.Field("status"), jsonsplice.Field("metadata", "managedFields")
	for _, c := range []struct {
		name, object, other, want string
		paths                     []jsonsplice.Path
	}{
		{"set", `{"a":1e2,"status":{"x":1},"\u007a":[1.0]}` + "\n", `{"status":{"y":2}}`, `{"a":1e2,"status":{"y":2},"\u007a":[1.0]}` + "\n", []jsonsplice.Path{status}},
		{"add in order", `{"a":1,"zone":2}`, `{"a":9,"spec":3,"status":4,"zone":5}`, `{"a":1,"status":4,"zone":2}`, []jsonsplice.Path{status}},
		{"add at the end", `{"kind":"X","newer":{}}`, `{"kind":"X","status":4}`, `{"kind":"X","newer":{},"status":4}`, []jsonsplice.Path{status}},
		{"add to nothing", `{}`, `{"status":4}`, `{"status":4}`, []jsonsplice.Path{status}},
		{"remove", `{"a":1,"status":2,"newer":3}`, `{"a":1}`, `{"a":1,"newer":3}`, []jsonsplice.Path{status}},
		{"nothing to do", `{ "a" : 1 }`, `{"b":2}`, `{ "a" : 1 }`, []jsonsplice.Path{status, managed}},
		{"the same", `{ "status" : 1 }`, `{"status":1}`, `{ "status" : 1 }`, []jsonsplice.Path{status}},
		{"below", `{"metadata":{"newer":1,"name":"x"}}`, `{"metadata":{"managedFields":[],"name":"y"}}`, `{"metadata":{"newer":1,"managedFields":[],"name":"x"}}`, []jsonsplice.Path{managed}},
		{"removed below", `{"metadata":{"newer":1,"managedFields":[]}}`, `{"metadata":{}}`, `{"metadata":{"newer":1}}`, []jsonsplice.Path{managed}},
		{"several", `{"metadata":{"name":"x"},"spec":{"newer":1}}`, `{"metadata":{"name":"x","managedFields":[]},"status":2}`, `{"metadata":{"name":"x","managedFields":[]},"spec":{"newer":1},"status":2}`, []jsonsplice.Path{status, managed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := []byte(c.object)
			got, err := jsonsplice.Copy(object, []byte(c.other), c.paths...)
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
			if string(object) != c.object {
				t.Errorf("the argument was changed to %s", object)
			}
		})
	}
	for _, text := range []string{``, `[]`, `{"a"}`, `{"a":1`, `null`} {
		if _, err := jsonsplice.Copy([]byte(text), []byte(`{"status":1}`), status); !errors.Is(err, jsonsplice.ErrNoObject) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestDiffering: what of two objects is written in another way, or in one of them alone.
func TestDiffering(t *testing.T) {
	got, err := jsonsplice.Differing(
		[]byte(`{"metadata":{"a":1,"b":[1,2],"gone":0},"same":{"x":1},"spec":{"x":1}}`),
		[]byte(`{"spec":{"x":2},"metadata":{"b":[1,3],"a":1,"new":0},"same":{"x":1},"status":{}}`), "metadata")
	want := []jsonsplice.Path{
		jsonsplice.Field("metadata", "b"), jsonsplice.Field("metadata", "gone"), jsonsplice.Field("metadata", "new"),
		jsonsplice.Field("spec"), jsonsplice.Field("status"),
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// FuzzCopy: an object with the differing fields of another is that other object.
func FuzzCopy(f *testing.F) {
	f.Add(`{"metadata":{"a":1},"b":2}`, `{"b":2,"metadata":{"c":[{}]},"d":"\""}`)
	f.Add(`{"a":1,"b":2}`, `{}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		var old, want map[string]any
		if json.Unmarshal([]byte(a), &old) != nil || json.Unmarshal([]byte(b), &want) != nil || old == nil || want == nil {
			return
		}
		plain := func(v map[string]any) []byte { // without repeated fields
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		x, y := plain(old), plain(want)
		paths, err := jsonsplice.Differing(x, y, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsonsplice.Copy(x, y, paths...)
		if err != nil {
			t.Fatal(err)
		}
		var is map[string]any
		if err := json.Unmarshal(got, &is); err != nil || !reflect.DeepEqual(is, want) {
			t.Errorf("%s with the fields of %s is %s (%v)", x, y, got, err)
		}
	})
}
