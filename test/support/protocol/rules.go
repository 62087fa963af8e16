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

// rules are what an agent may send, as far as a hub can tell. They are guarded by the
// hub's lock.
type rules struct {
	faults []string
	// told are the places in the log that an agent may remember, and pages the revisions
	// of walks, by call, that it may go on with.
	told  map[place]bool
	pages map[string]map[int64]bool
	// greeted says that a session has begun, and apis that the list of APIs was asked for.
	greeted, apis bool
}

func newRules() rules {
	return rules{told: map[place]bool{{}: true}, pages: map[string]map[int64]bool{route.Walk: {0: true}, route.ReportsWalk: {0: true}}}
}

func (r *rules) wrong(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// fault notes a fault without the hub's lock.
func (r *rules) fault(h *Hub, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.wrong(format, args...)
}

// opens judges what a session begins from.
func (r *rules) opens(from place) {
	if !r.told[from] {
		r.wrong("a session goes on from %+v, which no hub has told", from)
	}
}

// learn takes note of what an agent was told.
func (r *rules) learn(call string, lines []any) {
	for _, line := range lines {
		switch l := line.(type) {
		case wire.StatusAnswer:
			r.apis = r.apis || l.SendAPIs
		case wire.Frame:
			switch {
			case l.Hello != nil:
				r.told[place{l.Hello.Marker, l.Hello.Revision}] = true
				if r.greeted = true; r.pages[call] != nil {
					r.pages[call][l.Hello.Revision] = true
				}
			case l.Mark != nil && call != route.Fetch:
				r.told[place{l.Mark.Marker, l.Mark.Revision}] = true
			}
		}
	}
}

// judge judges the body of a call.
func (r *rules) judge(call string, body []byte) {
	if !r.greeted {
		r.wrong("%s comes before the first session", call)
	}
	var err error
	switch call {
	case route.Walk, route.ReportsWalk:
		err = r.judgeWalk(call, body)
	case route.Fetch, route.ReportsFetch:
		err = r.judgeFetch(body)
	case route.Reports:
		err = r.judgeReports(body)
	case route.Lineage:
		var asked []wire.LineageAsk
		if asked, err = strictly[wire.LineageAsk](body); err == nil && (len(asked) != 1 || len(asked[0].Markers) == 0 || len(asked[0].Markers) > wire.MaxMarkers) {
			err = fmt.Errorf("%+v", asked)
		}
	case route.AgentStatus:
		var said []wire.AgentStatus
		if said, err = strictly[wire.AgentStatus](body); err == nil && (len(said) != 1 || said[0].APIs != nil && !r.apis) {
			err = errors.New("a list of APIs that nobody asked for")
		}
	}
	if err != nil {
		r.wrong("%s: %v", call, err)
	}
}

// strictly reads lines that have no fields but those of the contract.
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

func (r *rules) judgeWalk(call string, body []byte) error {
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
		return fmt.Errorf("it asks for %d spans", len(spans))
	case !r.pages[call][walks[0].At]:
		return fmt.Errorf("it goes on at revision %d, which is of no answer", walks[0].At)
	case !r.told[place{walks[0].Marker, walks[0].After}]:
		return fmt.Errorf("it is by who remembers %+v, which no hub has told", walks[0])
	}
	for _, s := range spans {
		if s.To != "" && s.To <= s.From {
			return fmt.Errorf("a span from %q to %q", s.From, s.To)
		}
	}
	return nil
}

func (r *rules) judgeFetch(body []byte) error {
	keys, err := strictly[wire.Fetch](body)
	if err == nil && (len(keys) == 0 || len(keys) > wire.MaxFetch) {
		err = fmt.Errorf("it asks for %d keys", len(keys))
	}
	for _, f := range keys {
		if _, bad := key.ParseLine("", f.Key); bad != nil {
			err = bad
		}
	}
	return err
}

func (r *rules) judgeReports(body []byte) error {
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
