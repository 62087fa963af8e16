package placement

import (
	"bytes"
	"fmt"
	"strings"

	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// maxBehind and maxReferences bound how many objects an explanation names.
	maxBehind     = 3
	maxReferences = 20
	// maxTrail bounds how many objects are looked at for what refers to one: what refers to
	// these is looked for in turn. An explanation that would take more knows of the first.
	maxTrail = 100_000
)

// FollowExplanation says how an object follows others to a location by one Placement, and
// what follows it there. Objects are GROUP/RESOURCE/[NAMESPACE/]NAME.
type FollowExplanation struct {
	// Follows says that it follows others there; Behind are the first of them.
	Follows bool     `json:"follows,omitempty"`
	Behind  []string `json:"behind,omitempty"`
	// Unread are the first objects there that it does not follow, since who wrote the
	// Placement may not read objects of its kind.
	Unread []string `json:"unread,omitempty"`
	// References are what the object refers to, if the Placement has that follow it there:
	// first what does not.
	References []Reference `json:"references,omitempty"`
	// Partial says that there were more objects to look at than are looked at, so that others
	// may follow or be followed.
	Partial bool `json:"partial,omitempty"`
}

// Reference is what an object refers to.
type Reference struct {
	Object string `json:"object"`
	// Missing says that there is no such object, Unread that who wrote the Placement may
	// not read objects of its kind. Otherwise it follows.
	Missing bool `json:"missing,omitempty"`
	Unread  bool `json:"unread,omitempty"`
	// Space is that of the provider, if it is the definition of what is bound. Refused is then
	// why the location does not admit it, in one word.
	Space   key.Space `json:"space,omitempty"`
	Refused string    `json:"refused,omitempty"`
}

// trail finds out what follows what to a location by a Placement, in a state of which the
// memberships are known.
type trail struct {
	placement *placement
	state     table.Reader
	at        key.Location
	sites     map[key.Location]*site
	sets      locationSets
	// looked is how many objects were looked at.
	looked int
}

// explainFollowing is nil if nothing follows anything by the placement.
func (p *placement) explainFollowing(s subject, at *site) *FollowExplanation {
	if !p.hasFollowed() {
		return nil
	}
	t, e := p.trail(s, at), &FollowExplanation{}
	if _, by, _ := referredTo(s.state, s.Space, s.Identity); by == nil {
		t.explainBehind(s.Object, e)
	}
	e.References = t.references(s)
	e.References = e.References[:min(maxReferences, len(e.References))]
	e.Partial = t.looked > maxTrail
	if !e.Follows && e.Unread == nil && e.References == nil && !e.Partial {
		return nil
	}
	return e
}

func (p *placement) trail(s subject, at *site) *trail {
	return &trail{placement: p, state: s.state, at: at.Name, sites: p.resolve(s.state, tenantOf(s.state, s.Space))}
}

// explainBehind says which objects of a space one follows, if they refer to it.
func (t *trail) explainBehind(o key.Object, e *FollowExplanation) {
	t.behind(o, func(from subject) bool {
		switch wanted, read := t.brings(from, o.Resource); {
		case read:
			e.Follows, e.Behind = true, append(e.Behind, from.Identity.String())
		case wanted && len(e.Unread) < maxBehind:
			e.Unread = append(e.Unread, from.Identity.String())
		}
		return len(e.Behind) < maxBehind
	})
}

// references are what an object refers to that is to follow it: first what does not.
func (t *trail) references(s subject) (all []Reference) {
	var follow []Reference
	for _, id := range refs.Of(s.Identity, s.row.Value) {
		wanted, read := t.brings(s, id.Resource)
		to, by, ok := referredTo(s.state, s.Space, id)
		r := Reference{Object: id.String(), Unread: !read, Missing: !ok || s.state.Get(to.Key()) == nil}
		if by != nil {
			r.Space = to.Space
			if at := explainAdmission(s.state, key.Object{Space: s.Space, Identity: id}, s.state.Get(t.at.Key())); at != nil {
				r.Refused = at.Reason
			}
		}
		switch {
		case !wanted:
		case r.Missing || r.Unread || r.Refused != "":
			all = append(all, r)
		default:
			follow = append(follow, r)
		}
	}
	return append(all, follow...)
}

