package table

import (
	"strings"
	"unique"

	"orrery.dev/orrery/internal/protocol/key"
)

// Topic says which changes a subscription is about.
type Topic struct {
	kind topicKind
	name string
	// location and space are those of reports; empty for all, as is an empty name. Of what is
	// on a shelf space is that of the rows, and empty for all.
	location key.Location
	space    key.Space
	// shelf is that of rows that are on one.
	shelf unique.Handle[key.Shelf]
}

type topicKind uint8

const (
	underPrefix topicKind = iota
	acrossSpaces
	ofMember
	ofKey
	ofReports
	onShelf
)

// Under is every key below a prefix, which ends in "/". If the prefix spans resources,
// Events and Leases are left out.
func Under(prefix string) Topic { return Topic{kind: underPrefix, name: prefix} }

// At is one key.
func At(k string) Topic { return Topic{kind: ofKey, name: k} }

// About is every report about objects of a space, whichever location it is from.
func About(s key.Space) Topic { return Topic{kind: ofReports, space: s} }

// AcrossSpaces is every object of a resource in all spaces.
func AcrossSpaces(r key.Resource) Topic { return Topic{kind: acrossSpaces, name: r.String()} }

// OfReports is every report about objects of a resource, of whatever origin, by one location
// or, if it is empty, by all, and of one space or, if it is empty, of all.
func OfReports(l key.Location, s key.Space, r key.Resource) Topic {
	return Topic{kind: ofReports, name: r.String(), location: l, space: s}
}

// Of is every row that belongs to a location, or did before the change, except changes of
// membership that change nothing for the location. Only objects may belong to locations,
// and no Events or Leases.
func Of(l key.Location) Topic { return Topic{kind: ofMember, name: string(l)} }

// On is every row of a resource that is on a shelf, or was before the change, except changes
// that change nothing there: those of one space or, if it is empty, of all. Events and Leases
// are on none.
func On(f key.Shelf, s key.Space, r key.Resource) Topic {
	return Topic{kind: onShelf, name: r.String(), space: s, shelf: unique.Make(f)}
}

func (t Topic) window() int {
	switch t.kind {
	case acrossSpaces:
		if isEvent(t.name) {
			return eventWindow
		}
		return objectWindow
	case ofMember, onShelf:
		return objectWindow
	case ofReports:
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
	case onShelf:
		k := c.Row().Key
		r, ok := key.ResourceOf(k)
		if !ok || r != t.name {
			return false
		}
		s, _, _, _ := key.Split(k)
		return (t.space == "" || t.space == s) && c.about(t.shelf.Value())
	case ofKey:
		return c.Row().Key == t.name
	case ofReports:
		l, s, r, ok := key.ReportOf(c.Row().Key)
		return ok && (t.name == "" || r == t.name) && (t.location == "" || t.location == l) && (t.space == "" || t.space == s)
	}
	return strings.HasPrefix(c.Row().Key, t.name) && windowOf(c.Row().Key) == t.window()
}

// topics calls fn for every topic that a change may concern, without repeats.
func topics(c Change, fn func(Topic)) {
	k := c.Row().Key
	fn(At(k))
	for i := range len(k) {
		if k[i] == '/' {
			fn(Under(k[:i+1]))
		}
	}
	if r, ok := key.ResourceOf(k); ok {
		fn(Topic{kind: acrossSpaces, name: r})
	}
	if l, s, r, ok := key.ReportOf(k); ok {
		of := Topic{kind: ofReports, name: r}
		for _, by := range [...]struct {
			location key.Location
			space    key.Space
		}{{l, s}, {l, ""}, {"", s}, {"", ""}} {
			of.location, of.space = by.location, by.space
			fn(of)
		}
		fn(About(s))
	}
	if c.Prev != nil && c.Prev.In != nil {
		for _, m := range c.Prev.In.Told() {
			if !c.sameAt(m) {
				fn(Of(m))
			}
		}
	}
	if c.Cur != nil && c.Cur.In != nil && (c.Prev == nil || c.Prev.In != c.Cur.In) {
		for _, m := range c.Cur.In.Told() {
			if c.Prev == nil || c.Prev.In == nil || !c.Prev.In.Tells(m) {
				fn(Of(m))
			}
		}
	}
	for _, f := range c.shelves() {
		s, _, _, _ := key.Split(k)
		r, _ := key.ResourceOf(k)
		of := Topic{kind: onShelf, name: r, shelf: unique.Make(f)}
		fn(of)
		of.space = s
		fn(of)
	}
}
