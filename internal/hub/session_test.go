package hub

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fixture is a hub with a space, two locations and one placed object.
func fixture(t *testing.T) *running {
	t.Helper()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addLocation("b", nil)
	r.addPlacement("s", "p", "x", "app", nil)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	return r
}

func TestSessionSendsWhatHappens(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	s := a.open(0, "")
	hello, _ := s.next()
	if hello.Hello == nil || hello.Hello.Count != 1 || !hello.Hello.Continuous || hello.Hello.Resumed {
		t.Fatalf("first frame is %+v", hello)
	}
	have := holding{}
	a.walk(have)
	if have.root() != hello.Hello.Root {
		t.Fatal("the walk gave another root than the hello")
	}
	r.addConfigMap("other", nil, "-")
	mark := have.toMark(s, r.addConfigMap("two", map[string]string{"what": "app"}, "2"))
	if got := sortedKeys(have); !slices.Equal(got, []string{"s/core/configmaps/default/one", "s/core/configmaps/default/two"}) {
		t.Fatalf("the agent has %q", got)
	}
	if mark.Marker != hello.Hello.Marker {
		t.Errorf("the mark has marker %q, the hello %q", mark.Marker, hello.Hello.Marker)
	}
}

// TestCauses shows that a user's deletion can be told from one by policy.
func TestCauses(t *testing.T) {
	r := fixture(t)
	r.addConfigMap("two", map[string]string{"what": "app"}, "2")
	s := r.join("a").open(0, "")
	s.next()
	configMaps := r.space("s").Resource(configMapsGVR).Namespace("default")
	if err := configMaps.Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if f, _ := s.next(); f.Del == nil || f.Del.Cause != wire.Deleted {
		t.Fatalf("a deletion gave %+v", f)
	}
	s.next() // its mark
	if _, err := configMaps.Patch(t.Context(), "two", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if f, _ := s.next(); f.Del == nil || f.Del.Cause != wire.Unassigned {
		t.Fatalf("a label change gave %+v", f)
	}
}

// TestResume cuts the stream at every point and resumes.
func TestResume(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	have := holding{}
	_, mark := a.walk(have)
	last := int64(0)
	for i := range 10 {
		s := a.open(mark.Revision, mark.Marker)
		if f, _ := s.next(); !f.Hello.Resumed || !f.Hello.Continuous {
			t.Fatalf("round %d: hello is %+v", i, f.Hello)
		}
		mark = have.toMark(s, r.addConfigMap(strings.Repeat("n", i+1), map[string]string{"what": "app"}, "v"))
		s.close()
		last = r.addConfigMap(strings.Repeat("m", i+1), map[string]string{"what": "app"}, "v")
	}
	s := a.open(mark.Revision, mark.Marker)
	have.toMark(s, last)
	if len(have) != 21 {
		t.Fatalf("the agent has %d objects, want 21", len(have))
	}
}

// TestLineage shows that a hub with another past is noticed.
func TestLineage(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	_, mark := a.walk(holding{})
	for _, c := range []struct {
		name   string
		rev    int64
		marker string
		want   bool
	}{
		{"the hub's own marker", mark.Revision, mark.Marker, true},
		{"a marker of another log", mark.Revision, "FOREIGN", false},
		{"a marker without a revision", 0, mark.Marker, false},
		{"a revision without a marker", mark.Revision, "", false},
		{"nothing", 0, "", true},
	} {
		s := a.open(c.rev, c.marker)
		f, _ := s.next()
		if f.Hello.Continuous != c.want {
			t.Errorf("%s: continuous is %v", c.name, f.Hello.Continuous)
		}
		s.close()
	}
}

func TestRestartResumes(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	a := r.join("a")
	have := holding{}
	_, mark := a.walk(have)
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	r.stop()

	r = start(t, dir)
	a.r = r // same location, same token, another address
	s := a.open(mark.Revision, mark.Marker)
	if f, _ := s.next(); !f.Hello.Resumed || !f.Hello.Continuous {
		t.Fatalf("after a restart the hello is %+v", f.Hello)
	}
	have.toMark(s, mark.Revision+1)
	if len(have) != 1 {
		t.Fatalf("the agent has %v", have)
	}
}

func TestNewestSessionWins(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	first := a.open(0, "")
	first.next()
	second := a.open(0, "")
	second.next()
	if f, ok := first.next(); !ok || f.Bye == nil || f.Bye.Reason != wire.ByeReplaced {
		t.Fatalf("the older session was told %+v", f)
	}
	if _, ok := first.next(); ok {
		t.Fatal("the older session goes on")
	}
}

func TestSettingsAndRemoval(t *testing.T) {
	r := fixture(t)
	s := r.join("a").open(0, "")
	s.next()
	locations := r.space(key.Root).Resource(locationsGVR)
	if _, err := locations.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"mapping":"Paused","prune":{"maxPercent":5}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if f, _ := s.next(); f.Settings == nil || f.Settings.Halt == "" || f.Settings.PruneMaxPercent != 5 {
		t.Fatalf("a pause gave %+v", f)
	}
	if err := locations.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		f, ok := s.next()
		if !ok {
			t.Fatal("the stream ended without a bye")
		}
		if f.Del != nil {
			t.Fatalf("the removal of a location sent a deletion: %+v", f.Del)
		}
		if f.Bye != nil {
			if f.Bye.Reason != wire.ByeRemoved {
				t.Fatalf("bye is %+v", f.Bye)
			}
			return
		}
	}
}

