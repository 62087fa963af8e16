package agentapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
)

// leavesOf are of one length and are different for each name.
func leavesOf(name string) []wire.Leaf {
	leaves := make([]wire.Leaf, 100)
	for i := range leaves {
		k := fmt.Sprintf("%s/%03d", name, i)
		leaves[i] = wire.Leaf{Key: k, Sum: wire.SumOf([]byte(k))}
	}
	return leaves
}

// TestWalksCollectOnce shows that of many walks, for which there is no room at once, each
// collects what it compares once, and that they keep within the bound.
func TestWalksCollectOnce(t *testing.T) { synctest.Test(t, walksCollectOnce) } // in real time an index may expire between two pages

func walksCollectOnce(t *testing.T) {
	const (
		walks, pages = 60, 5
		one          = 100 * (leafBytes + len("00/000"))
		room         = 3 * one
	)
	w := newWalkIndexes(room)
	var group errgroup.Group
	var most atomic.Int64
	for i := range walks {
		name := fmt.Sprintf("%02d", i)
		group.Go(func() error {
			collected, rev := 0, int64(0)
			for page := range pages {
				k, err := w.get(t.Context(), walkOf{agentRequest: agentRequest{location: key.Location(name)}}, rev, func() ([]wire.Leaf, int64, error) {
					collected++
					return leavesOf(name), int64(100 + page), nil
				})
				if err != nil {
					return err
				}
				if got := k.Span("", "").Count; got != 100 {
					return fmt.Errorf("an index has %d leaves", got)
				}
				w.mu.Lock()
				most.Store(max(most.Load(), int64(w.size)))
				w.mu.Unlock()
				rev = k.rev
				w.leave(k, page == pages-1)
			}
			if collected != 1 {
				return fmt.Errorf("walk %s collected %d times", name, collected)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if most.Load() > int64(room) {
		t.Errorf("%d bytes were kept, there is room for %d", most.Load(), room)
	}
	if len(w.kept) != 0 || w.size != 0 {
		t.Errorf("%d indexes of %d bytes are left", len(w.kept), w.size)
	}
}

// TestWalksShareIndexes shows that locations with the same desired content share an
// index, whichever ends first.
func TestWalksShareIndexes(t *testing.T) {
	w := newWalkIndexes(walkBytes)
	same := func() ([]wire.Leaf, int64, error) { return leavesOf("same"), 1, nil }
	var kept []*walkIndex
	for i := range 5 {
		k, err := w.get(t.Context(), walkOf{agentRequest: agentRequest{location: key.Location(fmt.Sprint(i))}}, 0, same)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, k)
	}
	one := w.size
	for i, k := range kept {
		if k.Index != kept[0].Index || w.size != one {
			t.Errorf("with %d of 5 left the size is %d, was %d", 5-i, w.size, one)
		}
		w.leave(k, true)
	}
	if w.size != 0 {
		t.Errorf("%d bytes are left", w.size)
	}
}

// TestWalksDoNotWaitForACollection shows that a long collection holds up no other walk,
// and that a walk that is given up is no longer waited for.
func TestWalksDoNotWaitForACollection(t *testing.T) { synctest.Test(t, walksDoNotWait) }

func walksDoNotWait(t *testing.T) {
	w := newWalkIndexes(walkBytes)
	slow, done := make(chan struct{}), make(chan error, 1)
	go func() {
		k, err := w.get(t.Context(), walkOf{agentRequest: agentRequest{location: "slow"}}, 0, func() ([]wire.Leaf, int64, error) {
			<-slow
			return nil, 1, nil
		})
		if err == nil {
			w.leave(k, true)
		}
		done <- err
	}()
	k, err := w.get(t.Context(), walkOf{agentRequest: agentRequest{location: "quick"}}, 0, func() ([]wire.Leaf, int64, error) { return leavesOf("quick"), 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	w.room = 1 // from now on there is none
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = w.get(ctx, walkOf{agentRequest: agentRequest{location: "third"}}, 0, func() ([]wire.Leaf, int64, error) { return leavesOf("third"), 1, nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without room a walk got %v", err)
	}
	w.leave(k, true)
	close(slow)
	if err := limit.Receive(t, done, "the slow collection ends"); err != nil {
		t.Fatal(err)
	}
}

// TestAgentsShareRoom: an agent has one index for what it compares, whatever it claims to be able to do, and
// the agents of a location leave room to those of another.
func TestAgentsShareRoom(t *testing.T) {
	const one = 100 * (leafBytes + len("00/000"))
	for what, greedy := range seeds.Ordered(map[string]func(i int) walkOf{
		"capabilities": func(i int) walkOf {
			return walkOf{agentRequest: agentRequest{location: "greedy", can: abilities{impersonates: i&1 != 0, confirms: i&2 != 0, prefixes: i&4 != 0}}}
		},
		"shards": func(i int) walkOf {
			return walkOf{agentRequest: agentRequest{location: "greedy", shard: key.Shard{Index: i + 1, Count: 8}}}
		},
	}) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWalkIndexes(4 * one)
				w.collecting = make(chan struct{}, 1) // one after the other
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var group errgroup.Group
				for i := range 8 {
					group.Go(func() error {
						k, err := w.get(ctx, greedy(i), 0, func() ([]wire.Leaf, int64, error) { return leavesOf(fmt.Sprintf("%02d", i)), 1, nil })
						if err == nil {
							w.leave(k, false)
						} else if !errors.Is(err, context.DeadlineExceeded) {
							return err
						}
						return nil
					})
				}
				if err := group.Wait(); err != nil {
					t.Fatal(err)
				}
				if w.size > w.room/2 {
					t.Errorf("the agents of one location have %d of %d bytes", w.size, w.room)
				}
				before := time.Now()
				k, err := w.get(t.Context(), walkOf{agentRequest: agentRequest{location: "other"}}, 0, func() ([]wire.Leaf, int64, error) { return leavesOf("xx"), 1, nil })
				if err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(before); waited > 0 {
					t.Errorf("an agent of another location waited %v", waited)
				}
				w.leave(k, true)
			})
		})
	}
}

// TestHeldRoomComesBack: an agent that asks for one page after the other of an index keeps it no longer than
// walkHold while another waits for room.
func TestHeldRoomComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWalkIndexes(1) // there is room for one
		holder := walkOf{agentRequest: agentRequest{location: "holder"}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for rev := int64(0); ctx.Err() == nil; {
				k, err := w.get(ctx, holder, rev, func() ([]wire.Leaf, int64, error) { return leavesOf("xx"), 1, nil })
				if err != nil {
					return
				}
				rev = k.rev
				w.leave(k, false)
				select {
				case <-time.After(walkIdle / 2):
				case <-ctx.Done():
				}
			}
		}()
		synctest.Wait()
		late, stop := context.WithTimeout(t.Context(), 2*walkHold)
		defer stop()
		k, err := w.get(late, walkOf{agentRequest: agentRequest{location: "other"}}, 0, func() ([]wire.Leaf, int64, error) { return leavesOf("yy"), 1, nil })
		if err != nil {
			t.Errorf("another agent got %v", err)
		} else {
			w.leave(k, true)
		}
		cancel()
		<-done
	})
}

