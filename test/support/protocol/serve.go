package protocol

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// responder answers the requests of agents from the state of a hub. Each answer is of one state.
type responder struct{ hub *Hub }

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) { responder{h}.serveHTTP(w, r) }

// serveHTTP answers a request of an agent.
func (a responder) serveHTTP(w http.ResponseWriter, r *http.Request) {
	root, call := route.Parse(r.URL.Path)
	if refusal := a.authenticate(r, root); refusal.code != 0 {
		refusal.write(w)
		return
	}
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	if v := r.Header.Get(wire.Header); v != wire.ProtocolVersion {
		refused(http.StatusBadRequest, "header %s is %q", wire.Header, v).write(w)
		return
	}
	a.hub.mu.Lock()
	a.hub.calls[call]++
	instead := a.hub.instead
	a.hub.mu.Unlock()
	if instead != nil && instead(w, r, call) {
		return
	}
	want := http.MethodPost
	if call == route.Desired {
		want = http.MethodGet
	}
	serve := map[string]func(*http.Request, []byte) answer{
		route.Walk: a.serveWalk, route.ReportsWalk: a.serveWalk, route.Fetch: a.serveFetch, route.ReportsFetch: a.serveReportsFetch,
		route.Reports: a.serveReports, route.LogIdentity: a.serveLogIdentity, route.AgentStatus: a.serveStatus,
		route.Inspected: a.serveLooked, route.Namespaces: a.serveNamespaces,
	}[call]
	switch {
	case r.Method != want || call != route.Desired && serve == nil:
		a.hub.rules.fault(a.hub, "%s %s is no call", r.Method, call)
		refused(http.StatusNotFound, "%s", r.URL.Path).write(w)
	case call == route.Desired:
		a.serveDesired(w, r)
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the agent is gone
		}
		a.hub.mu.Lock()
		a.hub.rules.check(call, body)
		response := serve(r, body)
		a.hub.rules.learn(call, response.lines)
		a.hub.mu.Unlock()
		response.write(w)
	}
}

// authenticate returns a refusal unless a request is from the location's agent.
func (a responder) authenticate(r *http.Request, root route.Root) answer {
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	switch token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
	case !ok || token != a.hub.token || a.hub.gone:
		return refused(http.StatusUnauthorized, "Unauthorized")
	case root != route.Agent(a.hub.location):
		return refused(http.StatusForbidden, "not the location of the token")
	}
	return answer{}
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

func (a responder) serveWalk(r *http.Request, body []byte) answer {
	var walk wire.Walk
	spans, err := bodyOf[wire.Span](body, &walk)
	if err != nil || len(spans) > wire.MaxSpans {
		return refused(http.StatusBadRequest, "comparison of %d spans: %v", len(spans), err)
	}
	rev, have, canUpsync := a.hub.log.revision, Holding{}, wire.Capable(r.Header, wire.Upsyncs)
	if _, call := route.Parse(r.URL.Path); call == route.Walk {
		if walk.Revision >= a.hub.log.window && walk.Revision > 0 && walk.Revision < rev {
			rev = walk.Revision
		}
		for _, f := range a.hub.content(rev) {
			_ = have.Apply(frameFor(f, canUpsync)) // returns errors only for marks
		}
	} else {
		for k, report := range a.hub.reports.all {
			if line, err := key.ParseLine(a.hub.location, k); canUpsync || err == nil && line.Origin == key.Placed {
				have[k] = report.Sum()
			}
		}
	}
	hello := a.hello(rev, place{walk.Marker, walk.After}, canUpsync)
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

func (a responder) serveFetch(r *http.Request, body []byte) answer {
	keys, response := fetched(body)
	canUpsync := wire.Capable(r.Header, wire.Upsyncs)
	content, size := a.hub.content(a.hub.log.revision), 0
	for i := 0; i < len(keys) && size < largeFetch; i++ {
		f, ok := content[keys[i].Key]
		if !ok {
			f = wire.Frame{Del: &wire.Del{Key: keys[i].Key, Cause: wire.Walked}}
		}
		if f.Put != nil {
			size += len(f.Put.Object)
		}
		response.lines = append(response.lines, a.hub.log.delivered(frameFor(f, canUpsync), a.hub.log.revision, ""))
	}
	response.lines = append(response.lines, wire.Frame{Mark: &wire.Mark{Revision: a.hub.log.revision, Marker: a.hub.log.marker(a.hub.log.revision)}})
	return response
}

func (a responder) serveReportsFetch(_ *http.Request, body []byte) answer {
	keys, response := fetched(body)
	for _, f := range keys {
		line := wire.ReportLine{Key: f.Key, Removed: true}
		if report, ok := a.hub.reports.all[f.Key]; ok {
			line = wire.ReportLine{Key: f.Key, Report: &report}
		}
		response.lines = append(response.lines, line)
	}
	return response
}

func (a responder) serveReports(_ *http.Request, body []byte) answer {
	lines, err := bodyOf[wire.ReportLine](body, nil)
	if err != nil {
		return refused(http.StatusBadRequest, "reports: %v", err)
	}
	refusals, changed := a.hub.reports.accept(lines, &a.hub.settings, a.hub.content(a.hub.log.revision))
	if changed {
		a.hub.log.revision++
	}
	response := wire.ReportsAnswer{Refused: refusals}
	response.Revision = a.hub.log.revision
	return answer{lines: []any{response}}
}

func (a responder) serveNamespaces(_ *http.Request, body []byte) answer {
	var request wire.NamespacesRequest
	if err := json.Unmarshal(body, &request); err != nil || len(request.Names) > wire.MaxNamespaces {
		return refused(http.StatusBadRequest, "%d Namespaces: %v", len(request.Names), err)
	}
	response := NamespacesIn(a.hub.content(a.hub.log.revision), request)
	response.Marker, response.Revision = a.hub.log.marker(a.hub.log.revision), a.hub.log.revision
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

func (a responder) serveLogIdentity(_ *http.Request, body []byte) answer {
	var request wire.LogIdentityRequest
	if err := json.Unmarshal(body, &request); err != nil || len(request.Markers) > wire.MaxMarkers {
		return refused(http.StatusBadRequest, "log identity of %d markers: %v", len(request.Markers), err)
	}
	response := wire.LogIdentityResponse{Marker: a.hub.log.marker(a.hub.log.revision), Revision: a.hub.log.revision, Spans: a.hub.log.spans(request.Markers)}
	return answer{lines: []any{response}}
}

func (a responder) serveStatus(_ *http.Request, body []byte) answer {
	var status wire.AgentStatus
	if err := json.Unmarshal(body, &status); err != nil {
		return refused(http.StatusBadRequest, "status: %v", err)
	}
	known := a.hub.status.APIsDigest == status.APIsDigest && a.hub.status.APIs != nil
	if status.APIs == nil && known {
		status.APIs = a.hub.status.APIs
	}
	a.hub.status = status
	return answer{lines: []any{wire.StatusAnswer{SendAPIs: status.APIsDigest != "" && status.APIs == nil}}}
}
