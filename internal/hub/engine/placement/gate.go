package placement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// gate is the result of admission for objects that are alike: which locations refuse them, and
// which ServiceAccounts act for them at others. The zero gate admits them everywhere.
type gate struct {
	// refused are the locations that do not admit them, with the reason as the need; nil if all do.
	refused *locationSet
	// prefixed are the locations that prefix the namespaces of each space, so that objects in
	// namespaces never conflict with those of other spaces; nil if there are none.
	prefixed *locationSet
	// accounts are the locations where a ServiceAccount acts for them, which is the need; nil if
	// there are none.
	accounts *locationSet
	// mute are the locations that report no upsynced objects to the space; nil if there are none.
	mute *locationSet
}

// ids identifies the gate.
func (g gate) ids() (all [4]uint64) {
	for i, s := range []*locationSet{g.refused, g.prefixed, g.accounts, g.mute} {
		if s != nil {
			all[i] = s.id
		}
	}
	return all
}

// refuses reports whether a location does not admit the objects.
func (g gate) refuses(location key.Location) bool {
	return g.refused != nil && g.refused.contains(location)
}

// refusal returns the reason why a location does not admit the objects; empty if it does.
func (g gate) refusal(location key.Location) string {
	if g.refused == nil {
		return ""
	}
	reason, _ := g.refused.find(location)
	return reason.String()
}

// apart reports whether the objects cannot conflict with those of other spaces at a location.
func (g gate) apart(location key.Location) bool {
	return g.prefixed != nil && g.prefixed.contains(location)
}

// split divides locations, which are in order, into those that admit the objects and those that
// refuse them.
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

// yields returns the locations that keep their own versions of the objects: their upsync entries
// match, they admit the objects, and they may report to the space. upsyncing are the locations with
// matching entries; it may be nil.
func (g gate) yields(upsyncing *locationSet) []key.Location {
	if upsyncing == nil || len(upsyncing.names) == 0 {
		return nil
	}
	yields, _ := g.split(upsyncing.names)
	if g.mute != nil {
		yields = apart(yields, g.mute.names)
	}
	return yields
}

// account returns the ServiceAccount that acts for the objects at a location; empty for the agent
// itself.
func (g gate) account(location key.Location) string {
	if g.accounts == nil {
		return ""
	}
	account, _ := g.accounts.find(location)
	return account.String()
}

// gates computes the gates of objects. It knows the Locations with restrictions. Locations with the
// same terms are a group and share decisions.
type gates struct {
	sets *locationSets
	// groups are ordered by their terms.
	groups     []*group
	byLocation map[key.Location]*group
	// decided caches gates by the decisions of all groups. It is reset when groups change.
	decided map[string]gate
	// byRequest caches the gates of one step by request, since many objects are alike.
	byRequest map[gateRequest]gate
}

// group holds the Locations with the same terms, including those that are being deleted.
type group struct {
	terms terms
	*admit
	locations *locationSet
	admission *admitted
}

type gateRequest struct {
	space key.Space
	admissionRequest
}

func newGates(sets *locationSets) gates {
	return gates{sets: sets, byLocation: map[key.Location]*group{}, decided: map[string]gate{}, byRequest: map[gateRequest]gate{}}
}

// admit returns the spec.admit of a location; nil admits everything.
func (gs *gates) admit(l key.Location) *admit {
	if g := gs.byLocation[l]; g != nil {
		return g.admit
	}
	return nil
}

// set records the terms of a Location and reports whether they have changed.
func (gs *gates) set(state table.Reader, l key.Location, now terms) (changed bool) {
	old := gs.byLocation[l]
	if old == nil && now == (terms{}) || old != nil && old.terms == now {
		return false
	}
	gs.decided, gs.byRequest = map[string]gate{}, map[gateRequest]gate{}
	if old != nil {
		delete(gs.byLocation, l)
		if old.locations = gs.sets.without(old.locations, l); len(old.locations.names) == 0 {
			i, _ := gs.find(old.terms)
			gs.groups = slices.Delete(gs.groups, i, i+1)
		}
	}
	if now == (terms{}) {
		return true
	}
	i, found := gs.find(now)
	if !found {
		a := now.compile()
		gs.groups = slices.Insert(gs.groups, i, &group{now, a, gs.sets.intern(nil, nil), admissionOf(state, a)})
	}
	g := gs.groups[i]
	g.locations = gs.sets.with(g.locations, l, "")
	gs.byLocation[l] = g
	return true
}

func (gs *gates) find(t terms) (int, bool) {
	return slices.BinarySearchFunc(gs.groups, t, func(g *group, t terms) int {
		return cmp.Or(strings.Compare(g.terms.text, t.text), strings.Compare(string(g.terms.placing), string(t.placing)))
	})
}

// noteSpace handles a space that was created, deleted or relabelled. It returns the groups whose
// Admission has changed.
func (gs *gates) noteSpace(state table.Reader, s key.Space) (changed []*group) {
	clear(gs.byRequest)
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

// byLabels reports whether the admission of any Location depends on the labels of spaces.
func (gs *gates) byLabels() bool {
	return slices.ContainsFunc(gs.groups, func(g *group) bool { return g.byLabels })
}

// gate returns the gate of an object.
func (gs *gates) gate(state table.Reader, o key.Object) gate {
	if len(gs.groups) == 0 {
		return gate{}
	}
	request := gateRequest{o.Space, admissionRequestOf(o)}
	if g, ok := gs.byRequest[request]; ok {
		return g
	}
	t := tenantOf(state, o.Space)
	decisions, mute := make([]int, len(gs.groups)), make([]bool, len(gs.groups))
	var k []byte
	for i, g := range gs.groups {
		decisions[i] = g.decide(t, request.admissionRequest)
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
	gs.byRequest[request] = g
	return g
}

// make returns the gate for the decisions of all groups, and for the groups that are mute.
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

// setOf returns the set of locations with their needs; nil if there are none.
func (gs *gates) setOf(all map[key.Location]string) *locationSet {
	if len(all) == 0 {
		return nil
	}
	return gs.sets.internMap(all)
}
