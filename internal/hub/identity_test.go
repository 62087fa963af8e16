package hub_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// status is what reports of an agent are answered with.
func (a *testAgent) status() int {
	a.r.t.Helper()
	return a.raw("a/reports")
}

// TestLocationMadeAgain shows that the token of a removed location is good for
// nothing, and that of the one made again under its name stays good.
func TestLocationMadeAgain(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	old := r.join("a")
	if got := old.status(); got != http.StatusOK {
		t.Fatalf("the token is answered %d", got)
	}
	if err := r.space(key.Root).Resource(locationsGVR).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.addLocation("a", map[string]string{"where": "x"})
	if got := old.status(); got != http.StatusUnauthorized {
		t.Errorf("the token of the removed location is answered %d", got)
	}
	young := r.join("a")
	for range 20 {
		if got := young.status(); got != http.StatusOK {
			t.Fatalf("the new token is answered %d", got)
		}
	}
}

// TestNewTokenEndsTheSession shows that what an agent has is worth nothing once another
// has joined: what was opened with it ends, and nothing else.
func TestNewTokenEndsTheSession(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	s := a.open(0, "")
	s.next()
	path := fmt.Sprintf("/views/locations/a/api/v1/configmaps?watch=1&resourceVersion=%d", r.Table.Rev())
	watched := func(client *http.Client) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	mine, others := watched(a.HTTP), watched(r.operator()) //nolint:bodyclose // closed by the test's end
	r.join("a")
	if more, err := io.ReadAll(mine.Body); err != nil || len(more) > 0 {
		t.Errorf("the agent's watch went on with %s %v", more, err)
	}
	r.addConfigMap("two", map[string]string{"what": "app"}, "2")
	if line, err := bufio.NewReader(others.Body).ReadString('\n'); err != nil || !strings.Contains(line, `"two"`) {
		t.Errorf("the operator's watch: %s %v", line, err)
	}
	if f, ok := s.next(); !ok || f.Bye == nil || f.Bye.Reason != wire.ByeRevoked {
		t.Fatalf("the session received %+v", f)
	}
}

// TestDeletedSpaceIsPolicy shows that the prune guard sees the deletion of a space.
func TestDeletedSpaceIsPolicy(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	s := r.join("a").open(0, "")
	s.next()
	if err := r.space(key.Root).Resource(spacesGVR).Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if f, _ := s.next(); f.Del == nil || f.Del.Cause != wire.Unassigned {
		t.Fatalf("the deletion of a space gave %+v", f)
	}
}

// TestReportsOfOthersObjects shows that a location can't fill the log with
// reports of what it never had.
func TestReportsOfOthersObjects(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	a := r.join("a")
	r.addConfigMap("unplaced", nil, "-")
	for _, k := range []string{"s/core/configmaps/default/unplaced", "s/core/configmaps/default/none"} {
		line := wire.ReportLine{Key: k, Report: &wire.Report{UID: "u", State: wire.Applied}}
		if answer := a.report(line); len(answer.Refused) != 1 {
			t.Errorf("took a report of %s", k)
		}
		line = wire.ReportLine{Key: k, Removed: true}
		if answer := a.report(line); len(answer.Refused) != 0 {
			t.Errorf("refused the removal of a report of %s: %v", k, answer)
		}
	}
}

// TestRemovedLocationIsNoMassDelete checks that a client of a location's view receives no deletions when the
// location is deleted.
func TestRemovedLocationIsNoMassDelete(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	d, err := dynamic.NewForConfig(r.config(route.View("a").String()))
	if err != nil {
		t.Fatal(err)
	}
	watching, err := d.Resource(configMapsGVR).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if err := r.space(key.Root).Resource(locationsGVR).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	timeout := time.After(timeout)
	for {
		select {
		case e, ok := <-watching.ResultChan():
			if !ok || e.Type == watch.Error {
				return
			}
			if e.Type == watch.Deleted {
				t.Fatalf("the watch saw %+v", e)
			}
		case <-timeout:
			t.Fatal("the watch goes on")
		}
	}
}
