package agentapi

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// nobody is told of sessions.
type nobody struct{}

func (nobody) Begin(key.Session, presence.Session) {}
func (nobody) End(key.Session)                     {}
func (nobody) Say(key.Session, presence.Patch)     {}
func (nobody) Tell(context.Context, key.Session, presence.Statement) error {
	return nil
}

// TestLooksAreBounded shows that many questions to agents that never answer wait for each
// other, that all end, and that another location is asked meanwhile.
func TestLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Server{
			config: Config{Table: table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 10}).Table},
			looks:  newLooks(lookPatience), sessions: NewSessions(time.Now, nobody{}),
		}
		o := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "x"}}
		silent, other := a.sessions.start(t.Context(), key.WholeOf("silent"), true, "", false), a.sessions.start(t.Context(), key.WholeOf("other"), true, "", false)
		defer a.sessions.end(silent)
		var asked []wire.Look
		var served sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		served.Go(func() {
			for {
				select {
				case q := <-silent.looks:
					asked = append(asked, q)
				case q := <-other.looks:
					if of := a.looks.claim("other", q.ID); of != nil {
						of.answered <- []byte(`{}`)
					}
				case <-ctx.Done():
					return
				}
			}
		})
		began := time.Now()
		const many = 100
		reasons := map[string]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				_, err := a.Look(t.Context(), "silent", o, false)
				mu.Lock()
				defer mu.Unlock()
				reasons[string(apierrors.ReasonForError(err))]++
			})
		}
		synctest.Wait()
		if len(asked) != looksOfOne {
			t.Errorf("one agent is asked %d questions at once", len(asked))
		}
		if _, err := a.Look(t.Context(), "other", o, false); err != nil {
			t.Errorf("another location: %v", err)
		}
		all.Wait()
		if reasons["NoAnswer"]+reasons["TooManyRequests"] != many || reasons["NoAnswer"] < looksOfOne || reasons["TooManyRequests"] < many-looksOfOne-looksWaiting {
			t.Errorf("they end with %v", reasons)
		}
		if took := time.Since(began); took > lookPatience+maxLookWait {
			t.Errorf("they take %s", took)
		}
		if n := len(a.looks.waiting); n > 0 {
			t.Errorf("%d are still waited for", n)
		}
		// Whoever gives up leaves nothing.
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := a.Look(gone, "silent", o, false); !errors.Is(err, context.Canceled) || len(a.looks.waiting) > 0 {
			t.Errorf("who has gone is told %v", err)
		}
		cancel()
		served.Wait()
	})
}
