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
	// reportLinger is how long a report waits at most for others to share its transaction,
	// so that one change at many locations takes few transactions, and the interval of
	// transactions while reports come without pause; reportsAtOnce go before that.
	reportLinger  = 100 * time.Millisecond
	reportsAtOnce = 3
	// reportPause without a report ends the wait, shortPause that of the first transaction after a
	// lone one: of a change at several locations, the reports come at nearly the same time. A report
	// that comes alone does not wait.
	reportPause = 20 * time.Millisecond
	shortPause  = 2 * time.Millisecond
	reportQueue = 1000
	// fullReports is how many reports are written without waiting for more.
	fullReports = 100
)

// reportWriter puts the reports of many agents into shared transactions, in the
// order in which they arrive. Outdated reports are not written: a batch whose request
// has ended is dropped, and a report that somebody else has written since the request
// began is not replaced.
type reportWriter struct {
	log   *etcd.Log
	queue chan reportBatch
	// due is when the transactions that were made would have been, one each reportLinger.
	due time.Time

	mu sync.Mutex
	// under counts the batches that are under way, by the key of their Location.
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

// errStaleReports says that the reports of a batch are older than what is there.
func errStaleReports() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
		Message: "another report of the same object was written meanwhile: send what is true now",
	}}
}

// write writes changes, all of reports of one location, and returns the revision that
// holds them.
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

// settle waits until all batches of a location that are under way at the call are done.
// moved says that there were any, so the log may have new revisions.
func (w *reportWriter) settle(ctx context.Context, guard etcd.Guard) (moved bool, err error) {
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

// collect takes what shares a transaction: all that is there and, while reports come fast,
// what comes until there is a pause, the transaction is full, or the first has waited long
// enough.
func (w *reportWriter) collect(ctx context.Context, first reportBatch) []reportBatch {
	now := time.Now()
	batches, n := []reportBatch{first}, len(first.changes)
	for n < fullReports && len(w.queue) > 0 {
		b := <-w.queue // nobody else takes from it
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

// pause is for how long from now no report has to come to end the wait: not before the next
// transaction may be made. That is at most reportLinger.
func (w *reportWriter) pause(now time.Time) time.Duration {
	if w.due.Sub(now) <= reportLinger { // at most one of reportsAtOnce was made
		return shortPause
	}
	return max(reportPause, w.due.Add(-(reportsAtOnce-1)*reportLinger).Sub(now))
}

// spent notes that a transaction of n changes is made. One that is full is no waste.
func (w *reportWriter) spent(now time.Time, n int) {
	if w.due.Before(now) {
		w.due = now
	}
	if 0 < n && n < fullReports {
		w.due = w.due.Add(reportLinger)
	}
}

// flush writes batches together or, if that fails, each by itself, so that a bad one
// does not keep out the others.
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

// together writes in one go the batches whose requests still wait.
func (w *reportWriter) together(ctx context.Context, batches []reportBatch) []reportResult {
	var changes []etcd.Change
	at := map[string]int{}
	for _, b := range batches {
		if b.request.Err() != nil || len(b.changes) == 0 {
			continue
		}
		for _, c := range b.changes {
			c.While = b.guard
			// etcd refuses a key twice in one transaction; the newest counts.
			if i, ok := at[c.Key]; ok {
				changes[i] = c
				continue
			}
			at[c.Key] = len(changes)
			changes = append(changes, c)
		}
	}
	rev, stale, err := w.log.WriteChanges(ctx, changes)
	isStale := func(c etcd.Change) bool { return slices.Contains(stale, c.Key) }
	results := make([]reportResult, len(batches))
	for i, b := range batches {
		switch results[i] = (reportResult{rev, err}); {
		case b.request.Err() != nil: // nobody waits for the answer
			results[i].err = nil
		case err == nil && slices.ContainsFunc(b.changes, isStale):
			results[i].err = errStaleReports()
		}
	}
	return results
}
