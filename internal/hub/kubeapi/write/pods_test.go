package write_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

const pods = "/api/v1/namespaces/default/pods"

func pod(name string, finalizers ...string) object {
	return object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "finalizers": finalizers},
		"spec": object{"nodeName": "n", "containers": []object{{"name": "c", "image": "x"}}},
	}
}

func podKey(namespace, name string) key.Object {
	return key.Object{Space: "a", Identity: key.Identity{Resource: write.Pods, Namespace: namespace, Name: name}}
}

// interrupt leaves an object in the log as a crash after the first step of its
// deletion would.
func (h *hub) interrupt(o key.Object, marked time.Time) {
	h.t.Helper()
	var stored object
	if err := json.Unmarshal(h.stored(o.Key()), &stored); err != nil {
		h.t.Fatal(err)
	}
	metadata := stored["metadata"].(object)
	metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = marked.UTC().Format(time.RFC3339), 0
	value, err := json.Marshal(stored)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.client.Client.Put(h.ctx, prefix+o.Key(), string(value)); err != nil {
		h.t.Fatal(err)
	}
	h.caughtUp()
}

// steps are the writes to a key after a revision: what it says of its deletion, or
// that it is gone.
func (h *hub) steps(k string, after int64) (steps []string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, limit.Wait)
	defer cancel()
	for r := range h.client.Client.Watch(ctx, prefix+k, clientv3.WithRev(after+1)) {
		for _, e := range r.Events {
			if e.Type == mvccpb.DELETE {
				return append(steps, "gone")
			}
			if strings.Contains(string(e.Kv.Value), `"deletionTimestamp":`) && strings.Contains(string(e.Kv.Value), `"deletionGracePeriodSeconds":0`) {
				steps = append(steps, "marked")
			} else {
				steps = append(steps, "written")
			}
		}
	}
	h.t.Fatalf("%s: not gone: %v", k, steps)
	return nil
}

func (h *hub) inTwoSteps(o key.Object, after int64) {
	h.t.Helper()
	if got := h.steps(o.Key(), after); strings.Join(got, " ") != "marked gone" {
		h.t.Errorf("%s: %v", o.Path(), got)
	}
}

// TestPodsGoInTwoSteps checks that every deletion of a Pod first sets the deletion timestamp, and that
// objects of other kinds are deleted in one step.
func TestPodsGoInTwoSteps(t *testing.T) {
	h := newHub(t)
	for _, name := range []string{"one", "two"} {
		h.must(201, h.do("POST", "a", pods, pod(name)))
	}
	h.must(201, h.do("POST", "a", configMaps, configMap("c", nil)))
	from := h.rev()
	h.must(200, h.do("DELETE", "a", pods+"/one", object{"gracePeriodSeconds": 30}))
	h.inTwoSteps(podKey("default", "one"), from)
	h.must(200, h.do("DELETE", "a", pods, nil))
	h.inTwoSteps(podKey("default", "two"), from)
	h.must(200, h.do("DELETE", "a", configMaps+"/c", nil))
	if got := h.steps("o/a/core/configmaps/default/c", from); len(got) != 1 {
		t.Errorf("a ConfigMap: %v", got)
	}

	h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
	h.must(201, h.do("POST", "a", "/api/v1/namespaces/n/pods", pod("one")))
	from = h.rev()
	h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
	h.finish(func() (progress, error) { return h.server.FinishNamespace(h.ctx, "a", "n") })
	h.inTwoSteps(podKey("n", "one"), from)
}

// TestPodsLeftBehind checks that a Pod that a crash left between the steps is deleted: by FinishPod,
// with its namespace, or when a client deletes or changes it.
func TestPodsLeftBehind(t *testing.T) {
	h := newHub(t)
	long := time.Now().Add(-time.Hour)
	left := func(namespace string, marked time.Time) key.Object {
		o := podKey(namespace, "left")
		h.must(201, h.do("POST", "a", "/api/v1/namespaces/"+namespace+"/pods", pod("left")))
		h.interrupt(o, marked)
		return o
	}
	gone := func(o key.Object) {
		t.Helper()
		if h.stored(o.Key()) != nil {
			t.Fatalf("%s is still there", o.Path())
		}
	}
	finish := func(o key.Object, want progress) {
		t.Helper()
		h.caughtUp()
		if got, err := h.server.FinishPod(h.ctx, o); got != want || err != nil {
			t.Fatalf("finish %s: %v, %v, want %v", o.Path(), got, err, want)
		}
	}
	for _, marked := range []time.Time{long, time.Now().Add(time.Hour), {}} {
		o := left("default", marked)
		finish(o, write.Gone)
		gone(o)
		finish(o, write.Idle)
	}
	o := left("default", time.Now())
	finish(o, write.Waiting) // the original request may still complete it
	h.must(200, h.do("DELETE", "a", pods+"/left", nil))
	gone(o)
	o = left("default", time.Now())
	h.must(200, h.do("PATCH", "a", pods+"/left", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json"))
	gone(o)

	h.must(201, h.do("POST", "a", pods, pod("living")))
	h.must(201, h.do("POST", "a", pods, pod("held", "example.com/held")))
	h.must(200, h.do("DELETE", "a", pods+"/held", nil))
	finish(podKey("default", "living"), write.Idle)
	finish(podKey("default", "held"), write.Idle)

	h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
	o = left("n", time.Now())
	h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
	h.finish(func() (progress, error) { return h.server.FinishNamespace(h.ctx, "a", "n") })
	gone(o)
	if h.stored("o/a/core/namespaces/n") != nil {
		t.Error("the namespace waits for what nobody would end")
	}
}

// full is a log that takes no put, as an etcd at its quota.
type full struct{}

func (full) Admit(context.Context, write.Write) (func(error) error, error) {
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "LogFull"}}
}

// TestPodsOfAFullLog checks that a log that refuses puts accepts deletions, even of Pods.
func TestPodsOfAFullLog(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
	for _, path := range []string{pods, "/api/v1/namespaces/n/pods"} {
		for _, name := range []string{"one", "two"} {
			h.must(201, h.do("POST", "a", path, pod(name)))
		}
	}
	h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
	h.serve(full{})
	h.refused(h.do("POST", "a", pods, pod("three")), 507, "LogFull", "")
	h.must(200, h.do("DELETE", "a", pods+"/one?dryRun=All", nil))
	h.must(200, h.do("DELETE", "a", pods+"/one", nil))
	h.must(200, h.do("DELETE", "a", pods, nil))
	h.caughtUp()
	if p, err := h.server.FinishNamespace(h.ctx, "a", "n"); p != write.More || err != nil {
		t.Errorf("finish: %v, %v", p, err)
	}
	if n := h.keys("o/a/core/pods/"); n != 0 {
		t.Errorf("%d Pods are left", n)
	}
}

// hangup is a log with room, whose client hangs up after each put.
type hangup struct{ cancel context.CancelFunc }

func (h hangup) Admit(context.Context, write.Write) (func(error) error, error) {
	return func(err error) error { h.cancel(); return err }, nil
}

// TestClientHangsUpBetweenSteps checks that no Pod is left behind if its client disconnects between the
// two steps.
func TestClientHangsUpBetweenSteps(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", pods, pod("one")))
	from := h.rev()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.serve(hangup{cancel})
	req := httptest.NewRequestWithContext(ctx, "DELETE", "/spaces/a"+pods+"/one", nil)
	h.chain().ServeHTTP(httptest.NewRecorder(), req)
	h.inTwoSteps(podKey("default", "one"), from)
}
