package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// smallQuota is that of logs that tests fill. Of the smallest there may be, what etcd frees
// late is a large part.
const smallQuota = 2 * etcd.MinQuota

func withSmallQuota(c *hub.Config) { c.Quota = smallQuota }

// hurried makes the hub compact and defragment without a delay, for tests without other load.
func hurried(c *hub.Config) { c.Throttle = etcd.Throttle{Least: 20 * time.Millisecond} }

// mayFill has the space s fill the log, by a limit of its own.
func (r *running) mayFill() {
	r.t.Helper()
	r.patchObject(key.Root, spacesGVR, "s", `{"spec":{"limits":{"bytes":"1Ti"}}}`)
}

// filler is a text of a size that does not repeat another.
func filler(n, size int) string { return fmt.Sprint(n) + strings.Repeat("x", size) }

// update writes a value into a ConfigMap of the space s.
func (r *running) update(ctx context.Context, name, value string) error {
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"k": value}})
	if err != nil {
		return err
	}
	_, err = r.space("s").Resource(configMapsGVR).Namespace("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// large writes a ConfigMap with a large value into the space s. It is sent as protobuf and answered with metadata
// alone: encoding JSON would be most of the cost of a large write, many times more with the race detector. Like
// other clients, it retries when the response asks for that.
func (r *running) large(ctx context.Context, method, name, value string, finalizers ...string) error {
	return tries(func() error { return r.tryLarge(ctx, method, name, value, finalizers) })
}

// lasts is tries for a write after which something is not there.
func lasts(do func() error) error {
	if err := tries(do); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

func (r *running) tryLarge(ctx context.Context, method, name, value string, finalizers []string) error {
	kept := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Finalizers: finalizers},
		Data:       map[string]string{"k": value},
	}
	var body bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(kept, &body); err != nil {
		return err
	}
	path := "s/api/v1/namespaces/default/configmaps"
	if method == http.MethodPut {
		path += "/" + name
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL+string(route.Spaces)+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", runtime.ContentTypeProtobuf)
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	resp, err := r.operator().Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode < http.StatusBadRequest {
		return err
	}
	failed := &apierrors.StatusError{}
	if err := json.Unmarshal(answer, &failed.ErrStatus); err != nil {
		return fmt.Errorf("%s: %s: %w", resp.Status, answer, err)
	}
	return failed
}

func (r *running) withinQuota() {
	r.t.Helper()
	if u := r.Log.Capacity().Usage(); u.File > u.Quota {
		r.t.Errorf("the log has %d bytes on disk, %d in use: more than its quota of %d", u.File, u.InUse, u.Quota)
	}
}

// TestFloods shows that neither endless updates of a large object nor a flood of reports
// from one location fill the log, and that others go on writing meanwhile.
func TestFloods(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := start(t, t.TempDir(), withSmallQuota)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "here"})
	r.addPlacement("s", "p", "here", "all", nil)
	var lines []string
	for i := range 8 {
		name := fmt.Sprint("cm-", i)
		r.addConfigMap(name, map[string]string{"what": "all"}, "v")
		lines = append(lines, "s/core/configmaps/default/"+name)
	}
	r.addConfigMap("large", nil, "v")
	a := r.join("a")

	// It ends when each of the floods would have filled the log, however slow the machine is.
	const flood = smallQuota * 5 / 4
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	var reported, written, refused, late atomic.Int64
	for worker := range 4 {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := reportsOf(lines[:2+2*(worker%2)], `{"n":"`+filler(n, 450<<10)+`"}`)
				resp, err := a.post(ctx, "reports", body)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("reports: %v", err)
					}
					return
				}
				answer, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				switch {
				case err != nil:
				case resp.StatusCode == http.StatusOK:
					reported.Add(int64(len(body)))
				case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusConflict:
					refused.Add(1)
					if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
						t.Error("429 without Retry-After")
					}
				case isLate(resp.StatusCode, answer):
					late.Add(1)
				default:
					t.Errorf("reports: %s: %.1000s", resp.Status, answer)
					return
				}
			}
		})
	}
	group.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			value := filler(n, 1300<<10)
			switch err := r.large(ctx, http.MethodPut, "large", value); {
			case err == nil:
				written.Add(int64(len(value)))
			case ctx.Err() == nil && !apierrors.IsTooManyRequests(err):
				t.Errorf("update of a large object: %v", err)
				return
			}
		}
	})
	ticker := time.NewTicker(20 * time.Millisecond) // it is to be let in, not to be a flood
	defer ticker.Stop()
	for n := 0; ctx.Err() == nil; n++ { // a second client
		<-ticker.C
		begun := time.Now()
		err := r.update(ctx, "cm-7", fmt.Sprint(n))
		if err != nil && ctx.Err() == nil {
			t.Fatalf("a small write during the floods: %v", err)
		}
		if took := time.Since(begun); took > timeout {
			t.Errorf("a small write took %s", took)
		}
		r.withinQuota()
		if reported.Load() > flood && written.Load() > flood {
			cancel()
		}
	}
	group.Wait()
	r.withinQuota()
	t.Logf("%d MiB reported, %d MiB written, %d requests refused, %d late: %+v", reported.Load()>>20, written.Load()>>20, refused.Load(), late.Load(), r.Log.Capacity().Usage())
	if ctx.Err() == nil || reported.Load() < flood || written.Load() < flood {
		t.Error("less than fills the log was reported, or written")
	}
}

