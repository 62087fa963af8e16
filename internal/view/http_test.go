package view

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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/internal/table"
)

// get asks and returns the body of the answer.
func get(t *testing.T, url string, header ...string) (int, []byte) {
	t.Helper()
	status, body, _ := fetch(t, url, header...)
	return status, body
}

func fetch(t *testing.T, url string, header ...string) (int, []byte, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body, resp.Header
}

func TestBytesAreServedAsTheyAre(t *testing.T) {
	f := newFixture(t)
	a := cm("a", "x", "1")
	a.annotations = map[string]string{"mine": "yes", SpaceAnnotation: "forged"}
	f.put(a)
	f.put(cm("b", "x", "2"))
	s := f.serve()

	_, body := get(t, s.URL+"/spaces/a/api/v1/namespaces/default/configmaps/x")
	want := strings.Replace(string(a.value()), `"metadata":{`, `"metadata":{"resourceVersion":"1",`, 1)
	if string(body) != want {
		t.Errorf("get:\n got %s\nwant %s", body, want)
	}

	_, body = get(t, s.URL+"/spaces/*/api/v1/configmaps")
	var l corev1.ConfigMapList
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if l.Kind != "ConfigMapList" || l.ResourceVersion != "2" || len(l.Items) != 2 {
		t.Fatalf("wildcard list: %s", body)
	}
	for i, space := range []string{"a", "b"} {
		if got := l.Items[i].Annotations[SpaceAnnotation]; got != space {
			t.Errorf("item %d says it is in %q, not in %q", i, got, space)
		}
	}
	if strings.Contains(string(body), "forged") {
		t.Errorf("a user named the space: %s", body)
	}
	if status, body := get(t, s.URL+"/spaces/*/api/v1/namespaces/default/configmaps/x"); status != http.StatusMethodNotAllowed {
		t.Errorf("get across spaces: %d %s", status, body)
	}
	if status, _ := get(t, s.URL+"/spaces/c/api/v1/namespaces/default/configmaps/x"); status != http.StatusNotFound {
		t.Errorf("get of what is not there: %d", status)
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

// TestPrettyEqualsIndented: what a human gets is what json.Indent makes of what
// a machine gets.
func TestPrettyEqualsIndented(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.put(cm("a", fmt.Sprint("x", i), "1"))
	}
	s := f.serve()
	for _, path := range []string{
		"/spaces/a/api/v1/configmaps", "/spaces/a/api/v1/namespaces/default/configmaps/x1", "/spaces/none/api/v1/configmaps",
	} {
		_, plain := get(t, s.URL+path)
		_, pretty := get(t, s.URL+path, "User-Agent", "curl/8")
		var want bytes.Buffer
		if err := json.Indent(&want, plain, "", "  "); err != nil {
			t.Fatalf("%v in %s", err, plain)
		}
		if got := string(pretty); strings.TrimSpace(got) != strings.TrimSpace(want.String()) {
			t.Errorf("%s:\n got %s\nwant %s", path, got, &want)
		}
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

func TestOtherVersionsAreConverted(t *testing.T) {
	f := newFixture(t)
	f.put(sample{gvr: scalersV1, space: "a", namespace: "default", name: "h", content: map[string]any{
		"spec": map[string]any{"maxReplicas": 3, "scaleTargetRef": map[string]any{"kind": "Deployment", "name": "d"}}}})
	f.put(sample{gvr: widgetsV1, space: "a", namespace: "default", name: "w", content: map[string]any{"spec": map[string]any{"n": 1}}})
	s := f.serve()
	for path, version := range map[string]string{
		"autoscaling/v1/namespaces/default/horizontalpodautoscalers/h": "autoscaling/v1",
		"autoscaling/v2/namespaces/default/horizontalpodautoscalers/h": "autoscaling/v2",
		"example.com/v1/namespaces/default/widgets/w":                  "example.com/v1",
		"example.com/v2/namespaces/default/widgets/w":                  "example.com/v2",
	} {
		item := path[strings.LastIndex(path, "/"):]
		for _, list := range []bool{false, true} {
			var got struct {
				metav1.PartialObjectMetadata
				Items []metav1.PartialObjectMetadata `json:"items"`
			}
			p := path
			if list {
				p = strings.TrimSuffix(path, item)
			}
			_, body := get(t, s.URL+"/spaces/a/apis/"+p)
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("%s: %v in %s", p, err, body)
			}
			object := got.PartialObjectMetadata
			if list {
				if len(got.Items) != 1 {
					t.Fatalf("%s: %s", p, body)
				}
				if object = got.Items[0]; got.APIVersion != version {
					t.Errorf("%s: list of %s", p, got.APIVersion)
				}
			}
			if object.Name != item[1:] || object.ResourceVersion == "" || object.APIVersion != version {
				t.Errorf("%s: %s", p, body)
			}
		}
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

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
		if o.Kind != "PartialObjectMetadata" || o.Name != "w" || o.Annotations[SpaceAnnotation] != "a" || o.ResourceVersion != "1" {
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

// TestInformers: informers of all kinds sync with one request and see what happens.
func TestInformers(t *testing.T) {
	for _, path := range []string{"/spaces/a", "/spaces/*", "/views/locations/l1"} {
		for name, start := range map[string]func(*rest.Config, <-chan struct{}) cache.SharedIndexInformer{
			"typed": typedInformer, "json": jsonInformer, "dynamic": dynamicInformer, "metadata": metadataInformer,
		} {
			t.Run(path+" "+name, func(t *testing.T) { testInformer(t, path, start) })
		}
	}
}

func typedInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(c), 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(stop)
	return informer
}

func jsonInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	c.ContentType = "application/json"
	return typedInformer(c, stop)
}

func dynamicInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(c), 0)
	informer := factory.ForResource(configMaps).Informer()
	factory.Start(stop)
	return informer
}

func metadataInformer(c *rest.Config, stop <-chan struct{}) cache.SharedIndexInformer {
	factory := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(c), 0)
	informer := factory.ForResource(configMaps).Informer()
	factory.Start(stop)
	return informer
}

