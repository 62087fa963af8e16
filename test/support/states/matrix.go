package states

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
)

// States of a location besides the states of a kind.
const (
	// Unreported means that the location has reported nothing.
	Unreported = "(unreported)"
	// Held means that the location has reported, but cannot have the current desired object.
	Held = "(held)"
	// Behind means that the location has reported an earlier generation, in the first state of the
	// kind.
	Behind = "(behind)"
)

// Case is a source and its locations.
type Case struct {
	Name   string
	Kind   Kind
	Source []byte
	// Explicit is true if the source sets its number, if the kind has one.
	Explicit bool
	// Objects are the objects at the locations; nil if a location has no current one.
	Objects [][]byte
	Reports []rollup.Report
	// There is true if each location has the current desired object.
	There bool
	// Observed is true if the controller of each location has observed the object there.
	Observed bool
}

// Merged returns the source with its merged status.
func (c Case) Merged() ([]byte, bool) { return c.Kind.Merged(c.Source, c.Reports) }

// wants has the numbers that the source and the locations want.
type wants struct {
	source    int64
	explicit  bool
	locations []int64
}

// Matrix returns cases for all states of one, two and three locations, which want the number of the
// source or another one.
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
			all = append(all, k.newCase(places, w, a))
			for j, b := range every {
				all = append(all, k.newCase(places, w, a, b))
				if j < i {
					continue // other orders of three are covered by the rotations of the numbers
				}
				for _, c := range every[j:] {
					all = append(all, k.newCase(places, w, a, b, c))
				}
			}
		}
	}
	return all
}

// place is a location: its object and its report.
type place struct {
	object []byte
	report rollup.Report
}

// places returns a function that caches the places of numbers and states, because they are costly.
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
		return place{report: rollup.Report{Why: "not reported"}}
	case Held:
		p := k.Report(k.Object(n, k.States()[0]))
		p.Sound, p.Why = false, "Held: Paused"
		return place{report: p}
	case Behind:
		object := k.Object(n, k.States()[0])
		p := k.Report(object)
		p.Behind = true
		p.Generation--
		p.Status = []byte(strings.Replace(string(p.Status), observedGeneration(Generation), observedGeneration(Generation-1), 1))
		return place{object, p}
	}
	object := k.Object(n, state)
	return place{object, k.Report(object)}
}

func observedGeneration(generation int64) string {
	return fmt.Sprintf(`"observedGeneration":%d`, generation)
}

func (k Kind) newCase(places func(int64, string) place, w wants, states ...string) Case {
	c := Case{Kind: k, Source: k.Source(w.source, w.explicit), Explicit: w.explicit, There: true, Observed: true}
	c.Name = fmt.Sprintf("%s %d of %v: %s", k.Kind, w.source, w.locations[:len(states)], strings.Join(states, ", "))
	for i, state := range states {
		p := places(w.locations[i], state)
		p.report.Location = key.Location([]string{"berlin", "oslo", "rome"}[i])
		c.There = c.There && !slices.Contains([]string{Unreported, Held, Behind}, state)
		c.Observed = c.Observed && p.object != nil && isObserved(p.object, k.hasObservedGeneration())
		c.Objects, c.Reports = append(c.Objects, p.object), append(c.Reports, p.report)
	}
	return c
}

// hasObservedGeneration reports whether the status of the kind has an observedGeneration.
func (k Kind) hasObservedGeneration() bool {
	return strings.Contains(k.Statuses[k.States()[0]](1), observed)
}

// isObserved reports whether the controller of a location has observed the object there.
func isObserved(object []byte, hasGeneration bool) bool {
	generation := gjson.GetBytes(object, "status.observedGeneration")
	return !hasGeneration && !generation.Exists() || generation.Int() == Live
}
