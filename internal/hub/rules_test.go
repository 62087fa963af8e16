package hub_test

import (
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

func ruled(rules ...any) map[string]any {
	return map[string]any{"spec": map[string]any{"match": []any{map[string]any{"names": []any{"one"}}}, "rules": rules}}
}

func (r *running) setProperties(l, properties string) {
	r.t.Helper()
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(r.t.Context(), l, types.MergePatchType,
		[]byte(`{"spec":{"properties":`+properties+`}}`), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) customize(body string) {
	r.t.Helper()
	if _, err := r.space("s").Resource(customizersGVR).Patch(r.t.Context(), "z", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// TestRulesReachLocations follows what two locations with different properties get of one
// object: by a session, a view and answers; while the rule fails at one of them, which
// keeps what it has; and by a hub that is started again, which says the same.
func TestRulesReachLocations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startPrepared(t, dir, func(hub.Internals) {})
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"in": "yes"})
		r.setProperties(string(l), `{"site":"`+string(l)+`","n":1}`)
	}
	r.create("s", placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"in": "yes"}}}},
		"downsync":  []any{map[string]any{"resources": []any{"configmaps"}}},
	}}))
	r.addConfigMap("one", nil, "1")
	a, b := r.receiver("a"), r.receiver("b")
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil,
		ruled(map[string]any{"path": "$.data.other", "value": "same"}, map[string]any{"path": `$.data["site of x"]`, "expression": "location.properties.site"})))
	rev := r.addConfigMap("two", nil, "2")
	a.receives(rev, "one two")
	b.receives(rev, "one two")
	a.gets("a")
	b.gets("b")

	// What is not used makes no difference; what is, does for one.
	r.setProperties("b", `{"n":2}`)
	r.setProperties("b", `{"site":"c"}`)
	rev = r.addConfigMap("three", nil, "")
	a.receives(rev, "three")
	b.receives(rev, "one three")
	b.gets("c")

	// The rule fails at b: it keeps what it has, and all say so.
	r.customize(`{"spec":{"rules":[{"path":"$.data[\"site of x\"]","expression":"location.properties.site.lowerAscii()"}]}}`)
	r.setProperties("b", `{"site":3}`)
	rev = r.addConfigMap("four", nil, "")
	a.receives(rev, "four one")
	a.gets("a")
	b.receives(rev, "four one")
	r.heldAtB(b)

	r.stop()
	before := maps.Clone(b.holding)
	*r = *startPrepared(t, dir, func(hub.Internals) {})
	stay := holding{}
	if _, mark := r.join("b").walk(stay); stay.root() != mark.Root || stay.root() != before.root() {
		t.Errorf("a walk finds the root %s, before the hub was stopped it was %s", stay.root(), before.root())
	}
	b.holding = before
	b.resume("")
	r.heldAtB(b)

	r.setProperties("b", `{"site":"D"}`)
	rev = r.addConfigMap("five", nil, "")
	b.receives(rev, "five one")
	b.gets("d")
	r.eventually(func() string {
		if errs := r.customizerErrors(); errs != "" {
			return "still " + errs
		}
		return ""
	})
}

