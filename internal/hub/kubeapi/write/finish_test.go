package write_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/test/support/limit"
)

type progress = write.Progress

// finish calls a Finish function as the hub does, until it returns Gone.
func (h *hub) finish(call func() (progress, error)) {
	h.t.Helper()
	for deadline := time.Now().Add(limit.Wait); ; {
		h.caughtUp()
		p, err := call()
		if err != nil {
			h.t.Fatal(err)
		}
		if p == write.Gone {
			return
		}
		if p != write.More || time.Now().After(deadline) {
			h.t.Fatalf("finish: got %v", p)
		}
	}
}

func namespace(name string) object {
	return object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}
}

func TestNamespaceLifecycle(t *testing.T) {
	h := newHub(t)
	const inN = "/api/v1/namespaces/n/configmaps"
	a := h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
	if a.field("status", "phase") != "Active" || a.field("spec", "finalizers") != nil {
		t.Errorf("namespace: %s", a.raw)
	}
	h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("nn")))
	h.must(201, h.do("POST", "b", "/api/v1/namespaces", namespace("n")))
	for i := range 600 {
		h.must(201, h.do("POST", "a", inN, configMap(fmt.Sprint("c", i), nil)))
	}
	h.must(201, h.do("POST", "a", "/apis/apps/v1/namespaces/n/deployments", deployment(1)))
	h.must(201, h.do("POST", "a", "/api/v1/namespaces/nn/configmaps", configMap("c", nil)))
	h.must(201, h.do("POST", "b", inN, configMap("c", nil)))
	held := configMap("held", nil)
	held["metadata"].(object)["finalizers"] = []string{"example.com/wait"}
	h.must(201, h.do("POST", "a", inN, held))

	h.caughtUp()
	if p, err := h.server.FinishNamespace(h.ctx, "a", "n"); p != write.Idle || err != nil {
		t.Fatalf("finish of a living namespace: %v, %v", p, err)
	}
	before := h.dump()
	wrong := object{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": object{"uid": "other"}}
	h.refused(h.do("DELETE", "a", "/api/v1/namespaces/n", wrong), 409, "Conflict", "UID")
	h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n?dryRun=All", nil))
	if h.dump() != before {
		t.Error("a dry run or failed precondition changed the log")
	}
	a = h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
	if a.field("status", "phase") != "Terminating" {
		t.Errorf("deleted: %s", a.raw)
	}
	h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
	h.refused(h.do("POST", "a", inN, configMap("late", nil)), 403, "Forbidden", "because it is being terminated")
	h.must(200, h.do("PATCH", "a", inN+"/c1", `{"data":{"k":"v"}}`, "Content-Type", "application/merge-patch+json"))

	var seen []progress
	for len(seen) == 0 || seen[len(seen)-1] == write.More {
		h.caughtUp()
		p, err := h.server.FinishNamespace(h.ctx, "a", "n")
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, p)
	}
	if fmt.Sprint(seen) != fmt.Sprint([]progress{write.More, write.More, write.More, write.Waiting}) {
		t.Fatalf("progress %v", seen)
	}
	stored := string(h.stored("o/a/core/namespaces/n"))
	for _, fragment := range []string{"configmaps. has 1 resource instances", "example.com/wait in 1 resource instances"} {
		if !strings.Contains(stored, fragment) {
			t.Errorf("conditions lack %q: %s", fragment, stored)
		}
	}
	h.caughtUp()
	if _, err := h.server.FinishNamespace(h.ctx, "a", "n"); err != nil || string(h.stored("o/a/core/namespaces/n")) != stored {
		t.Errorf("waiting wrote again: %v", err)
	}
	h.must(200, h.do("PATCH", "a", inN+"/held", `{"metadata":{"finalizers":[]}}`, "Content-Type", "application/merge-patch+json"))
	h.finish(func() (progress, error) { return h.server.FinishNamespace(h.ctx, "a", "n") })
	if h.stored("o/a/core/namespaces/n") != nil || h.keys("o/a/core/configmaps/n/") != 0 || h.keys("o/a/apps/deployments/n/") != 0 {
		t.Error("the namespace or content is still there")
	}
	if h.keys("o/b/core/configmaps/n/") != 1 || h.keys("o/a/core/configmaps/nn/") != 1 {
		t.Error("another namespace lost content")
	}
}