func testInformer(t *testing.T, path string, start func(*rest.Config, <-chan struct{}) cache.SharedIndexInformer) {
	f := newFixture(t)
	for i := range 30 {
		f.put(cm("a", fmt.Sprint("x", i), "1", "at=l1"))
	}
	s := f.serve()
	stop := make(chan struct{})
	defer close(stop)
	informer := start(&rest.Config{Host: s.URL + path}, stop)
	seen := make(chan string, 100)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen <- "add " + nameAndVersion(o) },
		UpdateFunc: func(_, o any) { seen <- "update " + nameAndVersion(o) },
		DeleteFunc: func(o any) { seen <- "delete " + nameAndVersion(o) },
	}); err != nil {
		t.Fatal(err)
	}
	if !cache.WaitForCacheSync(stop, informer.HasSynced) {
		t.Fatal("not synced")
	}
	for range 30 {
		if got := <-seen; !strings.HasPrefix(got, "add x") {
			t.Fatal(got)
		}
	}
	f.put(cm("a", "x3", "2", "at=l1"))
	f.put(cm("a", "new", "1", "at=l1"))
	f.put(cm("a", "new", "1", "at=l1", "hold=no longer shown at the location"))
	f.del(cm("a", "new", ""))
	want := []string{"update x3 31", "add new 32", "update new 33", "delete new 34"}
	if strings.HasPrefix(path, "/views") {
		want = []string{"update x3 31", "add new 32", "delete new 33"}
	}
	for _, w := range want {
		select {
		case got := <-seen:
			if got != w {
				t.Errorf("saw %q, want %q", got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("waited for %q", w)
		}
	}
	if n := f.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}

func nameAndVersion(o any) string {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return err.Error()
	}
	return m.GetName() + " " + m.GetResourceVersion()
}

