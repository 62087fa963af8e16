package shape

import (
	"maps"
	"slices"
)

// order returns the position of each file, users before what they use. It follows the
// heuristic of Eades, Lin and Smyth ("A fast and effective heuristic for the feedback arc
// set problem", 1993): finding the best order is NP-hard.
func (g Graph) order() map[string]int {
	remaining := newRanking(g)
	order := map[string]int{}
	first, last := 0, len(remaining.files)
	for len(remaining.files) > 0 {
		next := remaining.next()
		if remaining.out[next] == 0 {
			order[next] = last
			last--
		} else {
			order[next] = first
			first++
		}
		remaining.remove(next)
	}
	return order
}

// A ranking holds the files that have no position yet, and how many references between
// them lead out of and into each.
type ranking struct {
	graph   Graph
	files   map[string]bool
	out, in map[string]int
}

func newRanking(g Graph) *ranking {
	r := &ranking{graph: g, files: map[string]bool{}, out: map[string]int{}, in: map[string]int{}}
	for ref := range g {
		r.files[ref.From], r.files[ref.To] = true, true
		r.out[ref.From]++
		r.in[ref.To]++
	}
	return r
}

// next returns a file that uses no other, or else the one whose references out exceed those
// in by most. Names break ties, so that the order is always the same.
func (r *ranking) next() string {
	names := slices.Sorted(maps.Keys(r.files))
	best := names[0]
	for _, f := range names {
		if r.out[f] == 0 {
			return f
		}
		if r.out[f]-r.in[f] > r.out[best]-r.in[best] {
			best = f
		}
	}
	return best
}

func (r *ranking) remove(file string) {
	delete(r.files, file)
	for ref := range r.graph {
		switch {
		case ref.From == file && r.files[ref.To]:
			r.in[ref.To]--
		case ref.To == file && r.files[ref.From]:
			r.out[ref.From]--
		}
	}
}