// TestContentLeavesInOrder checks that the content of a namespace or a space is deleted rank by rank, in
// the order in which locations remove it, even if there are many objects of one rank.
func TestContentLeavesInOrder(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
	fill := func() {
		for i := range 20 {
			h.must(201, h.do("POST", "a", "/api/v1/namespaces/n/configmaps", configMap(fmt.Sprint("c", i), nil)))
			h.must(201, h.do("POST", "a", "/api/v1/namespaces/n/pods", object{
				"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": fmt.Sprint("p", i)},
				"spec": object{"containers": []object{{"name": "c", "image": "x"}}},
			}))
		}
		h.must(201, h.do("POST", "a", "/api/v1/namespaces/n/serviceaccounts", object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "s"}}))
	}
	inOrder := func(from int64) {
		t.Helper()
		h.caughtUp()
		gone := map[string][]int64{}
		for e := range h.client.Client.Watch(h.ctx, prefix+"o/a/", clientv3.WithPrefix(), clientv3.WithRev(from+1)) {
			for _, ev := range e.Events {
				segments := strings.Split(strings.TrimPrefix(string(ev.Kv.Key), prefix+"o/a/"), "/")
				if ev.Type == clientv3.EventTypeDelete {
					gone[segments[1]] = append(gone[segments[1]], ev.Kv.ModRevision)
				}
			}
			if len(gone["configmaps"]) == 20 && len(gone["pods"]) == 20 && len(gone["serviceaccounts"]) == 1 {
				break
			}
		}
		if last := slices.Max(gone["pods"]); last >= slices.Min(gone["configmaps"]) || last >= gone["serviceaccounts"][0] {
			t.Errorf("workloads went after what they need: %v", gone)
		}
	}
	fill()
	h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
	h.caughtUp()
	from := h.rev()
	h.finish(func() (progress, error) { return h.server.FinishNamespace(h.ctx, "a", "n") })
	inOrder(from)

	h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
	fill()
	h.must(200, h.do("DELETE", "root", "/apis/orrery.dev/v1alpha1/spaces/a", nil))
	h.caughtUp()
	from = h.rev()
	h.finish(func() (progress, error) { return h.server.FinishSpace(h.ctx, "a") })
	inOrder(from)
}

// TestCreateRacesNamespace checks that no object that is created concurrently outlives its namespace.
func TestCreateRacesNamespace(t *testing.T) {
	h := newHub(t)
	for round := range 5 {
		h.must(201, h.do("POST", "a", "/api/v1/namespaces", namespace("n")))
		const writers = 4
		done, begun := make(chan [2]int, writers), make(chan struct{}, writers)
		for w := range writers {
			go func() {
				var created, refused int
				for i := 0; refused == 0 && i < 1000; i++ {
					switch a := h.do("POST", "a", "/api/v1/namespaces/n/configmaps", configMap(fmt.Sprintf("c-%d-%d", w, i), nil)); a.code {
					case 201:
						if created++; created == 1 {
							begun <- struct{}{}
						}
					case 403, 404:
						refused++
					default:
						h.t.Errorf("create: %d %s", a.code, a.raw)
						refused++
					}
				}
				done <- [2]int{created, refused}
			}()
		}
		for i := range 20 { // writes to the namespace make creations try again
			h.must(200, h.do("PATCH", "a", "/api/v1/namespaces/n", fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i), "Content-Type", "application/merge-patch+json"))
		}
		limit.Receive(t, begun, "a writer has created an object")
		h.must(200, h.do("DELETE", "a", "/api/v1/namespaces/n", nil))
		h.finish(func() (progress, error) { return h.server.FinishNamespace(h.ctx, "a", "n") })
		total := 0
		for range writers {
			total += limit.Receive(t, done, "a writer ends")[0]
		}
		if n := h.keys("o/a/core/configmaps/n/"); n != 0 || total == 0 {
			t.Fatalf("round %d: %d of %d objects outlived their namespace", round, n, total)
		}
	}
}
