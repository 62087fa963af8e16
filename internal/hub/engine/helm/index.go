// Package helm finds the Helm releases that a Placement matches in part: an
// application of which some objects travel and others stay rarely works.
//
// It observes every change and keeps, for each release, its objects and how many of them
// each Placement matches, so the cost of a change is bounded by the number of Placements
// that match the object's release. It goes by what Helm writes on objects (label
// app.kubernetes.io/managed-by, annotations meta.helm.sh/…): the records that Helm keeps
// of releases do not have these, nor do hooks. It must never write, and has no goroutine
// and no clock.
package helm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxParts and maxExamples bound how many releases, and objects of each, are named.
	maxParts    = 5
	maxExamples = 3
)

// Part is a release of which a Placement matches some objects but not all.
type Part struct {
	// Release is NAMESPACE/NAME; empty if it is in Space, which is another than the one in
	// which this is told, where it is for who may read its objects.
	Release string
	Space   key.Space
	// Matched is how many of its Objects are matched.
	Matched, Objects int
	// Missing are the first objects that are not, as GROUP/RESOURCE/[NAMESPACE/]NAME, of
	// those that all may know who read Placements.
	Missing []string
}

// String says it to people.
func (p Part) String() string {
	of := "Helm release " + p.Release
	if p.Release == "" {
		of = "a Helm release in space " + string(p.Space)
	}
	text := fmt.Sprintf("matches %d of the %d objects of %s", p.Matched, p.Objects, of)
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

// id is a release, as NAMESPACE/NAME, of a space.
type id struct {
	space key.Space
	name  string
}

// Index is safe for concurrent use. It is a table.Observer.
type Index struct {
	mu    sync.Mutex
	all   map[key.Space]map[string]*of      // by NAMESPACE/NAME
	parts map[key.Placement]map[id]struct{} // those of which not all is matched
	dirty map[key.Placement]struct{}
}

var _ table.Observer = (*Index)(nil)

// New makes an Index that has observed nothing.
func New() *Index {
	return &Index{all: map[key.Space]map[string]*of{}, parts: map[key.Placement]map[id]struct{}{}, dirty: map[key.Placement]struct{}{}}
}

// Reset forgets everything.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.all)
	clear(x.parts)
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
	r.count(s, m, 1)
	x.changed(id{s, name}, r)
}

func (x *Index) remove(s key.Space, name, k string) {
	r := x.all[s][name]
	if r == nil {
		return
	}
	for ref := range r.matched {
		x.list(ref.Of(s), id{s, name}, false)
	}
	defer x.changed(id{s, name}, r)
	m, known := r.objects[k]
	if !known {
		return
	}
	r.count(s, m, -1)
	if delete(r.objects, k); len(r.objects) == 0 {
		if delete(x.all[s], name); len(x.all[s]) == 0 {
			delete(x.all, s)
		}
	}
}

// changed notes which Placements match a release in part, of those that match it at all.
func (x *Index) changed(release id, r *of) {
	for ref, n := range r.matched {
		x.list(ref.Of(release.space), release, n < len(r.objects))
	}
}

// list notes whether a Placement matches a release in part, and that it may be so since now.
func (x *Index) list(p key.Placement, release id, inPart bool) {
	x.dirty[p] = struct{}{}
	switch {
	case !inPart:
		if delete(x.parts[p], release); len(x.parts[p]) == 0 {
			delete(x.parts, p)
		}
	case x.parts[p] == nil:
		x.parts[p] = map[id]struct{}{release: {}}
	default:
		x.parts[p][release] = struct{}{}
	}
}

// count adds n to the count of each Placement that matches an object of a space. One of a
// space that has bound what a definition of the release defines is about no release.
func (r *of) count(s key.Space, m *placement.Membership, n int) {
	if m == nil {
		return
	}
	for _, source := range m.Sources() {
		if source.Placement == "" || source.Placement.Binds(s) {
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

// Parts are the first maxParts releases, by space and name, that a Placement matches in
// part, as they are told in a space: in the Placement's own all, in another its own.
func (x *Index) Parts(p key.Placement, in key.Space) []Part {
	x.mu.Lock()
	defer x.mu.Unlock()
	var first []id
	for release := range x.parts[p] {
		if in != p.Space && in != release.space {
			continue
		}
		if i, _ := slices.BinarySearchFunc(first, release, id.compare); i < maxParts {
			first = slices.Insert(first, i, release)
			first = first[:min(maxParts, len(first))]
		}
	}
	var all []Part
	for _, release := range first {
		r := x.all[release.space][release.name]
		of := Part{Space: release.space, Matched: r.matched[p.In(release.space)], Objects: len(r.objects)}
		if release.space == in {
			of.Release, of.Missing = release.name, r.missing(p.In(in), in)
		}
		all = append(all, of)
	}
	return all
}

func (a id) compare(b id) int {
	return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.name, b.name))
}

// missing are the first objects that a Placement does not match.
func (r *of) missing(p key.PlacementRef, in key.Space) []string {
	var first []string
	for k, m := range r.objects {
		if m != nil && slices.ContainsFunc(m.Sources(), func(s placement.Source) bool { return s.Placement == p }) {
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
	prefix := key.SpacePrefix(in)
	for i := range first {
		first[i] = strings.TrimPrefix(first[i], prefix)
	}
	return first
}
