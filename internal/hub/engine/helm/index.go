// Package helm finds the Helm releases that a Placement matches only in part, since an application
// rarely works if only some of its objects are placed.
//
// It observes every change. For each release, it keeps the objects, and how many of them each
// Placement matches. So the cost of a change is bounded by the number of Placements that match
// objects of the release. It identifies objects by the metadata that Helm writes (label
// app.kubernetes.io/managed-by, annotations meta.helm.sh/…), which release records and hooks do not
// have. The package must never write, and has no goroutine and no clock.
package helm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxParts and maxExamples bound the releases that are named, and the objects of each.
	maxParts    = 5
	maxExamples = 3
)

// PartialRelease is a release of which a Placement matches some objects but not all.
type PartialRelease struct {
	// Release is NAMESPACE/NAME. It is empty if the release is in another space, Space, than the
	// reader: only users that may read its objects know the name.
	Release string
	Space   key.Space
	// Matched counts the matched ones of its Objects.
	Matched, Objects int
	// Missing are the first objects that are not matched, as GROUP/RESOURCE/[NAMESPACE/]NAME,
	// without confidential ones.
	Missing []string
}

// String describes the release and the missing objects.
func (p PartialRelease) String() string {
	subject := "Helm release " + p.Release
	if p.Release == "" {
		subject = "a Helm release in space " + string(p.Space)
	}
	text := fmt.Sprintf("matches %d of the %d objects of %s", p.Matched, p.Objects, subject)
	if len(p.Missing) == 0 {
		return text
	}
	if text += ", not " + strings.Join(p.Missing, ", "); p.Objects-p.Matched > len(p.Missing) {
		text += fmt.Sprintf(" and %d more", p.Objects-p.Matched-len(p.Missing))
	}
	return text
}

// releaseObjects are the objects of one release.
type releaseObjects struct {
	// objects are the objects that may be placed, in the order of their keys. A copy is read without the lock.
	objects *btree.BTreeG[member]
	// matched counts them by the Placements that match them.
	matched map[key.PlacementRef]int
}

// member is an object of a release, by its key.
type member struct {
	key        string
	membership *placement.Membership
}

// id identifies a release, as NAMESPACE/NAME, of a space.
type id struct {
	space key.Space
	name  string
}

// Index holds the releases. It is a table.Observer and safe for concurrent use.
type Index struct {
	mu      sync.Mutex
	all     map[key.Space]map[string]*releaseObjects // by NAMESPACE/NAME
	partial map[key.Placement]*btree.BTreeG[id]      // those that are matched in part, in order
	dirty   map[key.Placement]struct{}
}

var _ table.Observer = (*Index)(nil)

// New returns an empty Index.
func New() *Index {
	return &Index{all: map[key.Space]map[string]*releaseObjects{}, partial: map[key.Placement]*btree.BTreeG[id]{}, dirty: map[key.Placement]struct{}{}}
}

// Reset implements table.Observer.
func (x *Index) Reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.all)
	clear(x.partial)
}

// Observe implements table.Observer.
func (x *Index) Observe(_ int64, changes []table.Change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ch := range changes {
		old, now := nameOf(ch.Prev), nameOf(ch.Cur)
		if old == "" && now == "" || ch.Prev != nil && ch.Cur != nil && old == now && ch.Prev.In == ch.Cur.In {
			continue
		}
		o, err := key.ParseObject(ch.Row().Key)
		if err != nil || placement.Never(o.Resource) != "" {
			continue
		}
		if old != "" {
			x.remove(o.Space, old, ch.Prev.Key)
		}
		if now != "" {
			x.add(o.Space, now, ch.Cur)
		}
	}
}

// nameOf returns the release of an object, as NAMESPACE/NAME; empty if it has none or is being
// deleted.
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
		x.all[s] = map[string]*releaseObjects{}
	}
	r := x.all[s][name]
	if r == nil {
		r = &releaseObjects{objects: ordered(func(a, b member) bool { return a.key < b.key }), matched: map[key.PlacementRef]int{}}
		x.all[s][name] = r
	}
	m, _ := row.In.(*placement.Membership)
	r.objects.Set(member{row.Key, m})
	r.count(s, m, 1)
	x.changed(id{s, name}, r)
}

