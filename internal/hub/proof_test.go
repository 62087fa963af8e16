package hub

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/wire"
)

// place is where in the log an object was delivered.
type place struct {
	marker   string
	revision int64
}

// nextPut reads up to the next put, whose marker is that of the hello if it names none.
func (s *stream) nextPut(hello string) place {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended without a put")
		}
		if f.Put == nil {
			continue
		}
		at := place{f.Put.Marker, f.Put.Revision}
		if at.marker == "" {
			at.marker = hello
		}
		return at
	}
}

// proves asks the hub about a place.
func (a *agent) proves(at place) bool {
	a.r.t.Helper()
	body, err := json.Marshal(wire.LineageAsk{Markers: []string{"FOREIGN", at.marker}})
	if err != nil {
		a.r.t.Fatal(err)
	}
	resp := a.do(a.r.t.Context(), http.MethodPost, string(a.location)+"/lineage", strings.NewReader(string(body)))
	defer func() { _ = resp.Body.Close() }()
	var answer wire.LineageAnswer
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		a.r.t.Fatalf("%s: %v", resp.Status, err)
	}
	if len(answer.Spans["FOREIGN"]) > 0 || answer.Marker == "" || answer.Revision == 0 {
		a.r.t.Errorf("the hub says %+v", answer)
	}
	for _, span := range answer.Spans[at.marker] {
		if span.Has(at.revision) {
			return true
		}
	}
	return false
}

// TestPutsSayWhere shows that every put says at which place in the log it was
// delivered, by stream and by fetch, across starts, and that the hub proves these
// places and, once it runs on an older copy, only those that are in the copy.
func TestPutsSayWhere(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	a := r.join("a")
	app := map[string]string{"what": "app"}
	s := a.open(0, "")
	hello, _ := s.next()
	rev := r.addConfigMap("one", app, "1")
	one := s.nextPut(hello.Hello.Marker)
	if one.marker != hello.Hello.Marker || one.revision < rev {
		t.Errorf("the put of revision %d is of %+v", rev, one)
	}
	if f := a.exchange("fetch", wire.Fetch{Key: "s/core/configmaps/default/one"})[0]; f.Put.Marker != one.marker || f.Put.Revision < one.revision {
		t.Errorf("fetched at %q %d, after %+v", f.Put.Marker, f.Put.Revision, one)
	}
	s.close()
	r.stop()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}

	r = start(t, dir)
	a.r = r
	r.addConfigMap("two", app, "2")
	s = a.open(hello.Hello.Revision, hello.Hello.Marker)
	again, _ := s.next()
	if at := s.nextPut(again.Hello.Marker); at != one {
		t.Errorf("a resumed stream has %+v, which was %+v before", at, one)
	}
	two := s.nextPut(again.Hello.Marker)
	if two.marker == one.marker || !a.proves(one) || !a.proves(two) || a.proves(place{one.marker, two.revision}) || a.proves(place{two.marker, one.revision}) {
		t.Errorf("of %+v and %+v is proven: %v, %v", one, two, a.proves(one), a.proves(two))
	}
	s.close()
	r.stop()

	r = start(t, copied)
	a.r = r
	three := place{one.marker, two.revision} // had the hub not been started in between
	if !a.proves(one) || a.proves(two) || a.proves(three) {
		t.Errorf("on the copy: %v, %v, %v", a.proves(one), a.proves(two), a.proves(three))
	}
	many := wire.LineageAsk{Markers: make([]string, wire.MaxMarkers+1)}
	body, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	resp := a.do(t.Context(), http.MethodPost, "a/lineage", strings.NewReader(string(body)))
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("too many markers: %s", resp.Status)
	}
}
