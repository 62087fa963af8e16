package states

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
)

// What a location can be in besides the states of a kind.
const (
	// Unreported: it has reported nothing.
	Unreported = "(unreported)"
	// Held: it has reported, and what is desired now can't be there.
	Held = "(held)"
	// Behind: what it reports is an earlier desired state, and was as the kind's first state
	// says.
	Behind = "(behind)"
)

// Case is a source and its locations.
type Case struct {
	Name   string
	Kind   Kind
	Source []byte
	// Explicit says that the source has its number, if the kind has one.
	Explicit bool
	// Objects are those at the locations, nil where none counts.
	Objects [][]byte
	Parts   []rollup.Part
	// There says that each location has what is desired now.
	There bool
	// Observed says that at each location the controller has looked at what is there.
	Observed bool
}

// Merged is the source with its merged status.
func (c Case) Merged() ([]byte, bool) { return c.Kind.Merged(c.Source, c.Parts) }

// wants are what the source and the locations want.
type wants struct {
	source   int64
	explicit bool
	at       []int64
}

// Matrix are all states of one, two and three locations, which want the same as the source
// or something else.
func (k Kind) Matrix() (all []Case) {
	places := k.places()
	every := append(k.States(), Unreported, Held, Behind)
	numbers := []wants{{1, true, []int64{1, 1, 1}}}
	if k.Counts {
		numbers = []wants{
			{3, true, []int64{3, 3, 3}},
			{3, true, []int64{5, 1, 2}},
			{3, true, []int64{0, 3, 0}},
			{1, false, []int64{1, 1, 4}},
			{0, true, []int64{0, 2, 0}},
			{4, true, []int64{0, 0, 0}},
		}
	}
	for _, w := range numbers {
		for i, a := range every {
			all = append(all, k.of(places, w, a))
			for j, b := range every {
				all = append(all, k.of(places, w, a, b))
				if j < i {
					continue // of three, any order is one of the others by the rotation of what is wanted
				}
				for _, c := range every[j:] {
					all = append(all, k.of(places, w, a, b, c))
				}
			}
		}
	}
	return all
}

// place is one location: what is there, and what it reports of that.
type place struct {
	object []byte
	part   rollup.Part
}

// places are all that a location can be in, which is costly to make, by what it wants.
func (k Kind) places() func(n int64, state string) place {
	type id struct {
		n     int64
		state string
	}
	made := map[id]place{}
	return func(n int64, state string) place {
		p, ok := made[id{n, state}]
		if !ok {
			p = k.place(n, state)
			made[id{n, state}] = p
		}
		return p
	}
}

func (k Kind) place(n int64, state string) place {
	switch state {
	case Unreported:
		return place{part: rollup.Part{Why: "not reported"}}
	case Held:
		p := k.Report(k.At(n, k.States()[0]))
		p.Sound, p.Why = false, "Held: Paused"
		return place{part: p}
	case Behind:
		object := k.At(n, k.States()[0])
		p := k.Report(object)
		p.Behind = true
		p.Generation--
		p.Status = []byte(strings.Replace(string(p.Status), said(Generation), said(Generation-1), 1))
		return place{object, p}
	}
	object := k.At(n, state)
	return place{object, k.Report(object)}
}

func said(generation int64) string { return fmt.Sprintf(`"observedGeneration":%d`, generation) }

func (k Kind) of(at func(int64, string) place, w wants, states ...string) Case {
	c := Case{Kind: k, Source: k.Source(w.source, w.explicit), Explicit: w.explicit, There: true, Observed: true}
	c.Name = fmt.Sprintf("%s %d of %v: %s", k.Kind, w.source, w.at[:len(states)], strings.Join(states, ", "))
	for i, state := range states {
		p := at(w.at[i], state)
		p.part.Location = key.Location([]string{"berlin", "oslo", "rome"}[i])
		c.There = c.There && !slices.Contains([]string{Unreported, Held, Behind}, state)
		c.Observed = c.Observed && p.object != nil && observes(p.object, k.looksAt())
		c.Objects, c.Parts = append(c.Objects, p.object), append(c.Parts, p.part)
	}
	return c
}

// looksAt says that controllers note which generation of the kind they have looked at.
func (k Kind) looksAt() bool {
	return strings.Contains(k.Statuses[k.States()[0]](1), observed)
}

// observes says whether the controller of an object at a location has looked at it.
func observes(object []byte, looksAt bool) bool {
	said := gjson.GetBytes(object, "status.observedGeneration")
	return !looksAt && !said.Exists() || said.Int() == Live
}
