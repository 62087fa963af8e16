package etcd

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

const (
	// atOnce is the number of revisions that etcd sends to a lagging watch every 100 ms.
	atOnce = 1000
	// maxChunks is the maximum number of concurrent watches. The chunks behind them are read when
	// these have been applied.
	maxChunks = 64
	// replayTimeout is the timeout for maxChunks chunks. Chunks that were not applied by then are read
	// again, or, if none was applied, by the tail's own watch.
	replayTimeout = 10 * time.Second
)

// replay applies most of the history up to revision now. It reads chunks of the history by concurrent
// watches: etcd limits each lagging watch to atOnce revisions every 100 ms, so one watch takes four
// seconds for 40,000 revisions. The tail's own watch continues where replay stops, also after an
// error of a chunk.
//
// It does nothing for an external etcd. There, other programs make revisions, too, so the watch of a
// chunk may never receive an event at or behind the end of the chunk.
func (t *tailer) replay(ctx context.Context, now int64) error {
	for t.log.server != nil && now-t.to.Rev() > 2*atOnce {
		before := t.to.Rev()
		if err := t.replayChunks(ctx, now); err != nil {
			return err
		}
		if t.to.Rev() == before {
			return nil
		}
	}
	return nil
}

// replayChunks reads up to maxChunks chunks concurrently and applies them in order. It stops at the
// first chunk that could not be read.
func (t *tailer) replayChunks(ctx context.Context, now int64) error {
	reading, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	var chunks []chan []*clientv3.Event
	for from := t.to.Rev() + 1; from+atOnce <= now && len(chunks) < maxChunks; from += atOnce {
		chunk := make(chan []*clientv3.Event, 1)
		chunks = append(chunks, chunk)
		go func() {
			defer close(chunk)
			if events, ok := t.readChunk(reading, from, from+atOnce); ok {
				chunk <- events
			}
		}()
	}
	for _, chunk := range chunks {
		select {
		case events, ok := <-chunk:
			if !ok {
				return nil // the tail's own watch reports the error
			}
			if err := t.apply(ctx, clientv3.WatchResponse{Events: events}, true); err != nil {
				return err
			}
		case <-reading.Done():
			return nil
		}
	}
	return nil
}

// readChunk returns the events of the revisions from <= revision < before. ok is false if the watch
// ended before it received them all. The metadata gives each watch a gRPC stream of its own: when
// many watches of one stream end while events arrive, etcd's client and server deadlock.
func (t *tailer) readChunk(ctx context.Context, from, before int64) (all []*clientv3.Event, ok bool) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "chunk", strconv.FormatInt(from, 10)))
	defer cancel()
	for r := range t.log.client.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		for i, e := range r.Events {
			if e.Kv.ModRevision >= before {
				return append(all, r.Events[:i]...), true
			}
		}
		all = append(all, r.Events...)
		if n := len(all); n > 0 && all[n-1].Kv.ModRevision == before-1 {
			return all, true
		}
	}
	return nil, false
}
