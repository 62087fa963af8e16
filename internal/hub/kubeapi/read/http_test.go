package read

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
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
	a.annotations = map[string]string{"mine": "yes", v1alpha1.SpaceAnnotation: "forged"}
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
		if got := l.Items[i].Annotations[v1alpha1.SpaceAnnotation]; got != space {
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

func TestLocationsAreSeenFromEverySpace(t *testing.T) {
	f := newFixture(t)
	f.put(sample{gvr: locations, space: key.Root, name: "l1"})
	f.put(sample{gvr: locations, space: "a", name: "forged"})
	s := f.serve()
	for _, path := range []string{"/spaces/a/apis/orrery.dev/v1alpha1/locations", "/spaces/root/apis/orrery.dev/v1alpha1/locations/l1"} {
		if status, body := get(t, s.URL+path); status != 200 || !strings.Contains(string(body), `"name":"l1"`) || strings.Contains(string(body), "forged") {
			t.Errorf("%s: %d %s", path, status, body)
		}
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
				// Items of built-in kinds do not repeat what the list says.
				if object.Kind == "" {
					object.APIVersion = got.APIVersion
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
	for _, path := range []string{"configmaps/x?", "configmaps?"} {
		if err := failure(get(t, s.URL+"/spaces/a/api/v1/namespaces/default/"+path+"resourceVersion=99")); !apierrors.IsTimeout(err) ||
			!apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("%s from the future: %v", path, err)
		}
	}
	// Watches that can't begin say so by an event, as those of Kubernetes do.
	for version, is := range map[string]func(error) bool{"99": apierrors.IsTimeout, "1": apierrors.IsResourceExpired} {
		w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Fatalf("watch from revision %s: %v", version, err)
		}
		e := limit.Receive(t, w.ResultChan(), "an error of the watch")
		if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !is(err) {
			t.Errorf("watch from revision %s: %v %v", version, e.Type, err)
		}
		if e, ok := <-w.ResultChan(); ok {
			t.Errorf("watch from revision %s went on: %v", version, e)
		}
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

// TestListWithWhatCannotBeConverted shows that a list fails as a whole, and says
// so, when one of its objects can't be shown in the version that is asked for.
func TestListWithWhatCannotBeConverted(t *testing.T) {
	f := newFixture(t)
	for name, spec := range seeds.Ordered(map[string]any{"a": map[string]any{"maxReplicas": 1}, "b": "broken", "c": map[string]any{"maxReplicas": 3}}) {
		f.put(sample{gvr: scalersV1, space: "a", namespace: "default", name: name, content: map[string]any{"spec": spec}})
	}
	s := f.serve()
	for _, query := range []string{"", "?pretty=true"} {
		code, body := get(t, s.URL+"/spaces/a/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"+query)
		var status metav1.Status
		if err := json.Unmarshal(body, &status); err != nil || code != http.StatusInternalServerError || status.Kind != "Status" || !strings.Contains(status.Message, "/b") {
			t.Errorf("%q: %d %s: %v", query, code, body, err)
		}
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
		c.Committed = func(context.Context) error { return context.DeadlineExceeded }
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

// TestBehind runs a hub that is behind the log for longer than FutureWait. The log contains the
// revision, so a read and a resumed watch continue to wait.
func TestBehind(t *testing.T) {
	queried, caughtUp := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(c *Config, _ *table.Config) {
		c.FutureWait = 10 * time.Millisecond
		c.Committed = func(context.Context) error {
			queried <- struct{}{}
			<-caughtUp
			return nil
		}
	})
	f.put(cm("a", "x", "1"))
	s := f.serve()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL + "/spaces/a"}).CoreV1().ConfigMaps("default")
	catchUp := func(value string) {
		<-queried
		f.put(cm("a", "x", value))
		caughtUp <- struct{}{}
	}
	next := func() string { return strconv.FormatInt(f.table.Rev()+1, 10) }
	version := next()
	go catchUp("2")
	if is, err := client.Get(t.Context(), "x", metav1.GetOptions{ResourceVersion: version}); err != nil || is.Data["k"] != "2" {
		t.Errorf("at revision %s: %v %v", version, is, err)
	}
	version = next()
	go catchUp("3")
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	f.put(cm("a", "x", "4"))
	if e := limit.Receive(t, w.ResultChan(), "a change of x"); e.Type != watch.Modified || e.Object.(*corev1.ConfigMap).Data["k"] != "4" {
		t.Errorf("after revision %s: %v", version, e)
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
