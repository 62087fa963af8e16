package life

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	// lives is the number of random lives, players the number that run at a time, and stepsOfLife the
	// number of steps of each.
	lives       = 20
	players     = 4
	stepsOfLife = 150
)

// TestSpacesStayApart writes and reads several spaces with equal names in them at random,
// by every verb, and with tokens, UIDs and revisions of another space: no answer has
// anything of another space, and each space is as its own naive model says.
func TestSpacesStayApart(t *testing.T) {
	t.Parallel()
	h := hubAt(t, env.StartHub(t, "--unsafe-no-fsync"))
	for i := range players {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds.All(t, lives) {
				if seed%players != i {
					continue
				}
				if wrong := liveApart(t, h, uint64(seed)); wrong != "" {
					t.Errorf("seed %d: %s", seed, wrong)
				}
			}
		})
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
		l.rng = rand.New(rand.NewPCG(seed, uint64(2+step))) // later steps do not depend on what this one draws
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
