package placement

import (
	"context"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// Budget bounds the work of one query, in rows that are read. It is spent when its context ends. It is not safe for
// concurrent use.
type Budget struct {
	left, unchecked int
	isEnded         func() bool
}

// checkEvery is the number of rows between two checks of the context.
const checkEvery = 64

// NewBudget returns a Budget of a number of rows.
func NewBudget(ctx context.Context, rows int) *Budget {
	return &Budget{left: rows, isEnded: func() bool { return ctx.Err() != nil }}
}

// Spend takes work that costs as much as reading n rows from the budget. It reports whether the budget is not spent.
func (b *Budget) Spend(n int) bool {
	b.left -= n
	if b.unchecked += n; b.unchecked >= checkEvery {
		if b.unchecked = 0; b.isEnded() {
			b.left = -1
		}
	}
	return b.left >= 0
}

// IsSpent reports whether the budget is spent. A result that was computed from Reader may then be incomplete.
func (b *Budget) IsSpent() bool { return b.left < 0 }

// Reader returns a reader of a state that spends the budget. Once it is spent, Ascend ends.
func (b *Budget) Reader(state table.Reader) table.Reader { return boundedReader{state, b} }

type boundedReader struct {
	table.Reader
	budget *Budget
}

// Get implements table.Reader.
func (r boundedReader) Get(k string) *table.Row {
	r.budget.Spend(1)
	return r.Reader.Get(k)
}

// Ascend implements table.Reader.
func (r boundedReader) Ascend(prefix string, fn func(*table.Row) bool) {
	r.Reader.Ascend(prefix, func(row *table.Row) bool { return r.budget.Spend(1) && fn(row) })
}

// costOfPolicy returns what it costs to compile a policy, in rows.
func costOfPolicy(row *table.Row) int {
	const itself, bytesPerRow = 10, 50
	return itself + len(row.Value)/bytesPerRow
}
