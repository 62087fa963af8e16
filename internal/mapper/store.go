package mapper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/mapper/marks"
	"orrery.dev/orrery/internal/wire"
)

const (
	storeFile = "agent.db"
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
	// storeRetry is how long to wait after a commit that failed (a full disk).
	storeRetry = time.Second
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

// meta is what the store knows of itself. It is changed only in transactions.
type meta struct {
	Location    string `json:"location"`
	LocationUID string `json:"locationUID,omitempty"`
	// Marker and Revision are those of the last mark in proven lineage.
	Marker   string `json:"marker,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Seen is the newest place of a put since that mark, whose object may be applied.
	Seen marks.Pair `json:"seen,omitzero"`
	// Accepted is the place in the log at which an operator accepted one last, and
	// Epoch how often that has been.
	Accepted marks.Pair `json:"accepted,omitzero"`
	Epoch    int        `json:"epoch,omitempty"`
	// Root and Count describe the bucket of desired content, always.
	Root  wire.Sum `json:"root"`
	Count int      `json:"count"`
	// Written is the sum of all values in the other buckets, always.
	Written wire.Sum `json:"written"`
	// Deferred counts entries that wait for proof of lineage.
	Deferred int `json:"deferred,omitempty"`
	// Unsent counts reports that the hub does not have yet.
	Unsent int `json:"unsent,omitempty"`
	// Settings are those that are followed. Heard is what the hub says, if some of it
	// waits; Fresh says that a new store has not seen yet that what is at the target
	// is of the hub's log.
	Settings wire.Settings  `json:"settings"`
	Heard    *wire.Settings `json:"heard,omitempty"`
	Fresh    bool           `json:"fresh,omitempty"`
	// Survey says that the target is yet to be searched for what a new store knows
	// nothing of.
	Survey bool        `json:"survey,omitempty"`
	Prune  pruneWindow `json:"prune,omitempty"`
	// Guarded describes the bucket of removals that wait for a confirmation, always.
	Guarded guardSums `json:"guarded,omitempty"`
	// ReportsAgreed says that hub and agent have compared their reports since the
	// hub wrote ReportsMarker, at its start.
	ReportsAgreed bool   `json:"reportsAgreed,omitempty"`
	ReportsMarker string `json:"reportsMarker,omitempty"`
}

// store keeps the agent's state on disk. Reads may come from any goroutine;
// writes go through commit, which groups them.
type store struct {
	db   *bolt.DB
	log  *slog.Logger
	work chan *commit
	meta atomic.Pointer[meta]
	dir  string
	// failing is why the last commit failed; nil: it did not.
	failing atomic.Pointer[error]
	// unsound says that a transaction came upon damage.
	unsound atomic.Bool
	// recovered, if any, is called when commits succeed again.
	recovered func()
}

// commit is one write. Writes become durable in the order of submission.
type commit struct {
	// do changes the store. It may run again when a transaction fails, so it
	// must have no other effect than on the transaction and on what it sets anew.
	do func(*tx) error
	// done is called once do is durable, on the committing goroutine; it must not wait.
	done func()
	// failed is called instead when the disk does not take it, or when do fails.
	failed func(error)
	// urgent says that somebody waits for it.
	urgent bool
}

// run commits what is submitted until ctx ends, then what is already waiting.
// While the disk does not take it, what comes is refused at once: those who
// submit come back, and go on enforcing what is known.
func (s *store) run(ctx context.Context) {
	var last, again time.Time
	linger := commitLinger
	for {
		var probe <-chan time.Time
		if s.failing.Load() != nil { // and perhaps nobody has anything to write
			probe = time.After(storeRetry)
		}
		select {
		case <-probe:
			s.group(ctx, &commit{do: func(*tx) error { return nil }, urgent: true}, time.Now())
		case c := <-s.work:
			now := time.Now()
			if why := s.failing.Load(); why != nil && now.Before(again) {
				c.fail(*why)
				continue
			}
			linger = lingerAfter(s.group(ctx, c, last.Add(linger)))
			last = time.Now()
			again = last.Add(storeRetry)
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
func (s *store) gather(ctx context.Context, first *commit, due time.Time) []*commit {
	batch := []*commit{first}
	linger := time.NewTimer(time.Until(due))
	defer linger.Stop()
	for urgent := first.urgent; len(batch) < maxGroup; {
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
			batch, urgent = append(batch, c), c.urgent
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
func (s *store) group(ctx context.Context, first *commit, due time.Time) int {
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
func (s *store) took(batch []*commit) {
	for _, c := range batch {
		if c.done != nil {
			c.done()
		}
	}
	if s.failing.Swap(nil) != nil {
		s.log.Info("the store can be written again")
		if s.recovered != nil {
			s.recovered()
		}
	}
}

func (c *commit) fail(err error) {
	if c.failed != nil {
		c.failed(err)
	}
}

// update does a batch in one transaction. bad is which of it could not be done;
// negative: the transaction failed as a whole.
func (s *store) update(batch []*commit) (bad int, err error) {
	next := *s.meta.Load()
	bad = -1
	err = guarded(func() error {
		return s.db.Update(func(b *bolt.Tx) error {
			t := &tx{Tx: b, meta: &next}
			for i, c := range batch {
				bad = i
				if err := c.do(t); err != nil {
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
		s.meta.Store(&next)
	}
	return bad, err
}

// submit queues a write; it waits while the queue is full.
func (s *store) submit(ctx context.Context, c *commit) error {
	select {
	case s.work <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write does a write at once and waits until it is durable, or cannot be made so.
func (s *store) write(ctx context.Context, do func(*tx) error) error {
	return s.await(ctx, &commit{do: do, urgent: true})
}

// writeWithOthers is write for what is in no hurry.
func (s *store) writeWithOthers(ctx context.Context, do func(*tx) error) error {
	return s.await(ctx, &commit{do: do})
}

func (s *store) await(ctx context.Context, c *commit) error {
	done := make(chan error, 1)
	c.done, c.failed = func() { done <- nil }, func(err error) { done <- err }
	if err := s.submit(ctx, c); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// view reads. f must neither write nor wait: it keeps old pages from being reused.
func (s *store) view(f func(*tx) error) error {
	return s.db.View(func(b *bolt.Tx) error {
		return f(&tx{Tx: b, meta: s.meta.Load()})
	})
}
