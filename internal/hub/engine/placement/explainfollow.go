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
	// maxTrail bounds how many objects are read in the search for referrers, which is recursive. An
	// explanation that would need more is partial.
	maxTrail = 100_000
)

// FollowExplanation describes how an object follows others to a location by one Placement, and
// which objects follow it. Objects are written as GROUP/RESOURCE/[NAMESPACE/]NAME.
type FollowExplanation struct {
	// Follows reports whether it follows others there; Behind holds the first of these.
	Follows bool     `json:"follows,omitempty"`
	Behind  []string `json:"behind,omitempty"`
	// Unread holds the first objects there that it does not follow because the author of the
	// Placement may not read objects of its kind.
	Unread []string `json:"unread,omitempty"`
	// References lists the references of the object, if the Placement has them followed. Those that
	// do not follow come first.
	References []Reference `json:"references,omitempty"`
	// Partial reports whether the search stopped at its limit, so that the answer may be
	// incomplete.
	Partial bool `json:"partial,omitempty"`
}

// Reference is an object to which another refers.
type Reference struct {
	Object string `json:"object"`
	// Missing reports whether there is no such object. Unread reports whether the author of the
	// Placement may not read objects of its kind. In both cases it does not follow.
	Missing bool `json:"missing,omitempty"`
	Unread  bool `json:"unread,omitempty"`
	// Space is the provider's space, if the object is the CRD of a bound resource. Refused is then
	// the reason, in one word, why the location does not admit it.
	Space   key.Space `json:"space,omitempty"`
	Refused string    `json:"refused,omitempty"`
}

// trail searches for the objects that follow others to a location by a Placement, in a state with
// memberships.
type trail struct {
	placement *placement
	state     table.Reader
	location  key.Location
	sites     map[key.Location]*site
	sets      locationSets
	// visited counts the objects that were read.
	visited int
}

// explainFollowing returns nil if no object follows another by the placement.
func (p *placement) explainFollowing(s subject, loc *site) *FollowExplanation {
	if !p.hasFollowed() {
		return nil
	}
	t, e := p.trail(s, loc), &FollowExplanation{}
	if _, apiBinding, _ := referredTo(s.state, s.Space, s.Identity); apiBinding == nil {
		t.explainBehind(s.Object, e)
	}
	e.References = t.references(s)
	e.References = e.References[:min(maxReferences, len(e.References))]
	e.Partial = t.visited > maxTrail
	if !e.Follows && e.Unread == nil && e.References == nil && !e.Partial {
		return nil
	}
	return e
}

func (p *placement) trail(s subject, loc *site) *trail {
	return &trail{placement: p, state: s.state, location: loc.Name, sites: p.resolve(s.state, tenantOf(s.state, s.Space))}
}

// explainBehind adds the objects of a space that one follows because they refer to it.
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

// references returns the references of an object that the placement has followed; those that do not
// follow come first.
func (t *trail) references(s subject) (all []Reference) {
	var follow []Reference
	for _, id := range refs.References(s.Identity, s.row.Value) {
		wanted, read := t.brings(s, id.Resource)
		to, apiBinding, ok := referredTo(s.state, s.Space, id)
		r := Reference{Object: id.String(), Unread: !read, Missing: !ok || s.state.Get(to.Key()) == nil}
		if apiBinding != nil {
			r.Space = to.Space
			if admission := explainAdmission(s.state, key.Object{Space: s.Space, Identity: id}, s.state.Get(t.location.Key())); admission != nil {
				r.Refused = admission.Reason
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

// hasFollowed reports whether the placement has any references followed.
func (p *placement) hasFollowed() bool {
	for i := range p.tests {
		if p.tests[i].followed {
			return true
		}
	}
	return false
}

// brings reports whether the placement wants the references of an object to follow it to the
// location, and whether its author may read objects of a resource.
func (t *trail) brings(s subject, r key.Resource) (wanted, read bool) {
	m, ok := s.row.In.(*Membership)
	if !ok || m == nil || !m.Contains(t.location) {
		return false, false
	}
	for i := range t.placement.tests {
		if test := &t.placement.tests[i]; test.followed && test.fit(s) {
			wanted, read = true, read || test.follows.Contains(r)
		}
	}
	if wanted && !t.placement.scheduled(s, t.sites, &t.sets).contains(t.location) {
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
			if t.visited++; t.visited > maxTrail {
				more = false
				return more
			}
			from, err := key.ParseObject(row.Key)
			if err != nil || o.Resource != key.CRDs && !bytes.Contains(row.Value, []byte(o.Name)) {
				return true
			}
			for _, id := range refs.References(from.Identity, row.Value) {
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

// referrersOf returns the key prefixes of the objects that may refer to an object.
func referrersOf(o key.Object) (prefixes []string) {
	if o.Resource == key.CRDs {
		resource, group, _ := strings.Cut(o.Name, ".")
		return []string{key.ResourcePrefix(o.Space, key.NewResource(group, resource))}
	}
	if !refs.KindsOf([]string{o.Resource.Resource}).Contains(o.Resource) {
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
		line("    it follows the objects that refer to it: %s", strings.Join(e.Behind, ", "))
	case e.Follows:
		line("    it follows the objects that refer to it")
	}
	if len(e.Unread) > 0 {
		line("    the writer of the Placement may not read objects of its kind, so it does not follow %s", strings.Join(e.Unread, ", "))
	}
	for _, r := range e.References {
		line("    %s", r)
	}
	if e.Partial {
		line("    only %d objects were looked at, so there may be more that it follows", maxTrail)
	}
}

// String describes the reference and whether it follows.
func (r Reference) String() string {
	to := "it refers to " + r.Object
	if r.Space != "" {
		to += fmt.Sprintf(" of space %q", r.Space)
	}
	switch {
	case r.Unread:
		return to + ", which does not follow: the writer of the Placement may not read objects of that kind"
	case r.Missing:
		return to + ", which does not exist, and follows when it does"
	case r.Refused != "":
		return to + ", which does not follow: the location does not admit it: " + r.Refused
	}
	return to + ", which follows"
}
