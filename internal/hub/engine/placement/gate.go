package placement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// gate says which locations do not admit objects that are alike, and in whose name others
// get them. The zero gate admits everywhere.
type gate struct {
	// refused are the locations that do not admit them, with the reason as what they need;
	// nil if all do.
	refused *locationSet
	// prefixed are the locations where each space has namespaces of its own, so that nothing
	// of another space is in the way of what is in one; nil if there are none.
	prefixed *locationSet
	// accounts are the locations where a ServiceAccount acts for them, which is what they
	// need; nil if there are none.
	accounts *locationSet
	// mute are the locations of which the space sees nothing that is born there; nil if there
	// are none.
	mute *locationSet
}

// ids are different for each gate.
func (g gate) ids() (all [4]uint64) {
	for i, s := range []*locationSet{g.refused, g.prefixed, g.accounts, g.mute} {
		if s != nil {
			all[i] = s.id
		}
	}
	return all
}

// refuses says whether a location does not admit the objects.
func (g gate) refuses(location key.Location) bool { return g.refused != nil && g.refused.has(location) }

// refusal is why a location does not admit the objects; empty if it does.
func (g gate) refusal(location key.Location) string {
	if g.refused == nil {
		return ""
	}
	reason, _ := g.refused.at(location)
	return reason.String()
}

// apart says whether nothing of another space is in the way of the objects at a location.
func (g gate) apart(location key.Location) bool { return g.prefixed != nil && g.prefixed.has(location) }

// split takes apart, of some locations in order, those that admit the objects.
func (g gate) split(locations []key.Location) (admitted, refused []key.Location) {
	if g.refused == nil || !slices.ContainsFunc(locations, g.refuses) {
		return locations, nil
	}
	for _, l := range locations {
		if g.refuses(l) {
			refused = append(refused, l)
		} else {
			admitted = append(admitted, l)
		}
	}
	return admitted, refused
}

// yields are those of the locations where asks match the objects, nil for none, that admit
// them and of which the space sees what is born there.
func (g gate) yields(asked *locationSet) []key.Location {
	if asked == nil || len(asked.names) == 0 {
		return nil
	}
	yields, _ := g.split(asked.names)
	if g.mute != nil {
		yields = apart(yields, g.mute.names)
	}
	return yields
}

// account is who acts for the objects at a location; "" for the agent itself.
func (g gate) account(location key.Location) string {
	if g.accounts == nil {
		return ""
	}
	account, _ := g.accounts.at(location)
	return account.String()
}

// gates has the Locations that do not admit everything as it is, and what follows for
// objects. Locations with the same terms share the decisions.
type gates struct {
	sets *locationSets
	// groups are in the order of their terms.
	groups []*group
	of     map[key.Location]*group
	// decided has the gates by the decisions of all groups; it is void when groups change.
	decided map[string]gate
	// asked has the gates of one step by what was asked, so that many objects that are
	// alike are decided about once.
	asked map[asking]gate
}

// group are the Locations, those being deleted included, with the same terms.
type group struct {
	terms terms
	*admit
	locations *locationSet
	admission *admitted
}

type asking struct {
	space key.Space
	petition
}

func newGates(sets *locationSets) gates {
	return gates{sets: sets, of: map[key.Location]*group{}, decided: map[string]gate{}, asked: map[asking]gate{}}
}

// admit is what a location admits; nil is everything.
func (gs *gates) admit(l key.Location) *admit {
	if g := gs.of[l]; g != nil {
		return g.admit
	}
	return nil
}

// set notes the terms of a Location and says whether they are others.
func (gs *gates) set(state table.Reader, l key.Location, now terms) (changed bool) {
	was := gs.of[l]
	if was == nil && now == (terms{}) || was != nil && was.terms == now {
		return false
	}
	gs.decided, gs.asked = map[string]gate{}, map[asking]gate{}
	if was != nil {
		delete(gs.of, l)
		if was.locations = gs.sets.without(was.locations, l); len(was.locations.names) == 0 {
			i, _ := gs.find(was.terms)
			gs.groups = slices.Delete(gs.groups, i, i+1)
		}
	}
	if now == (terms{}) {
		return true
	}
	i, found := gs.find(now)
	if !found {
		a := now.compile()
		gs.groups = slices.Insert(gs.groups, i, &group{now, a, gs.sets.of(nil, nil), admissionOf(state, a)})
	}
	g := gs.groups[i]
	g.locations = gs.sets.with(g.locations, l, "")
	gs.of[l] = g
	return true
}

func (gs *gates) find(t terms) (int, bool) {
	return slices.BinarySearchFunc(gs.groups, t, func(g *group, t terms) int {
		return cmp.Or(strings.Compare(g.terms.text, t.text), strings.Compare(string(g.terms.placing), string(t.placing)))
	})
}

// noteSpace notes a space that was created, deleted or relabelled. It returns the groups
// whose Admission has changed.
func (gs *gates) noteSpace(state table.Reader, s key.Space) (changed []*group) {
	clear(gs.asked)
	exists, t := state.Get(s.Key()) != nil, tenantOf(state, s)
	for _, g := range gs.groups {
		if g.everySpace {
			continue
		}
		if now := g.admission.with(s, exists && g.admitsSpace(t)); now != g.admission {
			g.admission = now
			changed = append(changed, g)
		}
	}
	return changed
}

// byLabels says whether labels of spaces matter to any Location.
func (gs *gates) byLabels() bool {
	return slices.ContainsFunc(gs.groups, func(g *group) bool { return g.byLabels })
}

// gate is that of an object.
func (gs *gates) gate(state table.Reader, o key.Object) gate {
	if len(gs.groups) == 0 {
		return gate{}
	}
	ask := asking{o.Space, petitionOf(o)}
	if g, ok := gs.asked[ask]; ok {
		return g
	}
	t := tenantOf(state, o.Space)
	decisions, mute := make([]int, len(gs.groups)), make([]bool, len(gs.groups))
	var k []byte
	for i, g := range gs.groups {
		decisions[i] = g.decide(t, ask.petition)
		k = append(strconv.AppendInt(k, int64(decisions[i]), 10), ' ')
		if mute[i] = g.mutes(t); mute[i] {
			k = append(k, 'm')
		}
	}
	g, ok := gs.decided[string(k)]
	if !ok {
		g = gs.make(decisions, mute)
		gs.decided[string(k)] = g
	}
	gs.asked[ask] = g
	return g
}

// make makes the gate of the decisions of all groups, and of which are mute.
func (gs *gates) make(decisions []int, mutes []bool) gate {
	refused, prefixed, accounts, mute := map[key.Location]string{}, map[key.Location]string{}, map[key.Location]string{}, map[key.Location]string{}
	for i, g := range gs.groups {
		reason, account := reasonOf(decisions[i]), ""
		if reason == "" {
			account = g.entries[decisions[i]].account
		}
		for _, l := range g.locations.names {
			switch {
			case reason != "":
				refused[l] = reason
			case account != "":
				accounts[l] = account
			}
			if g.terms.placing == key.Prefixed {
				prefixed[l] = ""
			}
			if mutes[i] {
				mute[l] = ""
			}
		}
	}
	return gate{refused: gs.setOf(refused), prefixed: gs.setOf(prefixed), accounts: gs.setOf(accounts), mute: gs.setOf(mute)}
}

// setOf is the set of locations with what is needed of each; nil if there are none.
func (gs *gates) setOf(all map[key.Location]string) *locationSet {
	if len(all) == 0 {
		return nil
	}
	return gs.sets.ofMap(all)
}
