package table

import (
	"strings"

	"orrery.dev/orrery/internal/key"
)

// Topic says which changes a subscription is about.
type Topic struct {
	kind topicKind
	name string
}

type topicKind uint8

const (
	underPrefix topicKind = iota
	acrossSpaces
	ofMember
	ofKey
	aboutSpace
)

// Under is every key below a prefix, which ends in "/". If the prefix spans resources,
// Events and Leases are left out.
func Under(prefix string) Topic { return Topic{underPrefix, prefix} }

// At is one key.
func At(k string) Topic { return Topic{ofKey, k} }

// About is every report about objects of a space, whichever location it is from.
func About(s key.Space) Topic { return Topic{aboutSpace, string(s)} }

// AcrossSpaces is every object of a resource in all spaces.
func AcrossSpaces(r key.Resource) Topic { return Topic{acrossSpaces, r.String()} }

// Of is every row that belongs to a location, or did before the change, except changes of
// membership that change nothing for the location. Only objects may belong to locations,
// and no Events or Leases.
func Of(l key.Location) Topic { return Topic{ofMember, string(l)} }

func (t Topic) window() int {
	switch t.kind {
	case acrossSpaces:
		if isEvent(t.name) {
			return eventWindow
		}
		return objectWindow
	case ofMember:
		return objectWindow
	case aboutSpace:
		return reportWindow
	}
	return windowOf(t.name)
}

// concerns says whether a change is about the topic.
func (t Topic) concerns(c Change) bool {
	switch t.kind {
	case ofMember:
		l := key.Location(t.name)
		here := c.Prev != nil && c.Prev.In != nil && c.Prev.In.Tells(l) ||
			c.Cur != nil && c.Cur.In != nil && c.Cur.In.Tells(l)
		return here && !c.sameAt(l)
	case acrossSpaces:
		r, ok := key.ResourceOf(c.Row().Key)
		return ok && r == t.name
	case ofKey:
		return c.Row().Key == t.name
	case aboutSpace:
		s, ok := key.ReportedSpace(c.Row().Key)
		return ok && string(s) == t.name
	}
	return strings.HasPrefix(c.Row().Key, t.name)
}

// topics calls fn for every topic that a change may concern, without repeats.
func topics(c Change, fn func(Topic)) {
	k := c.Row().Key
	fn(Topic{ofKey, k})
	for i := range len(k) {
		if k[i] == '/' {
			fn(Topic{underPrefix, k[:i+1]})
		}
	}
	if r, ok := key.ResourceOf(k); ok {
		fn(Topic{acrossSpaces, r})
	}
	if s, ok := key.ReportedSpace(k); ok {
		fn(Topic{aboutSpace, string(s)})
	}
	if c.Prev != nil && c.Prev.In != nil {
		for _, m := range c.Prev.In.Told() {
			if !c.sameAt(m) {
				fn(Topic{ofMember, string(m)})
			}
		}
	}
	if c.Cur != nil && c.Cur.In != nil && (c.Prev == nil || c.Prev.In != c.Cur.In) {
		for _, m := range c.Cur.In.Told() {
			if c.Prev == nil || c.Prev.In == nil || !c.Prev.In.Tells(m) {
				fn(Topic{ofMember, string(m)})
			}
		}
	}
}
