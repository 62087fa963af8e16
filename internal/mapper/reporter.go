package mapper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"orrery.dev/orrery/internal/mapper/retry"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

const (
	// maxReports and maxReportBytes bound one request. Each takes its turn among the
	// store's commits.
	maxReports     = 500
	maxReportBytes = 900 << 10
	// reportDelay is how long changes are gathered after one that was not alone.
	reportDelay = 30 * time.Millisecond
	// maxRefusals is how often in a row what is desired may be refused before the hub is
	// believed: it tells of what has ceased to be desired long before that.
	maxRefusals = 8
	// agreeTimeout bounds a comparison of all reports.
	agreeTimeout = 10 * time.Minute
)

// reporter sends reports that the hub does not have yet, newest of each key only.
type reporter struct {
	store   *store
	hub     *hubClient
	log     *slog.Logger
	metrics *metrics
	signal  chan struct{} // one slot
	// open says whether the hub is to be spoken to now, and proven whether its log
	// continues the one that is known: then what it refuses of what is desired is
	// refused for now only, since one of the two is behind.
	open, proven func() bool
	// refusals counts, in a row, requests of which something desired was refused.
	refusals int
	// landed is told of keys of which nothing but a report is left.
	landed func([]touched)
}

// changed says that there is something to send. It does not wait.
func (r *reporter) changed() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// run sends until ctx ends.
func (r *reporter) run(ctx context.Context) {
	var failures uint8
	var last time.Time
	for {
		select {
		case <-r.signal:
		case <-ctx.Done():
			return
		}
		if wait := reportDelay - time.Since(last); wait > 0 {
			retry.Pause(ctx, wait)
		}
		for ctx.Err() == nil && r.open() {
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
			r.log.Info("reports could not be sent", "error", err, "retry", wait)
			retry.Pause(ctx, wait)
		}
	}
}

// unsent is one line to send, and the number it has to have still for the hub's
// acknowledgement to count.
type unsent struct {
	line wire.ReportLine
	seq  []byte
}

// round sends one request; more says that there is more to send.
func (r *reporter) round(ctx context.Context) (more bool, err error) {
	if !r.store.meta.Load().ReportsAgreed {
		if err := r.agree(ctx); err != nil {
			return false, err
		}
	}
	batch, more, err := r.next()
	if err != nil || len(batch) == 0 {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	body, err := r.hub.send(ctx, route.Reports, func(enc *wire.Encoder) error {
		for i := range batch {
			if err := enc.Encode(&batch[i].line); err != nil {
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
	if answer.Revision == 0 { // whoever says so has not taken them
		return false, errors.New("reports: the answer names no revision")
	}
	refused := map[string]bool{}
	for _, f := range answer.Refused {
		refused[f.Key] = true
		r.log.Warn("the hub refused a report", "object", f.Key, "message", f.Message)
	}
	r.metrics.reports.Add(float64(len(batch)))
	kept := 0
	err = r.store.writeWithOthers(ctx, func(t *tx) error {
		kept = 0
		for _, u := range batch {
			if refused[u.line.Key] && r.refusals < maxRefusals && r.proven() && t.has(desiredBucket, u.line.Key) {
				kept++
				continue
			}
			if err := t.sent(u.line.Key, u.seq); err != nil {
				return err
			}
		}
		return nil
	})
	r.refusals++
	if kept == 0 {
		r.refusals = 0
	}
	if err == nil && kept > 0 {
		err = fmt.Errorf("reports: the hub does not take %d of what is desired", kept)
	}
	return more, err
}

// next collects the lines of one request.
func (r *reporter) next() (batch []unsent, more bool, err error) {
	err = r.store.view(func(t *tx) error {
		c := t.Bucket(unsentBucket).Cursor()
		size := 0
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if len(batch) == maxReports || size >= maxReportBytes {
				more = true
				return nil
			}
			report, err := t.report(string(k))
			if err != nil {
				return err
			}
			if report != nil {
				size += len(report.Status) + len(report.Message)
			}
			batch = append(batch, unsent{
				line: wire.ReportLine{Key: string(k), Report: report, Removed: report == nil}, seq: bytes.Clone(v),
			})
		}
		return nil
	})
	return batch, more, err
}
