package store

import (
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// historySteps is how finely history is known: what it may take has that many steps.
	historySteps = 64
	// historyMarks bounds the steps that are remembered.
	historyMarks = 1024
	// putOverhead is about what etcd keeps beside the key and value of a put.
	putOverhead = 256
)

// history counts the bytes that were written up to revisions, so that the log can be
// compacted by bytes. It is safe for concurrent use.
type history struct {
	// over wakes who compacts when more was written than history may take.
	over chan struct{}

	mu    sync.Mutex
	most  int64
	total int64
	rev   int64
	// marks are revisions and what was written up to each of them, in order; the first
	// is the oldest that is kept.
	marks []historyMark
}

type historyMark struct{ rev, total int64 }

func newHistory() *history {
	return &history{over: make(chan struct{}, 1), marks: []historyMark{{}}}
}

// bound says how many bytes history may take.
func (h *history) bound(most int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
}

// reset says that nothing is known of what lies below a revision.
func (h *history) reset(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rev = rev
	h.marks = []historyMark{{rev, h.total}}
}

// add counts the events of a revision.
func (h *history) add(rev int64, events []*clientv3.Event) {
	size := int64(0)
	for _, e := range events {
		size += int64(len(e.Kv.Key)+len(e.Kv.Value)) + putOverhead
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total += size
	h.rev = rev
	if h.total-h.marks[len(h.marks)-1].total >= h.most/historySteps {
		h.marks = append(h.marks, historyMark{rev, h.total})
	}
	if len(h.marks) > historyMarks { // nobody compacts: every second one will do
		thinned := h.marks[:0]
		for i := 0; i < len(h.marks); i += 2 {
			thinned = append(thinned, h.marks[i])
		}
		h.marks = thinned
	}
	if h.total-h.marks[0].total > h.most {
		select {
		case h.over <- struct{}{}:
		default:
		}
	}
}

// written is how much was written so far.
func (h *history) written() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// kept is how much was written since the oldest revision that is kept.
func (h *history) kept() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total - h.marks[0].total
}

// exceeds says whether history takes more than it may.
func (h *history) exceeds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total-h.marks[0].total > h.most
}

// half is the oldest revision above which lies no more than half of what history may take.
func (h *history) half() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.marks {
		if h.total-m.total <= h.most/2 {
			return m.rev
		}
	}
	return h.rev
}

// forget drops what lies below a revision that the log was compacted to.
func (h *history) forget(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n+1 < len(h.marks) && h.marks[n+1].rev <= rev {
		n++
	}
	h.marks = h.marks[n:]
	if rev >= h.rev {
		h.marks = []historyMark{{h.rev, h.total}}
	}
}
