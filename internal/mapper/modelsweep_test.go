package mapper

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// TestModelSweep has an agent lose its store before it could report a Job, the only
// one, which the hub drops meanwhile. It is found and removed, once that may be; a
// store that has been swept costs no request any more.
func TestModelSweep(t *testing.T) {
	const usual, orphaned = 7, 14 // by what edit makes of it
	job := identities[6]
	path := key.Object{Space: "s", Identity: job}.Path()
	for name, c := range map[string]struct {
		// put is how the Job is placed.
		put int
		// before is done to the world before the agent starts anew. If something keeps
		// the sweep from being made then, after ends that.
		before, after func(*world)
		// closed says that the Job cannot be found at all.
		closed bool
	}{
		"removed": {put: usual},
		"let go":  {put: orphaned},
		"paused": {
			put:    usual,
			before: func(w *world) { w.hub.settings.Halt = "paused" }, after: func(w *world) { w.change(8, 0) },
		},
		"away": {
			put:    usual,
			before: func(w *world) { w.hub.mood = mood{away: true} }, after: func(w *world) { w.heal() },
		},
		"broken": {
			put:    usual,
			before: func(w *world) { w.cluster.weather = weather{hollow: true} }, after: func(w *world) { w.calm() },
		},
		"closed": {
			put:    usual,
			before: func(w *world) { w.cluster.closed[job.Resource] = true }, closed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				defer w.stop(true)
				w.edit(job, c.put, 1)
				w.edit(identities[2], 7, 1)
				if err := w.settle(false); err != nil {
					t.Fatal(err)
				}
				w.lose(func() {
					delete(w.hub.reports, path)
					w.hub.write(del(path, wire.Unassigned))
					w.cluster.mu.Lock()
					defer w.cluster.mu.Unlock()
					if c.before != nil {
						c.before(w)
					}
				})
				lists := func() int {
					synctest.Wait()
					w.cluster.mu.Lock()
					defer w.cluster.mu.Unlock()
					return w.cluster.lists[job.Resource]
				}
				before := lists()
				<-time.After(2 * time.Minute)
				if c.after != nil {
					if n := lists() - before; n > 0 {
						t.Errorf("Jobs were listed %d times", n)
					}
					c.after(w)
					<-time.After(2 * time.Minute)
				}
				if err := w.settle(!c.closed); (err != nil) != c.closed {
					t.Errorf("the Job was found: %v, want %v: %v", err == nil, !c.closed, err)
				}
				s := w.agent.Status()
				if s.Unswept || slices.Contains(s.Unsearched, job.Resource.String()) != c.closed {
					t.Errorf("the agent says that it is yet to search: %v, that it can't: %v", s.Unswept, s.Unsearched)
				}
				before = lists()
				w.start(w.stop(false))
				<-time.After(time.Hour)
				if n := lists() - before; n > 0 {
					t.Errorf("Jobs were listed %d times after all was done", n)
				}
				if s := w.agent.Status(); s.Unswept || slices.Contains(s.Unsearched, job.Resource.String()) != c.closed {
					t.Errorf("started anew, the agent says that it is yet to search: %v, that it can't: %v", s.Unswept, s.Unsearched)
				}
			})
		})
	}
}

// TestModelUnseen has an agent whose store is not new die between the making of a
// Job and the record of it. The hub drops the Job meanwhile, which the agent hears
// before any list shows it.
func TestModelUnseen(t *testing.T) {
	for seed := range 20 {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, dir)
			defer w.stop(true)
			w.edit(identities[2], 7, 1)
			<-time.After(10 * time.Second)
			if w.agent.Status().Unswept {
				t.Fatal("the store is new")
			}
			w.line.last = 1
			w.edit(identities[6], 7, 1)
			<-time.After(time.Second)
			if !w.line.dead.Load() {
				t.Fatal("the agent is alive")
			}
			w.drop(identities[6], 0, 1)
			w.cluster.weather = weather{slow: 5 * time.Second}
			w.start(w.stop(false))
			<-time.After(30 * time.Second)
			if err := w.settle(true); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}
