package protocol

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/internal/protocol/wire"
)

// frameLog is the log of a hub: frames, each with its revision, under markers. A marker is followed by
// revisions that only this log has. The Hub's lock protects it.
type frameLog struct {
	revision int64
	frames   []logged
	markers  []place
	// window is the oldest revision from which a session can be resumed.
	window int64
}

// logged is the change of one revision: the frame of a key.
type logged struct {
	revision int64
	frame    wire.Frame
}

// place is a log position: a revision under a marker.
type place struct {
	marker   string
	revision int64
}

// add appends a frame.
func (l *frameLog) add(f wire.Frame) {
	l.revision++
	l.frames = append(l.frames, logged{l.revision, f})
}

// restart adds a marker, as the n-th start of the hub does.
func (l *frameLog) restart(n int) {
	l.revision++
	l.markers = append(l.markers, place{fmt.Sprintf("marker-%d-%d", n, l.revision), l.revision})
}

// restore drops all after a revision.
func (l *frameLog) restore(to int64) {
	l.frames = slices.DeleteFunc(l.frames, func(one logged) bool { return one.revision > to })
	l.markers = slices.DeleteFunc(l.markers, func(m place) bool { return m.revision > to })
	l.revision, l.window = to, 0
}

// forget drops the history, so that no session can be resumed.
func (l *frameLog) forget() {
	l.window = l.revision + 1
	l.revision++
}

// marker returns the marker of a revision.
func (l *frameLog) marker(revision int64) (name string) {
	for _, m := range l.markers {
		if m.revision <= revision {
			name = m.marker
		}
	}
	return name
}

// continuous reports whether the log contains a log position.
func (l *frameLog) continuous(marker string, revision int64) bool {
	if marker == "" || revision == 0 {
		return marker == "" && revision == 0
	}
	return revision <= l.revision && l.marker(revision) == marker
}

// content returns the frames of the keys that exist at a revision, by key.
func (l *frameLog) content(rev int64) map[string]wire.Frame {
	all := map[string]wire.Frame{}
	for _, one := range l.frames {
		if one.revision > rev {
			break
		}
		k, _, exists := Subject(one.frame)
		if all[k] = one.frame; !exists {
			delete(all, k)
		}
	}
	return all
}

// delivered sets the log position of a put. It omits the marker if that is the one of the hello.
func (l *frameLog) delivered(f wire.Frame, revision int64, greeted string) wire.Frame {
	if f.Put == nil {
		return f
	}
	p := *f.Put
	p.Revision, p.Marker = revision, l.marker(revision)
	if p.Marker == greeted {
		p.Marker = ""
	}
	f.Put = &p
	return f
}

// spans returns the revisions under each of some markers.
func (l *frameLog) spans(markers []string) map[string][]wire.Revisions {
	all := map[string][]wire.Revisions{}
	for i, m := range l.markers {
		if !slices.Contains(markers, m.marker) {
			continue
		}
		last := l.revision
		if i+1 < len(l.markers) {
			last = l.markers[i+1].revision - 1
		}
		all[m.marker] = []wire.Revisions{{First: m.revision, Last: last}}
	}
	return all
}
