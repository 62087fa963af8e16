package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/quantity"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
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

// serveReports writes a batch of reports to the log.
func (a *Server) serveReports(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard) {
	guard, err := a.whileThere(l)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	body := requestbody.Lines(r, requestbody.Limits{Bytes: maxReportsBytes, Depth: maxReportsDepth})
	// The request must not replace reports that are written after it starts.
	before := a.config.Table.Snapshot()
	others := &seen{server: a, location: l, shard: shard, state: before}
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
		op, err := a.reportOp(l, shard, line, others.check)
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
	if answer.Revision = a.config.Table.Rev(); len(changes) > 0 {
		rev, err := a.writeReports(r.Context(), guard, changes)
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		answer.Revision = rev
	}
	respond.JSON(w, answer)
}

// whileThere returns the guard that a location still exists. Reports of a location that is removed
// meanwhile are not written.
func (a *Server) whileThere(l key.Location) (etcd.Guard, error) {
	location, _ := a.config.Table.Get(l.Key())
	if location == nil {
		return etcd.Guard{}, respond.NotFound(route.Agent(l).String())
	}
	return etcd.Guard{Key: location.Key, CreateRev: location.CreateRev}, nil
}

// settleReports waits until the table contains all pending reports of a location, including those of
// requests that have ended. A comparison must not use reports that are about to be replaced.
func (a *Server) settleReports(ctx context.Context, l key.Location) error {
	guard, err := a.whileThere(l)
	if err != nil {
		return err
	}
	if moved, err := a.reports.drain(ctx, guard); err != nil || !moved {
		return err
	}
	return a.config.Committed(ctx)
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

// reportOp validates one line and returns its write, whose key is below the location's prefix. other
// validates reports of objects that no Placement put there.
func (a *Server) reportOp(l key.Location, shard key.Shard, line wire.ReportLine, other func(key.Report, *wire.Report) error) (etcd.Op, error) {
	report, err := key.ParseLine(l, line.Key)
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
	if !shard.Contains(object.Space) {
		return etcd.Op{}, fmt.Errorf("the space is not in shard %s of the location", shard)
	}
	for _, segment := range []string{object.Group, object.Resource.Resource, object.Namespace, object.Name} {
		if len(segment) > validation.DNS1123SubdomainMaxLength {
			return etcd.Op{}, fmt.Errorf("a key's segment has %d characters, %d are allowed", len(segment), validation.DNS1123SubdomainMaxLength)
		}
	}
	op := etcd.Op{Key: report.Key()}
	if line.Removed {
		a.letGo.forget(l, op.Key)
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
	case !a.mayReport(l, object, op.Key):
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

// mayReport reports whether a location may report an object: the object is assigned to the location,
// or there is a report from the time when it was, or the agent was recently notified that it no
// longer is.
func (a *Server) mayReport(l key.Location, object key.Object, reportKey string) bool {
	if row, _ := a.config.Table.Get(reportKey); row != nil || a.letGo.contains(l, reportKey) {
		return true
	}
	row, _ := a.config.Table.Get(object.Key())
	return row != nil && row.In != nil && row.In.Includes(l)
}

// noteLetGo records that an agent is notified that the object of a path is no longer desired.
func (a *Server) noteLetGo(l key.Location, path string) {
	o, err := key.ParsePath(path)
	if err != nil {
		return
	}
	report := key.Report{Location: l, Origin: key.Placed, Object: o}.Key()
	if row, _ := a.config.Table.Get(report); row == nil {
		a.letGo.record(l, report)
	}
}

// reportLeaves returns the leaves of the reports of a location's shard, for an agent with some
// abilities.
func (a *Server) reportLeaves(ctx context.Context, l key.Location, shard key.Shard, can abilities) ([]wire.Leaf, int64, error) {
	state := a.config.Table.Snapshot()
	// Rows are sorted by space first, and lines by origin first.
	leaves := map[key.Origin][]wire.Leaf{}
	state.Ascend(key.LocationReports(l), func(row *table.Row) bool {
		if report, err := key.ParseReport(row.Key); err == nil && shard.Contains(report.Object.Space) && (report.Origin == key.Placed || can.upsyncs) {
			leaves[report.Origin] = append(leaves[report.Origin], wire.Leaf{Key: report.Line(), Sum: wire.SumOf(row.Report())})
		}
		return ctx.Err() == nil
	})
	return slices.Concat(leaves[key.Placed], leaves[key.Upsynced], leaves[key.Owned]), state.Rev, ctx.Err()
}

// serveReportsFetch responds with the reports of the requested keys.
func (a *Server) serveReportsFetch(w http.ResponseWriter, r *http.Request, l key.Location, shard key.Shard) {
	keys, err := keysAsked(r)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	state := a.config.Table.Snapshot()
	w.Header().Set("Content-Type", "application/json")
	out, size := json.NewEncoder(w), 0
	for _, f := range keys {
		line := wire.ReportLine{Key: f.Key, Removed: true}
		if op, err := a.reportOp(l, shard, line, nil); err == nil {
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
