package hub_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reachAll makes the Placement p of root, which places what is labelled what=app of all
// spaces at locations labelled where=x.
func (r *running) reachAll() {
	r.t.Helper()
	r.create(key.Root, placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"spaces":    map[string]any{"selector": map[string]any{}},
		"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"where": "x"}}}},
		"downsync":  []any{map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": "app"}}}}},
	}}))
}

// rootPlacement waits until the Placement p of root is as it should be.
func (r *running) rootPlacement(wrong func(v1alpha1.PlacementStatus) bool) (p v1alpha1.Placement) {
	r.t.Helper()
	r.eventually(func() string {
		u, err := r.space(key.Root).Resource(placementsGVR).Get(r.t.Context(), "p", metav1.GetOptions{})
		if err == nil {
			p = v1alpha1.Placement{}
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p)
		}
		if err != nil {
			return err.Error()
		}
		if wrong(p.Status) {
			return "it says " + text(p.Status)
		}
		return ""
	})
	return p
}

// TestPlacementOfRoot checks that a Placement of root places objects of spaces, besides the Placements of those
// spaces with the same name. Its status, and responses about a space, contain nothing that the reader may not
// know. Its deletion counts as a user's request, also after a restart.
func TestPlacementOfRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addSpace("z")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addLocation("b", map[string]string{"where": "y"})
	r.addPlacement("s", "p", "y", "app", nil)
	r.reachAll()
	r.addConfigMap("one", map[string]string{"what": "app"}, "1")
	a, b := r.join("a"), r.join("b")
	_, mark := a.walk(holding{})
	a.hasOne()
	b.hasOne()
	r.rootPlacement(func(s v1alpha1.PlacementStatus) bool {
		return s.Spaces != 2 || s.Locations != 1 || s.Objects != 1 || s.Assigned != 1
	})
	r.saysCounts(1)

	// What fails of another space is not named in root.
	row := r.row("o/s/core/configmaps/default/one")
	a.reports(wire.ReportLine{Key: "s/core/configmaps/default/one", Report: &wire.Report{UID: row.Meta.UID, State: wire.Failed, Reason: "Refused", Message: "one is bad"}})
	failed := r.rootPlacement(func(s v1alpha1.PlacementStatus) bool { return s.Failed != 1 || len(s.Errors) != 1 })
	if e := failed.Status.Errors[0]; e.Space != "s" || e.Object != "core/configmaps" || strings.Contains(e.Message, "one") {
		t.Errorf("it says %+v", e)
	}
	r.toldOfRoot()

	r.stop()
	r = start(t, dir)
	a.r, b.r = r, r
	if err := r.space(key.Root).Resource(placementsGVR).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = start(t, dir)
	a.r, b.r = r, r
	s := a.open(mark.Revision, mark.Marker)
	defer s.close()
	for f, ok := s.next(); ; f, ok = s.next() {
		if !ok || f.Bye != nil {
			t.Fatalf("the stream ended: %+v", f.Bye)
		}
		if f.Del == nil {
			continue
		}
		if f.Del.Cause != wire.Deleted || f.Del.Placement != "root/p" {
			t.Errorf("it goes as %+v", f.Del)
		}
		break
	}
	b.hasOne()
}

// saysCounts waits until the Placement p of the space s counts its own alone.
func (r *running) saysCounts(assigned int64) {
	r.t.Helper()
	r.eventually(func() string {
		if p := r.placement(); p.Status.Assigned != assigned || p.Status.Spaces != 0 {
			return "it says " + text(p.Status)
		}
		return ""
	})
}

