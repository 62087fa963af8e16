package store

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/lib/retry"
)

const (
	// maxGroup bounds how many writes share a transaction.
	maxGroup = 512
	// Retry is the time between a failed commit (a full disk) and the next attempt.
	Retry = time.Second
)

// Commit is one write. Writes become durable in the order of submission.
type Commit struct {
	// Do changes the store. It may run again when a transaction fails, so it must have no other effect
	// than on the transaction and on variables that it sets anew.
	Do func(*Tx) error
	// Done is called on the committing goroutine once the write is durable. It must not block.
	Done func()
	// Failed is called instead if the commit or Do fails. It must not block.
	Failed func(error)
	// Urgent is true if the commit must not be delayed.
	Urgent bool
}

func (c *Commit) fail(err error) {
	if c.Failed != nil {
		c.Failed(err)
	}
}

// committer groups writes into transactions.
type committer struct {
	database *database
	log      *slog.Logger
	work     chan *Commit
	// failing is the error of the last commit; nil if it succeeded.
	failing atomic.Pointer[error]
	// recovered is raised when commits succeed again.
	recovered retry.Signal
	roots     RootNews
}

func newCommitter(d *database, log *slog.Logger) *committer {
	return &committer{database: d, log: log, work: make(chan *Commit, maxGroup), recovered: retry.NewSignal(), roots: RootNews{Signal: retry.NewSignal()}}
}

// Failing returns the error of the last commit; nil if it succeeded.
func (s *committer) Failing() error {
	if err := s.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// setFailing records the error of a commit, and logs the first one.
func (s *committer) setFailing(err error) {
	if s.failing.Swap(&err) == nil {
		s.log.Error("the store cannot be written; its desired objects are still enforced", "error", err)
	}
}

// Recovered receives when commits succeed again after a failed one.
func (s *committer) Recovered() <-chan struct{} { return s.recovered }

// Roots returns the news about objects that may have become another Root.
func (s *committer) Roots() *RootNews { return &s.roots }

// Run commits submitted writes until ctx ends, then the queued ones. While commits fail, new writes
// fail at once, so that workers continue to enforce the desired objects; Run retries a commit from time
// to time.
func (s *committer) Run(ctx context.Context) {
	var again time.Time
	var commits commitRate
	for {
		var probe <-chan time.Time
		if s.failing.Load() != nil { // detect without a write that commits succeed again
			probe = time.After(Retry)
		}
		select {
		case <-probe:
			s.group(ctx, &Commit{Do: func(*Tx) error { return nil }, Urgent: true}, time.Now())
		case c := <-s.work:
			now := time.Now()
			if err := s.failing.Load(); err != nil && now.Before(again) {
				c.fail(*err)
				continue
			}
			writes := s.group(ctx, c, commits.next())
			now = time.Now()
			commits.ended(now, writes)
			again = now.Add(Retry)
		case <-ctx.Done():
			for {
				select {
				case c := <-s.work:
					s.group(ctx, c, time.Now())
				default:
					return
				}
			}
		}
	}
}

// gather returns first, the queued writes, and those that are submitted until due, or until a write is
// urgent.
func (s *committer) gather(ctx context.Context, first *Commit, due time.Time) []*Commit {
	batch := []*Commit{first}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for urgent := first.Urgent; len(batch) < maxGroup; {
		if urgent {
			select {
			case c := <-s.work:
				batch = append(batch, c)
				continue
			default:
				return batch
			}
		}
		select {
		case c := <-s.work:
			batch, urgent = append(batch, c), c.Urgent
		case <-timer.C:
			urgent = true
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// group commits first and other writes with it in one transaction, and returns their number. If the Do
// of a write fails, group removes that write and tries the others again.
func (s *committer) group(ctx context.Context, first *Commit, due time.Time) int {
	batch := s.gather(ctx, first, due)
	n := len(batch)
	for len(batch) > 0 {
		bad, err := s.update(batch)
		if err == nil {
			s.succeed(batch)
			break
		}
		if bad >= 0 {
			batch[bad].fail(err)
			batch = slices.Delete(batch, bad, bad+1)
			continue
		}
		s.setFailing(err)
		for _, c := range batch {
			c.fail(err)
		}
		break
	}
	return n
}

// succeed calls Done for a durable batch.
func (s *committer) succeed(batch []*Commit) {
	for _, c := range batch {
		if c.Done != nil {
			c.Done()
		}
	}
	if s.failing.Swap(nil) != nil {
		s.log.Info("the store can be written again")
		s.recovered.Raise()
	}
}

// update runs a batch in one transaction. If it fails, bad is the index of the write whose Do failed,
// or negative if the transaction failed.
func (s *committer) update(batch []*Commit) (bad int, err error) {
	if s.database.IsReadOnly() {
		return -1, s.Failing()
	}
	bad = -1
	roots, err := s.database.commit(func(t *Tx) error {
		for i, c := range batch {
			bad = i
			if err := c.Do(t); err != nil {
				return err
			}
		}
		bad = -1
		return nil
	})
	if bad >= 0 || errors.Is(err, errCorrupt) {
		s.database.unsound.Store(true)
	}
	if err == nil {
		s.roots.add(roots)
	}
	return bad, err
}

// Submit queues a write. It blocks while the queue is full, and returns an error only if ctx ends.
func (s *committer) Submit(ctx context.Context, c *Commit) error {
	select {
	case s.work <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write commits a write at once and waits until it is durable or has failed. If ctx ends before the
// write is queued, Write returns the error of ctx and changes nothing. After that it waits for the
// result regardless of ctx: a caller that did not learn of a durable change could not act on it.
func (s *committer) Write(ctx context.Context, do func(*Tx) error) error {
	return s.await(ctx, &Commit{Do: do, Urgent: true})
}

// WriteWithOthers is like Write, but the write is not urgent: it waits for other writes to share a
// commit.
func (s *committer) WriteWithOthers(ctx context.Context, do func(*Tx) error) error {
	return s.await(ctx, &Commit{Do: do})
}

func (s *committer) await(ctx context.Context, c *Commit) error {
	done := make(chan error, 1)
	c.Done, c.Failed = func() { done <- nil }, func(err error) { done <- err }
	if err := s.Submit(ctx, c); err != nil {
		return err
	}
	return <-done
}
