package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Keeping says how much history the log keeps.
type Keeping struct {
	// Every is how often history that nobody resumes from is forgotten.
	Every time.Duration
	// Floor is the oldest revision that readers resume from.
	Floor func() int64
	// Before is called before each compaction with the revision below which history
	// is about to be forgotten; an error puts it off. nil: nothing is to be done before.
	Before func(ctx context.Context, floor int64) error
}

// Keep keeps the log's history no longer than the window that readers resume
// from, until the context ends.
func (l *Log) Keep(ctx context.Context, keeping Keeping) error {
	tick := time.NewTicker(keeping.Every)
	defer tick.Stop()
	last := int64(0)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		rev := keeping.Floor()
		if rev <= last {
			continue
		}
		if err := l.compact(ctx, rev, keeping.Before); err != nil {
			l.logger.Warn("compact the log", "error", err)
			continue
		}
		last = rev
	}
}

// compact forgets history below a revision, the one place where that is done.
func (l *Log) compact(ctx context.Context, rev int64, before func(context.Context, int64) error) error {
	if before != nil {
		if err := before(ctx, rev); err != nil {
			return fmt.Errorf("before the compaction of the log at revision %d: %w", rev, err)
		}
	}
	if _, err := l.client.Compact(ctx, rev); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact the log at revision %d: %w", rev, err)
	}
	return nil
}
