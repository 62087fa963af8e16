package protocol

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// answer is what a call is answered with, as lines, or why it is not.
type answer struct {
	lines []any
	code  int
	why   string
}

func refused(code int, format string, args ...any) answer {
	return answer{code: code, why: fmt.Sprintf(format, args...)}
}

func (a answer) write(w http.ResponseWriter) {
	if a.code == 0 {
		_, _ = w.Write(Lines(a.lines...)) // an agent that is gone needs none
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // as above
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(a.code), Message: a.why,
	})
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, call := route.Of(r.URL.Path)
	if why := h.unknown(r, root); why.code != 0 {
		why.write(w)
		return
	}
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		refused(http.StatusBadRequest, "header %s is %q", wire.Header, v).write(w)
		return
	}
	h.mu.Lock()
	h.asked[call]++
	instead := h.instead
	h.mu.Unlock()
	if instead != nil && instead(w, r, call) {
		return
	}
	want := http.MethodPost
	if call == route.Desired {
		want = http.MethodGet
	}
	serve := map[string]func(*http.Request, []byte) answer{
		route.Walk: h.serveWalk, route.ReportsWalk: h.serveWalk, route.Fetch: h.serveFetch, route.ReportsFetch: h.serveReportsFetch,
		route.Reports: h.serveReports, route.Lineage: h.serveLineage, route.AgentStatus: h.serveStatus,
		route.Looked: h.serveLooked,
	}[call]
	switch {
	case r.Method != want || call != route.Desired && serve == nil:
		h.rules.fault(h, "%s %s is no call", r.Method, call)
		refused(http.StatusNotFound, "%s", r.URL.Path).write(w)
	case call == route.Desired:
		h.serveDesired(w, r)
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the agent is gone
		}
		h.mu.Lock()
		h.rules.judge(call, body)
		a := serve(r, body)
		h.rules.learn(call, a.lines)
		h.mu.Unlock()
		a.write(w)
	}
}

// unknown says why a request is not of the location's agent.
func (h *Hub) unknown(r *http.Request, root route.Root) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case !ok || token != h.token || h.gone:
		return refused(http.StatusUnauthorized, "Unauthorized")
	case root != route.Agent(h.location):
		return refused(http.StatusForbidden, "this is not yours")
	}
	return answer{}
}

// subscriber is a session.
type subscriber struct {
	after           int64
	mark            bool
	greeted, token  string
	mine, life, cut int
	said            wire.Settings
	// sees says that the agent reports what was not placed.
	sees bool
}

func (h *Hub) serveDesired(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	after, err := strconv.ParseInt(cmp.Or(q.Get("after"), "0"), 10, 64)
	shard, wrong := key.ParseShard(cmp.Or(q.Get(wire.ShardParam), "1/1"))
	switch {
	case err != nil || after < 0 || wrong != nil:
		refused(http.StatusBadRequest, "after %q, shard %q", q.Get("after"), q.Get(wire.ShardParam)).write(w)
		return
	case !shard.Whole():
		refused(http.StatusConflict, "the location has one agent").write(w)
		return
	}
	h.mu.Lock()
	h.rules.opens(place{q.Get("marker"), after})
	sees := wire.Capable(r.Header, wire.Sees)
	hello := h.hello(h.revision, place{q.Get("marker"), after}, sees)
	hello.Resumed = hello.Continuous && after > 0 && after >= h.window && !h.settings.Purge
	h.newest++
	s := &subscriber{
		after: hello.Revision, mark: hello.Resumed, greeted: hello.Marker, token: h.token,
		mine: h.newest, life: h.life, cut: h.cut, said: hello.Settings, sees: sees,
	}
	if hello.Resumed {
		s.after = after
	}
	h.rules.learn(route.Desired, []any{wire.Frame{Hello: hello}})
	close(h.changed) // the one before hears of it
	h.changed = make(chan struct{})
	h.mu.Unlock()
	frames, bye := []any{wire.Frame{Hello: hello}}, false
	for control := http.NewResponseController(w); ; {
		_, err := w.Write(Lines(frames...))
		if errors.Join(err, control.Flush()) != nil || bye || r.Context().Err() != nil {
			return
		}
		var changed <-chan struct{}
		var ended bool
		if frames, changed, ended, bye = h.more(s); ended {
			return
		}
		if len(frames) > 0 {
			continue
		}
		ping := time.NewTimer(time.Duration(s.said.HeartbeatSeconds) * time.Second)
		select {
		case <-changed:
		case <-ping.C:
			frames = []any{wire.Frame{Ping: &wire.Ping{}}}
		case <-r.Context().Done():
		}
		ping.Stop()
	}
}

