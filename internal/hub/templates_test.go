package hub_test

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/route"
)

// TestTemplatesReachLocations checks the renderings that two locations receive of an object with templates in its
// own fields: by sessions, comparisons and responses, while locations and the object change, if the rendering
// fails for one location, and from a restarted hub.
func TestTemplatesReachLocations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startPrepared(t, dir, func(hub.Internals) {})
	a, b := r.placeMarked()
	r.change("one", `{"metadata":{"annotations":{"orrery.dev/expand":"true"}},"data":{"site":"${location.name}","n":"${location.properties.?n.orValue('none')}","home":"$${HOME}"}}`)
	rev := r.mark("two")
	a.receives(rev, "one two")
	b.receives(rev, "one two")
	for h, name := range map[*receiver]string{a: "a", b: "b"} {
		h.sent("site", name)
		h.sent("n", "none")
		h.sent("home", "${HOME}")
		h.walksTheSame()
		if strings.Contains(string(h.put["one"].Object), "orrery.dev/expand") {
			t.Errorf("the annotation goes to %s: %s", name, h.put["one"].Object)
		}
	}

	// What is not used of a location makes no difference; what is, does for one.
	r.setProperties("b", `{"m":1}`)
	r.setProperties("b", `{"n":"5"}`)
	rev = r.mark("three")
	a.receives(rev, "three")
	b.receives(rev, "one three")
	b.sent("n", "5")
	var rendered queries.Renderings
	r.question(&rendered, route.Render, "object", "core/configmaps/default/one", "location", "b")
	if len(rendered.Renderings) != 1 || rendered.Renderings[0].Content != string(b.put["one"].Object) {
		t.Errorf("render says %+v, sent was %s", rendered, b.put["one"].Object)
	}

	// It can't be expanded at b, which keeps what it has.
	r.change("one", `{"data":{"n":"${location.properties.?n.orValue('0').lowerAscii()}"}}`)
	r.setProperties("b", `{"n":[]}`)
	rev = r.mark("four")
	a.receives(rev, "four one")
	b.receives(rev, "four") // once more the same, then held
	b.isHeld("TemplateFailed", "template at $.data.n: no such overload")
	r.eventually(func() string {
		u, err := r.space("s").Resource(placementsGVR).Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil || dig(u.Object, "status", "held") != int64(1) || !strings.Contains(text(dig(u.Object, "status", "errors")), "template at $.data.n") {
			return "the Placement says " + text(u)
		}
		return ""
	})
	a.walksTheSame()
	r.stop()
	beforeA, beforeB := maps.Clone(a.holding), maps.Clone(b.holding)
	*r = *startPrepared(t, dir, func(hub.Internals) {})
	a.holding, b.holding = beforeA, beforeB
	a.resume("")
	b.resume("")
	a.walksTheSame()
	b.isHeld("TemplateFailed", "template at $.data.n")

	// Without the annotation the text is what it is.
	r.setProperties("b", `{"n":"X"}`)
	rev = r.mark("five")
	a.receives(rev, "five")
	b.receives(rev, "five one")
	b.sent("n", "x")
	r.change("one", `{"metadata":{"annotations":{"orrery.dev/expand":null}},"data":{"n":"${x}"}}`)
	rev = r.mark("six")
	a.receives(rev, "one six")
	b.receives(rev, "one six")
	a.sent("n", "${x}")
	b.sent("n", "${x}")
}

// TestTemplatesAreCheckedWhenWritten: what can't be expanded anywhere is refused at its
// text, and what was accepted once does not keep anybody from other changes.
func TestTemplatesAreCheckedWhenWritten(t *testing.T) {
	t.Parallel()
	r := fixture(t)
	write := func(kind, expand string, content map[string]any) error {
		u := object("v1", kind, "default", "bad", nil, content)
		u.SetAnnotations(map[string]string{"orrery.dev/expand": expand})
		gvr := configMapsGVR
		gvr.Resource = strings.ToLower(kind) + "s"
		_, err := r.space("s").Resource(gvr).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for want, c := range map[string]struct {
		kind, expand string
		content      map[string]any
	}{
		`data.a: Invalid value: "location.nme": not valid`: {"ConfigMap", "true", map[string]any{"data": map[string]any{"a": "${location.nme}"}}},
		`metadata.annotations[orrery.dev/expand]: Unsup`:   {"ConfigMap", "yes", nil},
		`values of Secrets are no texts`:                   {"Secret", "true", map[string]any{"stringData": map[string]any{"a": "${location.name}"}}},
		`spec.containers[0].image: Invalid value: ""`:      {"Pod", "true", map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "x", "image": "${"}}}}},
	} {
		if err := write(c.kind, c.expand, c.content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", c.kind, err, want)
		}
	}
	for _, content := range []map[string]any{nil, {"data": map[string]any{"a": "${location.name}", "b": "$${x}"}}} {
		if err := write("ConfigMap", "true", content); err != nil {
			t.Error(err)
		}
	}
}
