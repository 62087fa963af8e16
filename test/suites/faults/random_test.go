package faults

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

const (
	// rounds is the number of rounds.
	rounds = 12
	// stepsPerRound is how many edits and faults one round has.
	stepsPerRound = 40
	// firstWrites is how many edits come before the first fault.
	firstWrites = 40
	// writesPerRound is how many edits each round begins with, so that there is
	// always something.
	writesPerRound = 10
	// editTimeout bounds one request, since a hub may be dead.
	editTimeout = time.Minute
)

// life is a seeded random life of a world: edits, tampering and faults. What is done, and
// in which order, is a function of the seed; what state it meets is not. It is used by
// one goroutine.
type life struct {
	*world.World
	t *testing.T
	// r is the generator of the current step, steps the number of steps so far.
	r     *rand.Rand
	steps uint64

	root   dynamic.Interface
	spaces map[string]dynamic.Interface
	// before is what each site had after the last round, and foreign what there is
	// that Orrery did not make.
	before  map[string]world.Listed
	foreign map[string]map[string]types.UID
	// moved says whose place or life was touched in this round, and edited whose
	// content was: at the sites under its key, in a space under that of its source.
	moved, edited map[string]bool
	// promised is what the hub acknowledged last of an object: its value; "": that
	// it is gone. What was not acknowledged is not in it.
	promised map[string]string
	// flooder reports what it likes.
	flooder *flooder
	// serial makes values that are all different.
	serial int
	// owners are what a controller at a site makes things for, displaced the spaces whose
	// definition is not placed, ended the sites that do not serve a version.
	owners           map[string]types.UID
	displaced, ended map[string]bool
	// hung are sites whose API server is stopped.
	hung map[string]bool
	log  []string
}

// TestRandomFaults shows that after any random sequence of edits, tampering and faults
// the sites are exactly as the spaces say, and that no object was replaced, or even
// written, without a reason.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	for round := range int64(seeds.Count(t, rounds)) {
		start := time.Now()
		for range writesPerRound {
			l.next()
			l.write()
		}
		for range stepsPerRound {
			l.step()
		}
		l.heal()
		healed := time.Now()
		l.converge(round)
		l.withinQuota()
		t.Logf("round %d: %d steps in %s, in order %s after: %d and %d objects, floods of %d MiB so far", round, stepsPerRound,
			healed.Sub(start).Round(time.Millisecond), time.Since(healed).Round(time.Millisecond),
			len(l.before["north"]), len(l.before["south"]), l.flooder.sent>>20)
		if round%restoreEvery == restoreEvery-1 {
			l.restore(round)
		}
	}
}

// next starts a step with a generator of its own: later steps do not depend on what this one draws.
func (l *life) next() {
	l.steps++
	l.r = seeds.Rand(l.t, l.steps)
}

func newLife(t *testing.T) *life {
	t.Helper()
	w := world.New(t, "--heartbeat", heartbeat.String(), "--etcd-quota-bytes", strconv.Itoa(floodQuota))
	l := &life{
		World: w, t: t,
		spaces: map[string]dynamic.Interface{}, before: map[string]world.Listed{}, foreign: map[string]map[string]types.UID{},
		promised: map[string]string{}, hung: map[string]bool{}, owners: map[string]types.UID{},
		displaced: map[string]bool{}, ended: map[string]bool{},
	}
	l.root = l.client("root")
	for _, s := range spaceNames {
		l.AddSpace(s)
		l.spaces[s] = l.client(s)
		l.furnish(s)
	}
	for _, name := range []string{"north", "south"} {
		l.Join(name, env.StartLink(t, w.Hub.URL))
		// A random life removes more than a location lets go unasked.
		env.Kubectl(t, l.Root, "patch", "location", name, "--type=merge", "-p", `{"spec":{"prune":{"maxPercent":100}}}`)
		env.Kubectl(t, l.Root, "label", "location", name, "alpha-g0=yes", "alpha-g1=yes", "beta-g0=yes", "beta-g1=yes")
		l.foreign[name] = map[string]types.UID{}
		l.prepare(l.Sites[name])
	}
	l.flooder = newFlooder(t, w)
	l.forgetRound()
	for range firstWrites {
		l.next()
		l.write()
	}
	l.converge(-1)
	return l
}

func (l *life) client(space string) dynamic.Interface {
	config := l.Hub.PathConfig("spaces/" + space)
	config.Timeout = editTimeout
	return world.Dynamic(l.t, config)
}

func (l *life) forgetRound() {
	l.moved, l.edited, l.log = map[string]bool{}, map[string]bool{}, nil
}

// record adds an action to the log that a failure shows.
func (l *life) record(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf(format, args...))
}

// action is something that can happen, and how often.
type action struct {
	weight int
	do     func(*life)
}

var actions = []action{
	{36, (*life).write},
	{10, (*life).remove},
	{8, (*life).relabel},
	{4, (*life).moveLocation},
	{3, (*life).flicker},
	{2, (*life).movePlacement},
	{1, (*life).removeNamespace},
	{1, (*life).makeSpaceAgain},
	{7, (*life).tamper},
	{4, (*life).steal},
	{3, (*life).strip},
	{3, (*life).intrude},
	{2, (*life).intrudeKind},
	{1, (*life).stealDefinition},
	{2, (*life).moveDefinition},
	{3, (*life).moveVersion},
	{3, (*life).killHub},
	{8, (*life).startHub},
	{3, (*life).killAgent},
	{3, (*life).startAgent},
	{5, (*life).breakLink},
	{1, (*life).hangTarget},
	{4, (*life).readSite},
	{2, (*life).flood},
}

func (l *life) step() {
	l.next()
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := l.r.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			a.do(l)
			return
		}
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
