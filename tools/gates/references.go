package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"orrery.dev/orrery/tools/internal/shape"
)

// The goal for back references, in percent of the references between the files of a package.
const (
	maxBackward      = 15
	maxBackwardSmall = 20
	smallPackage     = 10 // files, at most
)

// maxNames is how many of the used names a finding has.
const maxNames = 5

// measureBackward counts the back references of each package. The files of a package are in
// an order in which a file comes before the files that it uses; a back reference goes against
// that order.
//
// The figure is their number, and not a percentage: a percentage changes with each forward
// reference, and could rise where nothing got worse. The percentage only decides the goal.
func measureBackward(t *tree) (result, error) {
	return measureGraphs(t, func(g shape.Graph, files int) subject {
		back := g.Backward()
		return subject{figure: len(back), goal: backwardGoal(len(g), files), findings: describe(t.root, g, back)}
	})
}

// backwardGoal returns how many back references a package without a row may have. A single one
// is always allowed, even in a tiny package.
func backwardGoal(references, files int) int {
	percent := maxBackward
	if files <= smallPackage {
		percent = maxBackwardSmall
	}
	return max(1, references*percent/100)
}

// measureMutual counts the pairs of files of a package that use each other. The goal is
// none, in small packages too: merge the two files, or move the shared code to a third file.
func measureMutual(t *tree) (result, error) {
	return measureGraphs(t, func(g shape.Graph, _ int) subject {
		pairs := g.Mutual()
		both := slices.Clone(pairs)
		for _, p := range pairs {
			both = append(both, shape.Reference{From: p.To, To: p.From})
		}
		return subject{figure: len(pairs), findings: describe(t.root, g, both)}
	})
}

// measureGraphs returns a subject for each production package.
func measureGraphs(t *tree, measure func(g shape.Graph, files int) subject) (result, error) {
	all, err := t.packages()
	if err != nil {
		return result{}, err
	}
	var subjects []subject
	for _, p := range all {
		s := measure(shape.References(p), len(shape.Files(p)))
		s.name = shape.Name(p)
		subjects = append(subjects, s)
	}
	return result{subjects: sorted(subjects)}, nil
}

// describe returns a finding for each reference, those with the fewest uses first: they are
// the easiest to remove.
func describe(root string, g shape.Graph, references []shape.Reference) []finding {
	ordered := slices.Clone(references)
	slices.SortFunc(ordered, func(a, b shape.Reference) int {
		return cmp.Or(len(g[a])-len(g[b]), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	var all []finding
	for _, r := range ordered {
		all = append(all, finding{
			file: below(root, r.From), line: g[r][0].Position.Line,
			text: fmt.Sprintf("uses %s of %s", usedNames(g[r]), filepath.Base(r.To)),
		})
	}
	return all
}

// usedNames returns the first few of the names that are used, each once.
func usedNames(uses []shape.Use) string {
	var names []string
	for _, u := range uses {
		if !slices.Contains(names, u.Name) {
			names = append(names, u.Name)
		}
	}
	if hidden := len(names) - maxNames; hidden > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), hidden)
	}
	return strings.Join(names, ", ")
}
