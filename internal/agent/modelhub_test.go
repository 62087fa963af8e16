package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// center is a naive hub in memory, with one location: a log of frames, of which
// its content, its digests and what it streams are computed anew each time.
type center struct {
	mu       sync.Mutex
	rng      *rand.Rand
	uid      string
	revision int64
	log      []logged
	markers  []marked
	reports  map[string]wire.Report
	settings wire.Settings
	// window is the revision from which on a stream can be resumed.
	window  int64
	changed chan struct{}
	// wrote is called, with the lock, after each change of the log.
	wrote func()
	// reported is called, with the lock, before reports are taken, took for each that is.
	reported func()
	took     func(wire.ReportLine)
	// confirmed is called, with the lock, when the location has confirmed that an object
	// is gone.
	confirmed func(gone *wire.Gone)
	// rejected are keys of which no report is taken.
	rejected map[string]bool
	// shards is how many agents share the location; 0: one has the whole. sessions are the
	// newest of each.
	shards   int
	sessions map[key.Shard]int
	starts   int
	mood     mood
	// dropsAggregated is true for a hub of a version that does not know Report.Aggregated.
	dropsAggregated bool
	// kept is the index of a walk that may be asked about again.
	kept map[string]keptIndex
}

// mood is how a hub answers.
type mood struct {
	// away: nothing; refuse: that status; empty: an empty body; garbage: no frames.
	away    bool
	refuse  int
	empty   bool
	garbage bool
	// cut, if not zero, is after how many bytes an answer is cut, in a tenth of
	// all cases.
	cut int
	// slow is the longest time to an answer.
	slow time.Duration
}

// logged is one revision: the frame of a key, or a marker.
type logged struct {
	revision int64
	frame    wire.Frame
	time     time.Time
}

type marked struct {
	name     string
	revision int64
}

type keptIndex struct {
	revision int64
	index    *wire.Index
}

func newCenter(rng *rand.Rand) *center {
	h := &center{
		rng: rng, wrote: func() {}, reported: func() {}, took: func(wire.ReportLine) {}, confirmed: func(*wire.Gone) {}, uid: "11111111-location", revision: 10, reports: map[string]wire.Report{}, changed: make(chan struct{}),
		settings: wire.Settings{PruneMaxPercent: 10, HeartbeatSeconds: 30}, kept: map[string]keptIndex{}, sessions: map[key.Shard]int{},
	}
	h.start()
	return h
}

// say wakes all waiting requests.
func (h *center) say() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// start is the start of a hub on the log.
func (h *center) start() {
	h.revision++
	h.markers = append(h.markers, marked{fmt.Sprintf("marker-%d-%d", h.revision, h.rng.IntN(1000)), h.revision})
	h.starts++
	h.kept = map[string]keptIndex{}
	h.wrote()
	h.say()
}

// restore starts a hub on an older copy of the log.
func (h *center) restore(to int64) {
	h.log = slices.DeleteFunc(h.log, func(l logged) bool { return l.revision > to })
	h.markers = slices.DeleteFunc(h.markers, func(m marked) bool { return m.revision > to })
	h.revision, h.window = to, 0
	h.start()
}

// write appends a frame.
func (h *center) write(f wire.Frame) {
	h.revision++
	h.log = append(h.log, logged{h.revision, f, time.Now()})
	h.wrote()
	h.say()
}

func (h *center) marker(revision int64) (name string) {
	for _, m := range h.markers {
		if m.revision <= revision {
			name = m.name
		}
	}
	return name
}

func (h *center) continuous(marker string, revision int64) bool {
	return marker == "" && revision == 0 || marker != "" && revision <= h.revision && h.marker(revision) == marker
}

// content is the desired content of the location at a revision, by key.
func (h *center) content(revision int64) map[string]wire.Frame {
	all := map[string]wire.Frame{}
	for _, l := range h.log {
		if l.revision > revision {
			break
		}
		k := subject(l.frame)
		if all[k] = l.frame; l.frame.Del != nil {
			delete(all, k)
		}
	}
	return all
}

// placed says in a put where in the log it is delivered.
func (h *center) placed(f wire.Frame, revision int64, greeted string) wire.Frame {
	if f.Put == nil {
		return f
	}
	p := *f.Put
	p.Revision, p.Marker = revision, h.marker(revision)
	if p.Marker == greeted {
		p.Marker = ""
	}
	f.Put = &p
	return f
}

