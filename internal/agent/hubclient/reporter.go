package hubclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxReports and maxReportBytes bound one request.
	maxReports     = 500
	maxReportBytes = 900 << 10
	// reportDelay is the minimum time between two requests, in which reports are batched.
	reportDelay = 30 * time.Millisecond
	// maxRefusals is the number of requests in a row after which a rejected report of a desired
	// object is dropped. Until then the agent repeats it: usually the object is no longer
	// desired, and the session is about to deliver that.
	maxRefusals = 8
	// agreeTimeout bounds a comparison of all reports.
	agreeTimeout = 10 * time.Minute
)

// Reporter sends the reports that the hub does not have yet, only the newest of each key.
type Reporter struct {
	Link
	// sent counts the lines to which the hub has responded.
	sent   prometheus.Counter
	signal retry.Signal
	// compared is true after the first comparison of this process: its store may be an older copy, which
	// lacks reports that the hub has.
	compared bool
	// refusals counts requests in a row in which the report of a desired object was
	// rejected.
	refusals int
	declined declined
	// touch receives the objects for which the store has only a report, and those that waited
	// until the hub has a report.
	touch func([]store.Touched)
	// may reports whether this agent may send reports.
	may func() bool
}

// NewReporter returns a reporter that counts reports in sent. It passes to touch the objects for
// which the store has only a report, and those that waited until the hub has a report. It sends
// nothing while may returns false: the reports of another agent of the shard may be newer.
func NewReporter(l Link, sent prometheus.Counter, touch func([]store.Touched), may func() bool) *Reporter {
	return &Reporter{Link: l, sent: sent, signal: retry.NewSignal(), touch: touch, may: may}
}

// Changed notifies the reporter of unsent reports. It does not block.
func (r *Reporter) Changed() {
	r.signal.Raise()
}

// Run sends until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var failures uint8
	var last time.Time
	for {
		select {
		case <-r.signal:
		case <-r.declined.due:
			if err := r.declined.again(ctx, r.Store); err != nil {
				r.Log.Warn("reports that the hub has rejected cannot be sent again", "error", err)
			}
		case <-ctx.Done():
			return
		}
		if wait := reportDelay - time.Since(last); wait > 0 {
			retry.Pause(ctx, wait)
		}
		for ctx.Err() == nil && r.State.Known() && r.may() {
			more, err := r.round(ctx)
			last = time.Now()
			if err == nil {
				failures = 0
				if !more {
					break
				}
				continue
			}
			if ctx.Err() != nil {
				return
			}
			wait := max(retry.Backoff(failures, retry.First, sessionRetry), asksToWait(err))
			failures = min(failures+1, retry.MaxFailures)
			r.Log.Info("reports could not be sent", "error", err, "retry", wait)
			retry.Pause(ctx, wait)
		}
	}
}

// round sends one request; more reports whether there are further unsent reports.
func (r *Reporter) round(ctx context.Context) (more bool, err error) {
	if !r.compared || !r.Store.Meta().ReportsAgreed {
		if err := r.agree(ctx); err != nil {
			return false, err
		}
		r.compared = true
	}
	batch, more, err := r.Store.Unsent(maxReports, maxReportBytes)
	if err != nil || len(batch) == 0 {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	body, err := r.Client.send(ctx, route.Reports, func(enc *wire.Encoder) error {
		for i := range batch {
			if err := enc.Encode(&batch[i].Line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	defer body.Close()
	var answer wire.ReportsAnswer
	if err := json.NewDecoder(io.LimitReader(body, wire.MaxLine)).Decode(&answer); err != nil {
		return false, fmt.Errorf("reports: decode answer: %w", err)
	}
	if answer.Revision == 0 { // the hub wrote nothing
		return false, errors.New("reports: the answer has no revision")
	}
	refused := map[string]bool{}
	for _, f := range answer.Refused {
		refused[f.Key] = true
		r.Log.Warn("the hub rejected a report", "object", f.Key, "message", f.Message)
	}
	r.sent.Add(float64(len(batch)))
	r.declined.record(batch, refused)
	kept, err := r.answered(ctx, batch, refused)
	switch {
	case err != nil:
		return more, err
	case kept == 0:
		r.refusals = 0
		return more, nil
	}
	r.refusals++
	return more, fmt.Errorf("reports: the hub rejected %d reports of desired objects", kept)
}

// answered records which reports of a batch the hub has accepted. It returns the number of
// rejected reports that are sent again.
func (r *Reporter) answered(ctx context.Context, batch []store.Unsent, refused map[string]bool) (int, error) {
	var waited []store.Touched
	var kept int
	err := r.Store.WriteWithOthers(ctx, func(t *store.Tx) error {
		kept, waited = 0, nil
		for _, u := range batch {
			retained, err := r.retains(t, u, refused)
			switch {
			case err != nil:
				return err
			case retained:
				kept++
				continue
			case refused[u.Line.Key]:
				if _, err := t.Reports.ClearUnsent(u); err != nil {
					return err
				}
				continue
			}
			it, err := t.AcknowledgeReport(u)
			if err != nil {
				return err
			}
			if it != nil {
				waited = append(waited, *it)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if len(waited) > 0 {
		r.touch(waited)
	}
	return kept, nil
}

// retains reports whether a rejected report is sent again: that of a desired object up to
// maxRefusals times; that of an object that is created only after its report, always.
func (r *Reporter) retains(t *store.Tx, u store.Unsent, refused map[string]bool) (bool, error) {
	if !refused[u.Line.Key] || !r.State.Proves() || !t.Desired.Contains(u.Line.Key) {
		return false, nil
	}
	if r.refusals < maxRefusals {
		return true, nil
	}
	return t.Desired.IsUnannounced(u.Line.Key)
}
