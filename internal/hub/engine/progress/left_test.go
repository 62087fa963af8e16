package progress

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

// TestLeftObjectsAreNeverMissed: while a location reports an object that is not assigned to it, or has to confirm its
// removal, the Placement that had assigned it there counts it, or knows of an object that may be its own. This holds
// if the Placement no longer matches the object, if the object is gone, and after a reload of the table. Without such
// an object no Placement counts one.
func TestLeftObjectsAreNeverMissed(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		l := &leftLife{
			machine: machine{tracker: New(Config{Digest: digest})},
			last:    map[Unassigned]key.Placement{},
		}
		l.table = table.New(table.Config{Deriver: placement.New(), Observer: l.tracker, WindowSteps: 10, WindowBytes: 1 << 20})
		for _, location := range testLocations {
			l.put(t, map[string][]byte{location.Key(): []byte(`{"metadata":{"labels":{"k":"1"}}}`)})
		}
		for range rapid.IntRange(1, 60).Draw(t, "length") {
			if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
				l.reset(t)
			} else {
				k, value := l.draw(t)
				l.put(t, map[string][]byte{k: value})
			}
			countAll(l.tracker)
			l.checkLeft(t)
		}
	})
}

// leftLife is a life of objects of a space that come and go at locations.
type leftLife struct {
	machine
	// last is the Placement that had assigned an object to a location last.
	last map[Unassigned]key.Placement
}

// draw draws a change. p and q never match the same object.
func (l *leftLife) draw(t *rapid.T) (k string, value []byte) {
	object := objectAt("s1", "", "configmaps", "n", fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "object")))
	switch rapid.SampledFrom([]string{"placement", "object", "report", "report"}).Draw(t, "kind") {
	case "placement":
		name := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "name")
		locations := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 2, rapid.ID).Draw(t, "locations")
		if rapid.IntRange(0, 5).Draw(t, "delete") == 0 {
			return key.Placement{Space: "s1", Name: name}.Object().Key(), nil
		}
		return key.Placement{Space: "s1", Name: name}.Object().Key(), mustJSON(map[string]any{"metadata": map[string]any{"uid": name}, "spec": v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{{Names: locations}},
			Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{LabelSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"by": name}}}}}},
		}})
	case "object":
		metadata := map[string]any{"uid": "u", "labels": map[string]string{"by": rapid.SampledFrom([]string{"p", "q", "none"}).Draw(t, "by")}}
		switch rapid.IntRange(0, 5).Draw(t, "end") {
		case 0:
			return object.Key(), nil
		case 1:
			metadata["deletionTimestamp"], metadata["finalizers"] = "2020-01-01T00:00:00Z", []string{v1alpha1.RemovalFinalizer}
		}
		return object.Key(), mustJSON(map[string]any{"metadata": metadata, "spec": "x"})
	}
	u := Unassigned{object.Path(), rapid.SampledFrom(testLocations).Draw(t, "by location")}
	report := wire.Report{UID: "u", State: rapid.SampledFrom([]wire.State{wire.Applied, wire.Removing, wire.Removed}).Draw(t, "state")}
	if report.State == wire.Removing {
		report.Cause = rapid.SampledFrom([]wire.Cause{wire.Unassigned, wire.Walked}).Draw(t, "cause")
		if report.Cause == wire.Unassigned {
			report.LetGoBy = l.last[u].Name
		}
	}
	k = key.Report{Location: u.Location, Origin: key.Placed, Object: object}.Key()
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 || l.last[u].Name == "" {
		return k, nil
	}
	return k, mustJSON(report)
}

// checkLeft compares the counts of all Placements with the objects that locations have.
func (l *leftLife) checkLeft(t *rapid.T) {
	state, left := l.table.Snapshot(), map[Unassigned]bool{}
	for i := range 3 {
		o := objectAt("s1", "", "configmaps", "n", fmt.Sprint(i))
		var in *placement.Membership
		if row := state.Get(o.Key()); row != nil {
			in, _ = row.In.(*placement.Membership)
		}
		for _, location := range testLocations {
			u := Unassigned{o.Path(), location}
			row := state.Get(key.Report{Location: location, Origin: key.Placed, Object: o}.Key())
			isThere := row != nil && gjson.GetBytes(row.Value, "state").Str != string(wire.Removed)
			if in != nil && in.Contains(location) {
				for _, source := range in.Sources() {
					if source.Selects(location) {
						l.last[u] = source.Placement.Resolve(o.Space)
					}
				}
				isThere = in.Leaves() && (row == nil || isThere)
			}
			left[u] = isThere
		}
	}
	isAny := false
	for u, isThere := range left {
		if isAny = isAny || isThere; !isThere {
			continue
		}
		if counts := l.tracker.Placement(t.Context(), l.last[u]); counts.Left.Leaving == 0 && !counts.IsLeftUnknown {
			t.Fatalf("%+v is left by %+v, which does not count it: %+v", u, l.last[u], counts)
		}
	}
	for _, name := range []string{"p", "q"} {
		counts := l.tracker.Placement(t.Context(), key.Placement{Space: "s1", Name: name})
		if !isAny && (counts.Left.Leaving != 0 || counts.IsLeftUnknown) {
			t.Fatalf("nothing is left, but %s counts %+v", name, counts)
		}
	}
	if !isAny && len(l.tracker.unassigned.formers)+len(l.tracker.unassigned.shares)+len(l.tracker.unassigned.unknown) > 0 {
		t.Fatalf("nothing is left, but kept are %v", slices.Collect(maps.Keys(l.tracker.unassigned.formers)))
	}
}
