package schemacost

import (
	"context"
	"sync/atomic"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// MaxRuleCost is what the rules (x-kubernetes-validations) of CRDs cost in one request at most, in CEL's
// units, with all attempts that other writers make necessary. Kubernetes allows the same for each attempt.
const MaxRuleCost = celconfig.RuntimeCELCostBudget

// Budget is what the rules of one request may still cost. It is safe for concurrent use.
type Budget struct{ left atomic.Int64 }

type budgetKey struct{}

// WithBudget gives a request its budget.
func WithBudget(ctx context.Context) context.Context {
	b := &Budget{}
	b.left.Store(MaxRuleCost)
	return context.WithValue(ctx, budgetKey{}, b)
}

// BudgetOf returns the budget of a request. A context without one gets a new budget each time.
func BudgetOf(ctx context.Context) *Budget {
	if b, ok := ctx.Value(budgetKey{}).(*Budget); ok {
		return b
	}
	b := &Budget{}
	b.left.Store(MaxRuleCost)
	return b
}

// Spend calls validate with the remaining cost; rest is the cost that remains after it, or negative if that was
// too little. Spend reports whether it was enough.
func (b *Budget) Spend(validate func(left int64) (rest int64)) (isWithin bool) {
	left := b.left.Load()
	rest := validate(left)
	return b.left.Add(min(rest, left)-left) >= 0
}
