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
	// reportDelay is the least time between two requests, in which reports are gathered.
	reportDelay = 30 * time.Millisecond
	// maxRefusals is how many requests in a row may have a report refused that is of a
	// desired object. Until then the agent keeps it: mostly the object has just ceased to
	// be desired, and the session will say so.
	maxRefusals = 8
	// agreeTimeout bounds a comparison of all reports.
	agreeTimeout = 10 * time.Minute
)

// Reporter sends the reports that the hub does not have yet, only the newest of each key.
type Reporter struct {
	Link
	// sent counts the lines that the hub has taken.
	sent   prometheus.Counter
	signal retry.Signal
	// compared is true after the first comparison of this process: its store may be an older copy, which
	// lacks reports that the hub has.
	compared bool
	// refusals counts requests in a row of which the report of a desired object was
	// refused.
	refusals int
	declined declined
	// touch is told of objects of which only a report is left, and of those that waited
	// until the hub has a report.
	touch func([]store.Touched)
	// may says whether this agent is the one to report.
	may func() bool
}

// NewReporter makes a reporter that counts in sent and tells touch of objects of which only
// a report is left, and of those that waited until the hub has a report. It sends nothing
// while it may not: what another agent of the shard has reported since is not to be replaced.
func NewReporter(l Link, sent prometheus.Counter, touch func([]store.Touched), may func() bool) *Reporter {
	return &Reporter{Link: l, sent: sent, signal: retry.NewSignal(), touch: touch, may: may}
}

// Changed says that there is something to send. It does not block.
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
				r.Log.Warn("reports that the hub declined can't be sent again", "error", err)
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

// round sends one request; more says that there is more to send.
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
	if answer.Revision == 0 { // nothing was written
		return false, errors.New("reports: the answer names no revision")
	}
	refused := map[string]bool{}
	for _, f := range answer.Refused {
		refused[f.Key] = true
		r.Log.Warn("the hub refused a report", "object", f.Key, "message", f.Message)
	}
	r.sent.Add(float64(len(batch)))
	r.declined.note(batch, refused)
	kept, err := r.answered(ctx, batch, refused)
	switch {
	case err != nil:
		return more, err
	case kept == 0:
		r.refusals = 0
		return more, nil
	}
	r.refusals++
	return more, fmt.Errorf("reports: the hub refused %d reports of desired objects", kept)
}

// answered notes what the hub has taken of a batch. It returns how many refused reports are to
// be sent again.
func (r *Reporter) answered(ctx context.Context, batch []store.Unsent, refused map[string]bool) (int, error) {
	var waited []store.Touched
	var kept int
	err := r.Store.WriteWithOthers(ctx, func(t *store.Tx) error {
		kept, waited = 0, nil
		for _, u := range batch {
			keeps, err := r.keeps(t, u, refused)
			switch {
			case err != nil:
				return err
			case keeps:
				kept++
				continue
			case refused[u.Line.Key]:
				if _, err := t.Dropped(u); err != nil {
					return err
				}
				continue
			}
			it, err := t.Sent(u)
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

// keeps says that a refused report is to be sent again: of what is desired, for a while; of
// what can't be made before the hub has it, for as long as that is so.
func (r *Reporter) keeps(t *store.Tx, u store.Unsent, refused map[string]bool) (bool, error) {
	if !refused[u.Line.Key] || !r.State.Proves() || !t.HasWant(u.Line.Key) {
		return false, nil
	}
	if r.refusals < maxRefusals {
		return true, nil
	}
	return t.Unannounced(u.Line.Key)
}