func (x *Index) remove(s key.Space, name, k string) {
	r := x.all[s][name]
	if r == nil {
		return
	}
	for ref := range r.matched {
		x.list(ref.Resolve(s), id{s, name}, false)
	}
	defer x.changed(id{s, name}, r)
	one, known := r.objects.Delete(member{key: k})
	if !known {
		return
	}
	r.count(s, one.membership, -1)
	if r.objects.Len() == 0 {
		if delete(x.all[s], name); len(x.all[s]) == 0 {
			delete(x.all, s)
		}
	}
}

// changed updates which Placements match a release in part, of those that match it at all.
func (x *Index) changed(release id, r *releaseObjects) {
	for ref, n := range r.matched {
		x.list(ref.Resolve(release.space), release, n < r.objects.Len())
	}
}

// list records whether a Placement matches a release in part, and marks the Placement as dirty.
func (x *Index) list(p key.Placement, release id, inPart bool) {
	x.dirty[p] = struct{}{}
	all := x.partial[p]
	switch {
	case inPart && all == nil:
		all = ordered(func(a, b id) bool { return a.compare(b) < 0 })
		x.partial[p] = all
		all.Set(release)
	case inPart:
		all.Set(release)
	case all != nil:
		if all.Delete(release); all.Len() == 0 {
			delete(x.partial, p)
		}
	}
}

func ordered[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// count adds n to the count of each Placement that matches an object of a space. It ignores
// Placements of consumers that have bound a CRD of the release.
func (r *releaseObjects) count(s key.Space, m *placement.Membership, n int) {
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

// Dirty returns the Placements whose Parts may have changed since the last call. Some may no longer
// exist.
func (x *Index) Dirty() []key.Placement {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Collect(maps.Keys(x.dirty))
	clear(x.dirty)
	return all
}

// PartialReleases returns the first maxParts releases, by space and name, that a Placement matches in part,
// for readers in a space: all of them in the Placement's own space, and those of the reader's space
// in others.
func (x *Index) PartialReleases(p key.Placement, in key.Space) []PartialRelease {
	all, objects := x.firstParts(p, in)
	for i := range all { // a release has as many objects as its space may have
		if objects[i] != nil {
			all[i].Missing = missing(objects[i], p.In(in), in)
		}
	}
	return all
}

// firstParts returns Parts without Missing, and copies of the objects of those releases that the readers may know.
// Its cost depends on maxParts alone.
func (x *Index) firstParts(p key.Placement, in key.Space) (all []PartialRelease, objects []*btree.BTreeG[member]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	partial, first := x.partial[p], id{}
	if partial == nil {
		return nil, nil
	}
	if in != p.Space {
		first.space = in
	}
	partial.Ascend(first, func(release id) bool {
		if in != p.Space && in != release.space {
			return false
		}
		r := x.all[release.space][release.name]
		one, own := PartialRelease{Space: release.space, Matched: r.matched[p.In(release.space)], Objects: r.objects.Len()}, (*btree.BTreeG[member])(nil)
		if release.space == in {
			one.Release, own = release.name, r.objects.Copy()
		}
		all, objects = append(all, one), append(objects, own)
		return len(all) < maxParts
	})
	return all, objects
}

func (a id) compare(b id) int {
	return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.name, b.name))
}

// missing returns the first objects that a Placement does not match.
func missing(objects *btree.BTreeG[member], p key.PlacementRef, in key.Space) (first []string) {
	prefix := key.SpacePrefix(in)
	objects.Scan(func(one member) bool {
		if m := one.membership; m != nil && slices.ContainsFunc(m.Sources(), func(s placement.Source) bool { return s.Placement == p }) {
			return true
		}
		if o, err := key.ParseObject(one.key); err == nil && !o.Concealed() {
			first = append(first, strings.TrimPrefix(one.key, prefix))
		}
		return len(first) < maxExamples
	})
	return first
}