// post sends a body as the agent does.
func (a *testAgent) post(ctx context.Context, call string, body string) (*http.Response, error) {
	return a.postFrom(ctx, call, strings.NewReader(body))
}

func (a *testAgent) postFrom(ctx context.Context, call string, body io.Reader) (*http.Response, error) {
	req, err := a.now().New(ctx, http.MethodPost, call, body)
	if err != nil {
		return nil, err
	}
	return a.HTTP.Do(req)
}

func reportsOf(keys []string, status string) string {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, k := range keys {
		_ = encoder.Encode(wire.ReportLine{Key: k, Report: &wire.Report{Status: json.RawMessage(status)}})
	}
	return body.String()
}

// fill makes ConfigMaps in the space s, from a number on, until the log has no room,
// and returns the number of the first that is not there.
func (r *running) fill(from int) int {
	r.t.Helper()
	for n := from; n < 1000; n++ {
		err := r.large(r.t.Context(), http.MethodPost, fmt.Sprint("fill-", n), filler(n, 1<<20))
		if err == nil || apierrors.IsAlreadyExists(err) { // one that took too long was done all the same
			continue
		}
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != http.StatusInsufficientStorage || status.Status().Reason != v1alpha1.ReasonLogFull {
			r.t.Fatalf("create %d: %v", n, err)
		}
		r.t.Logf("full at %d: %v", n, err)
		return n
	}
	r.t.Fatal("the log never gets full")
	return 0
}

