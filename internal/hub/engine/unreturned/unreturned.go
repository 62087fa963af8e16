// Package unreturned keeps which statuses that Placements ask for are not returned because
// they do not fit, why, and for which Placements.
//
// It must never read or write the log.
package unreturned

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxLeftOutExamples is how many statuses a Placement's condition names.
const maxLeftOutExamples = 3

// Unfit is a status that is left out because it does not fit.
type Unfit struct {
	// Location is where it is from, empty if it is merged of several; Placements are those
	// that ask for it.
	Location   key.Location
	Placements []key.PlacementRef
	// Limits names the limits that it exceeds; Why says it to people.
	Limits []string
	Why    string
	// Tried is what was tried, and Size how large the object would have been.
	Tried Tried
	Size  int
}

// Tried identifies one attempt to return a status: the object's membership, the revision of
// the object, and the sum of those of the reports.
type Tried struct {
	In          table.Membership
	Row, Report int64
}

// Index keeps the statuses that are left out. It has at most one for each object, forgets it when the object is deleted, and is filled again after a
// start of the hub. It is safe for concurrent use.
type Index struct {
	mu sync.Mutex
	// all has them by the object's key; named has those keys by Placement.
	all   map[string]Unfit
	named map[key.Placement]map[string]struct{}
	dirty map[key.Placement]struct{}
	// changed wakes the controller that writes the status of Placements.
	changed func()
}

// New makes an Index. changed is called, with its lock held, when what is left out has
// changed.
func New(changed func()) *Index {
	return &Index{
		all: map[string]Unfit{}, named: map[key.Placement]map[string]struct{}{}, dirty: map[key.Placement]struct{}{}, changed: changed,
	}
}

// Get is the status that is left out for the object with a key.
func (l *Index) Get(k string) (Unfit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, ok := l.all[k]
	return u, ok
}

// Note notes that a status is left out for an object.
func (l *Index) Note(o key.Object, u Unfit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := o.Key()
	l.drop(o.Space, k)
	l.all[k] = u
	for _, ref := range u.Placements {
		p := ref.Of(o.Space)
		if l.named[p] == nil {
			l.named[p] = map[string]struct{}{}
		}
		l.named[p][k] = struct{}{}
		l.dirty[p] = struct{}{}
	}
	l.changed()
}

// Forget notes that no status is left out for an object.
func (l *Index) Forget(o key.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := o.Key(); l.drop(o.Space, k) {
		l.changed()
	}
}

func (l *Index) drop(s key.Space, k string) bool {
	u, ok := l.all[k]
	if !ok {
		return false
	}
	delete(l.all, k)
	for _, ref := range u.Placements {
		p := ref.Of(s)
		if delete(l.named[p], k); len(l.named[p]) == 0 {
			delete(l.named, p)
		}
		l.dirty[p] = struct{}{}
	}
	return true
}

// In are the keys of a space's objects whose status is left out.
func (l *Index) In(s key.Space) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.all {
		if strings.HasPrefix(k, key.SpacePrefix(s)) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Dirty names the Placements for which what is left out may have changed since it was
// last called; some may be gone.
func (l *Index) Dirty() []key.Placement {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Collect(maps.Keys(l.dirty))
	clear(l.dirty)
	return all
}

// Missed are the statuses that a Placement asks for and that are left out.
type Missed struct {
	Count  int
	limits []string
	// examples are the first of them.
	examples []example
}

// example is an object, as GROUP/RESOURCE/[NAMESPACE/]NAME, and the location from which its
// status is, if it is one. Of an object of another space, which is for who may read it, there is only that.
type example struct {
	object   string
	location key.Location
	space    key.Space
}

// String says it to people.
func (e example) String() string {
	text := e.object
	if e.space != "" {
		text = "of space " + string(e.space)
	}
	if e.location != "" {
		text += " from " + string(e.location)
	}
	return text
}

// Without is the same without naming objects that somebody may not know.
func (m Missed) Without(unknown func(object string) bool) Missed {
	m.examples = slices.DeleteFunc(slices.Clone(m.examples), func(e example) bool { return e.object != "" && unknown(e.object) })
	return m
}

// Of sums up what is left out for a Placement, as it is told in a space: in the Placement's
// own all, in another its own.
func (l *Index) Of(p key.Placement, in key.Space) (m Missed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first []string
	prefix := key.SpacePrefix(in)
	for k := range l.named[p] {
		if in != p.Space && !strings.HasPrefix(k, prefix) {
			continue
		}
		m.Count++
		for _, limit := range l.all[k].Limits {
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
		e := example{location: l.all[k].Location}
		if object, here := strings.CutPrefix(k, prefix); here {
			e.object = object
		} else if o, err := key.ParseObject(k); err == nil {
			e.space = o.Space
		}
		m.examples = append(m.examples, e)
	}
	return m
}

// String says it to people. The text changes only with what is left out.
func (m Missed) String() string {
	if m.Count == 0 {
		return ""
	}
	text := fmt.Sprintf("statuses that do not fit are left out (%s)", strings.Join(m.limits, ", "))
	if len(m.examples) == 0 {
		return fmt.Sprintf("%s: %d", text, m.Count)
	}
	for i, e := range m.examples {
		text += []string{": ", ", "}[min(i, 1)] + e.String()
	}
	if n := m.Count - len(m.examples); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text + "; orrery why says more"
}

// Condition is the condition of a Placement for which statuses are left out.
func (m Missed) Condition() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionStatusReturned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStatusLeftOut, Message: m.String(),
	}
}
