package write_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// TestDefinitionsRace checks that one of several concurrent CRDs of the same kind gets it.
func TestDefinitionsRace(t *testing.T) {
	h := newHub(t)
	const rivals = 6
	established := make(chan bool, rivals)
	for i := range rivals {
		go func() {
			a := h.do("POST", "a", crds, crd(fmt.Sprintf("%cs", 'a'+i), "Widget", widgetSpec(nil)))
			if a.code != 201 {
				h.t.Errorf("create: %s", a.raw)
			}
			established <- condition(a, "Established") == "True"
		}()
	}
	n := 0
	for range rivals {
		if limit.Receive(t, established, "a rival is answered") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of %d were established", n, rivals)
	}
}

// TestCreateRacesSpace checks that nothing is created in a space after its deletion has started.
func TestCreateRacesSpace(t *testing.T) {
	h := newHub(t)
	for round := range 3 {
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := range 1000 {
					switch a := h.do("POST", "a", "/api/v1/namespaces", namespace(fmt.Sprintf("n-%d-%d", w, i))); a.code {
					case 201:
					case 403, 404:
						return
					default:
						h.t.Errorf("create: %d %s", a.code, a.raw)
						return
					}
				}
			})
		}
		h.must(200, h.do("DELETE", "root", spaces+"/a", nil))
		h.finish(func() (progress, error) { return h.server.FinishSpace(h.ctx, "a") })
		writers.Wait()
		if n := h.keys("o/a/"); n != 0 {
			t.Fatalf("round %d: %d objects outlived their space", round, n)
		}
		h.must(201, h.do("POST", "root", spaces, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": "a"}}))
	}
}

// TestFinishOfThePast checks that a Finish function with an old table does not delete newer objects.
func TestFinishOfThePast(t *testing.T) {
	h := newHub(t)
	h.must(200, h.do("DELETE", "root", spaces+"/a", nil))
	h.caughtUp()
	behind := h.table.Snapshot()
	h.finish(func() (progress, error) { return h.server.FinishSpace(h.ctx, "a") })
	h.must(201, h.do("POST", "root", spaces, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Space", "metadata": object{"name": "a"}}))
	h.must(201, h.do("POST", "a", configMaps, configMap("c", nil)))
	before := h.dump()
	late := h.lagging(behind.Rev, behind.Get("o/root/orrery.dev/spaces/a"))
	// It waits for a table that never moves, so its time is up instead.
	if p, err := late.FinishSpace(h.brief(), key.Space("a")); p == write.Gone || err == nil {
		t.Errorf("finish from the past: %v, %v", p, err)
	}
	if after := h.dump(); after != before {
		t.Errorf("the log changed:\n%s", after)
	}
}

func TestEventsExpire(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", "/api/v1/namespaces/default/events", object{
		"apiVersion": "v1", "kind": "Event", "metadata": object{"name": "e"}, "involvedObject": object{"kind": "Pod", "name": "p", "namespace": "default"},
	}))
	r, err := h.client.Client.Get(h.ctx, prefix+"o/a/core/events/default/e")
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].Lease == 0 {
		t.Fatalf("event has no lease: %v, %v", r, err)
	}
	ttl, err := h.client.TimeToLive(h.ctx, clientv3.LeaseID(r.Kvs[0].Lease))
	if err != nil || ttl.GrantedTTL < int64(write.DefaultEventTTL/time.Second) {
		t.Errorf("event lives for %v s: %v", ttl, err)
	}
}

// TestNoObjectIsCreatedAsDeleting checks that a new object has no deletion timestamp.
func TestNoObjectIsCreatedAsDeleting(t *testing.T) {
	h := newHub(t)
	ns := namespace("n")
	ns["metadata"].(object)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	a := h.must(201, h.do("PATCH", "a", "/api/v1/namespaces/n?fieldManager=m", ns, "Content-Type", "application/apply-patch+yaml"))
	if a.field("metadata", "deletionTimestamp") != nil {
		t.Errorf("born deleting: %s", a.raw)
	}
}

// A stock typed client, which speaks protobuf.
func TestTypedClient(t *testing.T) {
	h := newHub(t)
	c, err := kubernetes.NewForConfig(&rest.Config{Host: h.url + "/spaces/a", ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}})
	if err != nil {
		t.Fatal(err)
	}
	maps := c.CoreV1().ConfigMaps("default")
	made, err := maps.Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Data["k"] = "w"
	if made, err = maps.Update(h.ctx, made, metav1.UpdateOptions{}); err != nil || made.Data["k"] != "w" {
		t.Fatalf("update: %v, %v", made, err)
	}
	if _, err = maps.Patch(h.ctx, "c", types.StrategicMergePatchType, []byte(`{"data":{"k":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(h.ctx, "c", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))}); err != nil {
		t.Fatal(err)
	}
}
