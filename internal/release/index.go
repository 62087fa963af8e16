// Package release finds the Helm releases that a Placement matches in part: an
// application of which some objects travel and others stay rarely works.
//
// It observes every change and keeps, for each release, its objects and how many of them
// each Placement matches, so the cost of a change is bounded by the number of Placements
// that match the object's release. It goes by what Helm writes on objects (label
// app.kubernetes.io/managed-by, annotations meta.helm.sh/…): the records that Helm keeps
// of releases do not have these, nor do hooks. It must never write, and has no goroutine
// and no clock.
package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/placement"
	"orrery.dev/orrery/internal/table"
)

const (
	// maxParts and maxExamples bound how many releases, and objects of each, are named.
	maxParts    = 5
	maxExamples = 3
)

// Part is a release of which a Placement matches some objects but not all.
type Part struct {
	// Release is NAMESPACE/NAME.
	Release string
	// Matched is how many of its Objects are matched.
	Matched, Objects int
	// Missing are the first objects that are not, as GROUP/RESOURCE/[NAMESPACE/]NAME, of
	// those that all may know who read Placements.
	Missing []string
}

// String says it to people.
func (p Part) String() string {
	text := fmt.Sprintf("matches %d of the %d objects of Helm release %s", p.Matched, p.Objects, p.Release)
	if len(p.Missing) == 0 {
		return text
	}
	if text += ", not " + strings.Join(p.Missing, ", "); p.Objects-p.Matched > len(p.Missing) {
		text += fmt.Sprintf(" and %d more", p.Objects-p.Matched-len(p.Missing))
	}
	return text
}

// of is what is known of one release.
type of struct {
	// objects are those that may travel, by key, with how they are placed.
	objects map[string]*placement.Membership
	// matched counts them by the Placements that match them.
	matched map[key.PlacementRef]int
}

// Index is safe for concurrent use. It is a table.Observer.
type Index struct {
	mu    sync.Mutex
	all   map[key.Space]map[string]*of // by NAMESPACE/NAME
	dirty map[key.Placement]struct{}
}

var _ table.Observer = (*Index)(nil)

// New makes an Index that has observed nothing.
func New() *Index {
	return &Index{all: map[key.Space]map[string]*of{}, dirty: map[key.Placement]struct{}{}}
}

// Reset forgets everything.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.all)
}

// Observe notes the objects of releases among the changes of a revision.
func (x *Index) Observe(_ int64, changes []table.Change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ch := range changes {
		was, now := nameOf(ch.Prev), nameOf(ch.Cur)
		if was == "" && now == "" || ch.Prev != nil && ch.Cur != nil && was == now && ch.Prev.In == ch.Cur.In {
			continue
		}
		o, err := key.ParseObject(ch.Row().Key)
		if err != nil || placement.Never(o.Resource) != "" {
			continue
		}
		if was != "" {
			x.remove(o.Space, was, ch.Prev.Key)
		}
		if now != "" {
			x.add(o.Space, now, ch.Cur)
		}
	}
}

// nameOf is the release of an object, as NAMESPACE/NAME; empty if it is of none or is
// being deleted.
func nameOf(row *table.Row) string {
	if row == nil || row.Meta.Deleting {
		return ""
	}
	r, ok := placement.HelmRelease(row)
	if !ok {
		return ""
	}
	return r.Namespace + "/" + r.Name
}

func (x *Index) add(s key.Space, name string, row *table.Row) {
	if x.all[s] == nil {
		x.all[s] = map[string]*of{}
	}
	r := x.all[s][name]
	if r == nil {
		r = &of{objects: map[string]*placement.Membership{}, matched: map[key.PlacementRef]int{}}
		x.all[s][name] = r
	}
	m, _ := row.In.(*placement.Membership)
	r.objects[row.Key] = m
	r.count(m, 1)
	x.changed(s, r)
}

func (x *Index) remove(s key.Space, name, k string) {
	r := x.all[s][name]
	if r == nil {
		return
	}
	x.changed(s, r)
	m, known := r.objects[k]
	if !known {
		return
	}
	r.count(m, -1)
	if delete(r.objects, k); len(r.objects) == 0 {
		if delete(x.all[s], name); len(x.all[s]) == 0 {
			delete(x.all, s)
		}
	}
}

// changed marks the Placements that match objects of a release as dirty.
func (x *Index) changed(s key.Space, r *of) {
	for ref := range r.matched {
		x.dirty[ref.Of(s)] = struct{}{}
	}
}

// count adds n to the count of each Placement that matches an object.
func (r *of) count(m *placement.Membership, n int) {
	if m == nil {
		return
	}
	for _, source := range m.Sources() {
		if source.Placement == "" {
			continue
		}
		if r.matched[source.Placement] += n; r.matched[source.Placement] == 0 {
			delete(r.matched, source.Placement)
		}
	}
}

// Dirty names the Placements whose Parts may have changed since it was last called;
// some may be gone.
func (x *Index) Dirty() []key.Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return all
}

// Parts are the first maxParts releases, by name, that a Placement matches in part.
func (x *Index) Parts(p key.Placement) []Part {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for name, r := range x.all[p.Space] {
		if n := r.matched[p.In(p.Space)]; n > 0 && n < len(r.objects) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []Part
	for _, name := range names[:min(maxParts, len(names))] {
		r := x.all[p.Space][name]
		all = append(all, Part{Release: name, Matched: r.matched[p.In(p.Space)], Objects: len(r.objects), Missing: r.missing(p)})
	}
	return all
}

// missing are the first objects that a Placement does not match.
func (r *of) missing(p key.Placement) []string {
	var first []string
	for k, m := range r.objects {
		if m != nil && slices.ContainsFunc(m.Sources(), func(s placement.Source) bool { return s.Placement == p.In(p.Space) }) {
			continue
		}
		if o, err := key.ParseObject(k); err != nil || o.Concealed() {
			continue
		}
		if i, _ := slices.BinarySearch(first, k); i < maxExamples {
			first = slices.Insert(first, i, k)
			first = first[:min(maxExamples, len(first))]
		}
	}
	prefix := key.SpacePrefix(p.Space)
	for i := range first {
		first[i] = strings.TrimPrefix(first[i], prefix)
	}
	return first
}
