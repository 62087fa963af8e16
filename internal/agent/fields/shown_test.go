package fields

import (
	"encoding/json"
	"testing"

	"orrery.dev/orrery/internal/protocol/ownership"
)

// TestShown shows which part of an object is what a location owns, by the managed fields:
// of maps, of lists whose elements have keys or are their own, and of what is one value.
func TestShown(t *testing.T) {
	const object = `{"apiVersion":"apps/v1","kind":"Thing","metadata":{"name":"x","uid":"u","resourceVersion":"7","managedFields":[{}],"creationTimestamp":"t","generation":3,
"labels":{"mine":"1","theirs":"2"},"finalizers":["mine/f","theirs/f"]},
"spec":{"list":[{"name":"a","port":1,"theirs":true},{"name":"b","port":2}],"atomic":{"a":1,"b":[1,2]},"theirs":1,"numbers":[9007199254740993]},"status":{"secret":1}}`
	const fields = `{"f:metadata":{"f:labels":{"f:mine":{}},"f:finalizers":{".":{},"v:\"mine/f\"":{}}},
"f:spec":{"f:list":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:port":{}}},"f:atomic":{},"f:numbers":{},"f:gone":{"k:{\"name\":\"z\"}":{".":{}}}}}`
	l := ownership.NewOwner("paris", "0a1b2c3d-x")
	var m ownership.Meta
	m.ManagedFields = []ownership.ManagedFields{
		{Manager: l.Manager(), Operation: "Apply", FieldsV1: json.RawMessage(fields)},
		{Manager: "others", Operation: "Update", FieldsV1: json.RawMessage(`{"f:spec":{"f:theirs":{}}}`)},
	}
	mine, err := Owned(l, &m)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		all  bool
		want string
	}{
		{false, `{"apiVersion":"apps/v1","kind":"Thing","metadata":{"finalizers":["mine/f"],"labels":{"mine":"1"}},` +
			`"spec":{"atomic":{"a":1,"b":[1,2]},"list":[{"name":"a","port":1}],"numbers":[9007199254740993]}}`},
		{true, `{"apiVersion":"apps/v1","kind":"Thing","metadata":{"finalizers":["mine/f","theirs/f"],"labels":{"mine":"1","theirs":"2"},"name":"x"},` +
			`"spec":{"atomic":{"a":1,"b":[1,2]},"list":[{"name":"a","port":1,"theirs":true},{"name":"b","port":2}],"numbers":[9007199254740993],"theirs":1}}`},
	} {
		only := mine
		if c.all {
			only = nil
		}
		shown, err := Shown([]byte(object), only)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Encode(shown)
		if err != nil || string(got) != c.want {
			t.Errorf("all: %v\n got %s\nwant %s (%v)", c.all, got, c.want, err)
		}
	}
	if _, err := Shown([]byte("no object"), mine); err == nil {
		t.Error("what is no object is shown")
	}
}

// TestMask shows that of the values of a Secret only whether they differ is left.
func TestMask(t *testing.T) {
	for _, c := range [][4]string{
		{`{"data":{"a":"1","b":"2","c":"3"}}`, `{"data":{"a":"1","b":"x","d":"4"}}`,
			`{"data":{"a":"***","b":"*** (before)","c":"***"}}`, `{"data":{"a":"***","b":"*** (after)","d":"***"}}`},
		{`{"data":null}`, `{"stringData":{"a":{"deep":"x"}}}`, `{"data":null}`, `{"stringData":{"a":"***"}}`},
		{`{"data":["x"]}`, `{"data":"x"}`, `{"data":"***"}`, `{"data":"***"}`},
		{`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","other":"y"}}}`, `{}`, `{"metadata":{"annotations":{"other":"y"}}}`, `{}`},
		{``, `{"data":{"a":"1"}}`, ``, `{"data":{"a":"***"}}`},
		{`{"data":{"a":"1"}}`, ``, `{"data":{"a":"***"}}`, ``},
	} {
		var sides [2]map[string]any
		for i := range sides {
			if c[i] != "" && json.Unmarshal([]byte(c[i]), &sides[i]) != nil {
				t.Fatal(c[i])
			}
		}
		Mask(sides[0], sides[1])
		for i, side := range sides {
			if got, err := Encode(side); err != nil || string(got) != c[i+2] {
				t.Errorf("%s and %s: side %d is %s, want %s (%v)", c[0], c[1], i, got, c[i+2], err)
			}
		}
	}
}
