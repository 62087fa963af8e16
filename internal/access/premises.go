package access

import (
	"context"
	"slices"
	"sync"

	"orrery.dev/orrery/internal/table"
)

// letIn collects what a request is let in by, from whoever decides about it: the row
// that shows who sends it, say. It is safe for concurrent use.
type letIn struct {
	mu  sync.Mutex
	all []table.Premise
}

type letInKey struct{}

// withPremises has those who decide about a request note what they go by.
func withPremises(ctx context.Context) context.Context {
	return context.WithValue(ctx, letInKey{}, &letIn{})
}

// restOn notes what has to hold for as long as what was asked for goes on. Streams end
// when it no longer does, each in its own way: the End is not theirs to say who decide.
func restOn(ctx context.Context, premise table.Premise) {
	if l, ok := ctx.Value(letInKey{}).(*letIn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, premise)
	}
}

// PremisesOf are what the request of a context was let in by. Who serves a stream has it
// end once one of them does not hold.
func PremisesOf(ctx context.Context) []table.Premise {
	l, ok := ctx.Value(letInKey{}).(*letIn)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.all)
}
