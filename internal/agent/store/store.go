package store

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/lib/retry"
)

const (
	// File is the name of the store in the agent's data directory.
	File = "agent.db"
	// lockWait is how long to wait for another process to close the store.
	lockWait = 2 * time.Second
	// maxGroup bounds how many writes share a transaction.
	maxGroup = 512
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
	statusBucket  = []byte("status")  // identity -> how it was last seen at the target (Live)
	metaKey       = []byte("meta")
)

// Store keeps the agent's state on disk. It is safe for concurrent use. Writes are
// submitted to Run, which groups them into transactions.
type Store struct {
	db *bolt.DB
	// box encrypts the values; nil: they are not encrypted.
	box     *box
	log     *slog.Logger
	work    chan *Commit
	current atomic.Pointer[Meta]
	dir     string
	// lock is the directory, locked while the store is read-only; nil: it is not.
	lock *os.File
	// failing is why the last commit failed; nil: it did not.
	failing atomic.Pointer[error]
	// unsound says that a transaction may have found damage.
	unsound atomic.Bool
	// recovered is raised when commits succeed again.
	recovered retry.Signal
	roots     RootNews
}

// Meta is the store's meta as of the last commit. The caller must not change it.
func (s *Store) Meta() *Meta { return s.current.Load() }

// Halt is why the agent must not change anything at the target, as of the last commit; empty: it may.
// observes reports whether a halted agent goes on observing.
func (s *Store) Halt() (why string, observes bool) {
	m := s.Meta()
	return m.Halt(), m.Observes()
}

// Failing is why the last commit failed; nil: it did not.
func (s *Store) Failing() error {
	if why := s.failing.Load(); why != nil {
		return *why
	}
	return nil
}

// ReadOnly reports whether the store was opened on a read-only file system.
func ReadOnly(s *Store) bool { return s.db.IsReadOnly() }

// Recovered receives when commits succeed again after one that failed.
func (s *Store) Recovered() <-chan struct{} { return s.recovered }

// Commit is one write. Writes become durable in the order of submission.
type Commit struct {
	// Do changes the store. It may run again when a transaction fails, so it
	// must have no other effect than on the transaction and on what it sets anew.
	Do func(*Tx) error
	// Done is called once the write is durable, on the committing goroutine; it must not
	// block.
	Done func()
	// Failed is called instead if the commit or Do fails, likewise.
	Failed func(error)
	// Urgent is true if the commit must not be delayed.
	Urgent bool
}

// Run commits what is submitted until ctx ends, then what is already queued. While
// commits fail, new writes fail at once, so that workers go on enforcing what is known;
// a commit is tried again from time to time.
func (s *Store) Run(ctx context.Context) {
	var again time.Time
	var commits commitRate
	for {
		var probe <-chan time.Time
		if s.failing.Load() != nil { // find out that commits succeed again even without a write
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

// gather adds to first what is queued, and what is submitted until due, or until a write
// is urgent.
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

// group commits first and others with it in one transaction, and returns how many writes
// it took. A write whose Do fails is taken out, and the others are tried again.
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

// took calls Done for a batch that is durable.
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

// update does a batch in one transaction. If it fails, bad is the index of the write whose
// Do failed; negative: the transaction itself failed.
func (s *Store) update(batch []*Commit) (bad int, err error) {
	if ReadOnly(s) {
		return -1, s.Failing()
	}
	next := *s.current.Load()
	bad = -1
	var roots map[string]struct{}
	err = guarded(func() error {
		return s.db.Update(func(b *bolt.Tx) error {
			t := newTx(b, &next, s.box)
			defer func() { roots = t.roots }()
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
		s.roots.add(roots)
	}
	return bad, err
}

// Submit queues a write. It blocks while the queue is full, and returns an error only if
// ctx ends.
func (s *Store) Submit(ctx context.Context, c *Commit) error {
	select {
	case s.work <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Write commits a write at once and waits until it is durable or has failed. If ctx ends
// before it is queued it returns ctx's error, and nothing is written. From then on it waits
// for what becomes of it: whoever has stored something and is not told so would not act on it.
func (s *Store) Write(ctx context.Context, do func(*Tx) error) error {
	return s.await(ctx, &Commit{Do: do, Urgent: true})
}

// WriteWithOthers is Write without hurry: the write waits for others to share a commit.
func (s *Store) WriteWithOthers(ctx context.Context, do func(*Tx) error) error {
	return s.await(ctx, &Commit{Do: do})
}

func (s *Store) await(ctx context.Context, c *Commit) error {
	done := make(chan error, 1)
	c.Done, c.Failed = func() { done <- nil }, func(err error) { done <- err }
	if err := s.Submit(ctx, c); err != nil {
		return err
	}
	return <-done
}

// View runs f in a read-only transaction. f must not block: a long transaction keeps bbolt
// from reusing pages.
func (s *Store) View(f func(*Tx) error) error {
	err := guarded(func() error {
		return s.db.View(func(b *bolt.Tx) error {
			return f(newTx(b, s.Meta(), s.box))
		})
	})
	if errors.Is(err, errCorrupt) {
		s.unsound.Store(true)
	}
	return err
}
