package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// seating says which of the locations that a Placement selects an object gets: not those
// with taints that are not tolerated, and of the others as many as are picked. A nil
// seating is that of a Customizer, which places nothing.
type seating struct {
	// uid is the Placement's.
	uid         string
	tolerations []v1alpha1.Toleration
	pick        *v1alpha1.Pick // nil: all
	// barred are the selected locations to which no more objects come.
	barred *locationSet
	// known has the seats by the barred locations that have the object already.
	known map[string]*locationSet
}

// maxKnown bounds the seats that are known; beyond, they are chosen anew.
const maxKnown = 1000

// against are the taints of a location with an effect that are not tolerated.
func (s *seating) against(at *site, effect v1alpha1.TaintEffect) (all []taint) {
	if s == nil {
		return nil
	}
	for _, t := range at.taints {
		if t.Effect == effect && !slices.ContainsFunc(s.tolerations, func(by v1alpha1.Toleration) bool { return by.Tolerates(t.Taint) }) {
			all = append(all, t)
		}
	}
	return all
}

// particular says whether not every object gets all locations that are selected.
func (s *seating) particular() bool { return s.pick != nil || len(s.barred.names) > 0 }

// keeps says whether a location to which no more objects come keeps one: it has reported
// it since before it was tainted. Reports of later do not count: if they did, an object
// that was sent, called back and reported in between would come and go for ever.
func (s *seating) keeps(of subject, at *site) bool {
	until := int64(math.MaxInt64)
	for _, t := range s.against(at, v1alpha1.TaintNoPlace) {
		until = min(until, t.since)
	}
	row := of.state.Get(key.Report{Location: at.Name, Origin: key.Placed, Object: of.Object}.Key())
	return row != nil && row.CreateRev <= until
}

// concerns says whether the seats of objects may change with a location that has changed.
func (s *seating) concerns(name key.Location, in, barred bool) bool {
	return s != nil && (barred || s.barred.has(name) || s.pick != nil && in)
}

// move notes whether a location that has changed is barred.
func (s *seating) move(sets *locationSets, name key.Location, barred bool) {
	if s == nil {
		return
	}
	s.known = nil
	if barred {
		s.barred = sets.with(s.barred, name, "")
	} else {
		s.barred = sets.without(s.barred, name)
	}
}

// seats are the locations that an object gets, of those that the placement selects.
func (p *placement) seats(of subject, sites map[key.Location]*site, sets *locationSets) *locationSet {
	s := p.seating
	if !s.particular() {
		return p.set
	}
	var kept []key.Location
	for _, l := range s.barred.names {
		if s.keeps(of, sites[l]) {
			kept = append(kept, l)
		}
	}
	k := namesKey(kept)
	if seats, ok := s.known[k]; ok {
		return seats
	}
	seats := sets.of(p.choose(kept, sites), nil)
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = map[string]*locationSet{}
	}
	s.known[k] = seats
	return seats
}

// namesKey is another text for each list of names.
func namesKey(names []key.Location) string {
	var k []byte
	for _, l := range names {
		k = appendText(k, string(l))
	}
	return string(k)
}

// choose are the locations, in order, that an object gets which the barred ones in kept
// have already.
func (p *placement) choose(kept []key.Location, sites map[key.Location]*site) []key.Location {
	var open []*site
	for _, l := range p.set.names {
		if !p.seating.barred.has(l) || slices.Contains(kept, l) {
			open = append(open, sites[l])
		}
	}
	if pick := p.seating.pick; pick != nil && len(open) > int(pick.Count) {
		open = p.seating.ranked(open)[:max(0, pick.Count)]
	}
	names := make([]key.Location, len(open))
	for i, at := range open {
		names[i] = at.Name
	}
	slices.Sort(names)
	return names
}

// ranked are locations in the order in which they get seats: by rendezvous hashing (Thaler
// and Ravishankar, 1998), so that one location more or less moves at most one seat. With
// spreadBy they get them in rounds, each value of the label one in a round, the values in
// an order that is the Placement's, too.
func (s *seating) ranked(open []*site) []*site {
	type seat struct {
		*site
		value string
		round int
		score uint64
		turn  uint64 // of the value, in a round
	}
	seats := make([]seat, len(open))
	for i, at := range open {
		seats[i] = seat{site: at, score: score(s.uid, at.uid)}
		if by := s.pick.SpreadBy; by != "" {
			seats[i].value = at.Labels.Get(by)
			seats[i].turn = score(s.uid, "="+seats[i].value)
		}
	}
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(string(a.Name), string(b.Name)))
	})
	had := map[string]int{}
	for i := range seats {
		if s.pick.SpreadBy != "" {
			seats[i].round = had[seats[i].value]
			had[seats[i].value]++
		}
	}
	slices.SortStableFunc(seats, func(a, b seat) int { return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(b.turn, a.turn)) })
	sites := make([]*site, len(seats))
	for i := range seats {
		sites[i] = seats[i].site
	}
	return sites
}

// score is the weight of one thing for another in a rendezvous.
func score(of, one string) uint64 {
	sum := sha256.Sum256([]byte(of + "\x00" + one))
	return binary.BigEndian.Uint64(sum[:])
}

// unseated says why an object does not get a location that the placement selects; nil if
// it does.
func (p *placement) unseated(of subject, at *site) *Finding {
	for _, t := range p.seating.against(at, v1alpha1.TaintEvict) {
		return &Finding{"taints", fmt.Sprintf("%s is not tolerated", t)}
	}
	for _, t := range p.seating.against(at, v1alpha1.TaintNoPlace) {
		if !p.seating.keeps(of, at) {
			return &Finding{"taints", fmt.Sprintf("%s is not tolerated, and the location did not have the object when it came", t)}
		}
	}
	if p.seating.pick == nil {
		return nil
	}
	sites := p.resolve(of.state, tenantOf(of.state, of.Space))
	if !p.set.has(at.Name) || p.seats(of, sites, &locationSets{}).has(at.Name) {
		return nil // or it admits nothing of the space, which is told elsewhere
	}
	return &Finding{"pick", fmt.Sprintf("%d locations are picked, this one is not among them", p.seating.pick.Count)}
}

// resolve has the placement select locations of a state, and returns those that it does. Of
// others only the outline is read, since where each of thousands has a Placement of its own, each
// of these looks at all of them, or nothing if all are selected by name.
func (p *placement) resolve(state table.Reader, t tenant) map[key.Location]*site {
	sites, sets, admits := map[key.Location]*site{}, &locationSets{}, compiledAdmits()
	var names, barred []key.Location
	outline := &site{} // of one after the other
	look := func(row *table.Row) bool {
		if !outline.outline(row) || !p.selects(outline) {
			return true
		}
		at := new(*outline)
		at.read(row)
		if in, bars := p.takes(at, admits(row), t); in {
			sites[at.Name] = at
			names = append(names, at.Name)
			if bars {
				barred = append(barred, at.Name)
			}
		}
		return true
	}
	if p.byName() {
		for _, name := range p.names {
			look(state.Get(key.Location(name).Key()))
		}
	} else {
		state.Ascend(key.ResourcePrefix(key.Root, key.Locations), look)
	}
	p.set, p.seating.barred = sets.of(names, nil), sets.of(barred, nil)
	return sites
}

// byName says that the placement selects no location but those of its names.
func (p *placement) byName() bool {
	return !p.everywhere && !slices.ContainsFunc(p.locations, func(t locationTest) bool { return !t.named && t.problem == "" })
}
