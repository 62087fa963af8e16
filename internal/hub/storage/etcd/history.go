package etcd

import (
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// checkpointsPerLimit is the number of checkpoints in a history of the maximum size.
	checkpointsPerLimit = 64
	// maxCheckpoints is the maximum number of checkpoints.
	maxCheckpoints = 1024
	// putOverhead is the approximate number of bytes that etcd stores besides the key and value of a put.
	putOverhead = 256
)

// history records how many bytes were written up to which revision, so that the log can be
// compacted by size. It is safe for concurrent use.
type history struct {
	// over receives when the size of history exceeds its limit.
	over chan struct{}

	mu    sync.Mutex
	most  int64 // the limit, in bytes
	total int64 // bytes written since the log was opened
	rev   int64 // the newest revision
	// checkpoints have revisions, in order, and the bytes written up to each; the first has about
	// the oldest revision of the log.
	checkpoints []checkpoint
}

type checkpoint struct{ rev, total int64 }

func newHistory() *history {
	return &history{over: make(chan struct{}, 1), checkpoints: []checkpoint{{}}}
}

// bound sets the limit of history, in bytes.
func (h *history) bound(most int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
}

// reset drops all records. rev is the oldest revision of the log.
func (h *history) reset(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rev = rev
	h.checkpoints = []checkpoint{{rev, h.total}}
}

// add adds the bytes of the events of a revision.
func (h *history) add(rev int64, events []*clientv3.Event) {
	size := int64(0)
	for _, e := range events {
		size += int64(len(e.Kv.Key)+len(e.Kv.Value)) + putOverhead
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total += size
	h.rev = rev
	if h.total-h.checkpoints[len(h.checkpoints)-1].total >= h.most/checkpointsPerLimit {
		h.checkpoints = append(h.checkpoints, checkpoint{rev, h.total})
	}
	if len(h.checkpoints) > maxCheckpoints { // there was no compaction for long: keep every second one
		thinned := h.checkpoints[:0]
		for i := 0; i < len(h.checkpoints); i += 2 {
			thinned = append(thinned, h.checkpoints[i])
		}
		h.checkpoints = thinned
	}
	if h.total-h.checkpoints[0].total > h.most {
		select {
		case h.over <- struct{}{}:
		default:
		}
	}
}

// written returns the number of bytes written since the log was opened.
func (h *history) written() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// kept returns the number of bytes written since the oldest revision of the log.
func (h *history) kept() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total - h.checkpoints[0].total
}

// oldest returns approximately the oldest revision of the log.
func (h *history) oldest() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checkpoints[0].rev
}

// exceeds reports whether the size of history exceeds its limit.
func (h *history) exceeds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total-h.checkpoints[0].total > h.most
}

// half returns the oldest revision after which at most half of the limit was written.
func (h *history) half() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.checkpoints {
		if h.total-m.total <= h.most/2 {
			return m.rev
		}
	}
	return h.rev
}

// forget drops the checkpoints below the revision of a compaction.
func (h *history) forget(rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n+1 < len(h.checkpoints) && h.checkpoints[n+1].rev <= rev {
		n++
	}
	h.checkpoints = h.checkpoints[n:]
	if rev >= h.rev {
		h.checkpoints = []checkpoint{{h.rev, h.total}}
	}
}
