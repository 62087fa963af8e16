package life

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"orrery.dev/orrery/test/support/env"
)

const (
	// seeds are how many lives are lived, lives how many of them at a time, and
	// stepsOfLife how many things happen in each.
	seeds       = 20
	lives       = 4
	stepsOfLife = 150
)

// TestSpacesStayApart writes and reads several spaces with equal names in them at random,
// by every verb, and with tokens, UIDs and revisions of another space: no answer has
// anything of another space, and each space is as its own naive model says.
func TestSpacesStayApart(t *testing.T) {
	t.Parallel()
	h := hubAt(t, env.StartHub(t, "--unsafe-no-fsync"))
	next := make(chan uint64, seeds)
	for seed := range uint64(seeds) {
		next <- seed
	}
	close(next)
	done := make(chan string, lives)
	for range lives {
		go func() {
			for seed := range next {
				if wrong := liveApart(t, h, seed); wrong != "" {
					done <- fmt.Sprintf("seed %d: %s", seed, wrong)
					return
				}
			}
			done <- ""
		}()
	}
	for range lives {
		if wrong := <-done; wrong != "" {
			t.Error(wrong)
		}
	}
}

// liveApart runs one random life and returns what went wrong.
func liveApart(t *testing.T, h *hub, seed uint64) (wrong string) {
	l := &life{rng: rand.New(rand.NewPCG(seed, 1)), hub: h, ctx: t.Context(), seed: seed}
	defer func() {
		switch w := recover().(type) {
		case nil:
		case violation:
			wrong = fmt.Sprintf("%s\nafter\n%s", string(w), l.history())
		default:
			panic(w)
		}
	}()
	for i := range 3 {
		l.open(i)
	}
	for step := range stepsOfLife {
		l.step(step)
		const checkEvery = 15
		if step%checkEvery == 0 {
			l.check()
		}
	}
	l.check()
	l.everywhere()
	for _, s := range l.spaces {
		l.expect(l.send(nil, http.MethodDelete, spaces+"/"+s.name, "", ""), http.StatusOK)
	}
	return ""
}
