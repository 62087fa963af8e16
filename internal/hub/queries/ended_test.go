package queries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/engine/helm"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/engine/prune"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/unreturned"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// hostile is a Server with a space of which each object is rendered in another way for each location.
type hostile struct {
	*Server
	rendered int
	// onRender is called for each rendering.
	onRender func()
}

// newHostile makes a hostile Server. size is the size of an object.
func newHostile(t *testing.T, objects, locations, size int) *hostile {
	t.Helper()
	kinds, err := registry.New()
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{onRender: func() {}}
	renderer := render.New(kinds.Builtin(key.Root))
	renderer.Follow = func(object []byte, inputs []placement.Input) ([]byte, error) {
		h.rendered++
		h.onRender()
		return fmt.Appendf(nil, `{"needs":%q}`, inputs[0].Needs), nil
	}
	rules := func(placement.Customized) placement.Rules {
		return placement.Rules{Text: "x", Needs: func(site placement.Site) string { return string(site.Name) }}
	}
	engine, tracker := placement.New(), progress.New(progress.Config{Digest: renderer.Digest})
	engine.Rules = rules
	w := table.New(table.Config{Deriver: engine, Observer: tracker, WindowSteps: 10, WindowBytes: 1 << 20})
	var all []table.Update
	add := func(k, value string) {
		all = append(all, table.Update{Key: k, Value: []byte(value), CreateRev: 1, ModRev: 1})
	}
	add(key.Space("s").Key(), `{}`)
	for i := range locations {
		add(key.Location(fmt.Sprintf("l%04d", i)).Key(), `{}`)
	}
	in := func(r key.Resource, name string) string {
		return key.Object{Space: "s", Identity: key.Identity{Resource: r, Name: name}}.Key()
	}
	const match = `"resources":["configmaps"]`
	add(in(key.Placements, "p"), `{"spec":{"locations":[{"selector":{}}],"downsync":[{`+match+`}]}}`)
	add(in(key.Customizers, "c"), `{"spec":{"match":[{`+match+`}],"rules":[{"path":"$.data.x","value":1}]}}`)
	add(key.Object{Space: key.Root, Identity: key.Identity{Resource: key.Placements, Name: "root"}}.Key(),
		`{"spec":{"spaces":{"selector":{}},"locations":[{"selector":{}}],"downsync":[{`+match+`}]}}`)
	for i := range objects {
		add(numbered("s", i).Key(), `{"metadata":{"uid":"u"},"data":{"x":"`+strings.Repeat("x", size)+`"}}`)
	}
	w.Reset(1, all)
	h.Server = New(Config{
		Table: w.Table, Digest: renderer.Digest, Renderer: renderer, Rules: rules, Progress: tracker, Pruned: prune.New(func(key.Location) {}),
		Releases: helm.New(), LeftOut: unreturned.New(func() {}), Committed: func(context.Context) error { return nil },
		StreamConditions: func(context.Context) []table.Condition { return nil },
	})
	return h
}

// TestAnswersEndWithTheirRequests: no response causes renderings after its request has ended, also if no object
// is in the response.
func TestAnswersEndWithTheirRequests(t *testing.T) {
	for _, path := range []string{"status", "status?state=none", "status?placement=root", "status?watch=true", "render?object=core/configmaps/n/000000"} {
		t.Run(path, func(t *testing.T) {
			h := newHostile(t, 20, 20, 1)
			ctx, cancel := context.WithCancel(t.Context())
			h.onRender = cancel
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the value of the panic
					panic(p)
				}
				if h.rendered > 2 {
					t.Errorf("%d objects were rendered after the request had ended", h.rendered-1)
				}
			}()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/ask/v1/spaces/s/"+path, nil)
			h.ServeHTTP(httptest.NewRecorder(), r)
		})
	}
}

// TestRenderIsBounded: a request for the renderings of an object is refused before any rendering if they would be
// too large together, and ends after some time.
func TestRenderIsBounded(t *testing.T) {
	h := newHostile(t, 1, maxRenderInputs>>20+1, 1<<20)
	o := numbered("s", 0)
	state := h.config.Table.Snapshot()
	_, err := h.renderings.render(t.Context(), state, o, state.Get(o.Key()), "")
	if !apierrors.IsRequestEntityTooLargeError(err) || h.rendered > 0 {
		t.Errorf("after %d renderings the error is %v", h.rendered, err)
	}
	if _, err := h.renderings.render(t.Context(), state, o, state.Get(o.Key()), "l0001"); err != nil {
		t.Errorf("for one location: %v", err)
	}
	h = newHostile(t, 1, 10, 1)
	state = h.config.Table.Snapshot()
	ctx, cancel := context.WithCancelCause(t.Context())
	h.onRender = func() { cancel(errRenderTime) }
	_, err = h.renderings.render(ctx, state, o, state.Get(o.Key()), "")
	if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "1 of 10 locations") {
		t.Errorf("after the time limit the error is %v", err)
	}
	h.onRender = func() {}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := h.renderings.render(ended, state, o, state.Get(o.Key()), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("after the request the error is %v", err)
	}
	if _, err := h.renderings.render(t.Context(), state, o, state.Get(o.Key()), ""); err != nil {
		t.Error(err)
	}
}

// TestTotalsAreBounded: the totals of Placements cost no more than a budget, and name how many Placements they omit. A
// Placement that a request names is summarized alone.
func TestTotalsAreBounded(t *testing.T) {
	const locations, budget = 20, 100
	h := newHostile(t, 1, locations, 1)
	rights := h.rightsOf(t.Context(), "s")
	all := func(key.PlacementRef) bool { return true }
	read := func(ctx context.Context, most int, wants func(key.PlacementRef) bool) (int, int) {
		totals, omitted := h.status.totals.ofSpace(ctx, placement.NewBudget(ctx, most), h.config.Table.Snapshot(), rights, wants)
		return len(totals), omitted
	}
	if n, omitted := read(t.Context(), locations/2, all); n != 0 || omitted != 1 {
		t.Errorf("with half of the budget of a Placement there are %d totals, and %d are omitted", n, omitted)
	}
	if n, omitted := read(t.Context(), budget, all); n != 1 || omitted != 0 {
		t.Errorf("with a budget there are %d totals, and %d are omitted", n, omitted)
	}
	if n, omitted := read(t.Context(), 0, func(name key.PlacementRef) bool { return name == "q" }); n != 0 || omitted != 0 {
		t.Errorf("of another Placement there are %d totals, and %d are omitted", n, omitted)
	}
}
