package placement

import (
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// treatment returns the policy in a Placement's spec that applies to all its objects.
func treatment(spec *v1alpha1.PlacementSpec) wire.Policy {
	return wire.Policy{
		Adopt:       spec.OnConflict == v1alpha1.OnConflictAdopt,
		Recreate:    spec.OnImmutable == v1alpha1.OnImmutableRecreate,
		Orphan:      spec.OnRemove == v1alpha1.OnRemoveOrphan,
		ReportDrift: spec.OnDrift == v1alpha1.OnDriftReport,
	}
}

// combine combines the policies of two sources of an object. It is commutative and associative. For
// each field one value takes precedence, as documented in v1alpha1.PlacementSpec and
// v1alpha1.Downsync. Return policies are not combined for each location, see returning.
func combine(a, b wire.Policy) wire.Policy {
	return wire.Policy{
		CreateOnly:  a.CreateOnly && b.CreateOnly,
		Adopt:       a.Adopt || b.Adopt,
		Recreate:    a.Recreate || b.Recreate,
		Orphan:      a.Orphan || b.Orphan,
		ReportDrift: a.ReportDrift && b.ReportDrift,
		Associated:  joinKinds(a.Associated, b.Associated),
	}
}

// associatedKinds returns kinds in the format of wire.Policy: GROUP/RESOURCE, sorted, one per line.
func associatedKinds(all []v1alpha1.AssociatedKinds) string {
	var lines []string
	for _, k := range all {
		for _, r := range k.Resources {
			lines = append(lines, key.NewResource(k.APIGroup, r).String())
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// joinKinds returns the union of the kinds of two policies.
func joinKinds(a, b string) string {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	lines := slices.Concat(strings.Split(a, "\n"), strings.Split(b, "\n"))
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// policyBits returns a number that identifies the policy of a source, except its associated kinds.
// Sources release nothing, and their return policy is separate.
func policyBits(p wire.Policy) byte {
	return bit(p.CreateOnly) | bit(p.Adopt)<<1 | bit(p.Recreate)<<2 | bit(p.Orphan)<<3 | bit(p.ReportDrift)<<4
}

// describePolicy describes how a policy differs from the default, except ReturnStatus; "" if it
// does not.
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
	if p.Associated != "" {
		all = append(all, "its associated objects are reported: "+strings.ReplaceAll(p.Associated, "\n", ", "))
	}
	if p.ServiceAccount != "" {
		all = append(all, "ServiceAccount "+p.ServiceAccount+" acts for it")
	}
	return strings.Join(all, "; ")
}

// describePaths lists the released paths of a wire.Policy.
func describePaths(lines string) string { return strings.ReplaceAll(lines, "\n", ", ") }
