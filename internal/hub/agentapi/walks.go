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
	// walkBytes is how many bytes the indexes of all walks under way may take.
	walkBytes = 128 << 20
	// leafBytes is how many bytes an index takes for each leaf besides its key.
	leafBytes = 96
	// walkIdle is how long an agent may take to ask for the next page of a walk, and walkHold how long
	// it may keep an index while others wait for room. Its next page is then of a new index.
	walkIdle, walkHold = 10 * time.Second, 2 * time.Minute
	// maxWalks is how many walk requests are served at once.
	maxWalks = 4096
)

// walkOwner is an agent that compares the content of a location's shard, or its reports. It has one
// request and one index at a time.
type walkOwner struct {
	location key.Location
	shard    key.Shard
	reports  bool
}

// walkOf is what a walk compares.
type walkOf struct {
	walkOwner
	// can is what the agent can do.
	can abilities
}

// walkIndexes keeps the indexes of walks that are under way, so that each walk collects
// its leaves once: an index stays until its walk has ended or its agent is silent, and
// other walks wait for room. It is safe for concurrent use.
type walkIndexes struct {
	// room bounds what is kept, in bytes; one index is kept however large it is. The agents of a location
	// that have half of it make no further ones.
	room int
	// collecting has a place for each collection that may go on at once.
	collecting chan struct{}

	mu   sync.Mutex
	kept map[walkOwner]*walkIndex
	size int
	// waiting is how many requests wait for room.
	waiting int
	// freed is closed when there is more room.
	freed chan struct{}
}

// walkIndex is what a walk compares, at a revision.
type walkIndex struct {
	of  walkOf
	rev int64
	*wire.Index
	made time.Time
	// size is how many bytes it takes of the room; 0 if it shares the index of another.
	size int
	// users counts the requests that read it; idle fires when there is none for walkIdle.
	users int
	idle  *time.Timer
}

func newWalkIndexes(room int) *walkIndexes {
	return &walkIndexes{
		room: room, collecting: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
		kept: map[walkOwner]*walkIndex{}, freed: make(chan struct{}),
	}
}

// at is the index at a revision if it is kept, or else a new one of what collect gives.
// The caller must leave it.
func (w *walkIndexes) at(ctx context.Context, of walkOf, rev int64, collect func() ([]wire.Leaf, int64, error)) (*walkIndex, error) {
	w.mu.Lock()
	if known := w.kept[of.walkOwner]; known != nil && known.rev == rev && known.of == of {
		known.users++
		known.idle.Stop()
		w.mu.Unlock()
		return known, nil
	}
	w.drop(w.kept[of.walkOwner]) // of an earlier walk that was given up
	w.mu.Unlock()
	if err := w.enter(ctx, of.location); err != nil {
		return nil, err
	}
	defer func() { <-w.collecting }()
	leaves, now, err := collect()
	if err != nil {
		return nil, err
	}
	index, err := wire.NewIndex(leaves)
	if err != nil {
		return nil, fmt.Errorf("index what %q has: %w", of.location, err)
	}
	size := len(leaves) * leafBytes
	for _, leaf := range leaves {
		size += len(leaf.Key)
	}
	return w.keep(ctx, &walkIndex{of: of, rev: now, Index: index, made: time.Now(), size: size, users: 1})
}

// keep keeps an index, once there is room for it.
func (w *walkIndexes) keep(ctx context.Context, made *walkIndex) (*walkIndex, error) {
	for {
		w.mu.Lock()
		if other := w.equal(made.Index); other != nil {
			made.Index, made.size = other.Index, 0
		}
		if w.size == 0 || w.size+made.size <= w.room {
			made.idle = time.AfterFunc(walkIdle, func() { w.expire(made) })
			made.idle.Stop()
			w.drop(w.kept[made.of.walkOwner])
			w.kept[made.of.walkOwner], w.size = made, w.size+made.size
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

// enter takes a place for a collection, once the agents of a location have less than half of the room. A
// request that waits for that has neither a place nor leaves. Collections of one location that go on at once
// may pass half of the room together.
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

// heldBy is how much of the room the agents of a location have.
func (w *walkIndexes) heldBy(l key.Location) (size int) {
	for _, k := range w.kept {
		if k.of.location == l {
			size += k.size
		}
	}
	return size
}

// equal is a kept index with the same leaves: locations with the same content share one.
func (w *walkIndexes) equal(index *wire.Index) *walkIndex {
	for _, k := range w.kept {
		if k.size > 0 && k.Equal(index) {
			return k
		}
	}
	return nil
}

// leave says that a request no longer reads an index; ended says that its walk needs no
// other page.
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

// drop lets go of an index, unless another has taken its place.
func (w *walkIndexes) drop(k *walkIndex) {
	if k == nil || w.kept[k.of.walkOwner] != k {
		return
	}
	delete(w.kept, k.of.walkOwner)
	w.size -= k.size
	if k.size > 0 {
		// Another walk that shares the index takes over its size.
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
