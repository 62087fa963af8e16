// Package encryption encrypts values of the log at rest, by an EncryptionConfiguration of
// Kubernetes: objects of the configured resources, and reports about them. A value is bound to its
// key, so it can't be moved to another key.
//
// It must not implement cryptography; it uses that of k8s.io/apiserver.
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
	// pollInterval is the interval of checks for a changed file. retry is the interval at which a changed
	// file that can't be used is tried again, since the reason may have gone.
	pollInterval = 5 * time.Second
	retry        = time.Minute
)

// Sealer encrypts and decrypts values by a file that may change. It is safe for concurrent use.
type Sealer struct {
	file   string
	logger *slog.Logger
	// ctx is the context of KMS plugins until Close.
	ctx    context.Context
	cancel context.CancelFunc

	now atomic.Pointer[Keys]
	// adopted counts how often a changed file was loaded.
	adopted atomic.Int64
	// retired are the previous keys, which running requests may still use.
	retired *Keys

	mu sync.Mutex
	// refused is the reason why the present file is not used; nil if it is used.
	refused error
}

// Open loads a file. Close stops its KMS plugins.
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

// Close stops the KMS plugins.
func (s *Sealer) Close() { s.cancel() }

// Covers reports whether the file configures the resource in a key of the log.
func (s *Sealer) Covers(k string) bool { return s.now.Load().Covers(k) }

// Seal returns the stored form of a key's value.
func (s *Sealer) Seal(ctx context.Context, k string, plain []byte) ([]byte, error) {
	return s.now.Load().Seal(ctx, k, plain)
}

// Open returns the value of a key from its stored form. stale reports that Seal would now return
// another form.
func (s *Sealer) Open(ctx context.Context, k string, kept []byte) (plain []byte, stale bool, err error) {
	return s.now.Load().Open(ctx, k, kept)
}

// Adopted returns how often a changed file was loaded.
func (s *Sealer) Adopted() int64 { return s.adopted.Load() }

// Refused returns the reason why the present file is not used; nil if it is used.
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

// Follow loads the file after each change until the context ends. check returns an error if the new
// keys can't read present values; then the previous keys stay. Follow calls adopted after loading
// new keys.
func (s *Sealer) Follow(ctx context.Context, check func(ctx context.Context, keys *Keys) error, adopted func()) error {
	tick := time.NewTicker(pollInterval)
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

// adopt loads the present file.
func (s *Sealer) adopt(ctx context.Context, check func(ctx context.Context, keys *Keys) error) error {
	keys, err := load(s.ctx, s.file) //nolint:contextcheck // the KMS plugins outlive the loop
	if err != nil {
		return err
	}
	if err := errors.Join(keys.probe(ctx), keys.continues(ctx, s.now.Load())); err != nil {
		keys.close()
		return err
	}
	if err := check(ctx, keys); err != nil {
		keys.close()
		return fmt.Errorf("present values could not be read: %w", err)
	}
	if s.retired != nil {
		s.retired.close()
	}
	s.retired = s.now.Swap(keys)
	return nil
}
