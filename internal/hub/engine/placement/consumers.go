package placement

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// abroad is how the definition of a bound resource follows an object, if it is in another
// space: to the locations that admit it for the object's own, as one of whose Placements it is
// named there.
func (e *Engine) abroad(s subject, home key.Space, follows []following) []following {
	if home == s.Space {
		return follows
	}
	var all []following
	for _, f := range follows {
		if !f.kinds.Has(key.CRDs) {
			continue
		}
		g := e.gates.gate(s.state, key.Object{Space: s.Space, Identity: definitionOf(s.Resource)})
		admitted, _ := g.split(f.locations.names)
		accounts := make([]string, len(admitted))
		for i, l := range admitted {
			accounts[i] = g.account(l)
		}
		f.consumer, f.placement, f.waits = s.Space, f.placement.Of(s.Space).In(home), false
		f.locations = e.sets.of(slices.Clone(admitted), accounts)
		all = append(all, f)
	}
	slices.SortFunc(all, compareFollowing)
	return slices.Compact(all)
}

// definitionOf is the CRD of a resource that is not built in.
func definitionOf(r key.Resource) key.Identity {
	return refs.Of(key.Identity{Resource: r}, nil)[0]
}

// consumed are the sources of a CRD and its gate together with what brings it for spaces that
// have bound what it defines. Each place is by those for which the location admits it: the
// sources of its own space, or, of a location that does not admit it for this, consumers
// alone; in the name of the first that is admitted, its own space before others.
func (e *Engine) consumed(sources []Source, g gate, asked *locationSet, by []following) ([]Source, gate, *locationSet) {
	slices.SortStableFunc(by, func(a, b following) int { return cmp.Compare(a.consumer, b.consumer) })
	var own []*locationSet
	for _, s := range sources {
		own = append(own, s.locations)
	}
	here, _ := g.split(union(own))
	brought := map[key.Location]string{}
	for _, f := range by {
		for _, l := range f.locations.names {
			if _, is := brought[l]; !is {
				account, _ := f.locations.at(l)
				brought[l] = account.String()
			}
		}
	}
	for _, l := range here {
		delete(brought, l)
	}
	let := slices.Sorted(maps.Keys(brought))
	sources = e.without(sources, let)
	sources = e.withConsumers(sources, by)
	if asked != nil {
		refused := slices.DeleteFunc(slices.Clone(let), func(l key.Location) bool { return !g.refuses(l) })
		asked = e.sets.of(apart(asked.names, refused), nil)
	}
	return sources, e.gates.letting(g, brought), asked
}

// sharedBy are the locations where a CRD is for spaces that have bound what it defines.
func (e *Engine) sharedBy(by []following) *locationSet {
	all := make([]*locationSet, len(by))
	for i, f := range by {
		all[i] = f.locations
	}
	return e.sets.of(union(all), nil)
}

// sharedAt says whether the object is at a location for others than its own space.
func (m *Membership) sharedAt(location key.Location) bool {
	return m.shared != nil && m.shared.has(location)
}

// Hooked says whether the objects that a CRD defines are converted by a webhook.
func Hooked(crd []byte) bool {
	return gjson.GetBytes(crd, "spec.conversion.strategy").String() == string(apiextensionsv1.WebhookConverter)
}

// without are the sources without some locations, of which those that place nothing stay.
func (e *Engine) without(sources []Source, let []key.Location) []Source {
	var all []Source
	for _, s := range sources {
		if slices.ContainsFunc(let, s.locations.has) {
			parts := slices.Clone(s.parts)
			for i := range parts {
				parts[i].locations = e.sets.of(apart(parts[i].locations.names, let), nil)
			}
			waits := s.Waits
			s = sourceOf(s.Placement, s.Suspended, &e.sets, parts...)
			s.Waits = waits
		}
		all = append(all, s)
	}
	return all
}

// withConsumers are the sources with one for each Placement that brings the object for
// others.
func (e *Engine) withConsumers(sources []Source, by []following) []Source {
	slices.SortStableFunc(by, func(a, b following) int { return cmp.Compare(a.placement, b.placement) })
	for len(by) > 0 {
		first, n := by[0], 1
		for n < len(by) && by[n].placement == first.placement {
			n++
		}
		var was Source
		i := slices.IndexFunc(sources, func(s Source) bool { return s.Placement == first.placement })
		if i >= 0 {
			was = sources[i]
		}
		parts := slices.Clone(was.parts)
		for _, f := range by[:n] {
			parts = e.addPart(parts, f.policy, e.sets.of(f.locations.names, nil))
		}
		now := sourceOf(first.placement, first.suspended, &e.sets, parts...)
		if now.Waits = was.Waits; i >= 0 {
			sources[i] = now
		} else {
			sources = append(sources, now)
		}
		by = by[n:]
	}
	return sources
}

// supposeConsumers has definitions of one space follow what others have bound of them as they
// do in a state, for an engine that is not shown the objects of these.
func (e *Engine) supposeConsumers(state table.Reader, rows []*table.Row) {
	for _, row := range rows {
		o, err := key.ParseObject(row.Key)
		m, ok := row.In.(*Membership)
		if err != nil || !ok || m == nil || o.Resource != key.CRDs {
			continue
		}
		for _, s := range m.sources {
			of := s.Placement.Of(o.Space).Space
			for _, p := range s.parts {
				if s.Placement == "" || of == o.Space || p.returns != returnsNothing {
					continue
				}
				names := p.locations.names
				if of == key.Root { // which brings it for its own space, too
					names = slices.DeleteFunc(slices.Clone(names), func(l key.Location) bool { return !m.sharedAt(l) })
					if len(names) == 0 {
						continue
					}
				}
				accounts := make([]string, len(names))
				for i, l := range names {
					if a := explainAdmission(state, key.Object{Space: of, Identity: o.Identity}, state.Get(l.Key())); a != nil {
						accounts[i] = a.ServiceAccount
					}
				}
				e.references.add(o, following{
					placement: s.Placement, policy: p.policy, suspended: s.Suspended, locations: e.sets.of(names, accounts), consumer: of,
				}, 1)
			}
		}
	}
}

// addPart adds locations to which an object follows others, and is treated in some way.
func (e *Engine) addPart(parts []part, policy wire.Policy, locations *locationSet) []part {
	i := slices.IndexFunc(parts, func(of part) bool { return of.policy == policy && of.returns == returnsNothing })
	if i < 0 {
		return append(parts, part{policy, returnsNothing, locations})
	}
	parts[i].locations = e.sets.of(union([]*locationSet{parts[i].locations, locations}), nil)
	return parts
}

// letting is the gate that also lets objects through to some locations, in the name of an
// account if one is given.
func (gs *gates) letting(g gate, accounts map[key.Location]string) gate {
	let := slices.Sorted(maps.Keys(accounts))
	if g.refused != nil {
		if g.refused = gs.sets.withoutAll(g.refused, let); len(g.refused.names) == 0 {
			g.refused = nil
		}
	}
	acting := map[key.Location]string{}
	if g.accounts != nil {
		for i, l := range g.accounts.names {
			acting[l] = g.accounts.needs[i].String()
		}
	}
	for l, account := range accounts {
		if acting[l] = account; account == "" {
			delete(acting, l)
		}
	}
	g.accounts = gs.setOf(acting)
	return g
}

// withoutAll gives the set without some locations.
func (ls *locationSets) withoutAll(s *locationSet, locations []key.Location) *locationSet {
	for _, l := range locations {
		s = ls.without(s, l)
	}
	return s
}
