package hub_test

import (
	"bytes"
	"maps"
	"sync/atomic"
	"testing"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/engine/rules"
)

// rendering is how a hub renders: by a version of what rules mean, in which a word of the
// results may be another. It counts renderings by rules.
type rendering struct {
	version    int
	before, is string
	made       *atomic.Int64
}

func (v rendering) prepare(h hub.Internals) {
	ruling, err := rules.NewOf(v.version)
	if err != nil {
		panic(err)
	}
	follow := render.Customizing(ruling)
	h.Engine.Rules = render.RulesOf(ruling)
	h.Renderer.Follow = func(object []byte, inputs []placement.Input) ([]byte, error) {
		v.made.Add(1)
		made, err := follow(object, inputs)
		if v.before != "" {
			made = bytes.ReplaceAll(made, []byte(v.before), []byte(v.is))
		}
		return made, err
	}
}

// TestUpgradedRenderer: a hub with a new version of the rules renders everything again. An agent receives nothing
// for equal bytes, and never a deletion; it receives each different rendering once.
func TestUpgradedRenderer(t *testing.T) {
	t.Parallel() // it does one thing after the other
	dir := t.TempDir()
	var made atomic.Int64
	start := func(v rendering) *running {
		v.made = &made
		return startPrepared(t, dir, v.prepare)
	}
	r := start(rendering{version: 7})
	a, b := r.placeMarked()
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil,
		ruled(map[string]any{"path": "$.data.site", "expression": "location.name + '.example'"})))
	r.addConfigMap("held", map[string]string{"placed": "yes"}, "")
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "fails", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"names": []any{"held"}}},
		"rules": []any{map[string]any{"path": "$.data.site", "expression": "location.properties.site"}},
	}}))
	r.change("held", `{"data":{"k":"1"}}`)
	rev := r.mark("two")
	a.receives(rev, "held one two")
	b.receives(rev, "held one two")
	b.sent("site", "b.example")

	// again restarts the hub, and both agents resume there from their last frames.
	again := func(v rendering, names string) {
		t.Helper()
		r.stop()
		made.Store(0)
		haveA, haveB := maps.Clone(a.holding), maps.Clone(b.holding)
		*r = *start(v)
		for h, have := range map[*receiver]holding{a: haveA, b: haveB} {
			h.holding = have
			h.walksAfter(names)
		}
		if made.Load() == 0 {
			t.Error("nothing was rendered anew")
		}
	}
	again(rendering{version: 7}, "")
	again(rendering{version: 8}, "")
	rev = r.mark("three")
	a.receives(rev, "three")
	b.receives(rev, "three")
	again(rendering{version: 9, before: "b.example", is: "b.upgraded"}, "one")
	rev = r.mark("four")
	a.receives(rev, "four")
	b.receives(rev, "four")
	// And back: an older hub on the same log.
	again(rendering{version: 8}, "one")
}

// walksAfter has an agent come back to a hub that was started anew, as agents do: it resumes,
// and walks if the root is not that of what it has. Only objects of some names are other than
// before, and nothing that it has is gone.
func (h *receiver) walksAfter(names string) {
	h.r.t.Helper()
	h.agent = h.r.join(h.l)
	h.stream = h.agent.open(h.mark.Revision, h.mark.Marker)
	f, _ := h.stream.next()
	if f.Hello == nil {
		h.r.t.Fatalf("%s: no hello: %+v", h.l, f)
	}
	found := holding{}
	_, mark := h.agent.walk(found)
	differ := ""
	for k, leaf := range h.holding {
		now, ok := found[k]
		if !ok {
			h.r.t.Errorf("%s: %s is gone", h.l, k)
		}
		if now != leaf {
			differ += k[len("s/core/configmaps/default/"):]
		}
	}
	if h.l == "a" {
		names = ""
	}
	if differ != names || len(found) != len(h.holding) {
		h.r.t.Errorf("%s: %q is another, want %q; %d objects of %d", h.l, differ, names, len(found), len(h.holding))
	}
	if same := f.Hello.Root == h.root(); f.Hello.Resumed && same != (differ == "") {
		h.r.t.Errorf("%s: the hello has the root of what it has: %v, though %q is another", h.l, same, differ)
	}
	h.holding, h.mark = found, mark
}
