// Package summaries keeps what all Summaries of all spaces count up to date.
//
// It observes every change and, when it is told to work, has each Summary that a change may
// concern evaluate its expressions for the objects and locations that have changed, and for
// no others; what is decoded of an object or report, and what an expression gives for it, is
// shared by all of them. What a Summary shows follows from the state alone. Work is bounded,
// space by space, so that expressions that cost much hold up their own space. The package must
// never write, and has no goroutine and no clock.
package summaries

import (
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
	// budget is what is done for one space at a time, in units of CEL's costs.
	budget = 500_000
	// costOfLook is what it costs besides to look at an object at a location.
	costOfLook = 100
	// maxSpaceBytes bounds what the Summaries of one space hold together.
	maxSpaceBytes = 64 << 20
	// tryAgain is how long a Summary that would hold more than it may is not counted again.
	tryAgain = time.Minute
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
}

// Index is safe for concurrent use. It is a table.Observer: Observe only notes changes; Work
// counts them.
type Index struct {
	config Config
	inbox  inbox

	mu     sync.Mutex
	spaces map[key.Space]*space
	// sites are the locations; nil as long as no Summary has needed them.
	sites map[key.Location]*site
	dirty map[key.Object]struct{}
}

var _ table.Observer = (*Index)(nil)

// New makes an Index that has observed nothing.
func New(config Config) *Index {
	x := &Index{config: config}
	x.inbox.has = map[key.Space]int{}
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
	// todo are keys of objects and reports to be looked at.
	todo map[string]struct{}
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
	// filling says that not all has been counted yet: the keys in fill are to be looked at.
	filling bool
	fill    []string
	// missed says that something has changed since it was given up, and until is the time
	// before which it is not counted again.
	missed bool
	until  time.Time
}

// Work does some of what there is to do, at a time, in a state that is at least as new as all
// that was observed when it is called. dirty are the Summaries whose status may have changed;
// more says that there is more to do.
func (x *Index) Work(state func() *table.Snapshot, now time.Time) (dirty []key.Object, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.config.Work.End()
	n := x.inbox.take()
	if n.reset {
		x.clear()
	}
	if n.empty() && len(x.spaces) == 0 {
		return nil, false
	}
	w := &work{Index: x, Snapshot: state(), now: now, known: aggregate.Known{}}
	for s, of := range n.spaces {
		w.take(s, of)
	}
	for l := range n.locations {
		w.moved(l)
	}
	for _, s := range x.spaces {
		if more = w.workOn(s) || more; len(s.summaries) == 0 {
			delete(x.spaces, s.name)
		}
	}
	if len(x.spaces) == 0 {
		x.sites = nil
	}
	dirty = slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return dirty, more
}

// Shown is what a Summary's status is to say.
type Shown struct {
	// Generation is that of the spec.
	Generation int64
	// Problems say why the spec can't be used.
	Problems []string
	Complete metav1.Condition
}

// Show puts what a Summary has counted into its status; ok is false if there is no such
// Summary, or if not all has been counted yet.
func (x *Index) Show(o key.Object, st *v1alpha1.SummaryStatus) (shown Shown, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.spaces[o.Space]
	if s == nil || s.summaries[o.Name] == nil || s.summaries[o.Name].filling {
		return shown, false
	}
	m := s.summaries[o.Name]
	shown = Shown{Generation: m.generation, Problems: m.problems}
	conditions := st.Conditions
	*st = v1alpha1.SummaryStatus{ObservedGeneration: m.generation, Conditions: conditions}
	switch {
	case m.definition == nil:
		shown.Complete = metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionFalse, Reason: "Invalid", Message: "the spec can't be used"}
	case m.state == nil:
		shown.Complete = aggregate.Overfull()
	default:
		shown.Complete = m.state.Status(st, func(l key.Location) bool { return x.sites[l] != nil && x.sites[l].away })
	}
	return shown, true
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
