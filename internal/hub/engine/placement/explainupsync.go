package placement

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxUnasked bounds how many locations are named.
const maxUnasked = 5

// Unasked is a location that a Placement with upsync selects but that reports nothing to a space.
type Unasked struct {
	Location key.Location
	Space    key.Space
	// Reason is ReasonImpersonated or ReasonNotAdmitted.
	Reason string
}

// In describes it to readers in a space. The space is omitted if it is the reader's.
func (u Unasked) In(in key.Space) string {
	space := ""
	if u.Space != in {
		space = fmt.Sprintf(" of space %s", u.Space)
	}
	if u.Reason == v1alpha1.ReasonImpersonated {
		return fmt.Sprintf("%s has a ServiceAccount act for objects%s, and the agent would see with its own rights", u.Location, space)
	}
	return fmt.Sprintf("%s admits nothing%s that upsync matches", u.Location, space)
}

// noteUnasked adds the locations that report nothing to the status. Locations with the same
// spec.admit are evaluated once.
func (p *placement) noteUnasked(state table.Reader, sites map[key.Location]*site, status *Status) {
	if len(p.upsync) == 0 {
		return
	}
	tenants := []tenant{p.tenant}
	if p.reaches != nil {
		tenants = nil
		for t, row := range tenantsIn(state) {
			if !row.Meta.Deleting && p.reaches.fit(t) {
				tenants = append(tenants, t)
			}
		}
	}
	admits, known := compiledAdmits(), map[*admit][]Unasked{}
	for _, l := range p.upsyncLocations(sites, &locationSets{}).names {
		a := admits(state.Get(l.Key()))
		if a == nil {
			continue
		}
		all, ok := known[a]
		if !ok {
			all = p.unaskedBy(a, tenants)
			known[a] = all
		}
		status.Unaskeds += len(all)
		for _, u := range all[:min(len(all), maxUnasked-len(status.Unasked))] {
			u.Location = l
			status.Unasked = append(status.Unasked, u)
		}
	}
}

// unaskedBy returns the spaces to which a location with this spec.admit reports nothing by the
// placement.
func (p *placement) unaskedBy(a *admit, tenants []tenant) (all []Unasked) {
	for _, t := range tenants {
		some := func() bool {
			for _, entry := range p.upsync {
				if len(a.cut(t, entry)) > 0 {
					return true
				}
			}
			return false
		}
		switch {
		case a.mutes(t):
			all = append(all, Unasked{Space: t.name, Reason: v1alpha1.ReasonImpersonated})
		case !some():
			all = append(all, Unasked{Space: t.name, Reason: v1alpha1.ReasonNotAdmitted})
		}
	}
	return all
}

// explainUpsync returns the upsync entry of a Placement that leaves an object to a location; nil if
// there is none.
func (p *placement) explainUpsync(s subject, l key.Location) *UpsyncExplanation {
	i := slices.IndexFunc(p.yields, func(t objectTest) bool { return t.fit(s) })
	if i < 0 || p.unreached(s.state, s.Space) != nil {
		return nil
	}
	sites := p.resolve(s.state, tenantOf(s.state, s.Space))
	if !p.upsyncLocations(sites, &locationSets{}).contains(l) {
		return nil
	}
	return &UpsyncExplanation{p.ref, i}
}
