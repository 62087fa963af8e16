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

// grant is a Grant, compiled. It is immutable.
type grant struct {
	// entry is what it was made of.
	entry *table.Entry
	// space is its own.
	space key.Space
	spec  v1alpha1.GrantSpec
	// selector is that of the spaces it reaches; nil without one.
	selector labels.Selector
	// isRight says that it gives a right in the spaces that it is about. What is
	// about the hub, or about acting as somebody, is none.
	isRight bool
}

// compile makes a grant of its row; nil: it is none, is being deleted, or is
// for a lower hub.
func compile(row *table.Row) *grant {
	s, resource, _, ok := key.Split(row.Key)
	if !ok || resource != key.Grants || row.Meta.Deleting || v1alpha1.IsForBelow(row.Meta.Labels) {
		return nil
	}
	var object v1alpha1.Grant
	if json.Unmarshal(row.Value, &object) != nil {
		return nil // it can't be written like this
	}
	g := &grant{entry: row.Entry, space: s, spec: object.Spec}
	if of := g.spec.Spaces; of != nil {
		if s != key.Root {
			return nil
		}
		if of.Selector != nil {
			selector, err := metav1.LabelSelectorAsSelector(of.Selector)
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

// own says that the Grant is about its own space.
func (g *grant) own() bool { return g.spec.Spaces == nil }

// everywhere says that the Grant reaches all spaces but root, those to come included.
func (g *grant) everywhere() bool {
	return !g.own() && g.selector != nil && g.selector.Empty() && len(g.spec.Spaces.Names) == 0
}

// byLabels says that it depends on the labels of a space whether the Grant reaches it.
func (g *grant) byLabels() bool { return !g.own() && g.selector != nil && !g.selector.Empty() }

// reaches says whether the Grant is about a space, whose row has its labels.
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

// concerns says whether somebody is a subject of the Grant.
func (g *grant) concerns(who user.Info) bool {
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

// roles are those of the Grant in a space.
func (g *grant) roles(s key.Space) []role {
	var roles []role
	for _, r := range g.spec.Roles {
		roles = append(roles, role{name: r.Name, space: s, namespaces: r.Namespaces})
	}
	return roles
}

// holder is a subject of Grants that are about a space; of those that reach others by names
// or by a selector, the space is AllSpaces: one for each name would make of a Grant of a
// few kilobytes, whose subjects may be many, too, an index of megabytes.
type holder struct {
	space key.Space
	kind  v1alpha1.GrantSubjectKind
	name  string
}

// holders are those under whom the Grant is found.
func (g *grant) holders() []holder {
	s := g.space
	if !g.own() {
		s = key.AllSpaces
	}
	all := make([]holder, 0, len(g.spec.Subjects))
	for _, subject := range g.spec.Subjects {
		if h := (holder{s, subject.Kind, subject.Name}); !slices.Contains(all, h) { // one may be named twice
			all = append(all, h)
		}
	}
	return all
}

// Grants knows the Grants of all spaces, by whom they are for. It is safe for
// concurrent use.
type Grants struct {
	mu  sync.RWMutex
	all map[string]*grant
	// by has slices that may be added to behind their end, and are never changed.
	by map[holder][]*grant
}

var _ table.Observer = (*Grants)(nil)

// NewGrants makes an index of no Grants.
func NewGrants() *Grants {
	g := &Grants{}
	g.Reset()
	return g
}

// Reset implements table.Observer.
func (g *Grants) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all, g.by = map[string]*grant{}, map[holder][]*grant{}
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

// replace has the Grant of a key be as its row says, nil for none.
func (g *Grants) replace(k string, row *table.Row) {
	var now *grant
	if row != nil {
		now = compile(row)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if was := g.all[k]; was != nil {
		for _, h := range was.holders() {
			g.by[h] = slices.DeleteFunc(slices.Clone(g.by[h]), func(one *grant) bool { return one == was })
			if len(g.by[h]) == 0 {
				delete(g.by, h)
			}
		}
		delete(g.all, k)
	}
	if now == nil {
		return
	}
	g.all[k] = now
	for _, h := range now.holders() {
		g.by[h] = append(g.by[h], now)
	}
}

// of are the Grants under a holder. The caller must not change the slice.
func (g *Grants) of(h holder) []*grant {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.by[h]
}

// at is the Grant of a row; nil: there is none.
func (g *Grants) at(row *table.Row) *grant {
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