// TestWaitingWalkHearsSomething shows that an agent whose page has to wait gets empty
// lines meanwhile, and then its page.
func TestWaitingWalkHearsSomething(t *testing.T) {
	h := walkedServer(t, 3, 2)
	h.comparisons.heartbeat = 20 * time.Millisecond
	h.comparisons.indexes.room = 1
	other, err := h.comparisons.indexes.get(t.Context(), walkOf{agentRequest: agentRequest{location: "other"}}, 0, func() ([]wire.Leaf, int64, error) { return leavesOf("other"), 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.comparisons.serveInTurn(w, r, walkOf{agentRequest: walkedRequest("l0000")})
	}))
	defer server.Close()
	resp, err := http.Post(server.URL, "application/json", strings.NewReader("{}\n{\"sum\":\"\",\"count\":0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	for range 3 {
		if line, err := body.ReadString('\n'); err != nil || line != "\n" {
			t.Fatalf("while it waited the agent got %q, %v", line, err)
		}
	}
	h.comparisons.indexes.leave(other, true)
	leaves := 0
	for decoder := json.NewDecoder(body); ; {
		var f wire.Frame
		if err := decoder.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if f.RangeDifference != nil {
			leaves += len(f.RangeDifference.Leaves)
		}
		if f.Mark != nil {
			break
		}
	}
	if leaves != 3 {
		t.Errorf("the page has %d leaves", leaves)
	}
}
