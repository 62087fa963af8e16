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

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// answer is the response to a call: lines, or, if code is not 0, a refusal.
type answer struct {
	lines  []any
	code   int
	reason string
}

func refused(code int, format string, args ...any) answer {
	return answer{code: code, reason: fmt.Sprintf(format, args...)}
}

func (a answer) write(w http.ResponseWriter) {
	if a.code == 0 {
		_, _ = w.Write(Lines(a.lines...)) // the agent may be gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // as above
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(a.code), Message: a.reason,
	})
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	root, call := route.Parse(r.URL.Path)
	if refusal := h.authenticate(r, root); refusal.code != 0 {
		refusal.write(w)
		return
	}
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		refused(http.StatusBadRequest, "header %s is %q", wire.Header, v).write(w)
		return
	}
	h.mu.Lock()
	h.calls[call]++
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
		route.Reports: h.serveReports, route.LogIdentity: h.serveLogIdentity, route.AgentStatus: h.serveStatus,
		route.Inspected: h.serveLooked, route.Namespaces: h.serveNamespaces,
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
		h.rules.check(call, body)
		a := serve(r, body)
		h.rules.learn(call, a.lines)
		h.mu.Unlock()
		a.write(w)
	}
}

// authenticate returns a refusal unless a request is from the location's agent.
func (h *Hub) authenticate(r *http.Request, root route.Root) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case !ok || token != h.token || h.gone:
		return refused(http.StatusUnauthorized, "Unauthorized")
	case root != route.Agent(h.location):
		return refused(http.StatusForbidden, "not the location of the token")
	}
	return answer{}
}

// subscriber is the state of a session.
type subscriber struct {
	after           int64
	mark            bool
	greeted, token  string
	mine, life, cut int
	settings        wire.Settings // as last sent
	// canUpsync is true if the agent supports upsync.
	canUpsync bool
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
	canUpsync := wire.Capable(r.Header, wire.Upsyncs)
	hello := h.hello(h.revision, place{q.Get("marker"), after}, canUpsync)
	hello.Resumed = hello.Continuous && after > 0 && after >= h.window && !h.settings.Purge
	h.newest++
	s := &subscriber{
		after: hello.Revision, mark: hello.Resumed, greeted: hello.Marker, token: h.token,
		mine: h.newest, life: h.life, cut: h.cut, settings: hello.Settings, canUpsync: canUpsync,
	}
	if hello.Resumed {
		s.after = after
	}
	h.rules.learn(route.Desired, []any{wire.Frame{Hello: hello}})
	close(h.changed) // wakes the previous session
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
		ping := time.NewTimer(time.Duration(s.settings.HeartbeatSeconds) * time.Second)
		select {
		case <-changed:
		case <-ping.C:
			frames = []any{wire.Frame{Ping: &wire.Ping{}}}
		case <-r.Context().Done():
		}
		ping.Stop()
	}
}

// more returns the frames since the last call. If bye is true, the last one is a bye; if ended is true,
// the session has ended without one. changed is closed at the next change.
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
	case s.settings.Purge != h.settings.Purge || s.after < h.window:
		return end(wire.ByeExpired)
	case !s.settings.Equal(settingsFor(h.settings, s.canUpsync)):
		s.settings = settingsFor(h.settings, s.canUpsync)
		frames = append(frames, wire.Frame{Settings: &s.settings})
	}
	if !s.settings.Purge {
		for _, l := range h.log {
			if l.revision > s.after {
				frames, s.mark = append(frames, h.delivered(frameFor(l.frame, s.canUpsync), l.revision, s.greeted)), true
			}
		}
	}
	for _, q := range h.inspections {
		frames = append(frames, wire.Frame{InspectRequest: &q})
	}
	h.inspections = nil
	s.after = h.revision
	if s.mark {
		frames, s.mark = append(frames, wire.Frame{Mark: h.mark(h.revision, s.canUpsync)}), false
	}
	return frames, h.changed, false, false
}

