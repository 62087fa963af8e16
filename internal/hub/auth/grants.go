package auth

import (
	"encoding/json"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// grant is a compiled Grant. It is immutable.
type grant struct {
	// entry is the stored Grant.
	entry *table.Entry
	// space is the space of the Grant.
	space key.Space
	spec  v1alpha1.GrantSpec
	// selector selects spaces by label; nil if there is none.
	selector labels.Selector
	// isRight reports whether the Grant gives rights in spaces. Rights on the hub and impersonation
	// do not count.
	isRight bool
}

// compile compiles the Grant of a row; nil if it is not a Grant, is being deleted, or is for a
// lower hub.
func compile(row *table.Row) *grant {
	s, resource, _, ok := key.Split(row.Key)
	if !ok || resource != key.Grants || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		return nil
	}
	var object v1alpha1.Grant
	if json.Unmarshal(row.Value, &object) != nil {
		return nil // the API rejects such a Grant
	}
	g := &grant{entry: row.Entry, space: s, spec: object.Spec}
	if spaces := g.spec.Spaces; spaces != nil {
		if s != key.Root {
			return nil
		}
		if spaces.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(spaces.Selector)
			if err != nil {
				return nil
			}
			g.selector = selector
		}
	}
	g.isRight = len(g.spec.Roles) > 0 || slices.ContainsFunc(g.spec.Rules, func(r v1alpha1.GrantRule) bool {
		return len(r.Resources) > 0 && slices.ContainsFunc(r.Verbs, func(verb string) bool { return !impersonates(verb) })
	})
	return g
}

// own reports whether the Grant applies to its own space.
func (g *grant) own() bool { return g.spec.Spaces == nil }

// everywhere reports whether the Grant applies to all spaces except root, including future ones.
func (g *grant) everywhere() bool {
	return !g.own() && g.selector != nil && g.selector.Empty() && len(g.spec.Spaces.Names) == 0
}

// byLabels reports whether the labels of a space decide if the Grant applies to it.
func (g *grant) byLabels() bool { return !g.own() && g.selector != nil && !g.selector.Empty() }

// reaches reports whether the Grant applies to a space, whose row has its labels.
func (g *grant) reaches(s key.Space, row *table.Row) bool {
	if g.own() {
		return g.space == s
	}
	if s == key.Root || len(g.spec.Spaces.Names) > 0 && !slices.Contains(g.spec.Spaces.Names, string(s)) {
		return false
	}
	if !g.byLabels() {
		return true
	}
	return row != nil && g.selector.Matches(row.Meta.Labels)
}

// hasSubject reports whether a user is a subject of the Grant.
func (g *grant) hasSubject(who user.Info) bool {
	return slices.ContainsFunc(g.spec.Subjects, func(s v1alpha1.GrantSubject) bool {
		switch s.Kind {
		case v1alpha1.GrantSubjectUser:
			return s.Name == who.GetName()
		case v1alpha1.GrantSubjectGroup:
			return slices.Contains(who.GetGroups(), s.Name)
		}
		return false
	})
}

// roles returns the roles of the Grant in a space.
func (g *grant) roles(s key.Space) []role {
	var roles []role
	for _, r := range g.spec.Roles {
		roles = append(roles, role{name: r.Name, space: s, namespaces: r.Namespaces})
	}
	return roles
}

// holder is a subject of Grants for a space. For Grants that select others by name or selector, the
// space is AllSpaces: entries for each name could make the index of a small Grant with many
// subjects very large.
type holder struct {
	space key.Space
	kind  v1alpha1.GrantSubjectKind
	name  string
}

// holders returns the keys of the Grant in the index.
func (g *grant) holders() []holder {
	s := g.space
	if !g.own() {
		s = key.AllSpaces
	}
	all := make([]holder, 0, len(g.spec.Subjects))
	for _, subject := range g.spec.Subjects {
		if h := (holder{s, subject.Kind, subject.Name}); !slices.Contains(all, h) { // a subject may be listed twice
			all = append(all, h)
		}
	}
	return all
}

// Grants indexes the Grants of all spaces by subject. It is safe for concurrent use.
type Grants struct {
	mu  sync.RWMutex
	all map[string]*grant
	// byHolder contains slices that are only appended to.
	byHolder map[holder][]*grant
	// prepared are for the next Observe. Only the goroutine that applies revisions uses them.
	prepared map[*table.Entry]*grant
}

var (
	_ table.Observer = (*Grants)(nil)
	_ table.Preparer = (*Grants)(nil)
)

// NewGrants returns an empty index.
func NewGrants() *Grants {
	g := &Grants{prepared: map[*table.Entry]*grant{}}
	g.Reset()
	return g
}

// Reset implements table.Observer.
func (g *Grants) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all, g.byHolder = map[string]*grant{}, map[holder][]*grant{}
}

// Prepare implements table.Preparer: it compiles Grants, which are as large as users write them.
func (g *Grants) Prepare(_ table.NextState, changes []table.Change) {
	clear(g.prepared)
	for _, c := range changes {
		if _, resource, _, ok := key.Split(c.Row().Key); ok && resource == key.Grants && c.Cur != nil {
			g.prepared[c.Cur.Entry] = compile(c.Cur)
		}
	}
}

// Observe implements table.Observer.
func (g *Grants) Observe(_ int64, changes []table.Change) {
	for _, c := range changes {
		if c.SameEntry() {
			continue
		}
		if _, resource, _, ok := key.Split(c.Row().Key); ok && resource == key.Grants {
			g.replace(c.Row().Key, c.Cur)
		}
	}
}

// replace sets the Grant of a key to that of a row, nil for none.
func (g *Grants) replace(k string, row *table.Row) {
	var now *grant
	if row != nil {
		var ok bool
		if now, ok = g.prepared[row.Entry]; !ok {
			now = compile(row)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.all[k]; old != nil {
		for _, h := range old.holders() {
			g.byHolder[h] = slices.DeleteFunc(slices.Clone(g.byHolder[h]), func(one *grant) bool { return one == old })
			if len(g.byHolder[h]) == 0 {
				delete(g.byHolder, h)
			}
		}
		delete(g.all, k)
	}
	if now == nil {
		return
	}
	g.all[k] = now
	for _, h := range now.holders() {
		g.byHolder[h] = append(g.byHolder[h], now)
	}
}

// grantsOf returns the Grants of a holder. The caller must not change the slice.
func (g *Grants) grantsOf(h holder) []*grant {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byHolder[h]
}

// grantOf returns the Grant of a row; nil if there is none.
func (g *Grants) grantOf(row *table.Row) *grant {
	if row == nil {
		return nil
	}
	g.mu.RLock()
	known := g.all[row.Key]
	g.mu.RUnlock()
	if known != nil && known.entry == row.Entry {
		return known
	}
	return compile(row)
}