// heldAtB checks the responses about "one", which b holds.
func (r *running) heldAtB(b *receiver) {
	r.t.Helper()
	const path = "s/core/configmaps/default/one"
	one, err := r.space("s").Resource(configMapsGVR).Namespace("default").Get(r.t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if want := wire.LeafSum(path, string(one.GetUID()), wire.SumOf([]byte("hold:RuleFailed")), wire.Policy{}); b.holding[path] != want {
		r.t.Errorf("b has %s of the object, want a hold %s", b.holding[path], want)
	}
	if _, err := r.view("b").Resource(configMapsGVR).Namespace("default").Get(r.t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		r.t.Errorf("the view of b has it: %v", err)
	}
	var why queries.Why
	r.question(&why, route.Why, "object", "core/configmaps/default/one", "location", "b")
	if why.Place == nil || why.Place.State != "Held" || why.Place.Reason != "RuleFailed" || why.Place.Message != "rules[0] of Customizer z: no such overload: lowerAscii(int)" ||
		!strings.Contains(why.Decision.String(), `rules[0] sets $.data["site of x"] by an expression`) {
		r.t.Errorf("why says %+v\n%s", why.Place, why.Decision)
	}
	if got, want := text(why.Rules), `[{"customizer":"z","rule":0,"path":"$.data[\"site of x\"]","error":"no such overload: lowerAscii(int)"}]`; got != want {
		r.t.Errorf("why returns the rules %s, want %s", got, want)
	}
	r.eventually(func() string {
		if errs := r.customizerErrors(); errs != `[{"location":"b","message":"rules[0] of Customizer z: no such overload: lowerAscii(int)","object":"core/configmaps/default/one","reason":"RuleFailed","rule":0}]` {
			return "the Customizer has the errors " + errs
		}
		u, err := r.space("s").Resource(placementsGVR).Get(r.t.Context(), "p", metav1.GetOptions{})
		if err != nil || dig(u.Object, "status", "held") != int64(1) || !strings.Contains(text(dig(u.Object, "status", "errors")), "RuleFailed") {
			return "the Placement says " + text(u)
		}
		return ""
	})
}

func (r *running) customizerErrors() string {
	u, err := r.space("s").Resource(customizersGVR).Get(r.t.Context(), "z", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	if errs := dig(u.Object, "status", "errors"); errs != nil {
		return text(errs)
	}
	return ""
}

// TestRulesAreCheckedWhenWritten shows that rules that can't be used are refused at their
// field, by schema or by compiling them.
func TestRulesAreCheckedWhenWritten(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	for want, rule := range map[string]map[string]any{
		"spec.rules[0].expression: Invalid value":          {"path": "$.data.a", "expression": "location.nme"},
		"spec.rules[0].path: Invalid value":                {"path": "$.kind", "value": "x"},
		"spec.rules[0]: Forbidden: needs exactly one of":   {"path": "$.data.a"},
		"exactly one of value, expression, remove: true":   {"path": "$.data.a", "expression": "1", "remove": true},
		"needs exactly one of value (not null)":            {"path": "$.data.a", "value": nil},
		"remove and release are true where they are given": {"path": "$.data.a", "remove": false, "value": int64(1)},
		"spec.rules[0].onMissing: Unsupported value":       {"path": "$.data.a", "value": int64(1), "onMissing": "Sometimes"},
		"spec.rules[0].value: Invalid value":               {"path": "$.metadata.labels.a", "value": int64(1)},
		"may end with [+] only for value and expression":   {"path": "$.data.a[+]", "remove": true},
		"which is Orrery's":                                {"path": `$.metadata.labels["orrery.dev/space"]`, "value": "x"},
	} {
		u := object("orrery.dev/v1alpha1", "Customizer", "", "bad", nil, ruled(rule))
		_, err := r.space("s").Resource(customizersGVR).Create(t.Context(), u, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", rule, err, want)
		}
	}
}

// TestRenderings requests the rendering of an object for locations before it is placed, and after. The responses
// are equal to the sent objects, locations with equal renderings share one response, and no response contains
// objects that the reader may not get.
func TestRenderings(t *testing.T) {
	t.Parallel()
	r := startPrepared(t, t.TempDir(), func(hub.Internals) {})
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b", "c"} {
		r.addLocation(l, nil)
		r.setProperties(string(l), map[bool]string{true: `{"site":"x"}`, false: `{"site":"y"}`}[l == "b"])
	}
	r.setProperties("c", `{"site":null}`)
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil,
		ruled(map[string]any{"path": "$.data.site", "expression": "'site' in location.properties ? string(location.properties.site) : 'y'"})))
	r.addConfigMap("one", nil, "1")
	render := func(location string) (all queries.Renderings) {
		t.Helper()
		r.question(&all, route.Render, "object", "core/configmaps/default/one", "location", location)
		return all
	}
	all := render("")
	if len(all.Renderings) != 2 || text(all.Renderings[0].Locations) != `["a","c"]` || text(all.Renderings[1].Locations) != `["b"]` ||
		!strings.Contains(all.Renderings[1].Content, `"site":"x"`) || all.Renderings[0].Assigned != nil {
		t.Errorf("locations get %+v", all)
	}
	r.create("s", placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"names": []any{"b"}}}, "downsync": []any{map[string]any{"resources": []any{"configmaps"}}},
	}}))
	b := r.receiver("b")
	r.setProperties("b", `{"site":"z"}`)
	rev := r.addConfigMap("two", nil, "2")
	b.receives(rev, "one two")
	sent := b.put["one"]
	got := render("b").Renderings[0]
	if got.Content != string(sent.Object) || got.Digest != sent.Digest.String() || text(got.Assigned) != `["b"]` {
		t.Errorf("b was sent %+v, the answer is %+v", sent, got)
	}
}
