package etcd

import (
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// historySteps is how many marks are kept for as much history as is allowed.
	historySteps = 64
	// historyMarks bounds the marks that are kept.
	historyMarks = 1024
	// putOverhead is about how many bytes etcd keeps besides the key and value of a put.
	putOverhead = 256
)

// history counts the bytes that were written up to revisions, so that the log can be
// compacted by bytes. It is safe for concurrent use.
type history struct {
	// over wakes the keeper when history takes more than it may.
	over chan struct{}

	mu    sync.Mutex
	most  int64
	total int64
	rev   int64
	// marks are revisions, in order, and how much was written up to each; the first is the
	// oldest revision that the log has.
	marks []historyMark
}

type historyMark struct{ rev, total int64 }

func newHistory() *history {
	return &history{over: make(chan struct{}, 1), marks: []historyMark{{}}}
}

// bound sets how many bytes history may take.
func (h *history) bound(most int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
}

// reset forgets everything; a revision is the oldest that the log has.
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
	if len(h.marks) > historyMarks { // nothing is compacted: keep every second one
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

// written is how many bytes were written so far.
func (h *history) written() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// kept is how many bytes were written since the oldest revision that the log has.
func (h *history) kept() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total - h.marks[0].total
}

// oldest is about the oldest revision that the log has.
func (h *history) oldest() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.marks[0].rev
}

// exceeds says whether history takes more than it may.
func (h *history) exceeds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total-h.marks[0].total > h.most
}

// half is the oldest revision after which no more than half of what history may take was
// written.
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

// forget drops the marks below a revision that the log was compacted at.
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
