package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// revisionWaiter waits for the revisions that requests name. A read that it lets pass is never answered from
// an older state than the request allows. It is safe for concurrent use.
type revisionWaiter struct {
	table *table.Table
	// committed blocks until the table contains every write that was acknowledged before the call.
	committed func(context.Context) error
	// limit is how long a read waits for the table before it asks the log.
	limit time.Duration
}

// await blocks until the table may answer a request with this resourceVersion. Without one, the
// table must contain every write that was acknowledged before the call. "0" accepts any state,
// and a number accepts that revision or a later one.
func (s *revisionWaiter) await(ctx context.Context, version string) error {
	switch version {
	case "":
		return s.awaitCommitted(ctx)
	case "0":
		return nil
	}
	rev, err := parseVersion(version)
	if err != nil {
		return err
	}
	return s.awaitRevision(ctx, rev)
}

func parseVersion(version string) (int64, error) {
	rev, err := storage.APIObjectVersioner{}.ParseResourceVersion(version)
	if err != nil {
		return 0, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	const largest = 1<<63 - 1
	return int64(min(rev, largest)), nil
}

func (s *revisionWaiter) awaitCommitted(ctx context.Context) error {
	if err := s.committed(ctx); err != nil {
		return unavailable("catch up with the log", err)
	}
	return nil
}

// awaitRevision waits for the revision that a client names. The table may be behind, or the
// revision may not exist. If the table does not reach it within limit, the log decides.
func (s *revisionWaiter) awaitRevision(ctx context.Context, rev int64) error {
	short, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err := s.table.WaitFor(short, rev)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return unavailable("wait for the named resourceVersion", err)
	}
	if err := s.awaitCommitted(ctx); err != nil {
		return err
	}
	if now := s.table.Rev(); now < rev {
		const retrySeconds = 1
		return storage.NewTooLargeResourceVersionError(uint64(rev), uint64(now), retrySeconds)
	}
	return nil
}

// unavailable turns a failed wait into an error that makes clients retry.
func unavailable(step string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return apierrors.NewTimeoutError(fmt.Sprintf("%s: %v", step, err), 1)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("%s: %v", step, err))
}