// toldOfRoot checks what readers of the space s receive about the Placement p of root.
func (r *running) toldOfRoot() {
	r.t.Helper()
	r.grant("s", "viewer", `{"subjects":[{"kind":"User","name":"viewer"}],"roles":[{"name":"view"}]}`)
	r.grant("s", "maps", `{"subjects":[{"kind":"User","name":"maps"}],"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]}]}`)
	const why = "/why?object=core/configmaps/default/one&location=a"
	for _, c := range []struct {
		who, question string
		code          int
		shows, hides  []string
	}{
		{"viewer", "/status", 200, []string{`"name":"p"`, `"name":"root/p"`, "one is bad"}, nil},
		{"viewer", "/status?placement=root/p", 200, []string{`"name":"root/p"`, `"location":"a"`}, []string{`"name":"p"`, `"location":"b"`}},
		{"maps", "/status", 200, []string{"default/one"}, []string{"root/p"}},
		{"maps", "/status?placement=root/p", 403, nil, nil},
		{"viewer", why, 200, []string{`"name":"root/p"`, `"concealed":true`}, []string{`downsync[0]`}},
		{"maps", why, 200, nil, []string{"root/p"}},
	} {
		code, body := r.as(c.who).send("GET /ask/v1/spaces/s"+c.question, "")
		if code != c.code {
			r.t.Errorf("%s asks %s: %d %s", c.who, c.question, code, body)
		}
		for _, text := range c.shows {
			if !strings.Contains(body, text) {
				r.t.Errorf("%s requests %s and does not receive %s: %s", c.who, c.question, text, body)
			}
		}
		for _, text := range c.hides {
			if strings.Contains(body, text) {
				r.t.Errorf("%s requests %s and receives %s: %s", c.who, c.question, text, body)
			}
		}
	}
	if _, body := r.as("admin", "system:masters").send("GET /ask/v1/spaces/s"+why, ""); strings.Contains(body, "concealed") {
		r.t.Errorf("an operator receives %s", body)
	}
	if code, body := r.as("viewer").send("GET "+orreryOf(key.Root, "placements/p"), ""); code != http.StatusForbidden {
		r.t.Errorf("the Placement itself: %d %s", code, body)
	}
}

// TestConfirmOverSpaces shows that the digest in the status of a Placement of root confirms
// what it let go of all spaces, and what no other Placement did; and that in one space it
// can be confirmed for that alone.
func TestConfirmOverSpaces(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.reachAll()
	r.addLocation("a", map[string]string{"where": "x"})
	a, waits := r.join("a"), wire.AgentStatus{Prune: &wire.PruneStatus{Pending: 6, Digest: "A"}}
	a.open(0, "").next()
	for _, s := range []key.Space{"s", "z"} {
		r.addSpace(s)
		r.addPlacement(s, "p", "x", "app", nil)
		r.create(s, configMapsGVR, object("v1", "ConfigMap", "default", "of"+string(s), map[string]string{"what": "app"}, nil))
		row := r.row("o/" + string(s) + "/core/configmaps/default/of" + string(s))
		a.reports(wire.ReportLine{Key: string(s) + "/core/configmaps/default/of" + string(s), Report: &wire.Report{UID: row.Meta.UID, State: wire.Applied}})
		waits.Prune.Placements = append(waits.Prune.Placements,
			wire.PlacementPrune{Space: string(s), Placement: "p", Pending: 1, Digest: "own" + string(s)},
			wire.PlacementPrune{Space: string(s), Placement: "root/p", Pending: 2, Digest: "root" + string(s)})
	}
	a.tell(waits)
	p := r.rootPlacement(func(s v1alpha1.PlacementStatus) bool {
		return s.Prune == nil || s.Prune.Pending != 4 || s.Prune.Locations != 1
	})
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSynced); c == nil || c.Reason != v1alpha1.ReasonPruneGuard {
		t.Errorf("it says %+v", c)
	}
	if _, err := r.space(key.Root).Resource(placementsGVR).Patch(t.Context(), "p", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"orrery.dev/confirm-prune":"`+p.Status.Prune.Digest+`"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.rootPlacement(func(s v1alpha1.PlacementStatus) bool {
		return s.Prune == nil || s.Prune.Digest != "" || len(s.Confirmed) != 2
	})
	s := a.open(0, "")
	defer s.close()
	hello, _ := s.next()
	confirmations := hello.Hello.Settings.Confirm
	for _, s := range []string{"s", "z"} {
		if !slices.Contains(confirmations, wire.Confirmation{Space: s, Digest: "root" + s}) || slices.Contains(confirmations, wire.Confirmation{Space: s, Digest: "own" + s}) {
			t.Errorf("a receives %v", confirmations)
		}
	}
}
