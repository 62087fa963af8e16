package placement

import (
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/wire"
)

// treatment is what a Placement's spec says of all its objects.
func treatment(spec *v1alpha1.PlacementSpec) wire.Policy {
	return wire.Policy{
		Adopt:       spec.OnConflict == v1alpha1.OnConflictAdopt,
		Recreate:    spec.OnImmutable == v1alpha1.OnImmutableRecreate,
		Orphan:      spec.OnRemove == v1alpha1.OnRemoveOrphan,
		ReportDrift: spec.OnDrift == v1alpha1.OnDriftReport,
	}
}

// combine is how an object is treated that two sources have a say in. It is
// commutative and associative. What takes something from the location is done
// if any says so, except that of several who let go at once any can keep it.
func combine(a, b wire.Policy) wire.Policy {
	return wire.Policy{
		ReturnStatus: a.ReturnStatus || b.ReturnStatus,
		CreateOnly:   a.CreateOnly && b.CreateOnly,
		Adopt:        a.Adopt || b.Adopt,
		Recreate:     a.Recreate || b.Recreate,
		Orphan:       a.Orphan || b.Orphan,
		ReportDrift:  a.ReportDrift && b.ReportDrift,
	}
}

// policyBits is a different number for each policy that releases nothing.
func policyBits(p wire.Policy) byte {
	return bit(p.ReturnStatus) | bit(p.CreateOnly)<<1 | bit(p.Adopt)<<2 |
		bit(p.Recreate)<<3 | bit(p.Orphan)<<4 | bit(p.ReportDrift)<<5
}

// describePolicy tells what is not done by default, but for the status; "" if
// nothing.
func describePolicy(p wire.Policy) string {
	var all []string
	for _, t := range []struct {
		is   bool
		text string
	}{
		{p.CreateOnly, "it is made where it is missing and not changed"},
		{p.Adopt, "an object that Orrery did not make is adopted"},
		{p.Recreate, "it is recreated where a field can't change"},
		{p.Orphan, "it stays when it is no longer assigned"},
		{p.ReportDrift, "drift is reported and not repaired"},
	} {
		if t.is {
			all = append(all, t.text)
		}
	}
	if p.Release != "" {
		all = append(all, "it is made with the values at "+describePaths(p.Release)+", which are then left to others")
	}
	return strings.Join(all, "; ")
}

// describePaths lists what a wire.Policy has on lines.
func describePaths(lines string) string { return strings.ReplaceAll(lines, "\n", ", ") }