// more are the frames of what has happened since the last time; the last is a bye, or
// the session has ended without one. changed is closed when there is more.
func (h *Hub) more(s *subscriber) (frames []any, changed <-chan struct{}, ended, bye bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.rules.learn(route.Desired, frames) }()
	end := func(reason string) ([]any, <-chan struct{}, bool, bool) {
		return append(frames, wire.Frame{Bye: &wire.Bye{Reason: reason}}), nil, false, true
	}
	switch {
	case s.cut != h.cut:
		return nil, nil, true, false
	case h.gone:
		return end(wire.ByeRemoved)
	case s.life != h.life:
		return end(wire.ByeShutdown)
	case s.token != h.token:
		return end(wire.ByeRevoked)
	case s.mine != h.newest:
		return end(wire.ByeReplaced)
	case s.said.Purge != h.settings.Purge || s.after < h.window:
		return end(wire.ByeExpired)
	case !s.said.Equal(asked(h.settings, s.sees)):
		s.said = asked(h.settings, s.sees)
		frames = append(frames, wire.Frame{Settings: &s.said})
	}
	if !s.said.Purge {
		for _, l := range h.log {
			if l.revision > s.after {
				frames, s.mark = append(frames, h.delivered(told(l.frame, s.sees), l.revision, s.greeted)), true
			}
		}
	}
	for _, q := range h.looks {
		frames = append(frames, wire.Frame{Look: &q})
	}
	h.looks = nil
	s.after = h.revision
	if s.mark {
		frames, s.mark = append(frames, wire.Frame{Mark: h.mark(h.revision, s.sees)}), false
	}
	return frames, h.changed, false, false
}

// asked are settings as an agent is told them that reports what was not placed, or does not.
func asked(s wire.Settings, sees bool) wire.Settings {
	if !sees {
		s.Upsync, s.UpsyncObjects, s.UpsyncBytes, s.Dropped = nil, 0, 0, 0
	}
	return s
}

// told is a frame as such an agent is told it.
func told(f wire.Frame, sees bool) wire.Frame {
	if f.Put != nil && !sees {
		p := *f.Put
		p.Policy.Associated = ""
		f.Put = &p
	}
	return f
}

// bodyOf reads a body of lines; first is its first line, if it has one of its own.
func bodyOf[T any](body []byte, first any) (rest []T, err error) {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	if first != nil {
		if err := decoder.Decode(first); err != nil {
			return nil, err
		}
	}
	for {
		var line T
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return rest, nil
		} else if err != nil {
			return nil, err
		}
		rest = append(rest, line)
	}
}

func (h *Hub) serveWalk(r *http.Request, body []byte) answer {
	var walk wire.Walk
	spans, err := bodyOf[wire.Span](body, &walk)
	if err != nil || len(spans) > wire.MaxSpans {
		return refused(http.StatusBadRequest, "walk of %d spans: %v", len(spans), err)
	}
	at, have, sees := h.revision, Holding{}, wire.Capable(r.Header, wire.Sees)
	if _, call := route.Of(r.URL.Path); call == route.Walk {
		if walk.At >= h.window && walk.At > 0 && walk.At < at {
			at = walk.At
		}
		for _, f := range h.content(at) {
			_ = have.Apply(told(f, sees)) // there is no mark among them
		}
	} else {
		for k, report := range h.reports {
			if line, err := key.ParseLine(h.location, k); sees || err == nil && line.Origin == key.Placed {
				have[k] = report.Sum()
			}
		}
	}
	hello := h.hello(at, place{walk.Marker, walk.After}, sees)
	hello.Root, hello.Count = have.Root(), len(have)
	lines := []any{wire.Frame{Hello: hello}}
	for _, part := range have.Index().Answer(spans) {
		lines = append(lines, wire.Frame{Part: &part})
	}
	return answer{lines: append(lines, wire.Frame{Mark: &wire.Mark{Revision: at, Root: hello.Root, Count: hello.Count, Marker: hello.Marker}})}
}

func fetched(body []byte) ([]wire.Fetch, answer) {
	keys, err := bodyOf[wire.Fetch](body, nil)
	if err != nil || len(keys) > wire.MaxFetch {
		return nil, refused(http.StatusBadRequest, "fetch of %d keys: %v", len(keys), err)
	}
	return keys, answer{}
}

// largeFetch is how large the answer to a fetch may grow before it ends early.
const largeFetch = 1 << 20

func (h *Hub) serveFetch(r *http.Request, body []byte) answer {
	keys, a := fetched(body)
	sees := wire.Capable(r.Header, wire.Sees)
	content, size := h.content(h.revision), 0
	for i := 0; i < len(keys) && size < largeFetch; i++ {
		f, ok := content[keys[i].Key]
		if !ok {
			f = wire.Frame{Del: &wire.Del{Key: keys[i].Key, Cause: wire.Walked}}
		}
		if f.Put != nil {
			size += len(f.Put.Object)
		}
		a.lines = append(a.lines, h.delivered(told(f, sees), h.revision, ""))
	}
	a.lines = append(a.lines, wire.Frame{Mark: &wire.Mark{Revision: h.revision, Marker: h.marker(h.revision)}})
	return a
}

