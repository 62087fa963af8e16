// Package unreturned indexes the requested statuses that are not returned because they do not fit,
// with the reasons and the Placements.
//
// It must never read or write the log.
package unreturned

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxLeftOutExamples bounds the statuses that a Placement's condition names.
const maxLeftOutExamples = 3

// Unfit is a status that is not returned because it does not fit.
type Unfit struct {
	// Location is its location; empty if it is merged from several. Placements are those that
	// request it.
	Location   key.Location
	Placements []key.PlacementRef
	// Limits names the limits that it exceeds; Why is the reason as text.
	Limits []string
	Why    string
	// Tried identifies the attempt, and Size is the size that the object would have had.
	Tried Tried
	Size  int
}

// Tried identifies an attempt to return a status: the object's membership, its revision, and the
// sum of the revisions of the reports.
type Tried struct {
	In          table.Membership
	Row, Report int64
}

// Index holds the unreturned statuses, at most one for each object. Entries of deleted objects are
// dropped. After a start of the hub it is empty, and is filled by new attempts. It is safe for
// concurrent use.
type Index struct {
	mu sync.Mutex
	// all is in the order of the objects' keys; named has the entries of each Placement. Copies are read without the
	// lock, since a space may have many.
	all   *btree.BTreeG[entry]
	named map[key.Placement]*btree.BTreeG[entry]
	dirty map[key.Placement]struct{}
	// changed wakes the controller that writes the status of Placements.
	changed func()
}

// entry is the unreturned status of the object with a key.
type entry struct {
	key string
	Unfit
}

func newEntries() *btree.BTreeG[entry] {
	return btree.NewBTreeGOptions(func(a, b entry) bool { return a.key < b.key }, btree.Options{NoLocks: true})
}

// New returns an empty Index. changed is called, with the lock held, when an entry has changed.
func New(changed func()) *Index {
	return &Index{
		all: newEntries(), named: map[key.Placement]*btree.BTreeG[entry]{}, dirty: map[key.Placement]struct{}{}, changed: changed,
	}
}

// Get returns the unreturned status of the object with a key.
func (l *Index) Get(k string) (Unfit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, ok := l.all.Get(entry{key: k})
	return one.Unfit, ok
}

// Add records the unreturned status of an object.
func (l *Index) Add(o key.Object, u Unfit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := o.Key()
	l.drop(o.Space, k)
	l.all.Set(entry{k, u})
	for _, ref := range u.Placements {
		p := ref.Resolve(o.Space)
		if l.named[p] == nil {
			l.named[p] = newEntries()
		}
		l.named[p].Set(entry{k, u})
		l.dirty[p] = struct{}{}
	}
	l.changed()
}

// Forget removes the unreturned status of an object.
func (l *Index) Forget(o key.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := o.Key(); l.drop(o.Space, k) {
		l.changed()
	}
}

func (l *Index) drop(s key.Space, k string) bool {
	u, ok := l.all.Delete(entry{key: k})
	if !ok {
		return false
	}
	for _, ref := range u.Placements {
		p := ref.Resolve(s)
		if named := l.named[p]; named != nil { // else it was named twice
			if named.Delete(entry{key: k}); named.Len() == 0 {
				delete(l.named, p)
			}
		}
		l.dirty[p] = struct{}{}
	}
	return true
}

// In returns the keys of a space's objects with an unreturned status.
func (l *Index) In(s key.Space) (keys []string) {
	l.mu.Lock()
	all := l.all.Copy()
	l.mu.Unlock()
	prefix := key.SpacePrefix(s)
	all.Ascend(entry{key: prefix}, func(one entry) bool {
		if !strings.HasPrefix(one.key, prefix) {
			return false
		}
		keys = append(keys, one.key)
		return true
	})
	return keys
}

// Dirty returns the Placements whose entries may have changed since the last call. Some may no
// longer exist.
func (l *Index) Dirty() []key.Placement {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Collect(maps.Keys(l.dirty))
	clear(l.dirty)
	return all
}

// Missed are the unreturned statuses of a Placement.
type Missed struct {
	Count  int
	limits []string
	// examples are the first of them.
	examples []example
}

// example is an object, as GROUP/RESOURCE/[NAMESPACE/]NAME, and the location of its status, if it
// is a single one. For an object of another space than the reader's, only the space is known.
type example struct {
	object   string
	location key.Location
	space    key.Space
}

// String describes the example.
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

// Without returns a copy that does not name objects unknown to the reader.
func (m Missed) Without(unknown func(object string) bool) Missed {
	m.examples = slices.DeleteFunc(slices.Clone(m.examples), func(e example) bool { return e.object != "" && unknown(e.object) })
	return m
}

// Missed returns the unreturned statuses of a Placement for readers in a space: all of them in the
// Placement's own space, and those of the reader's space in others.
func (l *Index) Missed(p key.Placement, in key.Space) (m Missed) {
	named := l.entries(p)
	if named == nil {
		return m
	}
	prefix, first := key.SpacePrefix(in), entry{}
	if in != p.Space {
		first.key = prefix
	}
	named.Ascend(first, func(one entry) bool {
		object, isHere := strings.CutPrefix(one.key, prefix)
		if in != p.Space && !isHere {
			return false
		}
		m.Count++
		for _, limit := range one.Limits {
			if !slices.Contains(m.limits, limit) {
				m.limits = append(m.limits, limit)
			}
		}
		if len(m.examples) == maxLeftOutExamples {
			return true
		}
		e := example{location: one.Location}
		if isHere {
			e.object = object
		} else if o, err := key.ParseObject(one.key); err == nil {
			e.space = o.Space
		}
		m.examples = append(m.examples, e)
		return true
	})
	slices.Sort(m.limits)
	return m
}

// entries returns a copy of the entries of a Placement; nil if there are none.
func (l *Index) entries(p key.Placement) *btree.BTreeG[entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if named := l.named[p]; named != nil {
		return named.Copy()
	}
	return nil
}

// String describes the unreturned statuses. The text changes only with these.
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

// Condition returns the condition of a Placement with unreturned statuses.
func (m Missed) Condition() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionStatusReturned, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStatusLeftOut, Message: m.String(),
	}
}
