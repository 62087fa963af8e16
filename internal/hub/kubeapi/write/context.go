package write

import (
	"context"

	"orrery.dev/orrery/internal/protocol/key"
)

type contextKey int

const (
	spaceKey contextKey = iota
	admissionKey
	oneStepKey
	exportWriteKey
	namingKey
)

// WithSpace adds the space of a request to its context.
func WithSpace(ctx context.Context, space key.Space) context.Context {
	return context.WithValue(ctx, spaceKey, space)
}

// SpaceFromContext returns the space that WithSpace added; ok is false if there is none.
func SpaceFromContext(ctx context.Context) (key.Space, bool) {
	space, ok := ctx.Value(spaceKey).(key.Space)
	return space, ok
}