func (h *Hub) serveReportsFetch(_ *http.Request, body []byte) answer {
	keys, a := fetched(body)
	for _, f := range keys {
		line := wire.ReportLine{Key: f.Key, Removed: true}
		if report, ok := h.reports[f.Key]; ok {
			line = wire.ReportLine{Key: f.Key, Report: &report}
		}
		a.lines = append(a.lines, line)
	}
	return a
}

func (h *Hub) serveReports(_ *http.Request, body []byte) answer {
	lines, err := bodyOf[wire.ReportLine](body, nil)
	if err != nil {
		return refused(http.StatusBadRequest, "reports: %v", err)
	}
	said, content, before := wire.ReportsAnswer{}, h.content(h.revision), maps.Clone(h.reports)
	for _, l := range lines {
		if why := h.refuses(l, content); why != "" {
			said.Refused = append(said.Refused, wire.RefusedReport{Key: l.Key, Message: why})
			continue
		}
		if delete(h.reports, l.Key); l.Report != nil {
			h.reports[l.Key] = l.Report.Fit()
		}
	}
	if !maps.EqualFunc(before, h.reports, func(a, b wire.Report) bool { return a.Sum() == b.Sum() }) {
		h.revision++
	}
	said.Revision = h.revision
	return answer{lines: []any{said}}
}

// refuses is why a report is not taken; empty: it is.
func (h *Hub) refuses(l wire.ReportLine, content map[string]wire.Frame) string {
	object, err := key.ParseLine(h.location, l.Key)
	if err == nil {
		err = object.Validate()
	}
	_, known := h.reports[l.Key]
	_, assigned := content[l.Key]
	switch {
	case err != nil:
		return err.Error()
	case l.Removed:
		return ""
	case object.Origin != key.Placed && l.Report != nil && !h.asks(object, l.Report, content):
		return "the hub does not ask for the object"
	case object.Origin == key.Born && l.Report != nil && !known && h.full():
		return "the location's limits are reached"
	case object.Origin != key.Placed && l.Report != nil:
		return ""
	case !known && !assigned:
		return "the object is not assigned to the location"
	case l.Report == nil:
		return "neither a report nor a removal"
	}
	return ""
}

// full says that no more born objects may come back.
func (h *Hub) full() bool {
	n := 0
	for k := range h.reports {
		if strings.HasPrefix(k, key.LinePrefix(key.Born)) {
			n++
		}
	}
	return h.settings.UpsyncObjects > 0 && n >= h.settings.UpsyncObjects
}

// forget forgets the reports that are not asked for any more, and has the agent told so.
func (h *Hub) forget() {
	content, some := h.content(h.revision), false
	for k, r := range h.reports {
		if line, err := key.ParseLine(h.location, k); err == nil && line.Origin != key.Placed && !h.asks(line, &r, content) {
			delete(h.reports, k)
			some = true
		}
	}
	if some {
		h.revision++
		h.settings.Dropped = h.revision
	}
}

// asks says whether a report of what was not placed is asked for.
func (h *Hub) asks(r key.Report, report *wire.Report, content map[string]wire.Frame) bool {
	if r.Origin == key.Owned {
		put := content[key.PathPrefix(r.Space)+report.Owner].Put
		return put != nil && slices.Contains(strings.Split(put.Policy.Associated, "\n"), r.Resource.String())
	}
	among := func(all []string, one string) bool { return all == nil || slices.Contains(all, one) }
	return slices.ContainsFunc(h.settings.Upsync, func(u wire.Upsync) bool {
		return u.Space == string(r.Space) && (u.Group == "*" || u.Group == r.Group) && slices.Contains(u.Resources, r.Resource.Resource) &&
			among(u.Names, r.Name) && among(u.Namespaces, r.Namespace)
	})
}

func (h *Hub) serveLineage(_ *http.Request, body []byte) answer {
	var asked wire.LineageAsk
	if err := json.Unmarshal(body, &asked); err != nil || len(asked.Markers) > wire.MaxMarkers {
		return refused(http.StatusBadRequest, "lineage of %d markers: %v", len(asked.Markers), err)
	}
	said := wire.LineageAnswer{Marker: h.marker(h.revision), Revision: h.revision, Spans: map[string][]wire.Revisions{}}
	for i, m := range h.markers {
		if !slices.Contains(asked.Markers, m.marker) {
			continue
		}
		last := h.revision
		if i+1 < len(h.markers) {
			last = h.markers[i+1].revision - 1
		}
		said.Spans[m.marker] = []wire.Revisions{{First: m.revision, Last: last}}
	}
	return answer{lines: []any{said}}
}

func (h *Hub) serveStatus(_ *http.Request, body []byte) answer {
	var said wire.AgentStatus
	if err := json.Unmarshal(body, &said); err != nil {
		return refused(http.StatusBadRequest, "status: %v", err)
	}
	known := h.told.APIsDigest == said.APIsDigest && h.told.APIs != nil
	if said.APIs == nil && known {
		said.APIs = h.told.APIs
	}
	h.told = said
	return answer{lines: []any{wire.StatusAnswer{SendAPIs: said.APIsDigest != "" && said.APIs == nil}}}
}
