package agentapi

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// walkBytes limits the size of the indexes of all current comparisons.
	walkBytes = 128 << 20
	// leafBytes is the size of a leaf in an index besides its key.
	leafBytes = 96
	// walkIdle is how long an agent may take to request the next page of a comparison. walkHold is
	// how long it may keep an index while others wait for memory; its next page gets a new index.
	walkIdle, walkHold = 10 * time.Second, 2 * time.Minute
	// maxWalks is the number of concurrent comparison requests.
	maxWalks = 4096
)

// walkOwner identifies an agent that compares the content of a location's shard, or its reports. It has
// one request and one index at a time.
type walkOwner struct {
	location key.Location
	shard    key.Shard
	reports  bool
}

// walkOf identifies a comparison: the agent's request, and whether it compares its reports.
type walkOf struct {
	agentRequest
	reports bool
}

// owner returns the owner of the comparison.
func (t walkOf) owner() walkOwner { return walkOwner{t.location, t.shard, t.reports} }

// walkIndexes has the indexes of current comparisons, so that each collects its leaves once. An index
// stays until its comparison ends or its agent is silent; other comparisons wait for memory. It is
// safe for concurrent use.
type walkIndexes struct {
	// room limits the total size, in bytes; a single index may exceed it. The agents of a location
	// whose indexes have half of that get no further ones.
	room int
	// collecting is a semaphore for collections of leaves.
	collecting chan struct{}

	mu   sync.Mutex
	kept map[walkOwner]*walkIndex
	size int
	// waiting is the number of requests that wait for memory.
	waiting int
	// freed is closed when an index is dropped.
	freed chan struct{}
}

// walkIndex is the index of a comparison at a revision.
type walkIndex struct {
	target walkOf
	rev    int64
	*wire.Index
	made time.Time
	// size is its size in bytes; 0 if it shares the index of another comparison.
	size int
	// users counts the requests that read it; idle fires after walkIdle without any.
	users int
	idle  *time.Timer
}

func newWalkIndexes(room int) *walkIndexes {
	return &walkIndexes{
		room: room, collecting: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
		kept: map[walkOwner]*walkIndex{}, freed: make(chan struct{}),
	}
}

// get returns the index at a revision if there is one, or else a new one of the leaves from collect.
// The caller must leave it.
func (w *walkIndexes) get(ctx context.Context, target walkOf, rev int64, collect func() ([]wire.Leaf, int64, error)) (*walkIndex, error) {
	w.mu.Lock()
	if known := w.kept[target.owner()]; known != nil && known.rev == rev && known.target == target {
		known.users++
		known.idle.Stop()
		w.mu.Unlock()
		return known, nil
	}
	w.drop(w.kept[target.owner()]) // of an earlier, abandoned comparison
	w.mu.Unlock()
	if err := w.enter(ctx, target.location); err != nil {
		return nil, err
	}
	defer func() { <-w.collecting }()
	leaves, now, err := collect()
	if err != nil {
		return nil, err
	}
	index, err := wire.NewIndex(leaves)
	if err != nil {
		return nil, fmt.Errorf("index what %q has: %w", target.location, err)
	}
	size := len(leaves) * leafBytes
	for _, leaf := range leaves {
		size += len(leaf.Key)
	}
	return w.keep(ctx, &walkIndex{target: target, rev: now, Index: index, made: time.Now(), size: size, users: 1})
}

// keep stores an index, after it has waited for memory.
func (w *walkIndexes) keep(ctx context.Context, made *walkIndex) (*walkIndex, error) {
	for {
		w.mu.Lock()
		if other := w.equal(made.Index); other != nil {
			made.Index, made.size = other.Index, 0
		}
		if w.size == 0 || w.size+made.size <= w.room {
			made.idle = time.AfterFunc(walkIdle, func() { w.expire(made) })
			made.idle.Stop()
			w.drop(w.kept[made.target.owner()])
			w.kept[made.target.owner()], w.size = made, w.size+made.size
			w.mu.Unlock()
			return made, nil
		}
		if err := w.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait unlocks w.mu, and waits for an index to be dropped.
func (w *walkIndexes) wait(ctx context.Context) (err error) {
	freed := w.freed
	w.waiting++
	w.mu.Unlock()
	select {
	case <-freed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	return err
}

// enter acquires the semaphore for a collection, once the agents of a location have less than half of
// the memory. A waiting request has neither the semaphore nor leaves. Concurrent collections of one
// location may exceed the half together.
func (w *walkIndexes) enter(ctx context.Context, l key.Location) error {
	for {
		select {
		case w.collecting <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.mu.Lock()
		if held := w.heldBy(l); held == 0 || held < w.room/2 {
			w.mu.Unlock()
			return nil
		}
		<-w.collecting
		if err := w.wait(ctx); err != nil {
			return err
		}
	}
}

// heldBy returns the size of the indexes of a location's agents.
func (w *walkIndexes) heldBy(l key.Location) (size int) {
	for _, k := range w.kept {
		if k.target.location == l {
			size += k.size
		}
	}
	return size
}

// equal returns a stored index with the same leaves: locations with the same content share one.
func (w *walkIndexes) equal(index *wire.Index) *walkIndex {
	for _, k := range w.kept {
		if k.size > 0 && k.Equal(index) {
			return k
		}
	}
	return nil
}

// leave ends the use of an index by a request; ended is set if its comparison needs no further page.
func (w *walkIndexes) leave(k *walkIndex, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.users--; k.users > 0 {
		return
	}
	if ended || w.waiting > 0 && time.Since(k.made) > walkHold {
		w.drop(k)
	} else {
		k.idle.Reset(walkIdle)
	}
}

func (w *walkIndexes) expire(k *walkIndex) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.users == 0 {
		w.drop(k)
	}
}

// drop removes an index, unless another has replaced it.
func (w *walkIndexes) drop(k *walkIndex) {
	if k == nil || w.kept[k.target.owner()] != k {
		return
	}
	delete(w.kept, k.target.owner())
	w.size -= k.size
	if k.size > 0 {
		// Another comparison that shares the index takes over its size.
		for _, other := range w.kept {
			if other.Index == k.Index {
				other.size, w.size = k.size, w.size+k.size
				break
			}
		}
	}
	close(w.freed)
	w.freed = make(chan struct{})
}
