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

// scheduling chooses, for an object, among the locations that a Placement selects. It leaves out
// locations with taints that are not tolerated, and picks some of the others. A Customizer has no
// scheduling.
type scheduling struct {
	// uid is the UID of the Placement.
	uid         string
	tolerations []v1alpha1.Toleration
	pick        *v1alpha1.Pick // nil: all
	// barred are the selected locations that accept no further objects.
	barred *locationSet
	// known caches the results by the barred locations that have the object already.
	known map[string]*locationSet
}

// maxKnown bounds the cache.
const maxKnown = 1000

// against returns the taints of a location that have this effect and are not tolerated.
func (s *scheduling) against(loc *site, effect v1alpha1.TaintEffect) (all []taint) {
	if s == nil {
		return nil
	}
	for _, t := range loc.taints {
		if t.Effect == effect && !slices.ContainsFunc(s.tolerations, func(toleration v1alpha1.Toleration) bool { return toleration.Tolerates(t.Taint) }) {
			all = append(all, t)
		}
	}
	return all
}

// particular reports whether objects may get fewer locations than are selected.
func (s *scheduling) particular() bool { return s.pick != nil || len(s.barred.names) > 0 }

// reportedBeforeTaint reports whether a barred location keeps an object: it has reported the object
// since before the taint was added. Later reports must not count. Otherwise an object that was
// sent, withdrawn and reported late would be placed and removed in a loop.
func (s *scheduling) reportedBeforeTaint(object subject, loc *site) bool {
	until := int64(math.MaxInt64)
	for _, t := range s.against(loc, v1alpha1.TaintNoPlace) {
		until = min(until, t.since)
	}
	row := object.state.Get(key.Report{Location: loc.Name, Origin: key.Placed, Object: object.Object}.Key())
	return row != nil && row.CreateRev <= until
}

// affects reports whether a changed location may change the locations of objects.
func (s *scheduling) affects(name key.Location, in, barred bool) bool {
	return s != nil && (barred || s.barred.contains(name) || s.pick != nil && in)
}

// move records whether a changed location is barred.
func (s *scheduling) move(sets *locationSets, name key.Location, barred bool) {
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

// scheduled returns the locations that an object gets, of those that the placement selects.
func (p *placement) scheduled(object subject, sites map[key.Location]*site, sets *locationSets) *locationSet {
	s := p.scheduling
	if !s.particular() {
		return p.set
	}
	var kept []key.Location
	for _, l := range s.barred.names {
		if s.reportedBeforeTaint(object, sites[l]) {
			kept = append(kept, l)
		}
	}
	k := namesKey(kept)
	if scheduled, ok := s.known[k]; ok {
		return scheduled
	}
	scheduled := sets.intern(p.choose(kept, sites), nil)
	if s.known == nil || len(s.known) >= maxKnown {
		s.known = map[string]*locationSet{}
	}
	s.known[k] = scheduled
	return scheduled
}

// namesKey returns a text that identifies a list of names.
func namesKey(names []key.Location) string {
	var k []byte
	for _, l := range names {
		k = appendText(k, string(l))
	}
	return string(k)
}

// choose returns the locations, in order, that an object gets if the barred locations in kept have
// it already.
func (p *placement) choose(kept []key.Location, sites map[key.Location]*site) []key.Location {
	var open []*site
	for _, l := range p.set.names {
		if !p.scheduling.barred.contains(l) || slices.Contains(kept, l) {
			open = append(open, sites[l])
		}
	}
	if pick := p.scheduling.pick; pick != nil && len(open) > int(pick.Count) {
		open = p.scheduling.ranked(open)[:max(0, pick.Count)]
	}
	names := make([]key.Location, len(open))
	for i, loc := range open {
		names[i] = loc.Name
	}
	slices.Sort(names)
	return names
}

// ranked orders locations by rendezvous hashing (Thaler and Ravishankar, 1998), so that adding or
// removing one location changes at most one pick. With spreadBy, it orders them in rounds: each
// round has one location for each value of the label. The order of the values depends on the
// Placement, too.
func (s *scheduling) ranked(open []*site) []*site {
	type candidate struct {
		*site
		value string
		round int
		score uint64
		turn  uint64 // order of the value in a round
	}
	candidates := make([]candidate, len(open))
	for i, loc := range open {
		candidates[i] = candidate{site: loc, score: score(s.uid, loc.uid)}
		if label := s.pick.SpreadBy; label != "" {
			candidates[i].value = loc.Labels.Get(label)
			candidates[i].turn = score(s.uid, "="+candidates[i].value)
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(string(a.Name), string(b.Name)))
	})
	count := map[string]int{}
	for i := range candidates {
		if s.pick.SpreadBy != "" {
			candidates[i].round = count[candidates[i].value]
			count[candidates[i].value]++
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(b.turn, a.turn)) })
	sites := make([]*site, len(candidates))
	for i := range candidates {
		sites[i] = candidates[i].site
	}
	return sites
}

// score returns the rendezvous weight of a pair.
func score(seed, one string) uint64 {
	sum := sha256.Sum256([]byte(seed + "\x00" + one))
	return binary.BigEndian.Uint64(sum[:])
}

// unseated returns the reason why an object does not get a location that the placement selects; nil
// if it does.
func (p *placement) unseated(object subject, loc *site) *Finding {
	for _, t := range p.scheduling.against(loc, v1alpha1.TaintEvict) {
		return &Finding{"taints", fmt.Sprintf("%s is not tolerated", t)}
	}
	for _, t := range p.scheduling.against(loc, v1alpha1.TaintNoPlace) {
		if !p.scheduling.reportedBeforeTaint(object, loc) {
			return &Finding{"taints", fmt.Sprintf("%s is not tolerated, and the location did not have the object when it came", t)}
		}
	}
	if p.scheduling.pick == nil {
		return nil
	}
	sites := p.resolve(object.state, tenantOf(object.state, object.Space))
	if !p.set.contains(loc.Name) || p.scheduled(object, sites, &locationSets{}).contains(loc.Name) {
		return nil // otherwise the reason is admission, which is reported elsewhere
	}
	return &Finding{"pick", fmt.Sprintf("%d locations are picked, this one is not among them", p.scheduling.pick.Count)}
}

// resolve computes the locations that the placement selects in a state, and returns them. It reads
// locations in full only if they are selected, and by name where possible. Otherwise thousands of
// Placements would each parse thousands of locations.
func (p *placement) resolve(state table.Reader, t tenant) map[key.Location]*site {
	sites, sets, admits := map[key.Location]*site{}, &locationSets{}, compiledAdmits()
	var names, barred []key.Location
	outline := &site{} // reused for each row
	add := func(row *table.Row) bool {
		if !outline.outline(row) || !p.selects(outline) {
			return true
		}
		loc := new(*outline)
		loc.read(row)
		if in, bars := p.evaluateSite(loc, admits(row), t); in {
			sites[loc.Name] = loc
			names = append(names, loc.Name)
			if bars {
				barred = append(barred, loc.Name)
			}
		}
		return true
	}
	if p.byName() {
		for _, name := range p.names {
			add(state.Get(key.Location(name).Key()))
		}
	} else {
		state.Ascend(key.ResourcePrefix(key.Root, key.Locations), add)
	}
	p.set, p.scheduling.barred = sets.intern(names, nil), sets.intern(barred, nil)
	return sites
}

// byName reports whether the placement selects locations by name only.
func (p *placement) byName() bool {
	return !p.everywhere && !slices.ContainsFunc(p.locations, func(t locationTest) bool { return !t.named && t.problem == "" })
}
