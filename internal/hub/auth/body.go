package auth

import (
	"context"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// body is the body of a request. The client decides how long sending takes, so reading fails when
// the conditions of the request's access have ended in the meantime.
type body struct {
	io.ReadCloser
	ctx   context.Context //nolint:containedctx // the context of the request, like the body
	table *table.Table
	now   func() time.Time
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if ended := b.ended(); ended != nil {
		return 0, ended
	}
	return n, err
}

func (b body) ended() error {
	if l, ok := b.ctx.Value(letInKey{}).(*letIn); ok && l.hasEnded(b.now()) {
		return errJustEnded()
	}
	return Confirm(b.ctx, b.table)
}

// hasEnded reports whether the credential has expired, or its issuer was removed.
func (l *letIn) hasEnded(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.credential.Until
	return !until.IsZero() && !until.After(now) || l.during != nil && l.during.Err() != nil
}

func errJustEnded() error {
	return apierrors.NewUnauthorized("what this request was let in by has just ended")
}