func leafOf(f wire.Frame) wire.Sum {
	switch {
	case f.Put != nil:
		return wire.LeafSum(f.Put.Key, f.Put.UID, f.Put.Digest, f.Put.Policy)
	case f.Hold != nil:
		return wire.LeafSum(f.Hold.Key, f.Hold.UID, f.Hold.Digest, wire.Policy{})
	}
	if f.Gone != nil {
		return wire.LeafSum(f.Gone.Key, f.Gone.UID, f.Gone.Digest, wire.Policy{})
	}
	return wire.LeafSum(f.Conflict.Key, f.Conflict.UID, f.Conflict.Digest, wire.Policy{})
}

func (s spoke) mark(revision int64) *wire.Mark {
	m := &wire.Mark{Revision: revision, Marker: s.marker(revision)}
	for _, f := range s.content(revision) {
		m.Root, m.Count = m.Root.Add(leafOf(f)), m.Count+1
	}
	return m
}

func (s spoke) hello(marker string, after int64) *wire.Hello {
	m := s.mark(s.revision)
	return &wire.Hello{
		UID: s.uid, Marker: m.Marker, Revision: m.Revision, Root: m.Root, Count: m.Count,
		Continuous: s.continuous(marker, after), Settings: s.settings, KeepsAggregated: !s.dropsAggregated,
	}
}

// spoke is the connection of one run of an agent to the hub.
type spoke struct {
	*center
	dead  *atomic.Bool
	shard key.Shard
	// apart, if not nil, is the behaviour of the hub for this life only.
	apart *apart
}

// apart is what the hub is to one life of an agent: away, or one that refuses it since another agent
// has joined the location.
type apart struct{ away, supersedes atomic.Bool }

// supersededAnswer returns the response of a hub to an agent that another one has superseded.
func supersededAnswer() *http.Response {
	return answerOf(http.StatusUnauthorized, []byte(fmt.Sprintf(
		`{"kind":"Status","message":"another agent has joined the location since","details":{"causes":[{"reason":%q}]}}`, wire.RefusedSuperseded)))
}

// covers reports whether the object of a path, which begins with its space, is in the agent's shard.
func (s spoke) covers(path string) bool {
	space, _, _ := strings.Cut(path, "/")
	return s.shard.Contains(key.Space(space))
}

// content is the desired content of the agent's shard at a revision, by key.
func (s spoke) content(revision int64) map[string]wire.Frame {
	all := s.center.content(revision)
	maps.DeleteFunc(all, func(k string, _ wire.Frame) bool { return !s.covers(k) })
	return all
}

// RoundTrip implements http.RoundTripper.
func (s spoke) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	wait := time.Duration(0)
	if s.mood.slow > 0 {
		wait = time.Duration(s.rng.Int64N(int64(s.mood.slow)))
	}
	s.mu.Unlock()
	if wait > 0 {
		retry.Pause(r.Context(), wait)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case s.dead.Load(), s.mood.away, s.apart != nil && s.apart.away.Load():
		return nil, errCut
	case s.apart != nil && s.apart.supersedes.Load():
		return supersededAnswer(), nil
	case s.mood.refuse != 0:
		return answerOf(s.mood.refuse, []byte("no")), nil
	case s.shard.Total() != max(1, s.shards):
		return answerOf(http.StatusConflict, []byte("the location has other shards")), nil
	}
	_, call := route.Parse(r.URL.Path)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{wire.Header: {wire.ProtocolVersion}, wire.ShardHeader: {s.shard.String()}}}
	b := &hubBody{spoke: s, ctx: r.Context(), cut: -1, closed: make(chan struct{})}
	if s.mood.cut > 0 && s.rng.IntN(10) == 0 {
		b.cut = s.rng.IntN(s.mood.cut)
	}
	resp.Body = b
	switch {
	case s.mood.empty:
	case s.mood.garbage:
		b.left = []byte("{\"hello\":{}}\n<html>\n")
	case call == route.Desired:
		b.open(r)
	default:
		b.left = s.answer(call, wire.NewDecoder(bytes.NewReader(body)))
	}
	return resp, nil
}

