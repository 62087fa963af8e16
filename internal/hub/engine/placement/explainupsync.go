package placement

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxUnasked bounds how many locations are named that are not asked.
const maxUnasked = 5

// Unasked is a location of which a space sees nothing by a Placement that selects it.
type Unasked struct {
	Location key.Location
	Space    key.Space
	// Reason is ReasonImpersonated or ReasonNotAdmitted.
	Reason string
}

// In is what people are told in a space, which is the space of the Placement.
func (u Unasked) In(in key.Space) string {
	of := ""
	if u.Space != in {
		of = fmt.Sprintf(" of space %s", u.Space)
	}
	if u.Reason == v1alpha1.ReasonImpersonated {
		return fmt.Sprintf("%s has a ServiceAccount act for objects%s, and the agent would see with its own rights", u.Location, of)
	}
	return fmt.Sprintf("%s admits nothing%s that upsync matches", u.Location, of)
}

// noteUnasked notes the locations that are not asked. Spaces and locations that are alike in
// what is admitted are looked at once.
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
	for _, l := range p.asks(sites, &locationSets{}).names {
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

// unaskedBy are the spaces that see nothing by the placement where that is admitted.
func (p *placement) unaskedBy(a *admit, tenants []tenant) (all []Unasked) {
	for _, t := range tenants {
		some := func() bool {
			for _, ask := range p.upsync {
				if len(a.cut(t, ask)) > 0 {
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

// explainUpsync is by which entry of a Placement an object is left to a location that admits
// it; nil if it is not.
func (p *placement) explainUpsync(s subject, l key.Location) *UpsyncExplanation {
	i := slices.IndexFunc(p.yields, func(t objectTest) bool { return t.fit(s) })
	if i < 0 || p.unreached(s.state, s.Space) != nil {
		return nil
	}
	sites := p.resolve(s.state, tenantOf(s.state, s.Space))
	if !p.asks(sites, &locationSets{}).has(l) {
		return nil
	}
	return &UpsyncExplanation{p.ref, i}
}
