package cli

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestFleetOrder: locations with a problem come first, the worst problem at the top, each with a
// message.
func TestFleetOrder(t *testing.T) {
	enrolled := metav1.Condition{Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionTrue}
	connected := metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue}
	lost := metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Message: "for 5 minutes"}
	location := func(name string, c v1alpha1.Counts, conditions ...metav1.Condition) v1alpha1.Location {
		l := v1alpha1.Location{}
		l.Name, l.Status.Counts, l.Status.Conditions = name, c, conditions
		return l
	}
	paused := location("paused", v1alpha1.Counts{Assigned: 1, Applied: 1, Healthy: 1}, enrolled, connected)
	paused.Spec.Mapping = v1alpha1.MappingPaused
	all := []v1alpha1.Location{
		location("b-good", v1alpha1.Counts{Assigned: 2, Applied: 2, Healthy: 2}, enrolled, connected),
		location("new", v1alpha1.Counts{}),
		paused,
		location("pending", v1alpha1.Counts{Assigned: 2, Applied: 1, Healthy: 1}, enrolled, connected),
		location("held", v1alpha1.Counts{Assigned: 2, Applied: 1, Healthy: 1, Held: 1}, enrolled, connected),
		location("ill", v1alpha1.Counts{Assigned: 2, Applied: 2, Healthy: 1}, enrolled, connected),
		location("failing", v1alpha1.Counts{Assigned: 2, Applied: 1, Healthy: 1, Failed: 1}, enrolled, connected),
		location("worse", v1alpha1.Counts{Assigned: 3, Applied: 1, Healthy: 1, Failed: 2}, enrolled, connected),
		location("lost", v1alpha1.Counts{Assigned: 1, Applied: 1, Stale: 1}, enrolled, lost),
		location("a-good", v1alpha1.Counts{}, enrolled, connected),
	}
	f := fleetOf(all)
	var lines []string
	for _, l := range f.Locations {
		lines = append(lines, l.Name+" "+l.Wrong)
	}
	want := []string{
		"lost Lost", "worse Failed", "failing Failed", "ill Unhealthy", "paused Paused", "held Held", "pending Pending", "new NoAgent", "a-good ", "b-good ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("it says %q, want %q", lines, want)
	}
	const head = "10 locations: 8 connected, 8 with something wrong.  15 assigned, 10 applied, 8 healthy, 3 failed, 1 held, 1 stale"
	if f.head(true) != head {
		t.Errorf("it says %q, want %q", f.head(true), head)
	}
	if f.Locations[0].Message != "for 5 minutes" || f.Locations[1].Message != "2 of 3 objects failed" {
		t.Errorf("it says %+v", f.Locations[:2])
	}
}

// TestScreenLines counts the lines that a text takes on a screen.
func TestScreenLines(t *testing.T) {
	s := screen{width: 10, height: 5}
	for text, want := range map[string]int{
		"": 0, "a": 1, "a\n": 1, "\n": 1, "a\nb\n": 2, "0123456789\n": 1, "0123456789   \n": 2, "01234567890\n": 2, "äöüäöüäöüä\n": 1, "0123456789012345678901\nb": 4,
	} {
		if n := s.lines(text); n != want {
			t.Errorf("%q takes %d lines, want %d", text, n, want)
		}
	}
}
