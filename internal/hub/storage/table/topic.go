package table

import (
	"strings"
	"unique"

	"orrery.dev/orrery/internal/protocol/key"
)

// Topic selects changes for a subscription. It is comparable.
type Topic struct {
	kind topicKind
	name string
	// location and space limit reports, and space the rows of an export view. Empty means all, and so
	// does an empty name of a report topic.
	location key.Location
	space    key.Space
	view     unique.Handle[key.ExportView]
}

type topicKind uint8

const (
	prefixTopic topicKind = iota
	resourceTopic
	locationTopic
	keyTopic
	reportTopic
	exportViewTopic
)

// PrefixTopic returns the topic of all keys below a prefix, which must end in "/". If the prefix spans
// resources, the topic omits Events and Leases.
func PrefixTopic(prefix string) Topic { return Topic{kind: prefixTopic, name: prefix} }

// KeyTopic returns the topic of one key.
func KeyTopic(k string) Topic { return Topic{kind: keyTopic, name: k} }

// ResourceTopic returns the topic of all objects of a resource, in all spaces.
func ResourceTopic(r key.Resource) Topic { return Topic{kind: resourceTopic, name: r.String()} }

// ReportTopic returns the topic of all reports about objects of a resource, of any origin: by one
// location, or by all if l is empty, and about objects of one space, or of all if s is empty.
func ReportTopic(l key.Location, s key.Space, r key.Resource) Topic {
	return Topic{kind: reportTopic, name: r.String(), location: l, space: s}
}

// SpaceReportTopic returns the topic of all reports about objects of a space, by all locations.
func SpaceReportTopic(s key.Space) Topic { return Topic{kind: reportTopic, space: s} }

// LocationTopic returns the topic of all rows that belong to a location, or did before the change. It
// omits changes of membership that change nothing for the location. Only objects can belong to
// locations, except Events and Leases.
func LocationTopic(l key.Location) Topic { return Topic{kind: locationTopic, name: string(l)} }

// ExportViewTopic returns the topic of all changes that are visible in an export view, of rows of a
// resource in one space, or in all if s is empty. Events and Leases are in no export view.
func ExportViewTopic(f key.ExportView, s key.Space, r key.Resource) Topic {
	return Topic{kind: exportViewTopic, name: r.String(), space: s, view: unique.Make(f)}
}

// window returns the window that has the changes of the topic.
func (t Topic) window() int {
	switch t.kind {
	case resourceTopic:
		if isEvent(t.name) {
			return eventWindow
		}
		return objectWindow
	case locationTopic, exportViewTopic:
		return objectWindow
	case reportTopic:
		return reportWindow
	}
	return windowOf(t.name)
}

// matches reports whether a change belongs to the topic.
func (t Topic) matches(c Change) bool {
	switch t.kind {
	case locationTopic:
		l := key.Location(t.name)
		isMember := c.Prev != nil && c.Prev.In != nil && c.Prev.In.Includes(l) ||
			c.Cur != nil && c.Cur.In != nil && c.Cur.In.Includes(l)
		return isMember && !c.sameAt(l)
	case resourceTopic:
		r, ok := key.ResourceOf(c.Row().Key)
		return ok && r == t.name
	case exportViewTopic:
		k := c.Row().Key
		r, ok := key.ResourceOf(k)
		if !ok || r != t.name {
			return false
		}
		s, _, _, _ := key.Split(k)
		return (t.space == "" || t.space == s) && c.isVisibleIn(t.view.Value())
	case keyTopic:
		return c.Row().Key == t.name
	case reportTopic:
		l, s, r, ok := key.ReportOf(c.Row().Key)
		return ok && (t.name == "" || r == t.name) && (t.location == "" || t.location == l) && (t.space == "" || t.space == s)
	}
	return strings.HasPrefix(c.Row().Key, t.name) && windowOf(c.Row().Key) == t.window()
}

// topics calls fn for every topic that a change may match, without duplicates.
func topics(c Change, fn func(Topic)) {
	k := c.Row().Key
	fn(KeyTopic(k))
	for i := range len(k) {
		if k[i] == '/' {
			fn(PrefixTopic(k[:i+1]))
		}
	}
	if r, ok := key.ResourceOf(k); ok {
		fn(Topic{kind: resourceTopic, name: r})
	}
	if l, s, r, ok := key.ReportOf(k); ok {
		topic := Topic{kind: reportTopic, name: r}
		for _, limits := range [...]struct {
			location key.Location
			space    key.Space
		}{{l, s}, {l, ""}, {"", s}, {"", ""}} {
			topic.location, topic.space = limits.location, limits.space
			fn(topic)
		}
		fn(SpaceReportTopic(s))
	}
	if c.Prev != nil && c.Prev.In != nil {
		for _, m := range c.Prev.In.Locations() {
			if !c.sameAt(m) {
				fn(LocationTopic(m))
			}
		}
	}
	if c.Cur != nil && c.Cur.In != nil && (c.Prev == nil || c.Prev.In != c.Cur.In) {
		for _, m := range c.Cur.In.Locations() {
			if c.Prev == nil || c.Prev.In == nil || !c.Prev.In.Includes(m) {
				fn(LocationTopic(m))
			}
		}
	}
	for _, f := range c.exportViews() {
		s, _, _, _ := key.Split(k)
		r, _ := key.ResourceOf(k)
		topic := Topic{kind: exportViewTopic, name: r, view: unique.Make(f)}
		fn(topic)
		topic.space = s
		fn(topic)
	}
}
