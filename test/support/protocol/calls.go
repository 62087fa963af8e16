package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// callCases are requirements on the calls of an agent besides its session, and on their refusals.
func callCases() []hubCase {
	return []hubCase{
		{"Reports", takesReports},
		{"ReportsRefused", refusesReports},
		{"ReportsTooLarge", cutsReports},
		{"ReportsWalk", walksReports},
		{"Status", takesStatus},
		{"Namespaces", namesNamespaces},
		{"UnknownFields", passesOver},
		{"Refusals", refuses},
		{"RefusalsOfOthers", refusesOthers},
	}
}

func report(name string, r wire.Report) wire.ReportLine {
	return wire.ReportLine{Key: KeyOf(name), Report: &r}
}

// kept returns the hub's report of the object with a name, or nil.
func (e *exam) kept(name string) *wire.Report {
	e.Helper()
	lines, err := e.Client().Reports(e.ctx, KeyOf(name))
	e.ok(err)
	if l := lines[0]; l.Key != KeyOf(name) || l.Removed == (l.Report != nil) {
		e.Errorf("a fetch of reports has %+v", l)
	}
	return lines[0].Report
}

// isQuiet checks that a repeated report writes nothing. A hub may write for other reasons meanwhile,
// but not each time.
func (e *exam) isQuiet(line wire.ReportLine) {
	e.Helper()
	var before int64
	for range 50 {
		answer, err := e.Client().Report(e.ctx, line)
		e.ok(err)
		if answer.Revision == before {
			return
		}
		before = answer.Revision
	}
	e.Errorf("each time the same is reported, the log grows: it is at %d", before)
}

// takesReports: the hub keeps a report until the next one of its key.
func takesReports(e *exam) {
	e.Desire("one", "1")
	reported := wire.Report{UID: "u", Generation: 3, Digest: wire.SumOf([]byte("x")), State: wire.Failed, Reason: "Refused", Message: "<no>", Since: "2030-01-01T00:00:00Z", Status: json.RawMessage(`{"a":"<b>"}`)}
	first, err := e.Client().Report(e.ctx, report("one", reported))
	e.ok(err)
	if first.Revision <= 0 || len(first.Refused) > 0 {
		e.Errorf("the answer is %+v", first)
	}
	if got := e.kept("one"); got == nil || got.Sum() != reported.Sum() {
		e.Fatalf("it is kept as %+v, was %+v", got, reported)
	}
	e.isQuiet(report("one", reported))
	// Objects that are no longer desired can also be reported, until they are removed.
	e.Delete("one")
	reported.State = wire.Removing
	if a, err := e.Client().Report(e.ctx, report("one", reported)); err != nil || len(a.Refused) > 0 || a.Revision <= first.Revision {
		e.Errorf("the answer for an object that is being removed is %+v, %v", a, err)
	}
	_, err = e.Client().Report(e.ctx, wire.ReportLine{Key: KeyOf("one"), Removed: true})
	e.ok(err)
	if got := e.kept("one"); got != nil {
		e.Errorf("removed it is %+v", got)
	}
	if _, err = e.Client().Report(e.ctx, wire.ReportLine{Key: KeyOf("one"), Removed: true}); err != nil {
		e.Errorf("the removal of an unknown report fails: %v", err)
	}
}

// refusesReports: a refused line does not affect the others.
func refusesReports(e *exam) {
	e.Desire("one", "1")
	good := wire.Report{UID: "u", State: wire.Applied}
	answer, err := e.Client().Report(e.ctx,
		wire.ReportLine{Key: "../../x", Report: &good}, wire.ReportLine{Key: KeyOf("one") + "/more/and/more", Report: &good},
		report("never-desired", good), wire.ReportLine{Key: KeyOf("one")}, report("one", good))
	e.ok(err)
	var refused []string
	for _, r := range answer.Refused {
		if r.Message == "" {
			e.Errorf("%q is refused without a reason", r.Key)
		}
		refused = append(refused, r.Key)
	}
	if want := []string{"../../x", KeyOf("one") + "/more/and/more", KeyOf("never-desired"), KeyOf("one")}; !slices.Equal(refused, want) || answer.Revision <= 0 {
		e.Errorf("the answer is %+v, want refused: %q", answer, want)
	}
	if got := e.kept("one"); got == nil || got.State != wire.Applied {
		e.Errorf("the good one is kept as %+v", got)
	}
	if e.kept("never-desired") != nil {
		e.Error("the refused report is kept")
	}
}