// hasFollowed says whether the placement has any references followed.
func (p *placement) hasFollowed() bool {
	for i := range p.tests {
		if p.tests[i].followed {
			return true
		}
	}
	return false
}

// brings says whether the placement is to have what an object refers to follow it to the
// location, and whether its writer may read objects of a resource.
func (t *trail) brings(s subject, r key.Resource) (wanted, read bool) {
	m, ok := s.row.In.(*Membership)
	if !ok || m == nil || !m.Has(t.at) {
		return false, false
	}
	for i := range t.placement.tests {
		if test := &t.placement.tests[i]; test.followed && test.fit(s) {
			wanted, read = true, read || test.follows.Has(r)
		}
	}
	if wanted && !t.placement.seats(s, t.sites, &t.sets).has(t.at) {
		wanted, read = false, false
	}
	t.behind(s.Object, func(from subject) bool {
		if _, here := t.brings(from, s.Resource); here { // s follows it
			w, may := t.brings(from, r)
			wanted, read = wanted || w, read || may
		}
		return !read
	})
	return wanted, read
}

// behind calls fn for the objects that refer to one until it returns false.
func (t *trail) behind(o key.Object, fn func(subject) bool) {
	more := true
	for _, prefix := range referrersOf(o) {
		t.state.Ascend(prefix, func(row *table.Row) bool {
			if t.looked++; t.looked > maxTrail {
				more = false
				return more
			}
			from, err := key.ParseObject(row.Key)
			if err != nil || o.Resource != key.CRDs && !bytes.Contains(row.Value, []byte(o.Name)) {
				return true
			}
			for _, id := range refs.Of(from.Identity, row.Value) {
				if id == o.Identity {
					more = fn(subject{Object: from, row: row, state: t.state})
				}
			}
			return more
		})
		if !more {
			return
		}
	}
}

// referrersOf are the prefixes of the keys of what may refer to an object.
func referrersOf(o key.Object) (prefixes []string) {
	if o.Resource == key.CRDs {
		resource, group, _ := strings.Cut(o.Name, ".")
		return []string{key.ResourcePrefix(o.Space, key.NewResource(group, resource))}
	}
	if !refs.KindsOf([]string{o.Resource.Resource}).Has(o.Resource) {
		return nil
	}
	for _, r := range refs.From() {
		prefixes = append(prefixes, key.NamespacePrefix(o.Space, r, o.Namespace))
	}
	return prefixes
}

func (e *FollowExplanation) describe(line func(string, ...any)) {
	switch {
	case e == nil:
		return
	case len(e.Behind) > 0:
		line("    it follows what refers to it: %s", strings.Join(e.Behind, ", "))
	case e.Follows:
		line("    it follows what refers to it")
	}
	if len(e.Unread) > 0 {
		line("    who wrote the Placement may not read objects of its kind, so it does not follow %s", strings.Join(e.Unread, ", "))
	}
	for _, r := range e.References {
		line("    %s", r)
	}
	if e.Partial {
		line("    only %d objects were looked at, so there may be more that it follows", maxTrail)
	}
}

// String is what becomes of it.
func (r Reference) String() string {
	to := "it refers to " + r.Object
	if r.Space != "" {
		to += fmt.Sprintf(" of space %q", r.Space)
	}
	switch {
	case r.Unread:
		return to + ", which does not follow: who wrote the Placement may not read objects of that kind"
	case r.Missing:
		return to + ", which does not exist, and follows when it does"
	case r.Refused != "":
		return to + ", which does not follow: the location does not admit it: " + r.Refused
	}
	return to + ", which follows"
}
