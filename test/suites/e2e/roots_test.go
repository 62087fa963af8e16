package e2e

import (
	"maps"
	"slices"

	"orrery.dev/orrery/test/support/env"
)

// policy places what spaces with a label have at all sites, by the Placement of root that
// docs/placement.md shows: beside what one of them places itself, which is what remains
// when the policy goes.
func (s *seats) policy() {
	s.t.Helper()
	before, err := s.sitesWith("old")
	if err != nil {
		s.t.Fatal(err)
	}
	all := slices.Collect(maps.Keys(s.Sites))
	env.Kubectl(s.t, s.Root, "label", "space", "web", "tier=gold")
	env.Kubectl(s.t, s.space, "label", "configmap", "old", "audit=yes")
	for _, name := range []string{"shop", "lab"} { // also what their ConfigMaps are called
		space := s.AddSpace(name)
		env.Kubectl(s.t, space, "create", "configmap", name)
		env.Kubectl(s.t, space, "label", "configmap", name, "audit=yes")
	}
	env.Kubectl(s.t, s.Root, "label", "space", "shop", "tier=gold")
	env.KubectlIn(s.t, s.Root, shownUnder(s.t, "## Policies of the platform"), "apply", "-f", "-")
	s.becomes("of a space that places nothing itself", "shop", all...)
	s.becomes("of a space that places it at some sites", "old", all...)
	s.becomes("of a space without the label", "lab")
	for site := range s.Sites {
		s.why("old", site, "Placement root/audit")
	}
	env.Kubectl(s.t, s.Root, "label", "space", "lab", "tier=gold")
	s.becomes("of a space that gets the label", "lab", all...)

	env.Kubectl(s.t, s.Root, "delete", "placement", "audit")
	s.becomes("without the policy", "shop")
	s.becomes("without the policy", "lab")
	s.becomes("placed by its space alone", "old", slices.Collect(maps.Keys(before))...)
	if now, err := s.sitesWith("old"); err != nil || !maps.Equal(now, before) {
		s.t.Errorf("what its space places, %v, was made anew: %v, %v", before, now, err)
	}
}