// cutsReports: hub and agent omit the status of a report that is too large.
func cutsReports(e *exam) {
	e.Desire("one", "1")
	large := wire.Report{UID: "u", State: wire.Applied, Status: json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", wire.MaxReport)))}
	answer, err := e.Client().Report(e.ctx, report("one", large))
	e.ok(err)
	if len(answer.Refused) > 0 {
		e.Errorf("it is refused: %+v", answer.Refused)
	}
	if got := e.kept("one"); got == nil || got.Sum() != large.Fit().Sum() || got.StatusBytes != len(large.Status) || got.State != wire.Applied {
		e.Errorf("it is kept as %+v", got)
	}
}

// walksReports: reports are compared in the same way as content.
func walksReports(e *exam) {
	mine := Holding{}
	for i := range 3 {
		name := fmt.Sprint("n", i)
		e.Desire(name, "1")
		reported := wire.Report{UID: "u", State: wire.Applied, Message: name, Aggregated: i == 0}
		_, err := e.Client().Report(e.ctx, report(name, reported))
		e.ok(err)
		mine[KeyOf(name)] = reported.Sum()
	}
	frames, err := e.Client().Exchange(e.ctx, route.ReportsWalk, wire.Walk{}, mine.Index().Span("", ""))
	e.ok(err)
	if len(frames) != 2 || frames[0].Hello == nil || !frames[0].Hello.KeepsAggregated || frames[1].Mark.Root != mine.Root() || frames[1].Mark.Count != len(mine) {
		e.Errorf("in sync, a comparison of reports has %+v", frames)
	}
	mine[KeyOf("n1")], mine[KeyOf("other")] = wire.SumOf([]byte("x")), wire.SumOf([]byte("y"))
	frames, err = e.Client().Exchange(e.ctx, route.ReportsWalk, wire.Walk{}, mine.Index().Span("", ""))
	e.ok(err)
	if len(frames) != 3 || frames[1].RangeDifference == nil {
		e.Fatalf("a comparison of reports has %+v", frames)
	}
	if d := mine.Index().Compare(*frames[1].RangeDifference); !slices.Equal(d.Theirs, []string{KeyOf("n1")}) || !slices.Equal(d.Mine, []string{KeyOf("other")}) {
		e.Errorf("it finds %+v", d)
	}
	lines, err := e.Client().Reports(e.ctx, KeyOf("n2"), KeyOf("other"), "../../e/a", KeyOf("n0"))
	e.ok(err)
	if len(lines) != 4 || lines[0].Report == nil || !lines[1].Removed || !lines[2].Removed || lines[3].Report == nil || lines[3].Report.Message != "n0" {
		e.Errorf("fetched are %+v", lines)
	}
}

// takesStatus: the hub requests the list of APIs once for each digest.
func takesStatus(e *exam) {
	e.open()
	status := wire.AgentStatus{Version: "v9", KubernetesVersion: "v1.36.0", APIsDigest: "d1", LogIdentity: wire.Proven}
	tell := func(isRequested bool, description string) {
		e.Helper()
		answer, err := e.Client().Tell(e.ctx, status)
		e.ok(err)
		if answer.SendAPIs != isRequested {
			e.Errorf("%s: the list of APIs is requested: %v", description, answer.SendAPIs)
		}
	}
	tell(true, "a digest that is new")
	status.APIs = []wire.API{{GroupVersion: "v1", Resources: []string{"pods"}}}
	tell(false, "the list")
	status.APIs = nil
	tell(false, "a digest that is known")
	status.APIsDigest = "d2"
	tell(true, "another digest")
	status.APIsDigest = ""
	tell(false, "no digest")
}

// namesNamespaces: the hub does not name a Namespace that only contains desired objects.
func namesNamespaces(e *exam) {
	e.Desire("one", "1")
	answer, err := e.Client().Namespaces(e.ctx, make([]string, wire.MaxNamespaces-1)...)
	e.ok(err)
	again, err := e.Client().Namespaces(e.ctx, "default", "missing")
	e.ok(err)
	if len(answer.Desired)+len(again.Desired) > 0 {
		e.Errorf("the hub names %q and %q", answer.Desired, again.Desired)
	}
	if answer.Marker == "" || answer.Revision == 0 || again.Revision < answer.Revision {
		e.Errorf("the answers are of revision %d with marker %q, and then %d with %q", answer.Revision, answer.Marker, again.Revision, again.Marker)
	}
}

// passesOver: the hub ignores unknown fields, for example of a newer agent.
func passesOver(e *exam) {
	e.Desire("one", "1")
	for call, body := range map[string]string{
		route.Walk:         `{"newer":{"x":1}}` + "\n" + `{"sum":"","count":0,"newer":[1]}` + "\n",
		route.Fetch:        `{"key":"` + KeyOf("one") + `","newer":true}` + "\n",
		route.LogIdentity:  `{"markers":["x"],"newer":1}` + "\n",
		route.Namespaces:   `{"names":["x"],"newer":1}` + "\n",
		route.Reports:      `{"key":"` + KeyOf("one") + `","report":{"uid":"u","state":"Applied","newer":{}},"newer":"x"}` + "\n\n",
		route.ReportsWalk:  `{"newer":1}` + "\n" + `{"sum":"","count":0}` + "\n",
		route.ReportsFetch: `{"key":"` + KeyOf("one") + `","newer":true}` + "\n",
		route.AgentStatus:  `{"version":"v9","newer":{}}` + "\n",
		route.Desired:      "",
	} {
		method, below := http.MethodPost, call
		if call == route.Desired {
			method, below = http.MethodGet, call+"?newer=1&shard=1/1"
		}
		answer, err := e.Client().Do(e.ctx, method, below, strings.NewReader(body))
		if err != nil {
			e.Errorf("%s: %v", call, err)
			continue
		}
		var line map[string]any
		if err := wire.NewDecoder(answer).Decode(&line); err != nil {
			e.Errorf("%s: %v", call, err)
		}
		_ = answer.Close() // the first line has been read
	}
	if got := e.kept("one"); got == nil || got.State != wire.Applied {
		e.Errorf("the report is kept as %+v", got)
	}
}

// malformed returns an error message about a refusal, or an empty string if it is correct.
func (r *RefusedError) malformed(codes ...int) string {
	var status metav1.Status
	switch err := json.Unmarshal(r.Body, &status); {
	case !slices.Contains(codes, r.Code):
		return fmt.Sprintf("answered with %d, want %d", r.Code, codes)
	case err != nil:
		return err.Error()
	case status.Kind != "Status" || status.Status != metav1.StatusFailure || int(status.Code) != r.Code || status.Message == "":
		return fmt.Sprintf("the status is %+v", status)
	case r.Code != http.StatusUnauthorized && r.Code != http.StatusForbidden && r.Header.Get(wire.Header) != wire.ProtocolVersion:
		return fmt.Sprintf("the header is %+v", r.Header)
	}
	return ""
}

// refuses: the hub refuses a malformed request as a whole, with a reason.
func refuses(e *exam) {
	e.Desire("one", "1")
	good, err := json.Marshal(report("one", wire.Report{UID: "u", State: wire.Applied}))
	e.ok(err)
	many := func(n int, line any) string { return string(bytes.Repeat(Lines(line), n)) }
	for _, c := range []struct {
		method, call, body string
		code               int
	}{
		{http.MethodGet, route.Desired + "?after=x", "", http.StatusBadRequest},
		{http.MethodGet, route.Desired + "?after=-1", "", http.StatusBadRequest},
		{http.MethodGet, route.Desired + "?shard=3/2", "", http.StatusBadRequest},
		{http.MethodGet, route.Desired + "?shard=1/3", "", http.StatusConflict},
		{http.MethodPost, route.Desired, "", http.StatusNotFound},
		{http.MethodGet, route.Walk, "", http.StatusNotFound},
		{http.MethodPost, route.Walk + "/nothing", "", http.StatusNotFound},
		{http.MethodPost, route.Walk, "", http.StatusBadRequest},
		{http.MethodPost, route.Walk, "{}\n]\n", http.StatusBadRequest},
		{http.MethodPost, route.Walk, "{}\n" + many(wire.MaxSpans+1, wire.Span{}), http.StatusBadRequest},
		{http.MethodPost, route.ReportsWalk, "{}\n" + many(wire.MaxSpans+1, wire.Span{}), http.StatusBadRequest},
		{http.MethodPost, route.Fetch, "<html>", http.StatusBadRequest},
		{http.MethodPost, route.Fetch, many(wire.MaxFetch+1, wire.Fetch{Key: KeyOf("one")}), http.StatusBadRequest},
		{http.MethodPost, route.ReportsFetch, many(wire.MaxFetch+1, wire.Fetch{Key: KeyOf("one")}), http.StatusBadRequest},
		{http.MethodPost, route.Reports, string(good) + "\n{\"key\":", http.StatusBadRequest},
		{http.MethodPost, route.Reports, string(good) + "\n{\"key\":7}\n", http.StatusBadRequest},
		{http.MethodPost, route.AgentStatus, "[]", http.StatusBadRequest},
		{http.MethodPost, route.LogIdentity, "7", http.StatusBadRequest},
		{http.MethodPost, route.Namespaces, "7", http.StatusBadRequest},
		{http.MethodPost, route.Namespaces, many(1, wire.NamespacesRequest{Names: make([]string, wire.MaxNamespaces+1)}), http.StatusBadRequest},
		{http.MethodPost, route.LogIdentity, many(1, wire.LogIdentityRequest{Markers: make([]string, wire.MaxMarkers+1)}), http.StatusBadRequest},
	} {
		_, err := e.Client().Do(e.ctx, c.method, c.call, strings.NewReader(c.body))
		e.refused(err, c.code)
	}
	if e.kept("one") != nil {
		e.Error("a report of a refused request is kept")
	}
}

// refusesOthers: a token is valid only for its own location, and the hub refuses other versions of the
// protocol.
func refusesOthers(e *exam) {
	for _, c := range []struct {
		name, header, value, location string
		code                          int
	}{
		{"another protocol", wire.Header, "7", "", http.StatusBadRequest},
		{"no protocol", wire.Header, "", "", http.StatusBadRequest},
		{"no token", "Authorization", "", "", http.StatusUnauthorized},
		{"a wrong token", "Authorization", "Bearer x.wrong", "", http.StatusUnauthorized},
		{"another's location", "X-Nothing", "x", "elsewhere", http.StatusForbidden},
	} {
		for _, call := range append([]string{route.Desired}, calls...) {
			method, client := http.MethodPost, *e.Client()
			if c.location == "" && client.Identity != nil { // without a client certificate, only the headers count
				stranger, err := TokenClient(client.Join)
				e.ok(err)
				client.HTTP = stranger.HTTP
				if c.header == wire.Header {
					client.Join.Token, err = client.Identity.Bearer()
					e.ok(err)
				}
			}
			if call == route.Desired {
				method = http.MethodGet
			}
			if c.location != "" {
				client.Join.Location = c.location
			}
			r, err := client.New(e.ctx, method, call, strings.NewReader("{}"))
			e.ok(err)
			r.Header.Set(c.header, c.value)
			_, err = client.send(r, call)
			e.Log(c.name)
			e.refused(err, c.code)
		}
	}
}
