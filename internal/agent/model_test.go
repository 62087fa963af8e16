package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	// schedules is the number of schedules, steps the length of the longest.
	schedules = 600
	steps     = 8
	// players is the number of schedules that run at a time.
	players = 2
)

// TestModel plays random schedules of edits, faults, restarts and tampering
// against the whole agent, and compares what it does with a naive statement of
// its promises.
func TestModel(t *testing.T) {
	for i := range players {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds.All(t, schedules) {
				if seed%players != i {
					continue
				}
				if err := play(t, seed, scheduleOf(seed)); err != nil {
					minimal := shrinkTo(scheduleOf(seed), func(less []step) bool { return play(t, seed, less) != nil })
					t.Errorf("seed %d: %v\nshrunk to %d steps: %v", seed, err, len(minimal), play(t, seed, minimal))
				}
			}
		})
	}
}

// step is one thing that happens: which, and numbers to choose its details by.
type step struct{ do, a, b, c int }

func scheduleOf(seed int) []step {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	all := make([]step, 3+rng.IntN(steps-2))
	for i := range all {
		all[i] = step{rng.IntN(1000), rng.IntN(1000), rng.IntN(1000), rng.IntN(1000)}
	}
	return all
}

// shrinkTo removes the steps that a failure does not need.
func shrinkTo(all []step, fails func([]step) bool) []step {
	for size := len(all) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(all); {
			if less := slices.Delete(slices.Clone(all), i, i+size); fails(less) {
				all = less
			} else {
				i += size
			}
		}
	}
	return all
}

// play plays a schedule and returns the violated promise, if any.
func play(t *testing.T, seed int, schedule []step) (wrong error) {
	dir := filepath.Join(t.TempDir(), "world")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, seed, dir, []key.Placing{key.Same, key.Same, key.Prefixed}[seed%3])
		wrong = w.play(schedule)
		w.stop(true)
		if wrong != nil {
			wrong = fmt.Errorf("%w\n%s", wrong, strings.Join(w.story, "\n"))
		}
	})
	return errors.Join(wrong, os.RemoveAll(dir))
}