// settingsFor returns the settings for an agent that supports upsync or does not.
func settingsFor(s wire.Settings, canUpsync bool) wire.Settings {
	if !canUpsync {
		s.Upsync, s.UpsyncObjects, s.UpsyncBytes, s.Dropped = nil, 0, 0, 0
	}
	return s
}

// frameFor returns a frame for an agent that supports upsync or does not.
func frameFor(f wire.Frame, canUpsync bool) wire.Frame {
	if f.Put != nil && !canUpsync {
		p := *f.Put
		p.Policy.Associated = ""
		f.Put = &p
	}
	return f
}

// bodyOf decodes a body of lines. If first is not nil, it receives the first line.
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
		return refused(http.StatusBadRequest, "comparison of %d spans: %v", len(spans), err)
	}
	rev, have, canUpsync := h.revision, Holding{}, wire.Capable(r.Header, wire.Upsyncs)
	if _, call := route.Parse(r.URL.Path); call == route.Walk {
		if walk.Revision >= h.window && walk.Revision > 0 && walk.Revision < rev {
			rev = walk.Revision
		}
		for _, f := range h.content(rev) {
			_ = have.Apply(frameFor(f, canUpsync)) // returns errors only for marks
		}
	} else {
		for k, report := range h.reports {
			if line, err := key.ParseLine(h.location, k); canUpsync || err == nil && line.Origin == key.Placed {
				have[k] = report.Sum()
			}
		}
	}
	hello := h.hello(rev, place{walk.Marker, walk.After}, canUpsync)
	hello.Root, hello.Count = have.Root(), len(have)
	lines := []any{wire.Frame{Hello: hello}}
	for _, ranges := range have.Index().Answer(spans) {
		lines = append(lines, wire.Frame{RangeDifference: &ranges})
	}
	return answer{lines: append(lines, wire.Frame{Mark: &wire.Mark{Revision: rev, Root: hello.Root, Count: hello.Count, Marker: hello.Marker}})}
}

func fetched(body []byte) ([]wire.Fetch, answer) {
	keys, err := bodyOf[wire.Fetch](body, nil)
	if err != nil || len(keys) > wire.MaxFetch {
		return nil, refused(http.StatusBadRequest, "fetch of %d keys: %v", len(keys), err)
	}
	return keys, answer{}
}

// largeFetch is the size in bytes above which the response to a fetch ends early.
const largeFetch = 1 << 20

