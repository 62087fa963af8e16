package hub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/tally"
)

// maxLeftOutExamples bounds what is said of one Placement.
const maxLeftOutExamples = 3

// unfit is a status that is left out, since it does not fit.
type unfit struct {
	// location is where it is from, placements are those that ask for it.
	location   string
	placements []string
	// limits names what it does not fit, why says it to people.
	limits []string
	why    string
	// tried is what was tried, and size how large the object would have been.
	tried tried
	size  int
}

// tried names one try to return a status.
type tried struct {
	in          table.Membership
	row, report int64
}

// misfit says why a write of a returned status was refused, if that is because it does
// not fit.
func misfit(err error) (limits []string, why string, ok bool) {
	var exceeded *space.ExceededError
	switch {
	case errors.As(err, &exceeded):
		return exceeded.Limits, exceeded.Error(), true
	case respond.NoRoom(err):
		return []string{v1alpha1.ReasonLogFull}, err.Error(), true
	}
	return nil, "", false
}

// tooLarge says that an object with its status would be larger than any may be.
func tooLarge(s key.Space, size int) error {
	return &space.ExceededError{
		Space: s, Limits: []string{"objectBytes"},
		Text: fmt.Sprintf("requested: objectBytes=%d, limited: objectBytes=%d", size, space.DefaultObjectBytes),
	}
}

// leftOut knows the statuses that are left out. It has at most one for each object
// that is at one location, forgets it when the object goes, and is filled anew when the
// hub starts. It is safe for concurrent use.
type leftOut struct {
	mu sync.Mutex
	// all are by the object's key, named those keys by Placement.
	all   map[string]unfit
	named map[tally.Placement]map[string]struct{}
	dirty map[tally.Placement]struct{}
	// changed wakes who writes what Placements say.
	changed signal
}

func newLeftOut(changed signal) *leftOut {
	return &leftOut{
		all: map[string]unfit{}, named: map[tally.Placement]map[string]struct{}{}, dirty: map[tally.Placement]struct{}{}, changed: changed,
	}
}

// get is what is left out of an object.
func (l *leftOut) get(k string) (unfit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, ok := l.all[k]
	return u, ok
}

// note remembers what is left out of an object.
func (l *leftOut) note(o key.Object, u unfit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := o.Key()
	l.drop(o.Space, k)
	l.all[k] = u
	for _, name := range u.placements {
		p := tally.Placement{Space: o.Space, Name: name}
		if l.named[p] == nil {
			l.named[p] = map[string]struct{}{}
		}
		l.named[p][k] = struct{}{}
		l.dirty[p] = struct{}{}
	}
	l.changed.raise()
}

// forget is for an object of which nothing is left out.
func (l *leftOut) forget(o key.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := o.Key(); l.drop(o.Space, k) {
		l.changed.raise()
	}
}

func (l *leftOut) drop(s key.Space, k string) bool {
	u, ok := l.all[k]
	if !ok {
		return false
	}
	delete(l.all, k)
	for _, name := range u.placements {
		p := tally.Placement{Space: s, Name: name}
		if delete(l.named[p], k); len(l.named[p]) == 0 {
			delete(l.named, p)
		}
		l.dirty[p] = struct{}{}
	}
	return true
}

// in are the keys of the objects of a space of which something is left out.
func (l *leftOut) in(s key.Space) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.all {
		if strings.HasPrefix(k, key.SpacePrefix(s)) {
			keys = append(keys, k)
		}
	}
	return keys
}

// takeDirty names the Placements of which something else may be left out since it was
// last called; some may be gone.
func (l *leftOut) takeDirty() []tally.Placement {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Collect(maps.Keys(l.dirty))
	clear(l.dirty)
	return all
}

// missedStatuses are the statuses that a Placement asks for and that are left out.
type missedStatuses struct {
	count  int
	limits []string
	// examples are the first of them.
	examples []string
}

// of adds up what is left out for a Placement.
func (l *leftOut) of(p tally.Placement) (m missedStatuses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first []string
	for k := range l.named[p] {
		m.count++
		for _, limit := range l.all[k].limits {
			if !slices.Contains(m.limits, limit) {
				m.limits = append(m.limits, limit)
			}
		}
		if len(first) < maxLeftOutExamples {
			first = append(first, k)
		} else if last := slices.Index(first, slices.Max(first)); k < first[last] {
			first[last] = k
		}
	}
	slices.Sort(m.limits)
	slices.Sort(first)
	for _, k := range first {
		m.examples = append(m.examples, strings.TrimPrefix(k, key.SpacePrefix(p.Space))+" from "+l.all[k].location)
	}
	return m
}

// String says it to people, in words that change only with what is left out.
func (m missedStatuses) String() string {
	if m.count == 0 {
		return ""
	}
	more := ""
	if n := m.count - len(m.examples); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("statuses that do not fit are left out (%s): %s%s; orrery why says more", strings.Join(m.limits, ", "), strings.Join(m.examples, ", "), more)
}

// condition is that of a Placement for which statuses are left out.
func (m missedStatuses) condition() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionStatusReturned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStatusLeftOut, Message: m.String(),
	}
}
