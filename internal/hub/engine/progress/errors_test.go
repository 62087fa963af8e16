package progress

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// TestErrors shows the first failing pairs, and their newest reasons.
func TestErrors(t *testing.T) {
	tracker := New(Config{Digest: digest})
	tbl := table.New(table.Config{Deriver: placement.New(), Observer: tracker, WindowSteps: 10, WindowBytes: 1 << 20})
	rev := int64(0)
	put := func(k string, value any) {
		t.Helper()
		rev++
		if err := tbl.Apply(rev, []table.Update{{Key: k, Value: mustJSON(value), CreateRev: 1, ModRev: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	report := func(i int, message string) {
		t.Helper()
		o := objectAt("s", "", "configmaps", "n", fmt.Sprintf("%02d", i))
		put(key.Report{Location: "a", Origin: key.Placed, Object: o}.Key(), wire.Report{UID: "u", State: wire.Failed, Reason: "Invalid", Message: message})
	}
	put(objectAt(key.Root, v1alpha1.Group, "locations", "", "a").Key(), map[string]any{"metadata": map[string]any{}})
	put(objectAt("s", v1alpha1.Group, "placements", "", "p").Key(), map[string]any{"spec": v1alpha1.PlacementSpec{
		Locations: []v1alpha1.LocationSelector{{Names: []string{"a"}}},
		Downsync:  []v1alpha1.Downsync{{ObjectTest: v1alpha1.ObjectTest{Resources: []string{"*"}}}},
	}})
	const failing = maxErrors + 2
	for i := range failing {
		put(objectAt("s", "", "configmaps", "n", fmt.Sprintf("%02d", failing-1-i)).Key(), map[string]any{"metadata": map[string]any{"uid": "u"}})
		report(i, "bad")
	}
	p := key.Placement{Space: "s", Name: "p"}
	countAll(tracker)
	counts := tracker.Placement(t.Context(), p)
	if counts.Failed != failing || len(counts.Errors) != maxErrors {
		t.Fatalf("counts are %+v", counts)
	}
	for i, e := range counts.Errors {
		want := v1alpha1.PlacementError{Object: fmt.Sprintf("core/configmaps/n/%02d", i), Location: "a", Reason: "Invalid", Message: "bad"}
		if e != want {
			t.Errorf("error %d is %+v, want %+v", i, e, want)
		}
	}
	report(3, "worse")
	if d := countAll(tracker); !reflect.DeepEqual(d.Placements, []key.Placement{p}) {
		t.Fatalf("another reason makes dirty %+v", d)
	}
	if got := tracker.Placement(t.Context(), p).Errors[3].Message; got != "worse" {
		t.Errorf("the message is %q", got)
	}
	// An object at a location that is not assigned counts as left, and changes nothing else.
	put(key.Report{Location: "b", Origin: key.Placed, Object: objectAt("s", "", "configmaps", "n", "00")}.Key(), wire.Report{UID: "u", State: wire.Applied})
	if d := countAll(tracker); !slices.Equal(d.Placements, []key.Placement{p}) || !slices.Equal(d.Locations, []key.Location{"b"}) {
		t.Errorf("a report from elsewhere makes dirty %+v", d)
	}
	if got := tracker.Placement(t.Context(), p).Left; got != (v1alpha1.LeftCounts{Leaving: 1}) {
		t.Errorf("left are %+v", got)
	}
	// A report that changes nothing that is shown makes nothing dirty.
	put(key.Report{Location: "b", Origin: key.Placed, Object: objectAt("s", "", "configmaps", "n", "00")}.Key(), wire.Report{UID: "u", State: wire.Removing})
	if d := countAll(tracker); len(d.Placements)+len(d.Locations) != 0 {
		t.Errorf("what is still leaving makes dirty %+v", d)
	}
}
