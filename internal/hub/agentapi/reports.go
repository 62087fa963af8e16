package agentapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/lib/quantity"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxReportsBytes and maxReportLines limit one request; an agent sends far less.
	maxReportsBytes = 8 << 20
	maxReportLines  = 10_000
	// maxReportsDepth is the limit of encoding/json. A report that is too deep is refused or cut by
	// itself, so that the other reports of its request are written.
	maxReportsDepth = 10_000
)

// reportServer receives reports of agents, validates each, and writes the valid ones. An invalid report
// does not affect the others of its request. It is safe for concurrent use.
type reportServer struct {
	store    *reportStore
	limits   *agentLimits
	sessions *Sessions
	// usage counts the reports about objects that no Placement put at a location. queue gives each
	// location one request at a time that reports such objects.
	usage *upsync.Usage
	queue *fairqueue.Queue
}

// serve serves a report request unless its agent reports too much.
func (a *reportServer) serve(w http.ResponseWriter, r *http.Request, from agentRequest) {
	name := flowOf(from.session())
	for _, rates := range []*fairqueue.Rates{a.limits.requests, a.limits.bytes} {
		if err := rates.Begin(name); err != nil {
			respond.Error(w, r, err)
			return
		}
	}
	a.limits.requests.Count(name, 1)
	leave, err := a.limits.queue.Try(fairqueue.Flow{Name: name})
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	defer leave()
	counted := countBody(r)
	defer func() { a.limits.bytes.Count(name, counted.read) }()
	a.serveBatch(w, r, from)
}

// serveBatch writes a batch of reports to the log.
func (a *reportServer) serveBatch(w http.ResponseWriter, r *http.Request, from agentRequest) {
	guard, err := a.store.guard(from.location)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	body := requestbody.Lines(r, requestbody.Limits{Bytes: maxReportsBytes, Depth: maxReportsDepth})
	// The request must not replace reports that are written after it starts.
	before := a.store.table.Snapshot()
	others := &seen{store: a.store, sessions: a.sessions, usage: a.usage, queue: a.queue, agent: from.session(), state: before}
	defer others.done()
	var answer wire.ReportsAnswer
	var changes []etcd.Change
	for n := 0; ; n++ {
		var line wire.ReportLine
		err := body.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if n == maxReportLines {
			respond.Error(w, r, respond.BadRequest("a request may have %d reports", maxReportLines))
			return
		}
		if err != nil {
			respond.Error(w, r, respond.BadBody(err, "report %d", len(changes)))
			return
		}
		op, err := a.writeOf(from, line, others.check)
		if err == nil {
			var failed error
			if err, failed = others.take(r.Context(), op); failed != nil {
				respond.Error(w, r, failed)
				return
			}
		}
		if err != nil {
			answer.Refused = append(answer.Refused, wire.RefusedReport{Key: line.Key, Message: err.Error()})
			continue
		}
		changes = append(changes, changeOf(op, before.Get(op.Key)))
	}
	if answer.Revision = a.store.table.Rev(); len(changes) > 0 {
		rev, err := a.store.write(r.Context(), guard, changes)
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		answer.Revision = rev
	}
	respond.JSON(w, answer)
}

// changeOf makes a write conditional on the row that the request has seen. An equal report is not
// written again. The transaction only verifies that it still exists.
func changeOf(op etcd.Op, seen *table.Row) etcd.Change {
	c := etcd.Change{Op: op}
	if seen == nil {
		c.Keep = op.Value == nil
		return c
	}
	c.Seen, c.Keep = seen.ModRev, op.Value != nil && bytes.Equal(seen.Report(), wire.ReportText(op.Value))
	return c
}

// writeOf validates one line and returns its write, whose key is below the location's prefix. other
// validates reports of objects that no Placement put there.
func (a *reportServer) writeOf(from agentRequest, line wire.ReportLine, other func(key.Report, *wire.Report) error) (etcd.Op, error) {
	report, err := key.ParseLine(from.location, line.Key)
	if err != nil {
		return etcd.Op{}, err
	}
	object := report.Object
	if err := object.Validate(); err != nil {
		return etcd.Op{}, err
	}
	if err := key.ValidateName(string(object.Space)); err != nil {
		return etcd.Op{}, fmt.Errorf("space: %w", err)
	}
	if !from.shard.Contains(object.Space) {
		return etcd.Op{}, fmt.Errorf("the space is not in shard %s of the location", from.shard)
	}
	for _, segment := range []string{object.Group, object.Resource.Resource, object.Namespace, object.Name} {
		if len(segment) > validation.DNS1123SubdomainMaxLength {
			return etcd.Op{}, fmt.Errorf("a key's segment has %d characters, %d are allowed", len(segment), validation.DNS1123SubdomainMaxLength)
		}
	}
	op := etcd.Op{Key: report.Key()}
	if line.Removed {
		a.store.letGo.forget(from.location, op.Key)
		return op, nil
	}
	if line.Report == nil {
		return op, errors.New("neither a report nor a removal")
	}
	fit := line.Report.Fit() // first: the checks below parse the status and the object
	switch {
	case report.Origin != key.Placed:
		checked := line.Report // objects that Fit removes are refused, except large ones
		if len(checked.Object) > wire.MaxReport {
			checked = &fit
		}
		if err := other(report, checked); err != nil {
			return op, err
		}
	case !a.store.mayReport(from.location, object, op.Key):
		return op, errors.New("the object is not assigned to the location")
	case fit.Object != nil || fit.ObjectBytes > 0 || fit.Owner != "":
		return op, errors.New("the report of a placed object must have neither an owner nor the object")
	}
	if object.Resource.Builtin() { // it is decoded into its Go type
		if err := errors.Join(quantity.Check(fit.Status), quantity.Check(fit.Object)); err != nil {
			return op, err
		}
	}
	if op.Value, err = json.Marshal(fit); err != nil {
		return op, fmt.Errorf("encode: %w", err)
	}
	if len(op.Value) > wire.MaxReport {
		return op, fmt.Errorf("%d bytes: a report may have %d", len(op.Value), wire.MaxReport)
	}
	if report.Origin == key.Placed {
		op.Value = wire.PackReport(op.Value)
	}
	return op, nil
}

// serveFetch responds with the reports of the requested keys.
func (a *reportServer) serveFetch(w http.ResponseWriter, r *http.Request, from agentRequest) {
	keys, err := keysAsked(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	state := a.store.table.Snapshot()
	w.Header().Set("Content-Type", "application/json")
	out, size := json.NewEncoder(w), 0
	for _, f := range keys {
		line := wire.ReportLine{Key: f.Key, Removed: true}
		if op, err := a.writeOf(from, line, nil); err == nil {
			if row := state.Get(op.Key); row != nil {
				report, text := &wire.Report{}, row.Report()
				if json.Unmarshal(text, report) == nil { // otherwise the agent's report replaces it
					line.Report, line.Removed = report, false
				}
				size += len(text)
			}
		}
		if out.Encode(line) != nil || size > maxFetchBytes || r.Context().Err() != nil {
			return
		}
	}
}