// TestFullHub checks that a hub whose log is full serves reads and deletions, reports that it is full, can start,
// and accepts growth again when there is space.
func TestFullHub(t *testing.T) {
	t.Parallel() // it waits much of the time
	dir := t.TempDir()
	// In a smaller one etcd's file leaves no room between growth and upkeep.
	r := start(t, dir, withSmallQuota, hurried)
	r.addSpace("s")
	r.mayFill()
	r.addLocation("a", map[string]string{"where": "here"})
	r.addPlacement("s", "p", "here", "all", nil)
	const placed = 10
	for i := range placed {
		r.addConfigMap(fmt.Sprint("placed-", i), map[string]string{"what": "all"}, "v")
	}
	held := object("v1", "ConfigMap", "default", "held", nil, nil)
	held.SetFinalizers([]string{"example.org/held"})
	r.create("s", configMapsGVR, held)
	r.create("s", podsGVR, somePod("default", "pod"))
	a := r.join("a")
	n := r.fill(0)
	r.saysFull()

	refused := false
	for i := 0; i < placed && !refused; i++ { // together they would be far more than is left
		resp, err := a.post(t.Context(), "reports", reportsOf([]string{fmt.Sprint("s/core/configmaps/default/placed-", i)}, fmt.Sprintf("%q", filler(0, 500<<10))))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		refused = resp.StatusCode == http.StatusInsufficientStorage && bytes.Contains(body, []byte(v1alpha1.ReasonLogFull))
		if !refused && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusGatewayTimeout {
			t.Fatalf("a report: %s: %s", resp.Status, body)
		}
	}
	if !refused {
		t.Error("a full hub takes any report")
	}
	r.stop()
	r = start(t, dir, withSmallQuota, hurried)
	n = r.fill(n) // a start may find a page or two that can be used again
	r.saysFull()
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	read := func(name string) error {
		return tries(func() error {
			_, err := configMaps.Get(t.Context(), name, metav1.GetOptions{})
			return err
		})
	}
	if err := read("fill-0"); err != nil {
		t.Fatalf("read of a full hub: %v", err)
	}
	remove := func(client dynamic.ResourceInterface, name string) error {
		return lasts(func() error { return client.Delete(t.Context(), name, metav1.DeleteOptions{}) })
	}
	if err := remove(configMaps, "held"); err != nil {
		t.Fatalf("delete of an object with a finalizer: %v", err)
	}
	r.growsOnce("held")
	if err := remove(r.space("s").Resource(podsGVR).Namespace("default"), "pod"); err != nil {
		t.Fatalf("delete of a Pod: %v", err)
	}
	if err := lasts(func() error {
		_, err := configMaps.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}); err != nil {
		t.Fatalf("end of a finalizer: %v", err)
	}
	if err := read("held"); !apierrors.IsNotFound(err) {
		t.Fatalf("a deleted object: %v", err)
	}
	for i := range n / 2 {
		if err := remove(configMaps, fmt.Sprint("fill-", i)); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	r.eventually(func() string {
		_, err := configMaps.Create(t.Context(), object("v1", "ConfigMap", "default", "more", nil, map[string]any{"data": map[string]any{"k": filler(0, 1<<20)}}), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
	r.eventually(func() string {
		if answer := r.answerOf("/readyz"); answer != "ok" {
			return "readyz says " + answer
		}
		return r.spaceReady(metav1.ConditionTrue, "Served")
	})
	r.withinQuota()
}

// growsOnce shows that an object that is being deleted may grow a little in a full log,
// once at most.
func (r *running) growsOnce(name string) {
	r.t.Helper()
	const step, slack = 1 << 10, 4 << 10
	for size := step; size <= 2*slack; size += step {
		err := tries(func() error { return r.update(r.t.Context(), name, filler(0, size)) })
		if err == nil {
			continue
		}
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Reason != v1alpha1.ReasonLogFull {
			r.t.Fatalf("growth to %d bytes of what is being deleted: %v", size, err)
		}
		return
	}
	r.t.Error("what is being deleted grows for ever in a full log")
}

// saysFull waits until the hub says in all places that its log is full.
func (r *running) saysFull() {
	r.t.Helper()
	r.eventually(func() string {
		if answer := r.answerOf("/readyz"); !strings.HasPrefix(answer, "ok, but the log is out of space: ") {
			return "readyz says " + answer
		}
		if !strings.Contains(r.answerOf("/metrics"), "\norrery_log_full 1\n") {
			return "no metric reports that the log is full"
		}
		return r.spaceReady(metav1.ConditionFalse, v1alpha1.ReasonLogFull)
	})
}

func (r *running) spaceReady(status metav1.ConditionStatus, reason string) string {
	r.t.Helper()
	got, err := r.space(key.Root).Resource(spacesGVR).Get(r.t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == string(status) && c["reason"] == reason {
			return ""
		}
	}
	return fmt.Sprintf("the space's conditions are %v", conditions)
}

// answerOf is what a path of the hub answers to its operator.
func (r *running) answerOf(path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.URL+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.operator().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(body)
}
