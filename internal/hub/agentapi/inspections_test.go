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

// unpublished is a Membership that ignores everything.
type unpublished struct{}

func (unpublished) Begin(key.Session, presence.Session) {}
func (unpublished) End(key.Session)                     {}
func (unpublished) Say(key.Session, presence.Patch)     {}
func (unpublished) Tell(context.Context, key.Session, presence.Statement) error {
	return nil
}

// TestInspectionsAreBounded sends many inspect requests to an agent that never responds. They wait for
// each other, all of them end, and requests to another location are served meanwhile.
func TestInspectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &inspector{
			locations: &locations{table: table.New(table.Config{WindowSteps: 10, WindowBytes: 1 << 10}).Table},
			sessions:  NewSessions(time.Now, unpublished{}), pending: newInspections(inspectQueueTimeout), timeout: defaultInspectTimeout,
		}
		o := key.Object{Space: "s", Identity: key.Identity{Resource: key.NewResource("", "configmaps"), Namespace: "n", Name: "x"}}
		silent, other := a.sessions.start(t.Context(), key.WholeOf("silent"), true, "", false), a.sessions.start(t.Context(), key.WholeOf("other"), true, "", false)
		defer a.sessions.end(silent)
		var requested []wire.InspectRequest
		var served sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		served.Go(func() {
			for {
				select {
				case q := <-silent.inspections:
					requested = append(requested, q)
				case q := <-other.inspections:
					if pending := a.pending.claim("other", q.ID); pending != nil {
						pending.answered <- []byte(`{}`)
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
				_, err := a.inspect(t.Context(), "silent", o, false)
				mu.Lock()
				defer mu.Unlock()
				reasons[string(apierrors.ReasonForError(err))]++
			})
		}
		synctest.Wait()
		if len(requested) != maxAgentInspections {
			t.Errorf("one agent is asked %d questions at once", len(requested))
		}
		if _, err := a.inspect(t.Context(), "other", o, false); err != nil {
			t.Errorf("another location: %v", err)
		}
		all.Wait()
		if reasons["NoAnswer"]+reasons["TooManyRequests"] != many || reasons["NoAnswer"] < maxAgentInspections || reasons["TooManyRequests"] < many-maxAgentInspections-maxQueuedInspections {
			t.Errorf("they end with %v", reasons)
		}
		if took := time.Since(began); took > inspectQueueTimeout+defaultInspectTimeout {
			t.Errorf("they take %s", took)
		}
		if n := len(a.pending.waiting); n > 0 {
			t.Errorf("%d are still waited for", n)
		}
		// A canceled request leaves nothing behind.
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := a.inspect(gone, "silent", o, false); !errors.Is(err, context.Canceled) || len(a.pending.waiting) > 0 {
			t.Errorf("the canceled request returns %v", err)
		}
		cancel()
		served.Wait()
	})
}
