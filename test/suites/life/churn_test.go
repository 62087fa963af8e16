package life

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

const (
	// generation is how many spaces come and go at a time.
	generation = 500
	// perSpace is how many bytes one may leave behind: less than any that stays.
	perSpace = 2 << 10
	// collectOften keeps the hub's heap within so many percent of what is in use, so that
	// it can be measured quickly.
	collectOften = 25
)

// TestSpacesComeAndGo creates spaces, does in them everything that a hub might remember,
// deletes them, and checks that the hub is as it was before.
func TestSpacesComeAndGo(t *testing.T) {
	t.Setenv("GOGC", strconv.Itoa(collectOften))
	// What is remembered on purpose is kept small: the window and its history.
	h := startHub(t, "--window-revisions", "100", "--compact-every", "1s")
	h.post("/spaces/root/apis/orrery.dev/v1alpha1/locations", `{"apiVersion":"orrery.dev/v1alpha1","kind":"Location","metadata":{"name":"edge"},"spec":{}}`).is(t, http.StatusCreated, "create a location")
	comeAndGo(t, h, 0)
	before := h.measured()
	comeAndGo(t, h, 1)
	after := h.measured()
	for end := time.Now().Add(soon); after.goroutines > before.goroutines && time.Now().Before(end); { // the last may still be ending
		after = h.measured()
	}
	t.Logf("before %+v, after %+v, that is %d bytes a space", before, after, (after.live-before.live)/generation)
	if after.series != before.series {
		t.Errorf("%d series, before %d", after.series, before.series)
	}
	if grown := after.live - before.live; grown > generation*perSpace {
		t.Errorf("the heap has grown by %d bytes, %d for each space", grown, grown/generation)
	}
	if after.goroutines > before.goroutines {
		t.Errorf("%d goroutines, before %d; they are:\n%s", after.goroutines, before.goroutines, h.Goroutines())
	}
}

// comeAndGo makes spaces and deletes them. The names are new in each round.
func comeAndGo(t *testing.T, h *hub, round int) {
	t.Helper()
	start := time.Now()
	many(t, generation, func(ctx context.Context, i int) error { return h.inhabit(ctx, fmt.Sprintf("s-%d-%d", round, i), i) })
	t.Logf("%d spaces inhabited in %s", generation, time.Since(start))
	start = time.Now()
	many(t, generation, func(ctx context.Context, i int) error {
		return h.must(ctx, http.StatusOK, http.MethodDelete, fmt.Sprintf("%s/s-%d-%d", spaces, round, i), "", "")
	})
	env.Eventually(t, soon, func() error {
		if n := len(h.get(spaces).field("items").Array()); n > 0 {
			return fmt.Errorf("%d spaces are left", n)
		}
		return nil
	})
	t.Logf("and gone in %s", time.Since(start))
}

// inhabit creates a space and does in it everything that a hub might remember. Its CRD is
// one of several, the same in each round: compiled CRDs are kept, up to a limit, when no
// space has them.
func (h *hub) inhabit(ctx context.Context, name string, i int) error {
	if err := h.must(ctx, http.StatusCreated, http.MethodPost, spaces, asJSON, spaceNamed(name)); err != nil {
		return err
	}
	const different = 10
	crd := strings.Replace(gadgetCRD, `"type":"object"`, fmt.Sprintf(`"type":"object","description":"%d"`, i%different), 1)
	s := h.in(name)
	for _, made := range [][2]string{
		{"/api/v1/namespaces", namespaceNamed("n")},
		{"/api/v1/namespaces/n/configmaps", configMap("c", "")},
		{crds, crd},
		{gadgets, gadget("v1", "g", "")},
	} {
		if err := s.must(ctx, http.StatusCreated, http.MethodPost, made[0], asJSON, made[1]); err != nil {
			return err
		}
	}
	if i%5 == 0 {
		if err := s.must(ctx, http.StatusCreated, http.MethodPost, "/apis/orrery.dev/v1alpha1/placements", asJSON, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},
			"spec":{"locations":[{"names":["edge"]}],"downsync":[{"resources":["configmaps","gadgets"]}]}}`); err != nil {
			return err
		}
	}
	for _, path := range []string{"/apis", "/openapi/v3/apis/example.org/v1", configMaps + "?limit=1", "/api/v1/namespaces?limit=1"} {
		if err := s.must(ctx, http.StatusOK, http.MethodGet, path, "", ""); err != nil {
			return err
		}
	}
	if err := s.must(ctx, http.StatusOK, http.MethodPatch, gadgets+"/g?fieldManager=test", asApply, gadget("v1", "g", "")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := s.open(ctx, http.MethodGet, gadgets+"?watch=true", "", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	return err
}

// measure is what a hub says of itself.
type measure struct {
	// live is about what a garbage collection found in use, in bytes.
	live       int
	goroutines int
	series     int
	rss        int64
}

// measured returns the minimum of several measurements of an idle hub, so that memory which is about
// to be freed does not count. The number of goroutines is the median, since a goroutine that gathers
// metrics may not have started when they are counted. All requests use one connection of HTTP/1.1:
// with HTTP/2, a measurement often counts a goroutine of the request before.
func (h *hub) measured() measure {
	h.t.Helper()
	h.idle()
	client := newAPI(h.t, h.PathConfig(""), false, nil)
	defer client.idle()
	const enough = 10
	var all []measure
	var goroutines []int
	for last := -1.0; len(all) < enough; {
		values, series := parseMetrics(client.get("/metrics").is(h.t, http.StatusOK, "read the metrics").raw)
		if n := values["go_gc_duration_seconds_count"]; n != last {
			last = n
			live := values["go_memstats_next_gc_bytes"] * 100 / (100 + collectOften)
			goroutines = append(goroutines, int(values["go_goroutines"]))
			all = append(all, measure{int(live), int(values["go_goroutines"]), series, h.Usage().RSSAnon})
		}
	}
	slices.Sort(goroutines)
	least := all[0]
	for _, m := range all {
		least = measure{min(least.live, m.live), goroutines[enough/2], max(least.series, m.series), min(least.rss, m.rss)}
	}
	return least
}

// parseMetrics has the values of the series without labels, and counts all.
func parseMetrics(text []byte) (values map[string]float64, series int) {
	values = map[string]float64{}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("#")) {
			continue
		}
		series++
		var name string
		var value float64
		if n, _ := fmt.Sscan(string(line), &name, &value); n == 2 {
			values[name] = value
		}
	}
	return values, series
}
