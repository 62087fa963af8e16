package store

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/mapper/retry"
)

const (
	// File is what the store is called in the agent's data directory.
	File = "agent.db"
	// lockWait is how long another process may take to let go of the store.
	lockWait = 2 * time.Second
	// maxGroup bounds how many writes share a transaction.
	maxGroup = 512
	// commitLinger is how far apart commits are that nobody waits for, and busyLinger
	// when the last one was of manyWrites or more: a commit syncs the disk twice,
	// which was a sixth of what a full sync took when they did not wait longer.
	commitLinger = 25 * time.Millisecond
	busyLinger   = 200 * time.Millisecond
	manyWrites   = 8
	// Retry is how long to wait after a commit that failed (a full disk).
	Retry = time.Second
)

// The store's buckets.
var (
	metaBucket    = []byte("meta")    // one value: meta, and its sum
	desiredBucket = []byte("desired") // object path -> want and object
	recordBucket  = []byte("record")  // identity -> record
	reportBucket  = []byte("reports") // object path -> newest report
	unsentBucket  = []byte("unsent")  // object path -> sequence number of a report not acknowledged
	guardBucket   = []byte("guarded") // identity -> removal that waits for a confirmation
	statusBucket  = []byte("status")  // identity -> status at the target
	metaKey       = []byte("meta")
)

// Store keeps the agent's state on disk. Reads may come from any goroutine;
// writes go through commit, which groups them.
type Store struct {
	db      *bolt.DB
	log     *slog.Logger
	work    chan *Commit
	current atomic.Pointer[Meta]
	dir     string
	// failing is why the last commit failed; nil: it did not.
	failing atomic.Pointer[error]
	// unsound says that a transaction came upon damage.
	unsound atomic.Bool
	// recovered is raised when commits succeed again.
	recovered retry.Signal
}

// Meta is what the store knows of itself now. It must not be changed.
func (s *Store) Meta() *Meta { return s.current.Load() }

// Failing is why the last commit failed; nil: it did not.
func (s *Store) Failing() error {
	if why := s.failing.Load(); why != nil {
		return *why
	}
	return nil
}

// Recovered receives when commits succeed again after one that failed.
func (s *Store) Recovered() <-chan struct{} { return s.recovered }

// Commit is one write. Writes become durable in the order of submission.
type Commit struct {
	// Do changes the store. It may run again when a transaction fails, so it
	// must have no other effect than on the transaction and on what it sets anew.
	Do func(*Tx) error
	// Done is called once do is durable, on the committing goroutine; it must not wait.
	Done func()
	// Failed is called instead when the disk does not take it, or when do fails.
	Failed func(error)
	// Urgent says that somebody waits for it.
	Urgent bool
}

// Run commits what is submitted until ctx ends, then what is already waiting.
// While the disk does not take it, what comes is refused at once: those who
// submit come back, and go on enforcing what is known.
func (s *Store) Run(ctx context.Context) {
	var last, again time.Time
	linger := commitLinger
	for {
		var probe <-chan time.Time
		if s.failing.Load() != nil { // and perhaps nobody has anything to write
			probe = time.After(Retry)
		}
		select {
		case <-probe:
			s.group(ctx, &Commit{Do: func(*Tx) error { return nil }, Urgent: true}, time.Now())
		case c := <-s.work:
			now := time.Now()
			if why := s.failing.Load(); why != nil && now.Before(again) {
				c.fail(*why)
				continue
			}
			linger = lingerAfter(s.group(ctx, c, last.Add(linger)))
			last = time.Now()
			again = last.Add(Retry)
		case <-ctx.Done():
			for {
				select {
				case c := <-s.work:
					s.group(ctx, c, last)
				default:
					return
				}
			}
		}
	}
}

func lingerAfter(writes int) time.Duration {
	if writes >= manyWrites {
		return busyLinger
	}
	return commitLinger
}

// gather adds to first what is waiting, and what comes until due or until
// somebody waits for it.
func (s *Store) gather(ctx context.Context, first *Commit, due time.Time) []*Commit {
	batch := []*Commit{first}
	linger := time.NewTimer(time.Until(due))
	defer linger.Stop()
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
		case <-linger.C:
			urgent = true
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// group commits first and others with it in one transaction, and returns how many
// there were. One that cannot be done is refused by itself.
func (s *Store) group(ctx context.Context, first *Commit, due time.Time) int {
	batch := s.gather(ctx, first, due)
	n := len(batch)
	for len(batch) > 0 {
		bad, err := s.update(batch)
		if err == nil {
			s.took(batch)
			break
		}
		if bad >= 0 {
			batch[bad].fail(err)
			batch = slices.Delete(batch, bad, bad+1)
			continue
		}
		if s.failing.Swap(&err) == nil {
			s.log.Error("the store cannot be written; what it holds is still enforced", "error", err)
		}
		for _, c := range batch {
			c.fail(err)
		}
		break
	}
	return n
}

// took tells of a batch that is durable.
func (s *Store) took(batch []*Commit) {
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

func (c *Commit) fail(err error) {
	if c.Failed != nil {
		c.Failed(err)
	}
}

// update does a batch in one transaction. bad is which of it could not be done;
// negative: the transaction failed as a whole.
func (s *Store) update(batch []*Commit) (bad int, err error) {
	next := *s.current.Load()
	bad = -1
	err = guarded(func() error {
		return s.db.Update(func(b *bolt.Tx) error {
			t := newTx(b, &next)
			for i, c := range batch {
				bad = i
				if err := c.Do(t); err != nil {
					return err
				}
			}
			bad = -1
			return t.putMeta()
		})
	})
	if bad >= 0 || errors.Is(err, errCorrupt) {
		s.unsound.Store(true)
	}
	if err == nil {
		s.current.Store(&next)
	}
	return bad, err
}

// Submit queues a write; it waits while the queue is full.
func (s *Store) Submit(ctx context.Context, c *Commit) error {
	select {
	case s.work <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write does a write at once and waits until it is durable, or cannot be made so.
func (s *Store) Write(ctx context.Context, do func(*Tx) error) error {
	return s.await(ctx, &Commit{Do: do, Urgent: true})
}

// WriteWithOthers is write for what is in no hurry.
func (s *Store) WriteWithOthers(ctx context.Context, do func(*Tx) error) error {
	return s.await(ctx, &Commit{Do: do})
}

func (s *Store) await(ctx context.Context, c *Commit) error {
	done := make(chan error, 1)
	c.Done, c.Failed = func() { done <- nil }, func(err error) { done <- err }
	if err := s.Submit(ctx, c); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// View reads. f must neither write nor wait: it keeps old pages from being reused.
func (s *Store) View(f func(*Tx) error) error {
	return s.db.View(func(b *bolt.Tx) error {
		return f(newTx(b, s.Meta()))
	})
}
