package hub_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// series are those of the hub's metrics, with their values.
func (r *running) series() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(r.answerOf("/metrics")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "orrery_") {
			all[name] = value
		}
	}
	return all
}

// TestSeriesDoNotGrow: however many spaces, locations, objects and sessions there are, the
// metrics have the same series, and none names anything that users name.
func TestSeriesDoNotGrow(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			s, l := key.Space(fmt.Sprintf("zebra-%d", i)), key.Location(fmt.Sprintf("yonder-%d", i))
			r.addSpace(s)
			r.addLocation(l, nil)
			r.create(s, configMapsGVR, object("v1", "ConfigMap", "default", "xerxes", nil, nil))
			r.join(l).open(0, "").next()
		}
	}
	fill(0, 2)
	before := r.series()
	fill(2, 6)
	after := r.series()
	// Those of requests come with the first of each kind, of controllers and ends of sessions as well.
	lazy := regexp.MustCompile(`^orrery_(http|controller|agent_sessions_ended)_`)
	for _, all := range []map[string]string{before, after} {
		maps.DeleteFunc(all, func(name, _ string) bool {
			if regexp.MustCompile(`zebra|yonder|xerxes`).MatchString(name) {
				t.Errorf("a series names what users name: %s", name)
			}
			return lazy.MatchString(name)
		})
	}
	if old, is := slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)); !slices.Equal(old, is) {
		t.Errorf("series before:\n%s\nand after:\n%s", strings.Join(old, "\n"), strings.Join(is, "\n"))
	}
	for name, want := range map[string]string{"orrery_locations": "6", "orrery_agent_sessions": "6", `orrery_locations_silent{longer_than="5m"}`: "0", "orrery_ready": "1"} {
		if after[name] != want {
			t.Errorf("%s is %s, want %s", name, after[name], want)
		}
	}
}

// TestRequestsAreCounted: by what they ask for and what came of them, and a session as one
// that has not ended; what clients make up is no series of its own.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("edge", nil)
	session := r.join("edge").open(0, "")
	session.next()
	r.as("eve").send("GET /spaces/s/api/v1/secrets", "")
	r.as("op", masters).send("BREW /spaces/s/api/v1/pots", "")
	r.as("op", masters).send("GET /made/up", "")
	var got map[string]string
	wants := map[string]string{
		`orrery_http_requests_total{api="spaces",code="403",verb="list"}`:      "1",
		`orrery_http_requests_in_flight{api="agents",verb="desired"}`:          "1",
		`orrery_http_requests_total{api="hub",code="404",verb="other"}`:        "1",
		`orrery_http_request_duration_seconds_count{api="spaces",verb="list"}`: "1",
	}
	r.eventually(func() string { // a client may have its answer before it is counted
		got = r.series()
		for name, want := range wants {
			if got[name] != want {
				return fmt.Sprintf("%s is %q, want %q", name, got[name], want)
			}
		}
		return ""
	})
	for name := range got {
		if strings.Contains(strings.ToLower(name), "brew") || strings.Contains(name, "made") {
			t.Errorf("a client has made the series %s", name)
		}
	}
	for _, name := range []string{"orrery_agent_sent_bytes_total", "orrery_table_wait_seconds_count"} {
		if got[name] == "" || got[name] == "0" {
			t.Errorf("%s is %q", name, got[name])
		}
	}
}
