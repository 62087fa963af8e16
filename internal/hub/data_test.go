package hub_test

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// placeMarked has the locations a and b get the ConfigMaps of the space s that are labelled
// placed, of which there is "one".
func (r *running) placeMarked() (a, b *receiver) {
	r.t.Helper()
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, nil)
	}
	r.create("s", placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"selector": map[string]any{}}},
		"downsync":  []any{map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"placed": "yes"}}}}},
	}}))
	r.addConfigMap("one", map[string]string{"placed": "yes"}, "1")
	return r.receiver("a"), r.receiver("b")
}

// mark adds a ConfigMap that both get, after all that came before.
func (r *running) mark(name string) int64 {
	r.t.Helper()
	return r.addConfigMap(name, map[string]string{"placed": "yes"}, "")
}

func (r *running) change(name, body string) {
	r.t.Helper()
	if _, err := r.space("s").Resource(configMapsGVR).Namespace("default").Patch(r.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// isHeld checks that a location keeps what it has of "one", for a reason, and that a walk
// finds just that.
func (h *receiver) isHeld(reason, message string) {
	h.r.t.Helper()
	const path = "s/core/configmaps/default/one"
	one, err := h.r.space("s").Resource(configMapsGVR).Namespace("default").Get(h.r.t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		h.r.t.Fatal(err)
	}
	if want := wire.LeafSum(path, string(one.GetUID()), wire.SumOf([]byte("hold:"+reason)), wire.Policy{}); h.holding[path] != want {
		h.r.t.Errorf("%s has %s of the object, want a hold %s", h.l, h.holding[path], want)
	}
	h.walksTheSame()
	var why queries.Why
	h.r.question(&why, route.Why, "object", "core/configmaps/default/one", "location", string(h.l))
	if why.Place == nil || why.Place.State != "Held" || why.Place.Reason != reason || !strings.Contains(why.Place.Message, message) {
		h.r.t.Errorf("why says of %s %+v", h.l, why.Place)
	}
}

// walksTheSame checks that a walk finds what the session has given.
func (h *receiver) walksTheSame() {
	h.r.t.Helper()
	found := holding{}
	if _, mark := h.agent.walk(found); found.root() != mark.Root || found.root() != h.root() {
		h.r.t.Errorf("%s: a walk finds the root %s, the session has given %s", h.l, found.root(), h.root())
	}
}

// sent is a value of the data of "one" as it was sent last.
func (h *receiver) sent(name, want string) {
	h.r.t.Helper()
	put := h.put["one"]
	if put == nil || !strings.Contains(string(put.Object), `"`+name+`":"`+want+`"`) || put.Digest != wire.SumOf(put.Object) {
		h.r.t.Errorf("%s was sent %+v, want %s: %s", h.l, put, name, want)
	}
}

// TestDataReachesLocations follows what two locations get by the texts of a ConfigMap: each
// its own, nothing for what is not used, and what they have while the texts are not there.
func TestDataReachesLocations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startPrepared(t, dir, func(hub.Internals) {})
	a, b := r.placeMarked()
	customizer := ruled(map[string]any{"path": "$.data.site", "expression": "data.sites[location.name]"})
	customizer["spec"].(map[string]any)["data"] = []any{map[string]any{"name": "sites", "configMap": map[string]any{"namespace": "default", "name": "sites"}}}
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, customizer))
	rev := r.mark("two")
	a.receives(rev, "two")
	b.receives(rev, "two")
	a.isHeld("RuleFailed", "(data.sites: there is no ConfigMap default/sites)")

	r.addConfigMap("sites", nil, "")
	rev = r.mark("three")
	a.receives(rev, "three")
	b.receives(rev, "three")
	a.isHeld("RuleFailed", "no such key: a")
	r.change("sites", `{"data":{"a":"A","b":"B"}}`)
	rev = r.mark("four")
	a.receives(rev, "four one")
	b.receives(rev, "four one")
	a.sent("site", "A")
	b.sent("site", "B")

	r.change("sites", `{"metadata":{"labels":{"x":"y"}},"data":{"other":"x"}}`)
	r.change("sites", `{"data":{"b":"C"}}`)
	rev = r.mark("five")
	a.receives(rev, "five")
	b.receives(rev, "five one")
	b.sent("site", "C")

	// What is missing holds, also at a hub that is started anew, until it is there.
	r.change("sites", `{"data":{"b":null}}`)
	rev = r.mark("six")
	a.receives(rev, "six")
	b.receives(rev, "six")
	b.isHeld("RuleFailed", "no such key: b")
	a.walksTheSame()
	r.stop()
	beforeA, beforeB := maps.Clone(a.holding), maps.Clone(b.holding)
	*r = *startPrepared(t, dir, func(hub.Internals) {})
	a.holding, b.holding = beforeA, beforeB
	a.resume("")
	b.resume("")
	b.isHeld("RuleFailed", "no such key: b")
	if err := r.space("s").Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "sites", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rev = r.mark("seven")
	a.receives(rev, "seven")
	b.receives(rev, "seven")
	a.isHeld("RuleFailed", "no ConfigMap")
	r.create("s", configMapsGVR, object("v1", "ConfigMap", "default", "sites", nil, map[string]any{"data": map[string]any{"a": "A", "b": "D"}}))
	rev = r.mark("eight")
	a.receives(rev, "eight one")
	b.receives(rev, "eight one")
	a.sent("site", "A")
	b.sent("site", "D")
	r.eventually(func() string {
		if errs := r.customizerErrors(); errs != "" {
			return "still " + errs
		}
		return ""
	})
}