func (c *cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (w *world) play(schedule []step) error {
	for _, s := range schedule {
		if w.line.dead.Load() {
			w.tell("the agent died")
			w.start(w.stop(false))
		}
		w.anew()
		w.act(s)
		w.cluster.mu.Lock()
		bad := w.bad
		w.cluster.mu.Unlock()
		if len(bad) > 0 {
			return errors.New(strings.Join(bad, "\n"))
		}
		if s.c%5 == 0 {
			if err := w.awaitSettled(s.b%8 == 0); err != nil {
				return err
			}
			w.cluster.mu.Lock()
			w.older = w.snapshot()
			w.cluster.mu.Unlock()
		}
	}
	w.heal()
	if err := w.awaitSettled(len(schedule)%2 == 0); err != nil {
		return err
	}
	return w.conclude(len(schedule)%3 == 0)
}

// fill makes the agent's writes to the disk fail, or succeed again.
func (w *world) fill(full bool) {
	if full == w.full {
		return
	}
	flag := os.O_RDWR
	if full {
		flag = os.O_RDONLY
	}
	f, err := os.OpenFile(w.file.Name(), flag, 0)
	if err == nil {
		err = errors.Join(syscall.Dup3(int(f.Fd()), int(w.file.Fd()), syscall.O_CLOEXEC), f.Close())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.full = full
	w.tell("the disk is full: %v", full)
}

// heal ends all faults, except that a restored hub keeps its log.
func (w *world) heal() {
	w.hub.mu.Lock()
	w.hub.mood, w.hub.settings.Halt = mood{}, ""
	w.cluster.mu.Lock()
	w.frozen = false // before the agent can receive the new settings
	w.cluster.mu.Unlock()
	w.hub.say()
	w.hub.mu.Unlock()
	w.fill(false)
	w.endFaults()
	w.tell("all is well")
}

// endFaults ends the faults of the cluster.
func (w *world) endFaults() {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.cluster.weather = weather{}
	w.line.last = -1
}

// settleTimeout is longer than the longest wait for an object that admission has changed.
const settleTimeout = 11 * time.Minute

// awaitSettled waits until cluster and reports are as desired, and checks that they stay so.
func (w *world) awaitSettled(long bool) error {
	w.endFaults()
	if w.line.dead.Load() {
		w.start(w.stop(false))
	}
	w.tell("settle")
	if err := w.awaitDesired(); err != nil {
		return err
	}
	if err := w.agent.store.Inspect(); err != nil { // as after a kill
		return err
	}
	<-time.After(2 * time.Second)
	synctest.Wait()
	switch err := w.check(); {
	case err == nil:
	case !w.reached(): // changes of a session that has ended may still be in progress
		if err := w.awaitDesired(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the settled state did not last: %w", err)
	}
	if reachable := w.rest(); !reachable || !long {
		return nil
	}
	w.cluster.mu.Lock()
	before := w.cluster.writes
	w.cluster.mu.Unlock()
	<-time.After(70 * time.Second) // longer than any retry
	synctest.Wait()
	if err := w.check(); err != nil {
		return fmt.Errorf("the settled state did not last for 70 s: %w", err)
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for _, r := range w.reportsOf() {
		if r.State == wire.Failed {
			return nil // which is tried again
		}
	}
	if n := w.cluster.writes - before; n > 0 {
		return fmt.Errorf("%d writes while nothing changed", n)
	}
	return nil
}

// awaitDesired waits until all is as desired.
func (w *world) awaitDesired() error {
	start := time.Now()
	w.settling = start
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		synctest.Wait()
		w.anew()
		err := w.check()
		if err == nil {
			break
		}
		if time.Since(start) > settleTimeout {
			return fmt.Errorf("not settled after %s: %w", settleTimeout, err)
		}
		<-time.After(wait)
	}
	w.tell("settled after %s", time.Since(start))
	return nil
}

// reached reports whether the hub reaches the agent.
func (w *world) reached() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.hubReachable()
}

// hubReachable reports whether frames of the hub reach the agent's store.
func (w *world) hubReachable() bool { return !w.full && w.hub.mood == mood{slow: w.hub.mood.slow} }

// contentOf are the desired entries that the agent's store holds.
func (w *world) contentOf() map[string]store.Want {
	all := map[string]store.Want{}
	if err := w.agent.store.EachWant(func(o key.Object, x *store.Want) error {
		all[o.Path()] = *x
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) reportsOf() map[string]wire.Report {
	all := map[string]wire.Report{}
	if err := w.agent.store.EachReport(func(o key.Object, r *wire.Report) error {
		all[o.Path()] = *r
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// broken reports whether the hub's log does not continue the agent's, and has not been
// accepted.
func (w *world) broken() bool {
	m := w.agent.store.Meta()
	if w.hub.settings.Accept == w.hub.marker(w.hub.revision) {
		return false
	}
	if !m.Seen.IsZero() && !(timeline{markers: w.hub.markers, revision: w.hub.revision}).contains(m.Seen) {
		return true
	}
	return !w.hub.continuous(m.Marker, m.Revision) || m.LocationUID != "" && m.LocationUID != w.hub.uid
}

// recordHubState records the hub's desired objects: these may be applied, and other objects may
// be removed, unless the hub has another log.
func (w *world) recordHubState() {
	content, broken := w.hub.content(w.hub.revision), w.broken()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.logNow(false)
	for k, f := range content {
		if _, known := w.believed[k]; broken && known {
			continue
		}
		if w.allowed[k] == nil {
			w.allowed[k] = map[wire.Sum]bool{}
		}
		w.allowed[k][leafOf(f)] = true
	}
	if broken {
		return
	}
	for k := range w.allowed {
		if f, ok := content[k]; !ok || f.Gone != nil {
			w.gone[k] = true
		}
	}
}

// rest records the settled state as the known state, if the hub is reachable.
func (w *world) rest() (reachable bool) {
	believed := w.contentOf()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	reachable = w.hubReachable()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.frozen = w.agent.store.Meta().Settings.Halt != ""
	if !reachable {
		return false // the agent may still receive earlier changes
	}
	w.logNow(true)
	w.believed = believed
	for k := range w.allowed {
		w.allowed[k] = map[wire.Sum]bool{}
		x, wanted := believed[k]
		w.gone[k] = !wanted || !x.Desired()
	}
	for k, x := range believed {
		if w.allowed[k] == nil {
			w.allowed[k] = map[wire.Sum]bool{}
		}
		w.allowed[k][x.Sum(k)] = true
		if o := x.Object(); o != nil {
			w.allowed[k][wire.LeafSum(k, o.UID, o.Digest, o.Policy)] = true
		}
	}
	return true
}
