// Package summaries keeps what all Summaries of all spaces count up to date.
//
// It observes every change and, when Work is called, has each Summary that a change may
// concern evaluate its expressions for the objects and locations that have changed, and for
// no others. They share decoded objects and reports, and the results of expressions. What a Summary shows follows from the state alone. Work is bounded,
// space by space, so that expressions that cost much hold up their own space. The package must
// never write, and has no goroutine and no clock.
package summaries

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/watchdog"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// budget is what is done for one space in a call of Work, in units of CEL's costs, and maxBudget
	// for all together; but each that has something to do gets minBudget.
	budget, minBudget, maxBudget = 500_000, 5_000, 10_000_000
	// costOfLook is what it costs besides to look at an object at a location, costOfRemoval to forget
	// it there. requirementsPerCost are so many of label selectors as are evaluated for one unit.
	costOfLook, costOfRemoval, requirementsPerCost = 100, 5, 10
	// maxSpaceBytes bounds what the Summaries of one space hold together.
	maxSpaceBytes = 64 << 20
	// tryAgain is how long a Summary that would hold more than it may is not counted again.
	tryAgain = time.Minute
	// lateAfter is how long a change may wait until Summaries show that they are late, and the unit of the
	// time that they show.
	lateAfter = 10 * time.Second
	// latePerSummary bounds how often the Summaries of a space are written because they are late: one of them
	// in that time, and as often because they no longer are.
	latePerSummary = time.Second
)

// Config is what an Index needs.
type Config struct {
	// Digest gives the digests of rendered objects. It is called by Work.
	Digest objectstate.Digest
	// Language compiles expressions.
	Language *aggregate.Language
	// Work records which object is being looked at; nil: nothing does.
	Work *watchdog.Work
	// Changed is called when there is something to do. It must not block.
	Changed func()
	// Now is the clock of the times that are given to Work.
	Now func() time.Time
}

// Index is safe for concurrent use. It is a table.Observer: Observe only records changes; Work
// counts them.
type Index struct {
	config Config
	inbox  inbox
	budget int // that of a space

	// working is held by Work, which alone changes the following fields. It evaluates, renders and compiles
	// without mu, which it takes for each change, so that readers get what was counted last.
	working sync.Mutex
	mu      sync.Mutex
	spaces  map[key.Space]*space
	// sites are the locations; nil as long as no Summary has needed them.
	sites map[key.Location]*site
	dirty map[key.Object]struct{}
}

var _ table.Observer = (*Index)(nil)

// New makes an Index that has observed nothing.
func New(config Config) *Index {
	x := &Index{config: config, budget: budget}
	x.inbox.counts = map[key.Space]int{}
	x.clear()
	return x
}

func (x *Index) changed() {
	if x.config.Changed != nil {
		x.config.Changed()
	}
}

// clear forgets everything.
func (x *Index) clear() {
	x.spaces, x.sites, x.dirty = map[key.Space]*space{}, nil, map[key.Object]struct{}{}
}

// space has the Summaries of a space.
type space struct {
	name      key.Space
	summaries map[string]*summary
	// placed are the objects that some Summary matches, by path, with the locations that
	// were looked at.
	placed map[string]*placement.Membership
	// todo are keys of objects and reports to be looked at, current is what was begun.
	todo    queue
	current *task
	// filling are Summaries of which not all has been counted yet, and maybe others.
	filling []*summary
	// ahead is how much more changes have cost than counting for the first time, or less, since both had
	// to wait for each other.
	ahead int
	// asOf is what Summaries show: all changes before it are counted. It is zero while none waits for long.
	// moved is when it was last set to a later time.
	asOf, moved time.Time
	// bytes is what the Summaries hold together.
	bytes int
}

// summary is a Summary.
type summary struct {
	object     key.Object
	generation int64
	spec       string
	from       v1alpha1.SummarySource
	tests      placement.Tests
	problems   []string
	// definition is nil if there are problems, state if it would hold more than it may.
	definition *aggregate.Definition
	state      *aggregate.State
	// filling reports that not all has been counted yet: the keys in fill are to be looked at. began is when
	// that began, isLate reports that it is shown.
	filling, isLate bool
	fill            scan
	began           time.Time
	// missed reports that something has changed since it was given up, and until is the time
	// before which it is not counted again.
	missed bool
	until  time.Time
}

// task is the work for one key: for an object at all its locations, or for a report at one. It is done
// in parts, each in the state of its moment, and planned once. A change meanwhile makes a task of its own,
// so that an object that always changes costs its space one task after the other, and others have their turn
// between them. Its memory is bounded by the number of the space's Summaries.
type task struct {
	// key waits since then, if it is that of a change.
	waiting
	// only is the Summary for which it is done; nil: all.
	only *summary
	// isFirst reports that it counts an object for the first time for a Summary, also if it then finds that
	// the object has moved, and counts it for all.
	isFirst bool
	// isPlanned reports that matching, removals and additions are set, for an object that was assigned
	// as in assigned.
	isPlanned bool
	assigned  *placement.Membership
	matching  map[*summary]struct{}
	// removals come before additions.
	removals, additions pairs
}

