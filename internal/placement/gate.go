package placement

import (
	"slices"
	"strconv"
	"strings"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// gate says which locations do not admit objects that are alike, and in whose name others
// get them. The zero gate admits everywhere.
type gate struct {
	// refused are the locations that do not admit them; nil if all do.
	refused *locationSet
	// accounts are the locations where a ServiceAccount acts for them, which is what they
	// need; nil if there are none.
	accounts *locationSet
}

// ids are different for each gate.
func (g gate) ids() (refused, accounts uint64) {
	if g.refused != nil {
		refused = g.refused.id
	}
	if g.accounts != nil {
		accounts = g.accounts.id
	}
	return refused, accounts
}

// refuses says whether a location does not admit the objects.
func (g gate) refuses(location key.Location) bool { return g.refused != nil && g.refused.has(location) }

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

// account is who acts for the objects at a location; "" for the agent itself.
func (g gate) account(location key.Location) string {
	if g.accounts == nil {
		return ""
	}
	account, _ := g.accounts.at(location)
	return account
}

// gates has the Locations with a spec.admit, and what follows for objects. Locations with
// the same text share the decisions.
type gates struct {
	sets *locationSets
	// groups are in the order of their texts.
	groups []*group
	of     map[key.Location]*group
	// decided has the gates by the decisions of all groups; it is void when groups change.
	decided map[string]gate
	// asked has the gates of one step by what was asked, so that many objects that are
	// alike are decided about once.
	asked map[asking]gate
}

// group are the Locations, those being deleted included, with one text of spec.admit.
type group struct {
	text string
	*admit
	locations *locationSet
	admission *Admission
}

type asking struct {
	space key.Space
	petition
}

func newGates(sets *locationSets) gates {
	return gates{sets: sets, of: map[key.Location]*group{}, decided: map[string]gate{}, asked: map[asking]gate{}}
}

// admit is the spec.admit of a location; nil admits everything.
func (gs *gates) admit(l key.Location) *admit {
	if g := gs.of[l]; g != nil {
		return g.admit
	}
	return nil
}

// set notes the text of a Location's spec.admit, "" for none, and says whether it is
// another one.
func (gs *gates) set(state table.Reader, l key.Location, text string) (changed bool) {
	was := gs.of[l]
	if was == nil && text == "" || was != nil && was.text == text {
		return false
	}
	gs.decided, gs.asked = map[string]gate{}, map[asking]gate{}
	if was != nil {
		delete(gs.of, l)
		if was.locations = gs.sets.without(was.locations, l); len(was.locations.names) == 0 {
			i, _ := gs.find(was.text)
			gs.groups = slices.Delete(gs.groups, i, i+1)
		}
	}
	if text == "" {
		return true
	}
	i, found := gs.find(text)
	if !found {
		a := compileAdmit(text)
		gs.groups = slices.Insert(gs.groups, i, &group{text, a, gs.sets.of(nil, nil), admissionOf(state, a)})
	}
	g := gs.groups[i]
	g.locations = gs.sets.with(g.locations, l, "")
	gs.of[l] = g
	return true
}

func (gs *gates) find(text string) (int, bool) {
	return slices.BinarySearchFunc(gs.groups, text, func(g *group, text string) int { return strings.Compare(g.text, text) })
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
	decisions := make([]int, len(gs.groups))
	var k []byte
	for i, g := range gs.groups {
		decisions[i] = g.decide(t, ask.petition)
		k = append(strconv.AppendInt(k, int64(decisions[i]), 10), ' ')
	}
	g, ok := gs.decided[string(k)]
	if !ok {
		g = gs.make(decisions)
		gs.decided[string(k)] = g
	}
	gs.asked[ask] = g
	return g
}

// make makes the gate of the decisions of all groups.
func (gs *gates) make(decisions []int) (made gate) {
	var refused []*locationSet
	accounts := map[key.Location]string{}
	for i, g := range gs.groups {
		if decisions[i] < 0 {
			refused = append(refused, g.locations)
			continue
		}
		if account := g.entries[decisions[i]].account; account != "" {
			for _, l := range g.locations.names {
				accounts[l] = account
			}
		}
	}
	if len(refused) > 0 {
		made.refused = gs.sets.of(union(refused), nil)
	}
	if len(accounts) > 0 {
		made.accounts = gs.sets.ofMap(accounts)
	}
	return made
}