// TestOthersAreRefused shows that a token opens its own location only.
func TestOthersAreRefused(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	for path, want := range map[string]int{
		"b/desired":         http.StatusForbidden,
		"b/reports":         http.StatusForbidden,
		"../spaces/root":    http.StatusForbidden,
		"a/nothing":         http.StatusNotFound,
		"a/desired?after=x": http.StatusBadRequest,
	} {
		resp := a.do(t.Context(), http.MethodGet, path, nil)
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", path, resp.Status, want)
		}
	}
	a.token = "a.wrong"
	resp := a.do(t.Context(), http.MethodGet, "a/desired", nil)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %s", resp.Status)
	}
}

// report reports as the agent.
func (a *agent) report(lines ...wire.ReportLine) (answer wire.ReportsAnswer) {
	a.r.t.Helper()
	var body strings.Builder
	for _, line := range lines {
		if err := json.NewEncoder(&body).Encode(line); err != nil {
			a.r.t.Fatal(err)
		}
	}
	resp, err := a.post(a.r.t.Context(), route.Reports, body.String())
	if err != nil {
		a.r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		a.r.t.Fatalf("reports: %s: %v", resp.Status, err)
	}
	return answer
}

func TestReports(t *testing.T) {
	r := fixture(t)
	a := r.join("a")
	one := wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{UID: "u", State: wire.Failed, Reason: "Refused"}}
	first := a.report(one, wire.ReportLine{Key: "../../x", Report: one.Report}, wire.ReportLine{Key: "s/core/configmaps/default/two"})
	if len(first.Refused) != 2 {
		t.Fatalf("refused %+v, want the two bad lines", first.Refused)
	}
	row, _ := r.table.Get("r/a/s/placed/core/configmaps/default/one")
	if row == nil || row.ModRev != first.Revision {
		t.Fatalf("the report is not in the log at revision %d", first.Revision)
	}
	if again := a.report(one); again.Revision != first.Revision {
		t.Fatal("an equal report was written again")
	}
	a.report(wire.ReportLine{Key: one.Key, Removed: true})
	if err := r.waitCommitted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row, _ := r.table.Get("r/a/s/placed/core/configmaps/default/one"); row != nil {
		t.Fatal("the removed report is still there")
	}
}

// TestConnected shows that the condition follows the session, after a delay
// when it ends.
func TestConnected(t *testing.T) {
	r := start(t, t.TempDir(), func(c *Config) { c.Heartbeat, c.Disconnected = 10*time.Millisecond, 50*time.Millisecond })
	r.addLocation("a", nil)
	expect := func(want string) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for {
			u, err := r.space(key.Root).Resource(locationsGVR).Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(u.Object["status"])
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("status is %s, want %s in it", raw, want)
			}
		}
	}
	expect(`"reason":"Disconnected"`)
	s := r.join("a").open(0, "")
	s.next()
	expect(`"reason":"Session"`)
	s.close()
	expect(`"reason":"Disconnected"`)
}
