package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	allowancesFile = "tools/gates/allowances.txt"
	allowancesHead = `# What each gate allows above its goal: gate, subject, figure, separated by tabs.
# A figure only shrinks: "go run -C tools ./gates -lower" lowers it. After a move or a
# rename, edit the subject of the row. CONTRIBUTING.md lists when a row may rise.
`
)

// A key identifies a row of the allowances.
type key struct{ gate, subject string }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.gate, b.gate), cmp.Compare(a.subject, b.subject))
}

// allowances are the figures of subjects that are above their goal.
type allowances map[key]int

// readAllowances reads the rows below root; without a file there are none.
func readAllowances(root string) (allowances, error) {
	data, err := os.ReadFile(filepath.Join(root, allowancesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return allowances{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseAllowances(data)
}

func parseAllowances(data []byte) (allowances, error) {
	rows := allowances{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, figure, err := parseAllowance(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", allowancesFile, n, err)
		}
		if _, twice := rows[k]; twice {
			return nil, fmt.Errorf("%s:%d: second row for %s %s; keep the lower one", allowancesFile, n, k.gate, k.subject)
		}
		rows[k] = figure
	}
	return rows, lines.Err()
}

func parseAllowance(line string) (key, int, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 3 || fields[1] == "" {
		return key{}, 0, fmt.Errorf("row %q: want gate, subject and figure, separated by one tab each", line)
	}
	k := key{fields[0], fields[1]}
	if !slices.ContainsFunc(gates(), func(g gate) bool { return g.name == k.gate && !g.strict }) {
		return key{}, 0, fmt.Errorf("row %q: no gate %q has allowances", line, k.gate)
	}
	figure, err := strconv.Atoi(fields[2])
	if err != nil || figure < 1 {
		return key{}, 0, fmt.Errorf("row %q: the figure must be a positive number", line)
	}
	return k, figure, nil
}

func (a allowances) format() []byte {
	var text bytes.Buffer
	text.WriteString(allowancesHead)
	for _, k := range slices.SortedFunc(maps.Keys(a), compareKeys) {
		fmt.Fprintf(&text, "%s\t%s\t%d\n", k.gate, k.subject, a[k])
	}
	return text.Bytes()
}

func writeAllowances(root string, rows allowances) error {
	return os.WriteFile(filepath.Join(root, allowancesFile), rows.format(), 0o644)
}

// initial returns a row for each subject that is above its goal.
func initial(measured []measurement) allowances {
	rows := allowances{}
	for _, m := range measured {
		for _, s := range m.subjects {
			if s.figure > s.goal && !m.gate.strict {
				rows[key{m.gate.name, s.name}] = s.figure
			}
		}
	}
	return rows
}

// lowered returns the rows with no figure above that of today, and without rows of subjects
// that meet their goal or do not exist. No figure rises.
func lowered(rows allowances, measured []measurement) allowances {
	needed := initial(measured)
	kept := allowances{}
	for k, figure := range rows {
		if today, ok := needed[k]; ok {
			kept[k] = min(figure, today)
		}
	}
	return kept
}
