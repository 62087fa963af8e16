package placement

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// naiveAsked reports whether objects of the identity are upsynced to the space from a location.
func (w world) naiveAsked(o key.Object, l key.Location) bool {
	if admitted, _ := w.naiveAdmitted(o, l); !admitted || w.naiveGoing(o.Space) || w.naiveMute(o.Space, l) {
		return false
	}
	for _, p := range w.naivePlacements(o.Space) {
		for _, e := range p.spec.Upsync {
			named := e.Names == nil || slices.Contains(e.Names, o.Name)
			here := e.Namespaces == nil || slices.Contains(e.Namespaces, o.Namespace)
			group := e.APIGroup == "*" || e.APIGroup == o.APIGroup()
			if named && here && group && slices.Contains(e.Resources, o.Resource.Resource) && slices.Contains(w.naiveAsks(o.Space, p), l) {
				return true
			}
		}
	}
	return false
}

// naiveAsks are the locations of which a Placement asks. Those with taints that keep what
// they have are like all others.
func (w world) naiveAsks(s key.Space, p naivePlacement) []key.Location {
	open := slices.DeleteFunc(w.naiveSeen(s, p.spec), func(l key.Location) bool { return w.naiveTainted(l, p.spec.Tolerations, nil) })
	return w.naivePicked(open, p.uid, p.spec)
}

// naiveMute reports whether a ServiceAccount acts for any objects of a space at a location.
func (w world) naiveMute(s key.Space, l key.Location) bool {
	spec, _ := w[locationAt(l).Key()].spec.(v1alpha1.LocationSpec)
	for _, e := range spec.Admit {
		if naiveVoid(e) {
			return false
		}
		if e.Impersonate != nil && w.naiveIsAbout(e, s) {
			return true
		}
	}
	return false
}

// naiveYields are the locations to which an object is left.
func (w world) naiveYields(o key.Object) (all []key.Location) {
	for _, l := range worldLocations {
		if w.naivePlaceable(o) && w.naiveLocationIsThere(l) && w.naiveAsked(o, l) {
			all = append(all, l)
		}
	}
	return all
}

func drawUpsync(t *rapid.T) (e v1alpha1.Upsync) {
	e.APIGroup = rapid.SampledFrom([]string{"", "", "apps", "*", "rbac.authorization.k8s.io"}).Draw(t, "group of what is born")
	e.Resources = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"configmaps", "deployments", "namespaces", "events", "clusterroles"}), 1, 2, rapid.ID).Draw(t, "kinds of what is born")
	e.Namespaces = drawSome(t, "namespaces of what is born", "n1", "n2")
	e.Names = drawSome(t, "names of what is born", "x", "n1")
	return e
}

// checkAsked sees that of each location is asked what should be.
func checkAsked(t *rapid.T, state table.Reader, w world) {
	for _, l := range worldLocations {
		row := state.Get(locationAt(l).Key())
		for _, o := range worldObjects() {
			want := w.naiveLocationIsThere(l) && w.naiveAsked(o, l)
			if got := UpsyncsOf(row).For(o, PlacingOf(row)); got != want {
				t.Fatalf("%s at %s is asked for: %v, want %v", o.Path(), l, got, want)
			}
		}
	}
}

// text formats the index.
func (u *upsyncIndex) text() map[string]string {
	all := map[string]string{}
	for l, upsyncs := range u.byLocation {
		for _, one := range upsyncs {
			all[string(l)] += fmt.Sprintf("%+v", one.entries)
		}
	}
	return all
}
