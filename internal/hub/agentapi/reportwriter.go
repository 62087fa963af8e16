package agentapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/storage/etcd"
)

const (
	// reportLinger limits the time for which a report waits to share a transaction with others. It
	// is also the interval of transactions while reports arrive without pause; reportsAtOnce
	// transactions come before that.
	reportLinger  = 100 * time.Millisecond
	reportsAtOnce = 3
	// reportPause without a report ends the wait. A single report does not wait, and the first
	// transaction after it waits for shortPause: the reports of one change at several locations
	// arrive at nearly the same time.
	reportPause = 20 * time.Millisecond
	shortPause  = 2 * time.Millisecond
	reportQueue = 1000
	// fullReports is the number of reports that are written without waiting for more.
	fullReports = 100
)

// reportWriter combines the reports of many agents into transactions, in the order of their arrival.
// It drops a batch whose request has ended. A report that was written after the request started is
// not replaced.
type reportWriter struct {
	log   *etcd.Log
	queue chan reportBatch
	// due is when the past transactions would have been, with one per reportLinger.
	due time.Time

	mu sync.Mutex
	// under counts the pending batches by the key of their Location.
	under map[string]int
}

type reportBatch struct {
	// request is the context of the request; the batch is dropped when it ends.
	request context.Context
	guard   etcd.Guard
	changes []etcd.Change
	done    chan<- reportResult
}

type reportResult struct {
	rev int64
	err error
}

func newReportWriter(log *etcd.Log) *reportWriter {
	return &reportWriter{log: log, queue: make(chan reportBatch, reportQueue), under: map[string]int{}}
}

// errStaleReports is the error of a batch whose reports are older than stored ones.
func errStaleReports() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
		Message: "another report of the same object was written meanwhile: send what is true now",
	}}
}

// write writes changes of reports of one location, and returns the revision that contains them.
func (w *reportWriter) write(ctx context.Context, guard etcd.Guard, changes []etcd.Change) (int64, error) {
	done := make(chan reportResult, 1)
	w.count(guard, 1)
	select {
	case w.queue <- reportBatch{ctx, guard, changes, done}:
	case <-ctx.Done():
		w.count(guard, -1)
		return 0, ctx.Err()
	}
	select {
	case r := <-done:
		return r.rev, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// drain waits until all batches of a location that are pending at the call are done. moved reports
// whether there were any, so that the log may have new revisions.
func (w *reportWriter) drain(ctx context.Context, guard etcd.Guard) (moved bool, err error) {
	w.mu.Lock()
	quiet := w.under[guard.Key] == 0
	w.mu.Unlock()
	if quiet {
		return false, nil
	}
	_, err = w.write(ctx, guard, nil)
	return true, err
}

func (w *reportWriter) count(guard etcd.Guard, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under[guard.Key] += n; w.under[guard.Key] == 0 {
		delete(w.under, guard.Key)
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

// collect returns the batches of the next transaction: all queued ones and, while reports arrive fast,
// those that follow until there is a pause, the transaction is full, or the first has waited for
// reportLinger.
func (w *reportWriter) collect(ctx context.Context, first reportBatch) []reportBatch {
	now := time.Now()
	batches, n := []reportBatch{first}, len(first.changes)
	for n < fullReports && len(w.queue) > 0 {
		b := <-w.queue // does not block: this is the only reader
		batches, n = append(batches, b), n+len(b.changes)
	}
	if n >= fullReports || len(batches) == 1 && !now.Before(w.due) {
		w.spent(now, n)
		return batches
	}
	pause, most := time.NewTimer(w.pause(now)), time.NewTimer(reportLinger)
	defer pause.Stop()
	defer most.Stop()
	for enough := false; !enough && n < fullReports; {
		select {
		case b := <-w.queue:
			batches, n = append(batches, b), n+len(b.changes)
			pause.Reset(w.pause(time.Now()))
		case <-pause.C:
			enough = true
		case <-most.C:
			enough = true
		case <-ctx.Done():
			enough = true
		}
	}
	w.spent(time.Now(), n)
	return batches
}

// pause returns how long no report must arrive to end the wait. The wait does not end before the next
// transaction is due. The result is at most reportLinger.
func (w *reportWriter) pause(now time.Time) time.Duration {
	if w.due.Sub(now) <= reportLinger { // at most one transaction was made
		return shortPause
	}
	return max(reportPause, w.due.Add(-(reportsAtOnce-1)*reportLinger).Sub(now))
}

// spent records a transaction of n changes. A full transaction does not delay the next.
func (w *reportWriter) spent(now time.Time, n int) {
	if w.due.Before(now) {
		w.due = now
	}
	if 0 < n && n < fullReports {
		w.due = w.due.Add(reportLinger)
	}
}

// flush writes batches in one transaction or, if that fails, each in its own, so that an invalid batch
// does not block the others.
func (w *reportWriter) flush(ctx context.Context, batches []reportBatch) {
	results := w.together(ctx, batches)
	for i, b := range batches {
		if results[i].err != nil && len(batches) > 1 {
			results[i] = w.together(ctx, batches[i:i+1])[0]
		}
		b.done <- results[i]
		w.count(b.guard, -1)
	}
}

// together writes the batches whose requests have not ended in one transaction.
func (w *reportWriter) together(ctx context.Context, batches []reportBatch) []reportResult {
	var changes []etcd.Change
	indexes := map[string]int{}
	for _, b := range batches {
		if b.request.Err() != nil || len(b.changes) == 0 {
			continue
		}
		for _, c := range b.changes {
			c.While = b.guard
			// etcd refuses a key that occurs twice in a transaction; the latest change counts.
			if i, ok := indexes[c.Key]; ok {
				changes[i] = c
				continue
			}
			indexes[c.Key] = len(changes)
			changes = append(changes, c)
		}
	}
	rev, stale, err := w.log.WriteChanges(ctx, changes)
	isStale := func(c etcd.Change) bool { return slices.Contains(stale, c.Key) }
	results := make([]reportResult, len(batches))
	for i, b := range batches {
		switch results[i] = (reportResult{rev, err}); {
		case b.request.Err() != nil: // the request has ended
			results[i].err = nil
		case err == nil && slices.ContainsFunc(b.changes, isStale):
			results[i].err = errStaleReports()
		}
	}
	return results
}
