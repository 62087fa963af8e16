// Package encryption encrypts values of the log at rest, by the EncryptionConfiguration of
// Kubernetes: those of objects of the resources that it names, and of what locations
// report of these. A value is bound to its key, so that none can be put in the place of
// another.
//
// It must know no cryptography of its own: all of it is that of k8s.io/apiserver.
package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
)

const (
	// look is how often it is looked whether the file has changed, and retry how often a
	// changed one that can't be used is tried again: what stands against it may be gone.
	look  = 5 * time.Second
	retry = time.Minute
)

// Sealer seals and opens values by a file that may change. It is safe for concurrent use.
type Sealer struct {
	file   string
	logger *slog.Logger
	// ctx is what follows KMS plugins until Close.
	ctx    context.Context
	cancel context.CancelFunc

	now atomic.Pointer[Keys]
	// adopted counts the times that a changed file was taken over.
	adopted atomic.Int64
	// retired are the keys before those, which requests may still use.
	retired *Keys

	mu sync.Mutex
	// refused is why the file, as it is now, is not used; nil: it is.
	refused error
}

// Open reads a file. Close ends what follows its KMS plugins.
func Open(file string, logger *slog.Logger) (*Sealer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	keys, err := load(ctx, file)
	if err == nil {
		err = keys.probe(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Sealer{file: file, logger: logger, ctx: ctx, cancel: cancel}
	s.now.Store(keys)
	return s, nil
}

// Close ends what follows KMS plugins.
func (s *Sealer) Close() { s.cancel() }

// Covers says whether the file names the resource that a key of the log is about.
func (s *Sealer) Covers(k string) bool { return s.now.Load().Covers(k) }

// Seal is how a value of a key is kept.
func (s *Sealer) Seal(ctx context.Context, k string, plain []byte) ([]byte, error) {
	return s.now.Load().Seal(ctx, k, plain)
}

// Open gives the value of a key from how it is kept. stale says that it would be kept
// in another way now.
func (s *Sealer) Open(ctx context.Context, k string, kept []byte) (plain []byte, stale bool, err error) {
	return s.now.Load().Open(ctx, k, kept)
}

// Adopted is how often a changed file was taken over.
func (s *Sealer) Adopted() int64 { return s.adopted.Load() }

// Refused is why the file, as it is now, is not used; nil: it is.
func (s *Sealer) Refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

func (s *Sealer) setRefused(err error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = (err == nil) != (s.refused == nil) || err != nil && err.Error() != s.refused.Error()
	s.refused = err
	return changed
}

// Follow takes over the file whenever it has changed, until the context ends. check says
// why new keys don't do for what is there: then those of before stay. adopted is called
// when they have been taken over.
func (s *Sealer) Follow(ctx context.Context, check func(ctx context.Context, keys *Keys) error, adopted func()) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var again time.Time
	tried := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		hash, err := encryptionconfig.GetEncryptionConfigHash(s.file)
		switch {
		case err == nil && hash == s.now.Load().hash:
			tried = ""
			s.setRefused(nil)
			continue
		case err == nil && hash == tried && time.Now().Before(again):
			continue
		case err == nil:
			tried, again = hash, time.Now().Add(retry)
			err = s.adopt(ctx, check)
		}
		switch changed := s.setRefused(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			s.adopted.Add(1)
			s.logger.Info("the encryption configuration has changed", "file", s.file)
			adopted()
		case changed:
			s.logger.Error("the encryption configuration has changed and can't be used; the one before stays", "file", s.file, "error", err)
		}
	}
}

// adopt takes over the file as it is now.
func (s *Sealer) adopt(ctx context.Context, check func(ctx context.Context, keys *Keys) error) error {
	keys, err := load(s.ctx, s.file) //nolint:contextcheck // what follows KMS plugins outlives the loop
	if err != nil {
		return err
	}
	if err := errors.Join(keys.probe(ctx), keys.continues(ctx, s.now.Load())); err != nil {
		keys.close()
		return err
	}
	if err := check(ctx, keys); err != nil {
		keys.close()
		return fmt.Errorf("what is there could not be read: %w", err)
	}
	if s.retired != nil {
		s.retired.close()
	}
	s.retired = s.now.Swap(keys)
	return nil
}
