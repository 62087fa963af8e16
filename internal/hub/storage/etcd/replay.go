package etcd

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

const (
	// atOnce is how many revisions etcd gives a watch that is behind, each tenth of a second.
	atOnce = 1000
	// mostParts is by how many watches a history is read at once, at most. More of it is read when
	// that has been applied.
	mostParts = 64
	// replayTimeout is how long the parts of once may take. Those that were not applied by then are read
	// again, or by the tail's own watch if none was.
	replayTimeout = 10 * time.Second
)

// replay applies the history up to a revision, or the most of it, by several watches, each of which
// has a part: etcd gives one that is behind a thousand revisions each tenth of a second, so one alone
// takes four seconds for 40,000. The tail's own watch goes on from where it ends, and does all of it
// if anything is wrong here.
//
// It is done of an embedded etcd alone, where every revision is one of this log: in another one a
// part may not see its end.
func (t *tailer) replay(ctx context.Context, now int64) error {
	for t.log.server != nil && now-t.to.Rev() > 2*atOnce {
		before := t.to.Rev()
		if err := t.replayParts(ctx, now); err != nil {
			return err
		}
		if t.to.Rev() == before {
			return nil
		}
	}
	return nil
}

// replayParts is replay for as much as is read at once. It applies less if something is wrong with a
// part.
func (t *tailer) replayParts(ctx context.Context, now int64) error {
	reading, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	var parts []chan []*clientv3.Event
	for from := t.to.Rev() + 1; from+atOnce <= now && len(parts) < mostParts; from += atOnce {
		part := make(chan []*clientv3.Event, 1)
		parts = append(parts, part)
		go func() {
			defer close(part)
			if events, ok := t.part(reading, from, from+atOnce); ok {
				part <- events
			}
		}()
	}
	for _, part := range parts {
		select {
		case events, ok := <-part:
			if !ok {
				return nil // the tail's own watch finds out what is wrong
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

// part has the events from a revision on and before another one; ok is false if its watch ended before
// it had them. That has a stream of its own, which ends with it: etcd's client and server wait for each other for ever when many watches of one
// stream end while events come.
func (t *tailer) part(ctx context.Context, from, before int64) (all []*clientv3.Event, ok bool) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "part", strconv.FormatInt(from, 10)))
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
