package agent

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/test/support/seeds"
)

// TestModelSuperseded has objects deleted in their space and made again under their names, with
// other values that can't be changed and other policies, while the agent is away, was killed, or
// works. Jobs among them run to their end. Some are deleted at the cluster meanwhile.
func TestModelSuperseded(t *testing.T) {
	for seed := range seeds.All(t, 20) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, dir)
			defer w.stop(true)
			rng := rand.New(rand.NewPCG(uint64(seed), 21))
			w.edit(identities[0], 7, 7)
			for round := range 12 {
				away := rng.IntN(3)
				if away > 0 {
					dir = w.stop(away == 1)
				}
				for _, i := range []int{2, 6, 8} { // a ConfigMap, a Job and a Service
					b := 10 * rng.IntN(100) // by which each has another UID
					for b%11 == 5 {         // which asks for the status
						b = 10 * rng.IntN(100)
					}
					w.edit(identities[i], b, rng.IntN(100))
				}
				if away > 0 {
					w.start(dir)
				}
				if err := w.awaitSettled(true); err != nil {
					t.Errorf("seed %d, round %d: %v\n%s", seed, round, err, strings.Join(w.story, "\n"))
					return
				}
				if rng.IntN(4) == 0 {
					w.tamper(identities[[]int{2, 6, 8}[rng.IntN(3)]], 0, 0) // it is deleted at the cluster
				}
				<-time.After(time.Minute)
				if rng.IntN(2) == 0 {
					w.tamper(identities[6], 3, 0) // it completes
					<-time.After(time.Second)
				}
			}
			if len(w.bad) > 0 {
				t.Errorf("seed %d: %v", seed, w.bad)
			}
		})
	}
}
