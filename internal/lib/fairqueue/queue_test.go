package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// work takes a turn, holds it for a time, and counts.
type work struct {
	sync.Mutex
	all    sync.WaitGroup
	order  []string
	done   map[string]int
	errors map[string]int
}

func newWork() *work { return &work{done: map[string]int{}, errors: map[string]int{}} }

func (w *work) start(t *Queue, name string, d time.Duration) {
	w.all.Go(func() {
		leave, err := t.Enter(context.Background(), Flow{Name: name})
		if err == nil {
			<-time.After(d)
			leave()
		}
		w.Lock()
		defer w.Unlock()
		if err == nil {
			w.order = append(w.order, name)
			w.done[name]++
		} else {
			w.errors[name]++
		}
	})
}

// While one space has many requests waiting, another space is served as if it were alone. When both
// have more requests than capacity, both get an equal part.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Defaults(4))
		w := newWork()
		for range 15 {
			w.start(q, "greedy", time.Second)
		}
		synctest.Wait()
		if working, waiting, _ := q.Load(); working != 3 || waiting != 12 {
			t.Errorf("%d work and %d wait, want 3 of 4 turns taken by one flow and 12 waiting", working, waiting)
		}
		began := time.Now()
		w.start(q, "modest", time.Second)
		synctest.Wait()
		if working, _, _ := q.Load(); working != 4 {
			t.Errorf("%d work, want the modest flow to work at once", working)
		}
		w.all.Wait()
		if took := time.Since(began); took != 5*time.Second || w.done["greedy"] != 15 || w.done["modest"] != 1 {
			t.Errorf("done %v in %s, want everything in 5s", w.done, took)
		}

		// All turns are taken, so that both requests wait, in any order.
		for range 3 {
			w.start(q, "before", time.Second)
		}
		w.start(q, "beside", time.Second)
		synctest.Wait()
		for range 12 {
			w.start(q, "x", time.Second)
			w.start(q, "y", time.Second)
		}
		<-time.After(3500 * time.Millisecond)
		synctest.Wait()
		w.Lock()
		x, y := w.done["x"], w.done["y"]
		w.Unlock()
		if x != y || x != 4 {
			t.Errorf("after two rounds x has %d and y %d, want 4 each", x, y)
		}
		w.all.Wait()
		if len(q.users) != 0 || len(q.names) != 0 || len(q.ring) != 0 {
			t.Errorf("left behind: %d users, %d names, a ring of %d", len(q.users), len(q.names), len(q.ring))
		}
	})
}

// Many flows wait: each gets its first turn before any gets its second.
func TestTurnsGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Defaults(1))
		w := newWork()
		const flows = 4
		for range 3 {
			for i := range flows {
				w.start(q, fmt.Sprint(i), time.Second)
			}
			synctest.Wait()
		}
		w.all.Wait()
		for start := 0; start < len(w.order); start += flows {
			round := slices.Sorted(slices.Values(w.order[start : start+flows]))
			if len(slices.Compact(round)) != flows {
				t.Errorf("a flow was served twice before another once: %v", w.order)
			}
		}
	})
}

// A request that waits too long, or behind too many others, is refused with a Retry-After. A
// request whose client disconnects leaves nothing behind.
func TestTurnsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Defaults(1))
		w := newWork()
		const long = time.Minute
		w.start(q, "slow", long)
		synctest.Wait()
		for range q.config.Queue + 2 {
			w.start(q, "slow", 0)
		}
		synctest.Wait()
		if w.errors["slow"] != 2 {
			t.Errorf("%d were refused at once, want the two beyond the queue", w.errors["slow"])
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := q.Enter(ctx, Flow{Name: "gone"})
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the disconnected client got %v", err)
		}
		<-time.After(q.config.Timeout + time.Millisecond)
		synctest.Wait()
		if w.errors["slow"] != q.config.Queue+2 {
			t.Errorf("%d were refused, want all that wait longer than %s", w.errors["slow"], q.config.Timeout)
		}
		w.all.Wait()
		if _, waiting, _ := q.Load(); waiting != 0 {
			t.Errorf("%d still wait", waiting)
		}
	})
	if err := busy("space \"a\""); !apierrors.IsTooManyRequests(err) {
		t.Errorf("busy is %v", err)
	}
}
