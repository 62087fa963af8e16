package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/wire"
)

const (
	maxReportsBytes = 8 << 20
	// maxReport is what a report may take in the log; a status above it is refused.
	maxReport = 512 << 10
	// reportLinger is how long a report waits for others to share its
	// transaction, which keeps one change at many locations at few transactions.
	reportLinger = 100 * time.Millisecond
	reportQueue  = 1000
)

// serveReports takes a batch of reports into the log.
func (h *Hub) serveReports(w http.ResponseWriter, r *http.Request, l key.Location) {
	// What is reported of a location that is removed meanwhile is not kept.
	location, _ := h.table.Get(locationKey(l))
	if location == nil {
		h.refuse(w, r, notFound(r.URL.Path))
		return
	}
	guard := store.Guard{Key: location.Key, CreateRev: location.CreateRev}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReportsBytes))
	var answer wire.ReportsAnswer
	var ops []store.Op
	for {
		var line wire.ReportLine
		err := body.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			h.refuse(w, r, badRequest("report %d: %v", len(ops), err))
			return
		}
		op, err := h.reportOp(l, line)
		if err != nil {
			answer.Refused = append(answer.Refused, wire.RefusedReport{Key: line.Key, Message: err.Error()})
			continue
		}
		if row, _ := h.table.Get(op.Key); row == nil && op.Value == nil || row != nil && slices.Equal(row.Value, op.Value) {
			continue
		}
		ops = append(ops, op)
	}
	answer.Revision = h.table.Rev()
	if len(ops) > 0 {
		rev, err := h.reports.write(r.Context(), guard, ops)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		answer.Revision = rev
	}
	writeJSON(w, answer)
}

// reportOp checks one line and makes it a write. A location can only ever
// write below its own prefix.
func (h *Hub) reportOp(l key.Location, line wire.ReportLine) (store.Op, error) {
	object, err := key.ParsePath(line.Key)
	if err != nil {
		return store.Op{}, err
	}
	if err := object.Validate(); err != nil {
		return store.Op{}, err
	}
	if err := key.ValidateName(string(object.Space)); err != nil {
		return store.Op{}, fmt.Errorf("space: %w", err)
	}
	for _, segment := range []string{object.Group, object.Resource.Resource, object.Namespace, object.Name} {
		if len(segment) > validation.DNS1123SubdomainMaxLength {
			return store.Op{}, fmt.Errorf("a key's segment has %d characters, %d are allowed", len(segment), validation.DNS1123SubdomainMaxLength)
		}
	}
	op := store.Op{Key: key.Report{Location: l, Origin: key.Placed, Object: object}.Key()}
	if line.Removed {
		return op, nil
	}
	if !h.mayReport(l, object, op.Key) {
		return op, errors.New("the object is not assigned to the location")
	}
	if line.Report == nil {
		return op, errors.New("neither a report nor a removal")
	}
	if op.Value, err = json.Marshal(line.Report); err != nil {
		return op, fmt.Errorf("encode: %w", err)
	}
	if len(op.Value) > maxReport {
		return op, fmt.Errorf("%d bytes: a report may have %d", len(op.Value), maxReport)
	}
	return op, nil
}

// mayReport says whether a location may have a report of an object: it is
// assigned to it, or was when the report was first made.
func (h *Hub) mayReport(l key.Location, object key.Object, reportKey string) bool {
	if row, _ := h.table.Get(reportKey); row != nil {
		return true
	}
	row, _ := h.table.Get(object.Key())
	return row != nil && row.In != nil && row.In.Has(string(l))
}

// reportLeaves are the leaves of a location's reports.
func (h *Hub) reportLeaves(l key.Location) ([]wire.Leaf, int64) {
	state := h.table.Snapshot()
	var leaves []wire.Leaf
	state.Ascend(key.LocationReports(l), func(row *table.Row) bool {
		if rk, err := key.ParseReport(row.Key); err == nil && rk.Origin == key.Placed {
			leaves = append(leaves, wire.Leaf{Key: rk.Path(), Sum: wire.SumOf(row.Value)})
		}
		return true
	})
	return leaves, state.Rev
}

