package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// rules checks the requests of an agent as far as a hub can. The hub's lock guards it.
type rules struct {
	faults []string
	// sent has the log positions that an agent may know, and pages, by call, the revisions of
	// comparisons that it may continue.
	sent  map[place]bool
	pages map[string]map[int64]bool
	// greeted is true after the first hello, and apis after a request for the list of APIs.
	greeted, apis bool
}

func newRules() rules {
	return rules{sent: map[place]bool{{}: true}, pages: map[string]map[int64]bool{route.Walk: {0: true}, route.ReportsWalk: {0: true}}}
}

// wrong records a fault.
func (r *rules) wrong(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// fault is wrong for callers without the hub's lock.
func (r *rules) fault(h *Hub, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.wrong(format, args...)
}

// opens checks the log position from which a session begins.
func (r *rules) opens(from place) {
	if !r.sent[from] {
		r.wrong("a session resumes from %+v, which no hub has sent", from)
	}
}

// learn records the contents of a response.
func (r *rules) learn(call string, lines []any) {
	for _, line := range lines {
		switch l := line.(type) {
		case wire.StatusAnswer:
			r.apis = r.apis || l.SendAPIs
		case wire.Frame:
			switch {
			case l.Hello != nil:
				r.sent[place{l.Hello.Marker, l.Hello.Revision}] = true
				if r.greeted = true; r.pages[call] != nil {
					r.pages[call][l.Hello.Revision] = true
				}
			case l.Mark != nil && call != route.Fetch:
				r.sent[place{l.Mark.Marker, l.Mark.Revision}] = true
			}
		}
	}
}

// check checks the body of a call.
func (r *rules) check(call string, body []byte) {
	if !r.greeted {
		r.wrong("%s comes before the first session", call)
	}
	var err error
	switch call {
	case route.Walk, route.ReportsWalk:
		err = r.checkWalk(call, body)
	case route.Fetch, route.ReportsFetch:
		err = r.checkFetch(body)
	case route.Reports:
		err = r.checkReports(body)
	case route.LogIdentity:
		var requests []wire.LogIdentityRequest
		if requests, err = strictly[wire.LogIdentityRequest](body); err == nil && (len(requests) != 1 || len(requests[0].Markers) == 0 || len(requests[0].Markers) > wire.MaxMarkers) {
			err = fmt.Errorf("%+v", requests)
		}
	case route.Namespaces:
		var requests []wire.NamespacesRequest
		if requests, err = strictly[wire.NamespacesRequest](body); err == nil && (len(requests) != 1 || len(requests[0].Names) == 0 || len(requests[0].Names) > wire.MaxNamespaces) {
			err = fmt.Errorf("%+v", requests)
		}
	case route.AgentStatus:
		var statuses []wire.AgentStatus
		if statuses, err = strictly[wire.AgentStatus](body); err == nil && (len(statuses) != 1 || statuses[0].APIs != nil && !r.apis) {
			err = errors.New("a list of APIs that the hub did not request")
		}
	}
	if err != nil {
		r.wrong("%s: %v", call, err)
	}
}

// strictly decodes lines, and returns an error for unknown fields.
func strictly[T any](body []byte) (all []T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	for {
		var line T
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		all = append(all, line)
	}
}

func (r *rules) checkWalk(call string, body []byte) error {
	first, rest, _ := bytes.Cut(body, []byte("\n"))
	walks, err := strictly[wire.Walk](first)
	if err != nil {
		return err
	}
	spans, err := strictly[wire.Span](rest)
	switch {
	case err != nil:
		return err
	case len(walks) != 1 || len(spans) == 0 || len(spans) > wire.MaxSpans:
		return fmt.Errorf("it requests %d spans", len(spans))
	case !r.pages[call][walks[0].Revision]:
		return fmt.Errorf("it continues at revision %d, which no response had", walks[0].Revision)
	case !r.sent[place{walks[0].Marker, walks[0].After}]:
		return fmt.Errorf("it has the log position %+v, which no hub has sent", walks[0])
	}
	for _, s := range spans {
		if s.To != "" && s.To <= s.From {
			return fmt.Errorf("a span from %q to %q", s.From, s.To)
		}
	}
	return nil
}

func (r *rules) checkFetch(body []byte) error {
	keys, err := strictly[wire.Fetch](body)
	if err == nil && (len(keys) == 0 || len(keys) > wire.MaxFetch) {
		err = fmt.Errorf("it requests %d keys", len(keys))
	}
	for _, f := range keys {
		if _, bad := key.ParseLine("", f.Key); bad != nil {
			err = bad
		}
	}
	return err
}

func (r *rules) checkReports(body []byte) error {
	lines, err := strictly[wire.ReportLine](body)
	if err == nil && len(lines) == 0 {
		err = errors.New("nothing is reported")
	}
	seen := map[string]bool{}
	for _, l := range lines {
		switch report, bad := key.ParseLine("", l.Key); {
		case bad != nil:
			err = bad
		case l.Report != nil && (report.Origin != key.Placed) != (l.Report.State == wire.Present):
			err = fmt.Errorf("%q is reported as %q", l.Key, l.Report.State)
		case l.Report != nil && (report.Origin == key.Owned) != (l.Report.Owner != ""):
			err = fmt.Errorf("%q is reported to belong to %q", l.Key, l.Report.Owner)
		case seen[l.Key]:
			err = fmt.Errorf("two reports of %q", l.Key)
		case l.Removed == (l.Report != nil):
			err = fmt.Errorf("%q is reported and removed, or neither", l.Key)
		case l.Report != nil && (l.Report.State == "" || l.Report.UID == ""):
			err = fmt.Errorf("the report of %q is %+v", l.Key, l.Report)
		case l.Report != nil && l.Report.Fit().Sum() != l.Report.Sum():
			err = fmt.Errorf("the report of %q is larger than a log takes", l.Key)
		}
		seen[l.Key] = true
	}
	return err
}
