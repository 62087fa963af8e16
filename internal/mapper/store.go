package mapper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"orrery.dev/orrery/internal/wire"
)

const (
	storeFile = "agent.db"
	// lockWait is how long another process may take to let go of the store.
	lockWait = 2 * time.Second
	// maxGroup bounds how many writes share a transaction.
	maxGroup = 512
	// commitLinger is how far apart commits are that nobody waits for.
	commitLinger = 25 * time.Millisecond
	// storeRetry is how long to wait after a commit that failed (a full disk).
	storeRetry = time.Second
)

// The store's buckets.
var (
	metaBucket    = []byte("meta")    // one value: meta
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
	// Root and Count describe the bucket of desired content, always.
	Root  wire.Sum `json:"root"`
	Count int      `json:"count"`
	// Deferred counts entries that wait for proof of lineage.
	Deferred int           `json:"deferred,omitempty"`
	Settings wire.Settings `json:"settings"`
	Prune    pruneWindow   `json:"prune,omitempty"`
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
}

// commit is one write. Writes become durable in the order of submission.
type commit struct {
	// do changes the store. It may run again when a transaction fails, so it
	// must have no other effect than on the transaction and on what it sets anew.
	do func(*tx) error
	// done is called once do is durable, on the committing goroutine; it must not wait.
	done func()
	// urgent says that somebody waits for it.
	urgent bool
}

// openStore opens or creates the store in dir for a location.
func openStore(dir, location string, log *slog.Logger) (*store, error) {
	return openStoreWith(bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType}, dir, location, log)
}

func openStoreWith(o bolt.Options, dir, location string, log *slog.Logger) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	db, err := bolt.Open(filepath.Join(dir, storeFile), 0o600, &o)
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open store in %q: another agent is running on it", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open store in %q: %w", dir, err)
	}
	s := &store{db: db, log: log, work: make(chan *commit, maxGroup)}
	if err := s.prepare(location); err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %q: %w", dir, err), db.Close())
	}
	return s, nil
}

func (s *store) prepare(location string) error {
	return s.db.Update(func(b *bolt.Tx) error {
		for _, name := range [][]byte{
			metaBucket, desiredBucket, recordBucket, reportBucket, unsentBucket, guardBucket, statusBucket,
		} {
			if _, err := b.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		m, t := &meta{Location: location}, &tx{Tx: b}
		known, err := t.getJSON(metaBucket, string(metaKey), m)
		if err == nil && !known {
			err = t.putJSON(metaBucket, string(metaKey), m)
		}
		if err != nil {
			return err
		}
		if m.Location != location {
			return fmt.Errorf("it belongs to location %q, not to %q", m.Location, location)
		}
		s.meta.Store(m)
		return nil
	})
}

// run commits what is submitted until ctx ends, then what is already waiting.
func (s *store) run(ctx context.Context) {
	var last time.Time
	for {
		select {
		case c := <-s.work:
			s.group(ctx, c, last.Add(commitLinger))
			last = time.Now()
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

// group commits first and others with it in one transaction.
func (s *store) group(ctx context.Context, first *commit, due time.Time) {
	batch := s.gather(ctx, first, due)
	for {
		err := s.update(batch)
		if err == nil {
			break
		}
		s.log.Error("the store cannot be written", "error", err)
		select {
		case <-ctx.Done():
			return // nothing was acknowledged, so nothing is lost
		case <-time.After(storeRetry):
		}
	}
	for _, c := range batch {
		if c.done != nil {
			c.done()
		}
	}
}

func (s *store) update(batch []*commit) error {
	next := *s.meta.Load()
	err := s.db.Update(func(b *bolt.Tx) error {
		t := &tx{Tx: b, meta: &next}
		for _, c := range batch {
			if err := c.do(t); err != nil {
				return err
			}
		}
		return t.putJSON(metaBucket, string(metaKey), next)
	})
	if err == nil {
		s.meta.Store(&next)
	}
	return err
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

// write does a write and waits until it is durable.
func (s *store) write(ctx context.Context, do func(*tx) error) error {
	done := make(chan struct{})
	if err := s.submit(ctx, &commit{do: do, done: func() { close(done) }, urgent: true}); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
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

func (s *store) close() error { return s.db.Close() }