// pairs are Summaries at locations, of which the first ones are done.
type pairs struct {
	locations []key.Location
	summaries []*summary
	done      int
}

// next returns the next pair; ok is false if there is none.
func (p *pairs) next() (m *summary, l key.Location, ok bool) {
	if p.done >= len(p.locations)*len(p.summaries) {
		return nil, "", false
	}
	m, l = p.summaries[p.done%len(p.summaries)], p.locations[p.done/len(p.summaries)]
	p.done++
	return m, l, true
}

// matches reports whether the object counts for a Summary.
func (t *task) matches(m *summary) bool {
	_, ok := t.matching[m]
	return ok
}

// Pause drops all that was counted, and keeps no changes until the next Work, which counts all anew.
func (x *Index) Pause() {
	x.working.Lock()
	defer x.working.Unlock()
	x.inbox.pause()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clear()
}

// Work does some of what there is to do, at a time, in a state that is at least as new as all
// that was observed when it is called. dirty are the Summaries whose status may have changed.
// more is true if there is more to do.
func (x *Index) Work(state func() *table.Snapshot, now time.Time) (dirty []key.Object, more bool) {
	x.working.Lock()
	defer x.working.Unlock()
	defer x.config.Work.End()
	n, isFirst := x.inbox.take(now)
	if n.reset {
		x.mu.Lock()
		x.clear()
		x.mu.Unlock()
	}
	if n.empty() && len(x.spaces) == 0 {
		return nil, false
	}
	w := &work{Index: x, Snapshot: state(), now: now, since: cmp.Or(n.since, now), known: aggregate.Known{}}
	for s, changes := range n.spaces {
		if isFirst {
			w.Ascend(key.ResourcePrefix(s, key.Summaries), func(row *table.Row) bool {
				_, _, name, _ := key.Split(row.Key)
				changes.summaries[name] = struct{}{}
				return true
			})
		}
		w.take(s, changes)
	}
	for l := range n.locations {
		w.moved(l)
	}
	more = w.workOnAll()
	if len(x.spaces) == 0 {
		x.mu.Lock()
		x.sites = nil
		x.mu.Unlock()
	}
	dirty = slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return dirty, more
}

// Shown has the fields of a Summary's status that are not counted.
type Shown struct {
	// Generation is that of the spec.
	Generation int64
	// Problems are the reasons why the spec can't be used.
	Problems []string
	Complete metav1.Condition
}

// Show puts what a Summary has counted into its status; ok is false if there is no such
// Summary, or if not all has been counted yet. If that takes long, the status stays, and Complete says so.
func (x *Index) Show(o key.Object, st *v1alpha1.SummaryStatus) (shown Shown, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.spaces[o.Space]
	if s == nil || s.summaries[o.Name] == nil {
		return shown, false
	}
	m := s.summaries[o.Name]
	if m.filling {
		return Shown{m.generation, m.problems, stillCounting(fmt.Sprintf("objects are counted for the first time since %s", m.began.UTC().Format(time.RFC3339)))}, m.isLate
	}
	shown = Shown{Generation: m.generation, Problems: m.problems}
	conditions := st.Conditions
	*st = v1alpha1.SummaryStatus{ObservedGeneration: m.generation, Conditions: conditions}
	switch {
	case m.definition == nil:
		shown.Complete = metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: "Invalid", Message: "the spec can't be used"}
	case m.state == nil:
		shown.Complete = aggregate.Overfull()
	default:
		shown.Complete = m.state.Status(st, func(l key.Location) bool { return x.sites[l] != nil && x.sites[l].stale })
		if s.asOf.IsZero() {
			break
		}
		st.AsOf = new(metav1.NewTime(s.asOf))
		if shown.Complete.Status == metav1.ConditionTrue {
			shown.Complete = stillCounting(fmt.Sprintf("changes after %s are not all counted yet", s.asOf.UTC().Format(time.RFC3339)))
		}
	}
	return shown, true
}

// stillCounting is the condition of a Summary that is late.
func stillCounting(what string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: "Counting",
		Message: what + ": the Summaries of this space have more to count than their share of the hub's time. Use fewer Summaries, match less, or use cheaper expressions",
	}
}

// Bytes is about how many bytes the Summaries of all spaces hold.
func (x *Index) Bytes() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.spaces {
		n += s.bytes
	}
	return n
}
