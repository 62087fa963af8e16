package fairqueue

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Budget limits how many bytes are in use, and shares them between users and flows like a Queue
// with Yields. It is safe for concurrent use.
type Budget struct {
	// total is the size of the budget, and reserve the part for flows that may use reserved bytes.
	total, reserve int64

	mu    sync.Mutex
	used  int64
	users map[string]int64
	names map[string]int64
}

// NewBudget returns a Budget of total bytes, a sixteenth of which is reserved.
func NewBudget(total int64) *Budget {
	const reserved = 16
	return &Budget{total: total, reserve: total / reserved, users: map[string]int64{}, names: map[string]int64{}}
}

// A flow may use up to share times the number of free bytes.
const share = 3

// Take takes bytes for a flow; release returns them, and must be called once. The error is a
// TooManyRequests for the client.
func (b *Budget) Take(flow Flow, bytes int64) (release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := b.total - b.used
	if !flow.Reserved {
		free -= b.reserve
	}
	payer, held := flow.payer(), b.names[flow.Name]
	if b.users[payer] == 0 {
		held /= firstOfName
	}
	if bytes > free || b.users[payer]+bytes > share*free || !flow.Reserved && held+bytes > share*free {
		return nil, apierrors.NewTooManyRequests("the hub holds as many bodies of requests for "+flow.Name+" as it has memory for, please try again later", 1)
	}
	b.add(payer, flow.Name, bytes)
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.add(payer, flow.Name, -bytes)
	}), nil
}

func (b *Budget) add(payer, name string, bytes int64) {
	b.used += bytes
	if b.users[payer] += bytes; b.users[payer] == 0 {
		delete(b.users, payer)
	}
	if b.names[name] += bytes; b.names[name] == 0 {
		delete(b.names, name)
	}
}

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
