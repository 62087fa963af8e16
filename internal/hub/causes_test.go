package hub_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestCausesStay checks that an agent which was away receives the original cause of a removal, even after
// later changes and from a restarted hub.
func TestCausesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir)
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "x"})
	r.addPlacement("s", "p", "x", "app", nil)
	a, whole := r.join("a"), t
	patch := func(in dynamic.ResourceInterface, name, body string) {
		t.Helper()
		if _, err := in.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(in dynamic.ResourceInterface, name string) {
		t.Helper()
		if err := in.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.eventually(func() string {
			if _, err := in.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return "it is still there"
			}
			return ""
		})
	}
	placements := func() dynamic.ResourceInterface { return r.space("s").Resource(placementsGVR) }
	locations := func() dynamic.ResourceInterface { return r.space(key.Root).Resource(locationsGVR) }
	configMaps := func() dynamic.ResourceInterface { return r.space("s").Resource(configMapsGVR).Namespace("default") }
	deletePlacement := func() {
		remove(placements(), "p")
		r.addPlacement("s", "p", "x", "app", nil)
	}
	var again []func() // for a hub that was restarted
	for _, c := range []struct {
		name  string
		do    func()
		cause wire.Cause
		// remains reports whether the object exists again.
		remains bool
	}{
		{"the object is deleted", func() { remove(configMaps(), "one") }, wire.Deleted, false},
		{"its label is edited", func() { patch(configMaps(), "one", `{"metadata":{"labels":null}}`) }, wire.Unassigned, false},
		{"the location's label is edited", func() {
			patch(locations(), "a", `{"metadata":{"labels":{"where":"y"}}}`)
			patch(locations(), "a", `{"metadata":{"labels":{"where":"x"}}}`)
		}, wire.Unassigned, true},
		{"the Placement selects other locations", func() {
			patch(placements(), "p", `{"spec":{"locations":[{"names":["b"]}]}}`)
			deletePlacement()
		}, wire.Unassigned, true},
		{"the Placement is deleted", deletePlacement, wire.Deleted, true},
		{"the Placement is deleted while it is suspended", func() {
			patch(placements(), "p", `{"spec":{"suspend":true}}`)
			deletePlacement()
		}, wire.Deleted, true},
		{"the Placement is deleted and has a finalizer", func() {
			patch(placements(), "p", `{"metadata":{"finalizers":["example.org/wait"]}}`)
			if err := placements().Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			patch(placements(), "p", `{"metadata":{"finalizers":null}}`)
			r.addPlacement("s", "p", "x", "app", nil)
		}, wire.Deleted, true},
		{"two Placements are deleted", func() {
			r.addPlacement("s", "q", "x", "app", nil)
			remove(placements(), "q")
			deletePlacement()
		}, wire.Deleted, true},
		{"one Placement is deleted, then another edited", func() {
			r.addPlacement("s", "q", "x", "app", nil)
			deletePlacement()
			patch(placements(), "p", `{"spec":{"locations":[{"names":["b"]}]}}`)
			patch(placements(), "q", `{"spec":{"locations":[{"names":["b"]}]}}`)
			remove(placements(), "q")
			deletePlacement()
		}, wire.Unassigned, true},
		{"the space is deleted and made again", func() {
			remove(r.space(key.Root).Resource(spacesGVR), "s")
			r.addSpace("s")
			r.addPlacement("s", "p", "x", "app", nil)
		}, wire.Unassigned, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rev := r.addConfigMap("one", map[string]string{"what": "app"}, "1")
			_, mark := a.walk(holding{})
			for mark.Revision < rev {
				_, mark = a.walk(holding{})
			}
			c.do()
			checkDel(t, a, mark, r.Table.Rev(), c.cause, c.remains)
			again = append(again, func() { checkDel(whole, a, mark, 0, c.cause, false) })
			if row, _ := r.Table.Get("o/s/core/configmaps/default/one"); row != nil {
				remove(configMaps(), "one")
			}
		})
	}
	r.stop()
	a.r = start(t, dir)
	for _, check := range again {
		check()
	}
}

// checkDel resumes from a mark and sees that the one object goes for a cause, and
// whether it is there in the end. Without a revision it sees the first time only.
func checkDel(t *testing.T, a *testAgent, mark wire.Mark, rev int64, cause wire.Cause, remains bool) {
	t.Helper()
	s := a.open(mark.Revision, mark.Marker)
	defer s.close()
	dels, there := 0, true
	for {
		f, ok := s.next()
		switch {
		case !ok || f.Bye != nil:
			t.Fatalf("the stream ended: %+v", f.Bye)
		case f.Hello != nil && !f.Hello.Resumed:
			t.Fatal("the stream was not resumed")
		case f.Del != nil && f.Del.Cause != cause:
			t.Fatalf("it goes as %+v, want %q", f.Del, cause)
		case f.Del != nil && f.Del.Placement != "p" && f.Del.Placement != "q":
			t.Fatalf("%+v does not name the Placement", f.Del)
		case f.Del != nil && rev == 0:
			return
		case f.Del != nil:
			dels, there = dels+1, false
		case f.Put != nil:
			there = true
		case f.Mark != nil && f.Mark.Revision >= rev:
			if dels == 0 || there != remains {
				t.Fatalf("%d removals; there in the end: %v, want %v", dels, there, remains)
			}
			return
		}
	}
}
