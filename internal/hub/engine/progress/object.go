package progress

import (
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// object is an object that is placed or reported, with its counted states.
type object struct {
	id   key.Object
	path string
	row  *table.Row // nil if it is not placed
	// reports are the rows of reports, in the order of their locations.
	reports []*table.Row
	// as and states were added to the counts: a state for each member of as.
	as     *placement.Membership
	states []state
	// due are the members of as that must be evaluated; isQueued is true if the object is in the queue of
	// its space.
	due      members
	isQueued bool
	// unswept are the due members of the sweep with the number sweep, see joinSweep.
	unswept members
	sweep   int
	// follows is the index of the member after the one that was evaluated last.
	follows int
	// leaves has the locations that are to confirm that the object, which has the UID and is
	// being deleted, is gone; nil: it is not.
	leaves *placement.Membership
	uid    string
	// counts add up the states.
	counts v1alpha1.Counts
}

// state is the counted state of a pair.
type state uint8

const (
	waiting state = iota
	applied
	// mutated pairs are applied, but admission at the location sets other values.
	mutated
	failed
	held
	// broken pairs are held because the object can't be rendered.
	broken

	// base is the mask of these values. An applied pair is also, as a flag, healthy or degraded, or
	// neither.
	base     state = 1<<4 - 1
	healthy  state = 1 << 4
	degraded state = 1 << 5
)

func (s state) failing() bool { return s == failed || s == broken }

// isListed reports whether a Placement lists the pair among its errors.
func (s state) isListed() bool { return s.failing() || s&degraded != 0 }

func (s state) addTo(c *v1alpha1.Counts, n int64) {
	c.Assigned += n
	if s&healthy != 0 {
		c.Healthy += n
	}
	switch s & base {
	case applied:
		c.Applied += n
	case mutated:
		c.Applied += n
		c.Mutated += n
	case failed:
		c.Failed += n
	case held, broken:
		c.Held += n
	case waiting:
	}
}

func (t *Tracker) object(id key.Object) *object {
	path := id.Path()
	o := t.objects[path]
	if o == nil {
		o = &object{id: id, path: path}
		t.objects[path] = o
	}
	return o
}

// drop forgets an object that is neither placed nor reported.
func (t *Tracker) drop(o *object) {
	if o.as == nil && o.leaves == nil && len(o.reports) == 0 {
		delete(t.objects, o.path)
	}
}

// replaceObject replaces the row of an object, and its part of the counts.
func (t *Tracker) replaceObject(id key.Object, row *table.Row) {
	var as *placement.Membership
	if row != nil {
		as, _ = row.In.(*placement.Membership)
	}
	if as == nil && t.objects[id.Path()] == nil {
		return
	}
	var leaves *placement.Membership
	if as != nil && as.Leaves() {
		as, leaves = nil, as
	}
	o := t.object(id)
	previous, before, left := o.as, o.states, o.leaves
	t.due.moveInSweep(o, previous, as)
	t.setDue(o, nil)
	o.row, o.as, o.leaves, o.uid = row, as, leaves, ""
	if leaves != nil {
		o.uid = row.Meta.UID
	}
	if as == nil {
		o.row = nil
	}
	if previous != as || left != leaves {
		t.unassigned.recordFormers(o, previous)
		t.unassigned.recordFormers(o, left)
		o.states = carried(previous, before, as)
		t.uncount(o, previous, before)
		t.count(o, as, o.states)
		for _, r := range o.reports {
			t.updateUnassigned(o, locationOf(r))
		}
		for _, m := range []*placement.Membership{left, leaves} {
			if m != nil {
				for _, l := range m.Members() {
					t.updateUnassigned(o, l)
				}
			}
		}
	}
	if as != nil && len(as.Members()) > 0 {
		t.setDue(o, allOf(len(as.Members())))
	}
	t.drop(o)
}

// updateUnassigned updates whether a location has an object that is not assigned to it.
func (t *Tracker) updateUnassigned(o *object, location key.Location) {
	if t.unassigned.update(o, location) {
		t.totals.dirtyLocations[location] = struct{}{}
	}
	before, after := t.unassigned.replaceShare(o, location)
	t.totals.addLeft(after, 1)
	t.totals.addLeft(before, -1)
	if before.isUnknown != after.isUnknown && t.unassigned.countUnknown(o.id.Space, after.isUnknown) {
		for p := range t.policies.known[o.id.Space] {
			t.totals.dirtyPlacements[p] = struct{}{}
		}
	}
}

// setDue replaces the due members of an object.
func (t *Tracker) setDue(o *object, due members) {
	t.due.joinSweep(o)
	t.totals.addDue(o, o.due, -1)
	t.due.remove(o, o.due.size())
	o.due = due
	t.totals.addDue(o, o.due, 1)
	t.due.add(o, o.due.size())
}

// setMemberDue sets whether one member of an object is due.
func (t *Tracker) setMemberDue(o *object, member int, isDue bool) {
	switch {
	case o.due.contains(member) == isDue:
	case isDue:
		t.due.joinSweep(o)
		if o.due == nil {
			o.due = noneOf(len(o.as.Members()))
		}
		o.due.add(member)
		t.totals.addMemberDue(o, member, 1)
		t.due.add(o, 1)
	default:
		t.due.leaveSweep(o, member)
		o.due.remove(member)
		t.totals.addMemberDue(o, member, -1)
		t.due.remove(o, 1)
	}
}

// carried gives each member of as the state that it had as a member of the previous one, until it is evaluated.
func carried(previous *placement.Membership, states []state, as *placement.Membership) []state {
	switch {
	case as == nil:
		return nil
	case previous == as:
		return states
	}
	carried := make([]state, len(as.Members()))
	if previous == nil {
		return carried
	}
	from := previous.Members()
	for i, l := range as.Members() {
		for len(from) > 0 && from[0] < l {
			from, states = from[1:], states[1:]
		}
		if len(from) > 0 && from[0] == l {
			carried[i] = states[0]
		}
	}
	return carried
}

func (t *Tracker) uncount(o *object, as *placement.Membership, states []state) {
	if as == nil {
		return
	}
	for i, l := range as.Members() {
		t.totals.add(o, as, l, states[i], -1)
		if o.as == nil || !o.as.Contains(l) {
			t.failedRules.set(o.id.Space, pair{o.path, l}, objectstate.FailedRule{})
		}
	}
	for _, l := range as.Refused() {
		t.totals.addRefused(o, as, l, -1)
	}
	t.totals.addObject(o, as, -1)
}

func (t *Tracker) count(o *object, as *placement.Membership, states []state) {
	if as == nil {
		return
	}
	t.totals.addObject(o, as, 1)
	for i, l := range as.Members() {
		t.totals.add(o, as, l, states[i], 1)
	}
	for _, l := range as.Refused() {
		t.totals.addRefused(o, as, l, 1)
	}
}

// setState replaces the state of a pair. A listed one is counted again also in the same state, because the
// reason may have changed.
func (t *Tracker) setState(o *object, member int, to state) {
	location, from := o.as.Members()[member], o.states[member]
	o.states[member] = to
	if from == to && !to.isListed() {
		return
	}
	t.totals.add(o, o.as, location, from, -1)
	t.totals.add(o, o.as, location, to, 1)
}

// replaceReport replaces one location's report of an object.
func (t *Tracker) replaceReport(r key.Report, row *table.Row) {
	o := t.object(r.Object)
	location := r.Location
	i, found := slices.BinarySearchFunc(o.reports, location, compareLocation)
	switch {
	case row == nil && found:
		o.reports = slices.Delete(o.reports, i, i+1)
	case row == nil:
	case found:
		o.reports[i] = row
	default:
		o.reports = slices.Insert(o.reports, i, row)
	}
	if o.as != nil {
		if i, ok := slices.BinarySearch(o.as.Members(), location); ok {
			t.setMemberDue(o, i, true)
		}
	}
	t.updateUnassigned(o, location)
	t.drop(o)
}

// locationOf returns the location of a report.
func locationOf(report *table.Row) key.Location {
	l, _, _, _ := key.ReportOf(report.Key)
	return l
}

func compareLocation(report *table.Row, location key.Location) int {
	return strings.Compare(string(locationOf(report)), string(location))
}

// stateOf returns the state of a pair with a status.
func stateOf(v objectstate.Status) state {
	var health state
	switch {
	case v.Healthy():
		health = healthy
	case v.Degraded():
		health = degraded
	}
	switch {
	case v.Mutated():
		return mutated | health
	case v.State == wire.Applied:
		return applied | health
	case v.State == wire.Held && v.Failing():
		return broken
	case v.State == wire.Held:
		return held
	case v.Failing():
		return failed
	}
	return waiting
}

// evaluation holds the inputs of the state of a pair. It is evaluated without the Tracker's lock, because that
// renders the object and may take long. It counts if no input has changed meanwhile.
type evaluation struct {
	o      *object
	member int
	site   key.Location
	row    *table.Row
	as     *placement.Membership
	report *table.Row
}

// knownCounts returns the counts of the object of which due pairs are in no state.
func (o *object) knownCounts() v1alpha1.Counts {
	var due v1alpha1.Counts
	for i := range o.due.all() {
		o.states[i].addTo(&due, 1)
	}
	return without(o.counts, due)
}

// next returns the next pair of an object that is due, in turn, since all may be due again each time; ok is false
// if there is none.
func (o *object) next() (e evaluation, ok bool) {
	i, ok := o.due.from(o.follows)
	if !ok {
		o.due = nil
		return e, false
	}
	o.follows = i + 1
	return o.evaluation(i), true
}

func (o *object) evaluation(member int) evaluation {
	l := o.as.Members()[member]
	return evaluation{o: o, member: member, site: l, row: o.row, as: o.as, report: o.reportRow(l)}
}

// status returns the status of the object at the location, as if that were connected.
func (e evaluation) status(digest objectstate.Digest) objectstate.Status {
	place, _ := e.as.Place(e.site)
	var report []byte
	if e.report != nil {
		report = e.report.Report()
	}
	return objectstate.Assigned(digest, e.row, place, report, false)
}

// reportRow returns the row of a location's report; nil if there is none.
func (o *object) reportRow(location key.Location) *table.Row {
	i, found := slices.BinarySearchFunc(o.reports, location, compareLocation)
	if !found {
		return nil
	}
	return o.reports[i]
}

// reportOf returns a location's report; nil if there is none.
func (o *object) reportOf(location key.Location) []byte {
	if row := o.reportRow(location); row != nil {
		return row.Report()
	}
	return nil
}