// serveReportsFetch answers with the reports of the keys that are asked for.
func (h *Hub) serveReportsFetch(w http.ResponseWriter, r *http.Request, l key.Location) {
	keys, err := readLines[wire.Fetch](json.NewDecoder(http.MaxBytesReader(w, r.Body, maxWalkBytes)), wire.MaxFetch)
	if err != nil {
		h.refuse(w, r, badRequest("reports fetch: %v", err))
		return
	}
	state := h.table.Snapshot()
	w.Header().Set("Content-Type", "application/json")
	out, size := json.NewEncoder(w), 0
	for _, f := range keys {
		line := wire.ReportLine{Key: f.Key, Removed: true}
		if op, err := h.reportOp(l, line); err == nil {
			if row := state.Get(op.Key); row != nil {
				report := &wire.Report{}
				if json.Unmarshal(row.Value, report) == nil { // else the agent's own will replace it
					line.Report, line.Removed = report, false
				}
				size += len(row.Value)
			}
		}
		if out.Encode(line) != nil || size > maxFetchBytes {
			return
		}
	}
}

// reportWriter puts the reports of many agents into shared transactions.
type reportWriter struct {
	log    *store.Log
	linger time.Duration
	queue  chan reportBatch
}

type reportBatch struct {
	guard store.Guard
	ops   []store.Op
	done  chan<- reportResult
}

type reportResult struct {
	rev int64
	err error
}

func newReportWriter(log *store.Log) *reportWriter {
	return &reportWriter{log: log, linger: reportLinger, queue: make(chan reportBatch, reportQueue)}
}

// write returns the revision that holds the reports.
func (w *reportWriter) write(ctx context.Context, guard store.Guard, ops []store.Op) (int64, error) {
	done := make(chan reportResult, 1)
	select {
	case w.queue <- reportBatch{guard, ops, done}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case r := <-done:
		return r.rev, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run writes until the context ends.
func (w *reportWriter) run(ctx context.Context) error {
	for {
		select {
		case first := <-w.queue:
			w.flush(ctx, w.collect(ctx, first))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// collect waits for more until a transaction is full or the first has waited long enough.
func (w *reportWriter) collect(ctx context.Context, first reportBatch) []reportBatch {
	const full = 100
	batches, n := []reportBatch{first}, len(first.ops)
	timer := time.NewTimer(w.linger)
	defer timer.Stop()
	for n < full {
		select {
		case b := <-w.queue:
			batches, n = append(batches, b), n+len(b.ops)
		case <-timer.C:
			return batches
		case <-ctx.Done():
			return batches
		}
	}
	return batches
}

// flush writes batches together, or, if that fails, each by itself: what is
// wrong with one must not keep out the others.
func (w *reportWriter) flush(ctx context.Context, batches []reportBatch) {
	rev, err := w.together(ctx, batches)
	for _, b := range batches {
		if err != nil && len(batches) > 1 {
			rev, err := w.together(ctx, []reportBatch{b})
			b.done <- reportResult{rev, err}
			continue
		}
		b.done <- reportResult{rev, err}
	}
}

func (w *reportWriter) together(ctx context.Context, batches []reportBatch) (int64, error) {
	var ops []store.Op
	var guards []store.Guard
	at := map[string]int{}
	for _, b := range batches {
		if !slices.Contains(guards, b.guard) {
			guards = append(guards, b.guard)
		}
		for _, op := range b.ops {
			// etcd refuses a key twice in one transaction; the newest counts.
			if i, ok := at[op.Key]; ok {
				ops[i] = op
				continue
			}
			at[op.Key] = len(ops)
			ops = append(ops, op)
		}
	}
	return w.log.Write(ctx, ops, guards...)
}
