package main

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// changes are the lines of each file that are new since the last commit that changed the
// allowances. All gates passed at that commit, so a finding that was added since is on one of
// these lines. Reports list those findings first.
type changes map[string][]lineRange

type lineRange struct{ first, end int }

// readChanges asks git. Without git or history, no line is known to be new.
func readChanges(root string) changes {
	base, err := git(root, "log", "-1", "--format=%H", "--", allowancesFile)
	if err != nil || base == "" {
		return nil
	}
	diff, err := git(root, "diff", "--unified=0", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/", base)
	if err != nil {
		return nil
	}
	c := parseDiff(diff)
	untracked, err := git(root, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return c
	}
	for file := range strings.Lines(untracked) {
		c[strings.TrimRight(file, "\n")] = []lineRange{{0, math.MaxInt}}
	}
	return c
}

// parseDiff reads the new side of a unified diff without context.
func parseDiff(diff string) changes {
	hunk := regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)
	all := changes{}
	file := ""
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = name
			continue
		}
		match := hunk.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		first, count := number(match[1]), 1
		if match[2] != "" {
			count = number(match[2])
		}
		all[file] = append(all[file], lineRange{first, first + count})
	}
	return all
}

// number parses digits that a regular expression has matched.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// isNew reports whether a finding is on a line that is new.
func (c changes) isNew(f finding) bool {
	return slices.ContainsFunc(c[f.file], func(r lineRange) bool { return r.first <= f.line && f.line < r.end })
}

// first returns the findings with those on new lines in front.
func (c changes) first(all []finding) []finding {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b finding) int {
		switch newA, newB := c.isNew(a), c.isNew(b); {
		case newA == newB:
			return 0
		case newA:
			return -1
		}
		return 1
	})
	return ordered
}
