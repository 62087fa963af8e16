package placement

import (
	"fmt"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
)

// String returns the explanation as text, the decision first.
func (e Explanation) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	switch {
	case !e.Placed:
		line("%s is not assigned to location %s", e.Object, e.Location)
	case e.Owner != "":
		line("%s is assigned to location %s, which has %s in its place", e.Object, e.Location, e.Owner)
	case e.Held != "":
		line("%s is assigned to location %s, which keeps what it has: %s", e.Object, e.Location, e.Held)
	default:
		line("%s is assigned to location %s", e.Object, e.Location)
		if how := describePolicy(e.Policy); how != "" {
			line("  %s", how)
		}
	}
	if e.Definition != "" && e.Definition != e.Owner {
		line("  the location has %s, and what it gets of the object has to be right by that", e.Definition)
	}
	if e.Unhooked {
		line("  its conversion webhook stays behind, which would be sent what other spaces have bound and place there")
	}
	if e.Returned != nil {
		line("  %s", e.Returned)
	}
	e.Provided.describe(line)
	for _, o := range e.Obstacles {
		line("  %s", o)
	}
	if e.Admission != nil && len(e.Obstacles) == 0 {
		e.Admission.describe(e, line)
	}
	if u := e.Upsynced; u != nil {
		line("  %s: upsync[%d] of Placement %s matches it: it is left to the location, which reports its own object", v1alpha1.ReasonUpsynced, u.Entry, u.Placement)
	}
	if a := e.Annotation; a != nil {
		switch {
		case a.Problem != "":
			line("  %s", a.Problem)
		case a.Names && a.Taint != "":
			line("  annotation %s names the location, which has taint %s", v1alpha1.AssignedLocationsAnnotation, a.Taint)
		case a.Names:
			line("  annotation %s names the location", v1alpha1.AssignedLocationsAnnotation)
		default:
			line("  annotation %s does not name the location", v1alpha1.AssignedLocationsAnnotation)
		}
	}
	if len(e.Obstacles) > 0 {
		return b.String() // then Placements do not matter
	}
	for _, p := range e.Placements {
		p.describe(line)
	}
	if e.OmittedPlacements > 0 {
		line("  and %d more Placements, which were not evaluated: that would take too long", e.OmittedPlacements)
	}
	if e.OmittedOfRoot {
		line("  and Placements of root, which were not evaluated: that would take too long")
	}
	if len(e.Placements) == 0 && e.Annotation == nil && e.OmittedPlacements == 0 && !e.OmittedOfRoot {
		line("  the space has no Placement")
	}
	e.describeConsumers(line)
	if e.Placed { // otherwise Customizers do not matter
		for _, c := range e.Customizers {
			c.describe(line)
		}
		if e.OmittedCustomizers > 0 {
			line("  and %d more Customizers, which were not evaluated: that would take too long", e.OmittedCustomizers)
		}
	}
	return b.String()
}

func (p PlacementExplanation) describe(line func(string, ...any)) {
	suspended := ""
	if p.Suspended {
		suspended = " (suspended)"
	}
	line("  Placement %s%s", p.Name, suspended)
	if p.Concealed {
		if p.describePolicy(line); p.Places {
			line("    it places the object there")
		} else {
			line("    it places the object, not there")
		}
		return
	}
	if p.Unreached != nil {
		line("    it does not reach the space: %s", p.Unreached)
		return
	}
	if p.Follower {
		if p.Following.describe(line); p.Following == nil {
			line("    it has nothing there that the object follows")
		}
		return
	}
	p.describeObject("downsync", line)
	p.describePolicy(line)
	p.describeLocation(line)
	if p.Unseated != nil {
		line("    %s", p.Unseated)
	}
	p.Following.describe(line)
}

func (p PlacementExplanation) describePolicy(line func(string, ...any)) {
	if how := describePolicy(p.Policy); p.Matched >= 0 && how != "" {
		line("    %s", how)
	}
}

// Conceal removes the reasons from the explanation of a Placement of root, for a reader without
// access to that Placement. ok is false if the Placement does not match the object, so that nothing
// may be shown.
func (p PlacementExplanation) Conceal() (concealed PlacementExplanation, ok bool) {
	if p.Unreached != nil || p.Matched < 0 && (p.Following == nil || !p.Following.Follows) {
		return concealed, false
	}
	return PlacementExplanation{Name: p.Name, Places: p.Places, Suspended: p.Suspended, Concealed: true, Policy: p.Policy}, true
}

func (c CustomizerExplanation) describe(line func(string, ...any)) {
	line("  Customizer %s", c.Name)
	c.describeObject("match", line)
	c.describeLocation(line)
	if c.Applies && len(c.Releases) > 0 {
		line("    it leaves to others the values at %s", strings.Join(c.Releases, ", "))
	}
	if c.Applies {
		for _, change := range c.Changes {
			line("    %s", change)
		}
	}
	for _, p := range c.Problems {
		line("    not used: %s", p)
	}
}

// describeObject describes whether one of the tests in a field of the policy's spec matches the
// object.
func (f Fit) describeObject(field string, line func(string, ...any)) {
	switch {
	case f.Matched >= 0:
		line("    %s[%d] matches the object", field, f.Matched)
	case len(f.Tests) == 0:
		line("    it has no %s", field)
	case len(f.Tests) == 1:
		line("    %s[0] does not match the object: %s", field, f.Tests[0])
	default:
		line("    no %s matches the object, %s[%d] comes nearest: %s", field, field, f.Nearest, f.Tests[f.Nearest])
	}
}

func (f Fit) describeLocation(line func(string, ...any)) {
	if f.Selects {
		line("    it selects the location")
		return
	}
	if len(f.Locations) == 0 {
		line("    it selects no location")
	}
	for i, f := range f.Locations {
		line("    locations[%d] does not select the location: %s", i, f)
	}
}

// String returns the field and the reason.
func (f Finding) String() string { return f.Field + ": " + f.Reason }
