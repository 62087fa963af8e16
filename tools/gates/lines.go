package main

import "fmt"

const (
	// maxLines is the goal for a Go file that people write.
	maxLines = 500
	// lineStep is the unit in which lines above the goal count: a figure in single lines
	// would have to be lowered at almost each edit.
	lineStep = 25
)

// measureLines counts the lines of Go files, tests too, rounded up.
func measureLines(t *tree) (result, error) {
	all, err := t.sources()
	if err != nil {
		return result{}, err
	}
	var files []subject
	for _, s := range all {
		lines := s.lines()
		files = append(files, subject{
			name: s.path, figure: roundUp(lines, lineStep), goal: maxLines,
			findings: []finding{{file: s.path, text: fmt.Sprintf("%d lines, counted in steps of %d", lines, lineStep)}},
		})
	}
	return result{subjects: sorted(files)}, nil
}

// roundUp returns the smallest multiple of step that is not below n.
func roundUp(n, step int) int { return (n + step - 1) / step * step }
