package read

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/test/support/limit"
)

func TestCustomKindsAcrossSpacesAreMetadata(t *testing.T) {
	f := newFixture(t)
	f.put(sample{gvr: widgetsV1, space: "a", namespace: "default", name: "w", content: map[string]any{"spec": map[string]any{"secret": 1}}})
	s := f.serve()
	for _, query := range []string{"", "?pretty=1"} {
		_, body := get(t, s.URL+"/spaces/*/apis/example.com/v1/widgets"+query)
		var l metav1.PartialObjectMetadataList
		if err := json.Unmarshal(body, &l); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		if l.Kind != "PartialObjectMetadataList" || l.APIVersion != "meta.k8s.io/v1" || len(l.Items) != 1 {
			t.Fatalf("list: %s", body)
		}
		o := l.Items[0]
		if o.Kind != "PartialObjectMetadata" || o.Name != "w" || o.Annotations[v1alpha1.SpaceAnnotation] != "a" || o.ResourceVersion != "1" {
			t.Errorf("item: %s", body)
		}
		if strings.Contains(string(body), "secret") {
			t.Errorf("more than metadata: %s", body)
		}
	}
	if status, body := get(t, s.URL+"/spaces/*/apis/example.com/v1/widgets", "Accept", tableAccept); status != 200 || !strings.Contains(string(body), `"cells":["w"`) {
		t.Errorf("table: %d %s", status, body)
	}
	if status, body := get(t, s.URL+"/spaces/*/apis/example.com/v1/widgets", "Accept", "application/yaml"); status != 200 || !strings.Contains(string(body), "name: w") {
		t.Errorf("yaml: %d %s", status, body)
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

const tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

func TestTables(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1"))
	f.put(cm("a", "y", "1"))
	s := f.serve()
	for path, rows := range map[string]int{
		"/spaces/a/api/v1/configmaps":                              2,
		"/spaces/a/api/v1/configmaps?includeObject=Object":         2,
		"/spaces/a/api/v1/configmaps?includeObject=None":           2,
		"/spaces/a/api/v1/namespaces/default/configmaps/x":         1,
		"/spaces/a/api/v1/namespaces/other/configmaps":             0,
		"/spaces/*/api/v1/configmaps":                              2,
		"/spaces/a/api/v1/configmaps?limit=1&includeObject=Object": 1,
	} {
		status, body := get(t, s.URL+path, "Accept", tableAccept)
		var got struct {
			metav1.Table
			Rows []struct { // the object is kept as it is
				Cells  []any           `json:"cells"`
				Object json.RawMessage `json:"object"`
			} `json:"rows"`
		}
		if err := json.Unmarshal(body, &got); err != nil || status != 200 {
			t.Fatalf("%s: %d %v in %s", path, status, err, body)
		}
		if len(got.Rows) != rows || len(got.ColumnDefinitions) == 0 || got.ResourceVersion == "" {
			t.Errorf("%s: %s", path, body)
		}
		if strings.Contains(path, "limit") == (got.Continue == "") {
			t.Errorf("%s: continue %q", path, got.Continue)
		}
		for _, row := range got.Rows {
			if len(row.Cells) != len(got.ColumnDefinitions) {
				t.Errorf("%s: row %v has not the columns %v", path, row.Cells, got.ColumnDefinitions)
			}
			if strings.Contains(path, "=Object") && !strings.Contains(string(row.Object), `"k":"1"`) {
				t.Errorf("%s: object %s", path, row.Object)
			}
		}
	}
}

// TestCountsInTables shows how far objects have come where they are placed from,
// behind the kind's own columns, and never for kinds that don't travel.
func TestCountsInTables(t *testing.T) {
	f := newFixture(t, func(c *Config, _ *table.Config) {
		c.Counts = func(_ context.Context, row *table.Row) (v1alpha1.Counts, error) {
			return v1alpha1.Counts{Assigned: int64(len(row.Key)), Applied: 2, Healthy: 3, Failed: 1}, nil
		}
	})
	x := cm("a", "x", "1")
	f.put(x, cm("root", "y", "1"), sample{gvr: locations, space: "root", name: "here"}, sample{gvr: widgetsV1, space: "a", namespace: "default", name: "w"})
	s := f.serve()
	for path, counted := range map[string]bool{
		"/spaces/a/api/v1/configmaps":                             true,
		"/spaces/a/api/v1/namespaces/default/configmaps/x":        true,
		"/spaces/a/apis/example.com/v1/widgets":                   true,
		"/spaces/*/api/v1/configmaps":                             true,
		"/spaces/a/apis/orrery.dev/v1alpha1/locations":            false,
		"/views/locations/a/api/v1/namespaces/default/configmaps": false,
	} {
		status, body := get(t, s.URL+path, "Accept", tableAccept)
		var got metav1.Table
		if err := json.Unmarshal(body, &got); err != nil || status != 200 {
			t.Fatalf("%s: %d %v in %s", path, status, err, body)
		}
		n := len(got.ColumnDefinitions)
		if is := n > 4 && got.ColumnDefinitions[n-4].Name == "Placed"; is != counted {
			t.Errorf("%s: columns %v", path, got.ColumnDefinitions)
		}
		for _, row := range got.Rows {
			if len(row.Cells) != n {
				t.Errorf("%s: %d columns for %v", path, n, row.Cells)
			}
			if strings.HasSuffix(path, "/x") && fmt.Sprint(row.Cells[n-4:]) != fmt.Sprintf("[%d 2 3 1]", len(x.key())) {
				t.Errorf("%s: cells %v", path, row.Cells)
			}
		}
	}
}

// TestUnknownCounts: counts that are not known when the context ends are an error, and no zeros.
func TestUnknownCounts(t *testing.T) {
	f := newFixture(t, func(c *Config, _ *table.Config) {
		c.Counts = func(context.Context, *table.Row) (v1alpha1.Counts, error) {
			return v1alpha1.Counts{}, context.DeadlineExceeded
		}
	})
	f.put(cm("a", "x", "1"), sample{gvr: widgetsV1, space: "a", namespace: "default", name: "w"})
	s := f.serve()
	for _, path := range []string{
		"/spaces/a/api/v1/configmaps", "/spaces/a/api/v1/namespaces/default/configmaps/x", "/spaces/a/apis/example.com/v1/widgets",
	} {
		if status, body := get(t, s.URL+path, "Accept", tableAccept); status < 500 {
			t.Errorf("%s: %d %s, want an error", path, status, body)
		}
	}
}

func TestGzip(t *testing.T) {
	f := newFixture(t)
	large := cm("a", "large", strings.Repeat("a", 200<<10))
	f.put(large)
	s := f.serve()
	for _, path := range []string{"/spaces/a/api/v1/configmaps", "/spaces/a/api/v1/namespaces/default/configmaps/large"} {
		_, body, header := fetch(t, s.URL+path, "Accept-Encoding", "gzip")
		if header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: not compressed", path)
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, want := get(t, s.URL+path); !bytes.Equal(plain, want) {
			t.Errorf("%s: compressed answer differs", path)
		}
	}
}

func TestLargeDecodedListsAreRefused(t *testing.T) {
	f := newFixture(t, func(c *Config, _ *table.Config) { c.DecodedListBytes = 1000 })
	for i := range 20 {
		f.put(cm("a", fmt.Sprint("x", i), strings.Repeat("a", 100)))
	}
	s := f.serve()
	path := s.URL + "/spaces/a/api/v1/configmaps"
	for _, accept := range []string{"application/yaml", "application/vnd.kubernetes.protobuf"} {
		if status, body := get(t, path, "Accept", accept); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %q", accept, status, body)
		}
		if status, body := get(t, path+"?limit=2", "Accept", accept); status != 200 {
			t.Errorf("%s, page: %d %q", accept, status, body)
		}
	}
	for _, accept := range []string{"application/json", tableAccept} {
		if status, body := get(t, path, "Accept", accept); status != 200 {
			t.Errorf("%s: %d %q", accept, status, body)
		}
	}
}

// TestTransformedWatches: kubectl get -w asks for tables, controllers for metadata.
func TestTransformedWatches(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1"))
	f.put(sample{gvr: widgetsV1, space: "a", namespace: "default", name: "x"})
	s := f.serve()
	const partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	for _, path := range []string{"/spaces/a/api/v1/configmaps", "/spaces/*/api/v1/configmaps", "/spaces/*/apis/example.com/v1/widgets", "/spaces/a/apis/example.com/v2/widgets"} {
		for accept, kind := range map[string]string{tableAccept: "Table", partial: "PartialObjectMetadata"} {
			query := "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
			var types []string
			for _, line := range firstLines(t, 2, s.URL+path+query, accept) {
				var event struct {
					Type   string
					Object struct {
						metav1.TypeMeta
						metav1.ObjectMeta `json:"metadata"`
						Rows              []struct{ Object metav1.PartialObjectMetadata }
					}
				}
				if err := json.Unmarshal(line, &event); err != nil {
					t.Fatalf("%s as %s: %v in %s", path, kind, err, line)
				}
				m := event.Object.ObjectMeta
				if len(event.Object.Rows) == 1 {
					m = event.Object.Rows[0].Object.ObjectMeta
				}
				end := event.Type == "BOOKMARK" && m.Annotations[metav1.InitialEventsAnnotationKey] == "true"
				if event.Object.Kind != kind || m.ResourceVersion == "" || m.Name != "x" && !end {
					t.Errorf("%s as %s: %s", path, kind, line)
				}
				types = append(types, event.Type)
			}
			if got := strings.Join(types, " "); got != "ADDED BOOKMARK" {
				t.Errorf("%s as %s: %s", path, kind, got)
			}
		}
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

// firstLines reads the beginning of an answer that does not end.
func firstLines(t *testing.T, n int, url, accept string) [][]byte {
	t.Helper()
	req, err := http.NewRequestWithContext(limit.Context(t, "the first lines of an answer"), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var lines [][]byte
	scanner := bufio.NewScanner(resp.Body)
	for len(lines) < n && scanner.Scan() {
		lines = append(lines, bytes.Clone(scanner.Bytes()))
	}
	return lines
}

// TestUnknownEncodersAreCounted: an upgrade of the library that renames encoders is
// noticed.
func TestUnknownEncodersAreCounted(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1"))
	got, err := f.reader(Space("a"), configMaps).Get(request.WithNamespace(t.Context(), "default"), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	var encoded runtime.Object
	err = got.(runtime.CacheableObject).CacheEncode("renamed", func(o runtime.Object, _ io.Writer) error {
		encoded = o
		return nil
	}, io.Discard)
	if c, ok := encoded.(*corev1.ConfigMap); err != nil || !ok || c.Name != "x" || c.ResourceVersion != "1" {
		t.Errorf("%v: %v", err, encoded)
	}
	if n := f.server.Fallbacks(); n != 1 {
		t.Errorf("counted %d", n)
	}
}