func (s spoke) answer(call string, body *wire.Decoder) []byte {
	switch call {
	case route.Walk, route.ReportsWalk:
		return s.walk(call, body)
	case route.Fetch:
		content := s.content(s.revision)
		var out []any
		for _, f := range restOf[wire.Fetch](body) {
			frame, ok := content[f.Key]
			if !ok {
				frame = del(f.Key, wire.Walked)
			}
			frame = s.placed(frame, s.revision, "")
			if out = append(out, frame); s.rng.IntN(20) == 0 {
				break // an answer that has grown large
			}
		}
		return protocol.Lines(append(out, wire.Frame{Mark: s.mark(s.revision)})...)
	case route.LogIdentity:
		return s.proofs(body)
	case route.Namespaces:
		return s.namespaces(body)
	case route.ReportsFetch:
		var out []any
		for _, f := range restOf[wire.Fetch](body) {
			l := wire.ReportLine{Key: f.Key, Removed: true}
			if r, ok := s.reports[f.Key]; ok {
				l = wire.ReportLine{Key: f.Key, Report: &r}
			}
			out = append(out, l)
		}
		return protocol.Lines(out...)
	case route.Reports:
		s.reported()
		answer, content := wire.ReportsAnswer{Revision: s.revision}, s.content(s.revision)
		for _, l := range restOf[wire.ReportLine](body) {
			_, known := s.reports[l.Key]
			if _, assigned := content[l.Key]; !s.covers(l.Key) || l.Report == nil != l.Removed || l.Report != nil && (s.rejected[l.Key] || !known && !assigned) {
				answer.Refused = append(answer.Refused, wire.RefusedReport{Key: l.Key, Message: "the object is not assigned to the location"})
				continue
			}
			s.took(l)
			if delete(s.reports, l.Key); l.Report != nil {
				l.Report.Aggregated = l.Report.Aggregated && !s.dropsAggregated
				s.reports[l.Key] = *l.Report
				if f := content[l.Key]; f.Gone != nil && confirms(f.Gone, l.Report) {
					s.confirmed(f.Gone)
				}
			}
		}
		return protocol.Lines(answer)
	}
	return protocol.Lines(wire.StatusAnswer{SendAPIs: s.rng.IntN(4) == 0})
}

// proofs answers the query for the revisions under markers that the hub's log contains.
func (h *center) proofs(body *wire.Decoder) []byte {
	var query wire.LogIdentityRequest
	if err := body.Decode(&query); err != nil || len(query.Markers) > wire.MaxMarkers {
		panic(fmt.Sprint(err, query))
	}
	answer := wire.LogIdentityResponse{Marker: h.marker(h.revision), Revision: h.revision, Spans: map[string][]wire.Revisions{}}
	for _, m := range query.Markers {
		for i, known := range h.markers {
			if known.name != m {
				continue
			}
			last := h.revision
			if i+1 < len(h.markers) {
				last = h.markers[i+1].revision - 1
			}
			answer.Spans[m] = []wire.Revisions{{First: known.revision, Last: last}}
		}
	}
	return protocol.Lines(answer)
}

// namespaces returns which Namespaces are desired at the location, in any shard.
func (h *center) namespaces(body *wire.Decoder) []byte {
	var request wire.NamespacesRequest
	if err := body.Decode(&request); err != nil || len(request.Names) > wire.MaxNamespaces {
		panic(fmt.Sprint(err, request))
	}
	answer := protocol.NamespacesIn(h.content(h.revision), request)
	answer.Marker, answer.Revision = h.marker(h.revision), h.revision
	return protocol.Lines(answer)
}

// canonical is an object as a hub renders it.
func canonical(v map[string]any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// keysIn are the keys of a content, in order.
func keysIn(content map[string]wire.Frame) []string { return slices.Sorted(maps.Keys(content)) }

func restOf[T any](dec *wire.Decoder) (all []T) {
	for {
		var line T
		if dec.Decode(&line) != nil {
			return all
		}
		all = append(all, line)
	}
}

// subject is the key that a frame is about.
func subject(f wire.Frame) string {
	switch {
	case f.Put != nil:
		return f.Put.Key
	case f.Hold != nil:
		return f.Hold.Key
	case f.Conflict != nil:
		return f.Conflict.Key
	case f.Gone != nil:
		return f.Gone.Key
	case f.Del != nil:
		return f.Del.Key
	}
	return ""
}

// confirms reports whether a report confirms that an object is gone.
func confirms(g *wire.Gone, r *wire.Report) bool {
	return r.UID == g.UID && (r.State == wire.Removed || r.State == wire.Orphaned && r.Reason == v1alpha1.ReasonReleased)
}
