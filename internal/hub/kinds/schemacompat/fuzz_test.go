package schemacompat

import "testing"

// FuzzFit: whatever an object is, it fits or does not, and says so in few words.
func FuzzFit(f *testing.F) {
	crd := v1(f, shop)
	for _, spec := range []string{`{"size": "S"}`, `{"size": 1, "by": {"x": {}}}`, `null`, `[]`, `{"by": [1], "free": null, "tags": [1, 1]}`} {
		f.Add([]byte(`{"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "n"}, "spec": ` + spec + `}`))
	}
	f.Add([]byte(`{"apiVersion": 1}`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`null`))
	there := New(crd)
	f.Fuzz(func(t *testing.T, object []byte) {
		first, err := there.Fit(object)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && (first.Field == "" || len(first.Error()) > 1000) {
			t.Fatalf("got %q", first.Error())
		}
		if again := fit(t, there, string(object)); again != messageOf(first) {
			t.Fatalf("first %s, then %s", messageOf(first), again)
		}
	})
}
