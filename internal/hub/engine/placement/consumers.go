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

// abroad returns how the definition of a bound resource, which is in the provider's space home,
// follows an object. The definition goes to those locations of the object that admit it for the
// space of the object.
func (e *Engine) abroad(s subject, home key.Space, follows []following) []following {
	if home == s.Space {
		return follows
	}
	var all []following
	for _, f := range follows {
		if !f.kinds.Contains(key.CRDs) {
			continue
		}
		g := e.gates.gate(s.state, key.Object{Space: s.Space, Identity: definitionOf(s.Resource)})
		admitted, _ := g.split(f.locations.names)
		accounts := make([]string, len(admitted))
		for i, l := range admitted {
			accounts[i] = g.account(l)
		}
		f.consumer, f.placement, f.waits = s.Space, f.placement.Resolve(s.Space).In(home), false
		f.locations = e.sets.intern(slices.Clone(admitted), accounts)
		all = append(all, f)
	}
	slices.SortFunc(all, compareFollowing)
	return slices.Compact(all)
}

// definitionOf returns the identity of the CRD of a resource that is not built in.
func definitionOf(r key.Resource) key.Identity {
	return refs.References(key.Identity{Resource: r}, nil)[0]
}

// consumed adds to the sources of a CRD, and to its gate, the consumers: spaces that have bound its
// resource and whose objects it follows. At a location that does not admit the CRD for its own
// space, only consumers count. The ServiceAccount there is that of the first admitted space; the
// CRD's own space comes first.
func (e *Engine) consumed(sources []Source, g gate, upsyncing *locationSet, consumers []following) ([]Source, gate, *locationSet) {
	slices.SortStableFunc(consumers, func(a, b following) int { return cmp.Compare(a.consumer, b.consumer) })
	var own []*locationSet
	for _, s := range sources {
		own = append(own, s.locations)
	}
	here, _ := g.split(union(own))
	brought := map[key.Location]string{}
	for _, f := range consumers {
		for _, l := range f.locations.names {
			if _, is := brought[l]; !is {
				account, _ := f.locations.find(l)
				brought[l] = account.String()
			}
		}
	}
	for _, l := range here {
		delete(brought, l)
	}
	let := slices.Sorted(maps.Keys(brought))
	sources = e.without(sources, let)
	sources = e.withConsumers(sources, consumers)
	if upsyncing != nil {
		refused := slices.DeleteFunc(slices.Clone(let), func(l key.Location) bool { return !g.refuses(l) })
		upsyncing = e.sets.intern(apart(upsyncing.names, refused), nil)
	}
	return sources, e.gates.letting(g, brought), upsyncing
}

// sharedBy returns the locations where consumers need a CRD.
func (e *Engine) sharedBy(consumers []following) *locationSet {
	all := make([]*locationSet, len(consumers))
	for i, f := range consumers {
		all[i] = f.locations
	}
	return e.sets.intern(union(all), nil)
}

// sharedAt reports whether a location has the object for other spaces than its own.
func (m *Membership) sharedAt(location key.Location) bool {
	return m.shared != nil && m.shared.contains(location)
}

// Hooked reports whether a CRD has a conversion webhook.
func Hooked(crd []byte) bool {
	return gjson.GetBytes(crd, "spec.conversion.strategy").String() == string(apiextensionsv1.WebhookConverter)
}

// without removes locations from the sources. Sources without any location remain.
func (e *Engine) without(sources []Source, let []key.Location) []Source {
	var all []Source
	for _, s := range sources {
		if slices.ContainsFunc(let, s.locations.contains) {
			policies := slices.Clone(s.policies)
			for i := range policies {
				policies[i].locations = e.sets.intern(apart(policies[i].locations.names, let), nil)
			}
			waits := s.Waits
			s = sourceOf(s.Placement, s.Suspended, &e.sets, policies...)
			s.Waits = waits
		}
		all = append(all, s)
	}
	return all
}

// withConsumers adds a source for each Placement of a consumer.
func (e *Engine) withConsumers(sources []Source, consumers []following) []Source {
	slices.SortStableFunc(consumers, func(a, b following) int { return cmp.Compare(a.placement, b.placement) })
	for len(consumers) > 0 {
		first, n := consumers[0], 1
		for n < len(consumers) && consumers[n].placement == first.placement {
			n++
		}
		var old Source
		i := slices.IndexFunc(sources, func(s Source) bool { return s.Placement == first.placement })
		if i >= 0 {
			old = sources[i]
		}
		policies := slices.Clone(old.policies)
		for _, f := range consumers[:n] {
			policies = e.addLocationPolicy(policies, f.policy, e.sets.intern(f.locations.names, nil))
		}
		now := sourceOf(first.placement, first.suspended, &e.sets, policies...)
		if now.Waits = old.Waits; i >= 0 {
			sources[i] = now
		} else {
			sources = append(sources, now)
		}
		consumers = consumers[n:]
	}
	return sources
}

// supposeConsumers registers the consumers of the definitions of one space, as they are in a state.
// The engine of a preview needs that, since it does not read the objects of the consumers.
func (e *Engine) supposeConsumers(state table.Reader, rows []*table.Row) {
	for _, row := range rows {
		o, err := key.ParseObject(row.Key)
		m, ok := row.In.(*Membership)
		if err != nil || !ok || m == nil || o.Resource != key.CRDs {
			continue
		}
		for _, s := range m.sources {
			consumer := s.Placement.Resolve(o.Space).Space
			for _, p := range s.policies {
				if s.Placement == "" || consumer == o.Space || p.returns != returnsNothing {
					continue
				}
				names := p.locations.names
				if consumer == key.Root { // root may also place the CRD for its own space
					names = slices.DeleteFunc(slices.Clone(names), func(l key.Location) bool { return !m.sharedAt(l) })
					if len(names) == 0 {
						continue
					}
				}
				accounts := make([]string, len(names))
				for i, l := range names {
					if a := explainAdmission(state, key.Object{Space: consumer, Identity: o.Identity}, state.Get(l.Key())); a != nil {
						accounts[i] = a.ServiceAccount
					}
				}
				e.references.add(o, following{
					placement: s.Placement, policy: p.policy, suspended: s.Suspended, locations: e.sets.intern(names, accounts), consumer: consumer,
				}, 1)
			}
		}
	}
}

// addLocationPolicy adds locations to which an object follows others with a policy.
func (e *Engine) addLocationPolicy(policies []locationPolicy, policy wire.Policy, locations *locationSet) []locationPolicy {
	i := slices.IndexFunc(policies, func(lp locationPolicy) bool { return lp.policy == policy && lp.returns == returnsNothing })
	if i < 0 {
		return append(policies, locationPolicy{policy, returnsNothing, locations})
	}
	policies[i].locations = e.sets.intern(union([]*locationSet{policies[i].locations, locations}), nil)
	return policies
}

// letting returns the gate with further locations admitted, each with the ServiceAccount that acts
// there, if any.
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

// withoutAll returns the set without some locations.
func (ls *locationSets) withoutAll(s *locationSet, locations []key.Location) *locationSet {
	for _, l := range locations {
		s = ls.without(s, l)
	}
	return s
}