func (h *Hub) serveFetch(r *http.Request, body []byte) answer {
	keys, a := fetched(body)
	canUpsync := wire.Capable(r.Header, wire.Upsyncs)
	content, size := h.content(h.revision), 0
	for i := 0; i < len(keys) && size < largeFetch; i++ {
		f, ok := content[keys[i].Key]
		if !ok {
			f = wire.Frame{Del: &wire.Del{Key: keys[i].Key, Cause: wire.Walked}}
		}
		if f.Put != nil {
			size += len(f.Put.Object)
		}
		a.lines = append(a.lines, h.delivered(frameFor(f, canUpsync), h.revision, ""))
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
	response, content, before := wire.ReportsAnswer{}, h.content(h.revision), maps.Clone(h.reports)
	for _, l := range lines {
		if reason := h.refuses(l, content); reason != "" {
			response.Refused = append(response.Refused, wire.RefusedReport{Key: l.Key, Message: reason})
			continue
		}
		if delete(h.reports, l.Key); l.Report != nil {
			h.reports[l.Key] = l.Report.Fit()
		}
	}
	if !maps.EqualFunc(before, h.reports, func(a, b wire.Report) bool { return a.Sum() == b.Sum() }) {
		h.revision++
	}
	response.Revision = h.revision
	return answer{lines: []any{response}}
}

// refuses returns the reason for which a report is refused, or an empty string if it is accepted.
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
	case object.Origin != key.Placed && l.Report != nil && !h.isRequested(object, l.Report, content):
		return "the object is not requested"
	case object.Origin == key.Upsynced && l.Report != nil && !known && h.full():
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

// full reports whether the limit of upsynced objects is reached.
func (h *Hub) full() bool {
	n := 0
	for k := range h.reports {
		if strings.HasPrefix(k, key.LinePrefix(key.Upsynced)) {
			n++
		}
	}
	return h.settings.UpsyncObjects > 0 && n >= h.settings.UpsyncObjects
}

// forget drops reports that are no longer requested, and records that in the settings.
func (h *Hub) forget() {
	content, some := h.content(h.revision), false
	for k, r := range h.reports {
		if line, err := key.ParseLine(h.location, k); err == nil && line.Origin != key.Placed && !h.isRequested(line, &r, content) {
			delete(h.reports, k)
			some = true
		}
	}
	if some {
		h.revision++
		h.settings.Dropped = h.revision
	}
}

// isRequested reports whether a report about an object that was not placed is requested.
func (h *Hub) isRequested(r key.Report, report *wire.Report, content map[string]wire.Frame) bool {
	if r.Origin == key.Owned {
		put := content[key.PathPrefix(r.Space)+report.Owner].Put
		return put != nil && slices.Contains(strings.Split(put.Policy.Associated, "\n"), r.Resource.String())
	}
	allows := func(all []string, one string) bool { return all == nil || slices.Contains(all, one) }
	return slices.ContainsFunc(h.settings.Upsync, func(u wire.Upsync) bool {
		return u.Space == string(r.Space) && (u.Group == "*" || u.Group == r.Group) && slices.Contains(u.Resources, r.Resource.Resource) &&
			allows(u.Names, r.Name) && allows(u.Namespaces, r.Namespace)
	})
}

func (h *Hub) serveNamespaces(_ *http.Request, body []byte) answer {
	var request wire.NamespacesRequest
	if err := json.Unmarshal(body, &request); err != nil || len(request.Names) > wire.MaxNamespaces {
		return refused(http.StatusBadRequest, "%d Namespaces: %v", len(request.Names), err)
	}
	response := NamespacesIn(h.content(h.revision), request)
	response.Marker, response.Revision = h.marker(h.revision), h.revision
	return answer{lines: []any{response}}
}

// NamespacesIn returns the requested Namespaces that are desired in a content, by key, in any space.
func NamespacesIn(content map[string]wire.Frame, request wire.NamespacesRequest) (response wire.NamespacesResponse) {
	for _, name := range request.Names {
		for k, f := range content {
			if o, err := key.ParsePath(k); err == nil && o.Resource == key.Namespaces && o.Name == name && f.Gone == nil && (f.Hold == nil || f.Hold.Reason != v1alpha1.ReasonUpsynced) {
				response.Desired = append(response.Desired, name)
				break
			}
		}
	}
	slices.Sort(response.Desired)
	return response
}

func (h *Hub) serveLogIdentity(_ *http.Request, body []byte) answer {
	var request wire.LogIdentityRequest
	if err := json.Unmarshal(body, &request); err != nil || len(request.Markers) > wire.MaxMarkers {
		return refused(http.StatusBadRequest, "log identity of %d markers: %v", len(request.Markers), err)
	}
	response := wire.LogIdentityResponse{Marker: h.marker(h.revision), Revision: h.revision, Spans: map[string][]wire.Revisions{}}
	for i, m := range h.markers {
		if !slices.Contains(request.Markers, m.marker) {
			continue
		}
		last := h.revision
		if i+1 < len(h.markers) {
			last = h.markers[i+1].revision - 1
		}
		response.Spans[m.marker] = []wire.Revisions{{First: m.revision, Last: last}}
	}
	return answer{lines: []any{response}}
}

func (h *Hub) serveStatus(_ *http.Request, body []byte) answer {
	var status wire.AgentStatus
	if err := json.Unmarshal(body, &status); err != nil {
		return refused(http.StatusBadRequest, "status: %v", err)
	}
	known := h.status.APIsDigest == status.APIsDigest && h.status.APIs != nil
	if status.APIs == nil && known {
		status.APIs = h.status.APIs
	}
	h.status = status
	return answer{lines: []any{wire.StatusAnswer{SendAPIs: status.APIsDigest != "" && status.APIs == nil}}}
}