func TestClientErrors(t *testing.T) {
	f := newFixture(t, func(c *Config, tc *table.Config) {
		c.FutureWait = 10 * time.Millisecond
		tc.WindowSteps = 2
	})
	for range 10 {
		f.put(cm("a", "x", "1"))
	}
	s := f.serve()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL + "/spaces/a"}).CoreV1().ConfigMaps("default")
	ctx := t.Context()
	for _, path := range []string{"configmaps/x?", "configmaps?", "configmaps?watch=1&"} {
		if err := failure(get(t, s.URL+"/spaces/a/api/v1/namespaces/default/"+path+"resourceVersion=99")); !apierrors.IsTimeout(err) ||
			!apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("%s from the future: %v", path, err)
		}
	}
	if _, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("watch from the past: %v", err)
	}
	if _, err := client.List(ctx, metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsResourceExpired(err) {
		t.Errorf("list of the past: %v", err)
	}
	if l, err := client.List(ctx, metav1.ListOptions{ResourceVersion: "9", ResourceVersionMatch: metav1.ResourceVersionMatchExact}); err != nil || l.ResourceVersion != "9" || l.Items[0].ResourceVersion != "9" {
		t.Errorf("list of the recent past: %v %v", l, err)
	}
	if _, err := client.List(ctx, metav1.ListOptions{FieldSelector: "no.such=field"}); !apierrors.IsBadRequest(err) {
		t.Errorf("list by an unknown field: %v", err)
	}
	if _, err := client.List(ctx, metav1.ListOptions{Continue: "nonsense"}); !apierrors.IsBadRequest(err) {
		t.Errorf("list with a broken token: %v", err)
	}
	if _, err := client.List(ctx, metav1.ListOptions{ResourceVersion: "nonsense"}); !apierrors.IsBadRequest(err) {
		t.Errorf("list with a broken version: %v", err)
	}
}

// failure is the error that an answer says.
func failure(_ int, body []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return err
	}
	return apierrors.FromObject(&status)
}

func TestUnreachableLogIsAnError(t *testing.T) {
	f := newFixture(t, func(c *Config, _ *table.Config) {
		c.CommittedWait = 10 * time.Millisecond
		c.Committed = func(context.Context) (int64, error) { return 7, nil }
	})
	s := f.serve()
	path := s.URL + "/spaces/a/api/v1/namespaces/default/configmaps/x"
	if err := failure(get(t, path)); !apierrors.IsTimeout(err) {
		t.Errorf("get while the table is behind: %v", err)
	}
	if err := failure(get(t, path+"?resourceVersion=0")); !apierrors.IsNotFound(err) {
		t.Errorf("get of anything: %v", err)
	}
}

func TestFieldSelectors(t *testing.T) {
	f := newFixture(t)
	f.put(sample{gvr: pods, space: "a", namespace: "default", name: "p", content: map[string]any{
		"spec": map[string]any{"nodeName": "n1"}, "status": map[string]any{"phase": "Running"}}})
	f.put(sample{gvr: pods, space: "a", namespace: "other", name: "q", content: map[string]any{"spec": map[string]any{"nodeName": "n2"}}})
	s := f.serve()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL + "/spaces/a"}).CoreV1().Pods("")
	for selector, want := range map[string]string{
		"spec.nodeName=n1":                         "p",
		"spec.nodeName!=n1":                        "q",
		"status.phase=Running":                     "p",
		"metadata.name=q":                          "q",
		"metadata.namespace=default":               "p",
		"metadata.name=p,metadata.namespace=other": "",
	} {
		l, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, o := range l.Items {
			got += o.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", selector, got, want)
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
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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

// TestUnknownEncodersAreCounted: an upgrade that names encoders anew shows.
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
