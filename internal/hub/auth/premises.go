package auth

import (
	"context"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// letIn collects the premises of a request's access, from those who decide about it:
// for instance the row of its token; and with what it was sent. It is safe for concurrent
// use.
type letIn struct {
	mu         sync.Mutex
	all        []table.Premise
	credential Credential
	// during is a context that the request's streams end with; nil: there is none.
	during context.Context
}

type letInKey struct{}

// withPremises returns a context in which restOn collects premises.
func withPremises(ctx context.Context) context.Context {
	return context.WithValue(ctx, letInKey{}, &letIn{})
}

// restOn notes a premise that must hold for as long as the request is served. A stream
// ends when it no longer holds. The premise has no End: each kind of stream sets its own.
func restOn(ctx context.Context, premise table.Premise) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, premise)
	}
}

// PremisesOf are the premises of a request's access. A stream must end when one of them
// no longer holds.
func PremisesOf(ctx context.Context) []table.Premise {
	l, ok := ctx.Value(letInKey{}).(*letIn)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.all)
}

// Confirm fails if what let the request of a context in does not hold any more. What is
// answered behind it is not by a state in which it would have been refused.
func Confirm(ctx context.Context, t *table.Table) error {
	for _, p := range PremisesOf(ctx) {
		if row, _ := t.Get(p.Key); !p.Holds(row) {
			return errJustEnded()
		}
	}
	return nil
}
