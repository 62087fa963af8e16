package life

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// crowd is how many objects are in the namespace.
const crowd = 5000

// TestNamespaceOfThousands deletes a namespace with thousands of objects of many
// kinds while the hub is killed and started again.
func TestNamespaceOfThousands(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	s, other := h.space("s"), h.space("other")
	for _, a := range []*api{s, other} {
		a.post(crds, gadgetCRD).is(t, http.StatusCreated, "define gadgets")
		a.post("/api/v1/namespaces", namespaceNamed("crowd")).is(t, http.StatusCreated, "create a namespace")
		a.post("/api/v1/namespaces", namespaceNamed("crowd-2")).is(t, http.StatusCreated, "create a namespace")
		a.post("/api/v1/namespaces/crowd-2/configmaps", configMap("stays", "")).is(t, http.StatusCreated, "create")
	}
	many(t, crowd, func(ctx context.Context, i int) error {
		path, body := member(i)
		return s.must(ctx, http.StatusCreated, http.MethodPost, path, asJSON, body)
	})
	for i := range 5 { // the same names next door
		path, body := member(i)
		other.post(path, body).is(t, http.StatusCreated, "create")
	}
	before, stay := h.Usage().RSSAnon, len(h.keys("crowd-2"))+len(h.keys("other"))

	start := time.Now()
	s.delete("/api/v1/namespaces/crowd").is(t, http.StatusOK, "delete the namespace")
	var most int64
	// Far, but not to the end: the hub goes on for a moment at a time, however long a look takes.
	left := crowd
	for end := start.Add(soon); left > crowd*3/4 && time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		h.Signal(syscall.SIGSTOP)
		most = max(most, h.Usage().RSSAnon)
		if left = len(h.keys("crowd")); left > crowd*3/4 {
			h.Signal(syscall.SIGCONT)
		}
	}
	h.Kill()
	if n := len(h.keys("crowd")); n < 100 {
		t.Fatalf("the hub was killed too late: %d are left", n)
	}
	t.Logf("a quarter went in %s; memory rose from %d to %d KiB", time.Since(start), before>>10, most>>10)
	if grown := most - before; grown > 100<<20 {
		t.Errorf("memory rose by %d MiB", grown>>20)
	}
	start = time.Now()
	h.Start()
	env.Kubectl(t, h.PathKubeconfig("spaces/s"), "delete", "namespace", "crowd", "--ignore-not-found", "--wait", "--timeout", soon.String())
	t.Logf("the rest was gone %s after the start", time.Since(start))
	s.get("/api/v1/namespaces/crowd").is(t, http.StatusNotFound, "read the namespace")
	left = 0
	for _, k := range h.keys("crowd") {
		if k != "/orrery/o/other/core/namespaces/crowd" {
			left++
		}
	}
	if left != 5 { // those of the other space
		t.Errorf("%d keys of the namespace are left", left)
	}
	if n := len(h.keys("crowd-2")) + len(h.keys("other")); n != stay {
		t.Errorf("what was to stay were %d keys, and now are %d", stay, n)
	}
}

// member is one of the objects in the crowd.
func member(i int) (path, body string) {
	name := fmt.Sprint("m-", i)
	const core, custom = "/api/v1/namespaces/crowd/", "/apis/example.org/"
	switch i % 10 {
	case 0:
		return custom + "v1/namespaces/crowd/gadgets", gadget("v1", name, "")
	case 1:
		return custom + "v1beta1/namespaces/crowd/gadgets", gadget("v1beta1", name, "")
	case 2:
		return core + "events", fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":%q},"involvedObject":{"namespace":"crowd"}}`, name)
	case 3:
		return "/apis/coordination.k8s.io/v1/namespaces/crowd/leases", fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q}}`, name)
	case 4:
		return core + "secrets", fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"k":"v"}}`, name)
	}
	return core + "configmaps", configMap(name, "")
}
