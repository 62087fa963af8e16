package builtin

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// TestStoredMeta shows that the kind of a value is what the library reads, wherever
// it stands, and that a value is refused that says it as something else than text.
func TestStoredMeta(t *testing.T) {
	for value, want := range map[string]string{
		`{"kind":"ConfigMap","apiVersion":"v1"}`:                                   "/v1, Kind=ConfigMap",
		`{"data":{"kind":"x","apiVersion":"y"},"kind":"D","apiVersion":"apps/v1"}`: "apps/v1, Kind=D",
		`{ "apiVersion" : "a\/b" , "kind" : "\u0043" }`:                            "a/b, Kind=C",
		`{"apiVersion":"v1"}`:                                                      "/v1, Kind=",
		`{"kind":"A","apiVersion":null}`:                                           "/, Kind=A",
		`{"kind":7,"apiVersion":"v1"}`:                                             "",
		`{"kind":"A","apiVersion":["v1"]}`:                                         "",
		`{"kind":"A","apiVersion":"a/b/c"}`:                                        "",
	} {
		library, libraryErr := json.DefaultMetaFactory.Interpret([]byte(value))
		got, err := storedMeta{}.Interpret([]byte(value))
		if (err != nil) != (libraryErr != nil) || (err != nil) != (want == "") {
			t.Errorf("%s: %v; the library says %v", value, err, libraryErr)
			continue
		}
		if err == nil && (got.String() != want || *got != *library) {
			t.Errorf("%s: %v; the library says %v", value, got, library)
		}
	}
}
