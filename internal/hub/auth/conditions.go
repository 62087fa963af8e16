package auth

import (
	"context"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// letIn collects the stream conditions of a request's access from the code that decides about it,
// for instance the row of its token, and its credential. It is safe for concurrent use.
type letIn struct {
	mu         sync.Mutex
	all        []table.Condition
	credential Credential
	// during is a context that the request's streams end with; nil if there is none.
	during context.Context
}

type letInKey struct{}

// withConditions returns a context in which restOn collects stream conditions.
func withConditions(ctx context.Context) context.Context {
	return context.WithValue(ctx, letInKey{}, &letIn{})
}

// restOn adds a condition that must hold as long as the request is served. A stream ends when it no
// longer holds. The condition has no End: each kind of stream sets its own.
func restOn(ctx context.Context, condition table.Condition) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, condition)
	}
}

// ConditionsOf returns the stream conditions of a request's access. A stream must end when one of
// them no longer holds.
func ConditionsOf(ctx context.Context) []table.Condition {
	l, ok := ctx.Value(letInKey{}).(*letIn)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.all)
}

// Confirm fails if a condition of the request's access no longer holds. A response after it never
// shows a state in which the request would have been refused.
func Confirm(ctx context.Context, t *table.Table) error {
	for _, p := range ConditionsOf(ctx) {
		if row, _ := t.Get(p.Key); !p.IsMet(row) {
			return errJustEnded()
		}
	}
	return nil
}
