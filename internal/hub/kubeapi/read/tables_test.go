package read

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestTablesOfBytes checks that tables from bytes equal tables from decoded objects, in all views.
func TestTablesOfBytes(t *testing.T) {
	f := newFixture(t)
	x := cm("a", "x", "1", "at=north")
	x.content["binaryData"] = map[string]any{"b": "AA=="}
	f.put(x, cm("a", "<y>", "1"), sample{gvr: widgetsV1, space: "a", namespace: "default", name: "w"},
		sample{gvr: pods, space: "a", namespace: "default", name: "p", content: map[string]any{"status": map[string]any{"phase": "Running"}}})
	s := f.serve()
	for _, test := range []struct {
		lens Lens
		gvr  schema.GroupVersionResource
		path string
	}{
		{Space("a"), configMaps, "/spaces/a/api/v1/configmaps"},
		{Space("a"), pods, "/spaces/a/api/v1/pods"},
		{Space("a"), widgetsV1, "/spaces/a/apis/example.com/v1/widgets"},
		{AllSpaces(), configMaps, "/spaces/*/api/v1/configmaps"},
		{Location("north", key.Same), configMaps, "/views/locations/north/api/v1/configmaps"},
	} {
		r := f.reader(test.lens, test.gvr)
		l, err := r.List(t.Context(), &metainternalversion.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.rows(t.Context(), l.(*list).Items, l.(*list).ListMeta, &metav1.TableOptions{})
		if err != nil || len(want.Rows) == 0 {
			t.Fatalf("%s: %v %v", test.path, want, err)
		}
		want.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Table"))
		for i := range want.Rows {
			want.Rows[i].Object.Object.GetObjectKind().SetGroupVersionKind(metadataGVK())
		}
		for _, query := range []string{"", "?pretty=1"} {
			status, body := get(t, s.URL+test.path+query, "Accept", tableAccept)
			var got, wanted any
			if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d %v in %s", test.path, status, err, body)
			}
			if made, err := json.Marshal(want); err != nil || json.Unmarshal(made, &wanted) != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, wanted) {
				t.Errorf("%s%s: %v, want %v", test.path, query, got, wanted)
			}
		}
	}
}
