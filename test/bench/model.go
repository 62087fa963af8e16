package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// population is how much there is in a hub: each location has a space with a Placement, and
// pairs are objects at locations.
type population struct{ locations, objects, pairs float64 }

// fleetOf is the fleet of a run of some size.
func fleetOf(s size) population {
	n := float64(s.sites)
	return population{n, n*float64(s.ownEach) + float64(s.shared), n * float64(s.ownEach+s.shared)}
}

// tenThousand is a fleet that was never measured.
func tenThousand() population { return population{10_000, 1_000_000, 1_000_000} }

// What a hub has to do with: the machine's memory, of which garbage takes up to half while the
// hub works; the log's quota, a quarter of that by default, of which growth is refused at four fifths; and for how
// long a hub may read its log at the start.
const (
	machineMemory = 24 << 30
	garbage       = 2
	logRoom       = 0.8 * machineMemory / 4
	startSeconds  = 600
)

// cost is a line of a committed result, and which one that is.
type cost struct {
	savedLine
	file string
}

// unit is what one thing takes of the hub's memory, by a line.
type unit struct{ what, line string }

func units() []unit {
	return []unit{
		{"hub without anything", "memory.hub"},
		{"idle space", "space.memory"},
		{"object of 2 KB", "object.memory"},
		{"object at a location: a report", "report.memory"},
		{"location, connected, with a space and a Placement", "fleet.location.memory"},
		{"open watch", "watches.memory"},
	}
}

// costs are the lines of the committed results, each of the newest that has it.
func costs(dir string) (map[string]cost, error) {
	all := map[string]cost{}
	runs, err := filepath.Glob(filepath.Join(dir, "results", "reference*.json"))
	if err != nil {
		return nil, err
	}
	var files []saved
	names := map[string]string{}
	for _, file := range runs {
		run, err := readRuns(file)
		if err != nil {
			return nil, err
		}
		files = append(files, run...)
		names[run[0].Start.String()] = filepath.Base(file)
	}
	slices.SortFunc(files, func(a, b saved) int { return a.Start.Compare(b.Start) })
	for i := range files {
		for _, row := range files[i].Rows {
			all[row.ID] = cost{row, names[files[i].Start.String()]}
		}
	}
	return all, nil
}

// model says by measured lines what a population takes.
type model map[string]cost

func (m model) value(line string) float64 { return m[line].Value }

// memory is in bytes.
func (m model) memory(p population) float64 {
	const mb, kb = 1e6, 1e3
	return mb*m.value("memory.hub") + kb*(p.locations*m.value("fleet.location.memory")+p.objects*m.value("object.memory")+p.pairs*m.value("report.memory"))
}

// grown is how many times what the fleet holds a population does: it has at most so many times
// the objects, and the reports.
func (m model) grown(p population) float64 {
	f := fleetOf(fullSize())
	return max(p.objects/f.objects, p.pairs/f.pairs)
}

// wider is how many times the locations of the fleet it has.
func (m model) wider(p population) float64 { return p.locations / fleetOf(fullSize()).locations }

// log is in bytes, start and back are in seconds: until the hub is ready, and all are in sync.
func (m model) log(p population) float64   { return 1e6 * m.value("fleet.disk") * m.grown(p) }
func (m model) start(p population) float64 { return m.value("fleet.restart.ready") * m.grown(p) }
func (m model) back(p population) float64 {
	return m.start(p) + (m.value("fleet.restart.back")-m.value("fleet.restart.ready"))*m.wider(p)
}

// limit is what bounds a hub, and which part of it a population takes.
type limit struct {
	what     string
	fraction float64
}

// limits are the first one first.
func (m model) limits(p population) []limit {
	all := []limit{
		{"memory of a machine of 24 GiB; garbage takes up to half of it while the hub works", garbage * m.memory(p) / machineMemory},
		{"four fifths of the log's quota (by default a quarter of that memory); above it, the hub refuses growth with `LogFull`", m.log(p) / logRoom},
		{"the ten minutes that a hub may take to load its log", m.start(p) / startSeconds},
	}
	slices.SortFunc(all, func(a, b limit) int { return int(math.Copysign(1, b.fraction-a.fraction)) })
	return all
}

// The page has the tables between these lines.
const (
	modelBegins = "<!-- By: go run ./test/bench -model docs/scaling.md -->\n"
	modelEnds   = "<!-- end -->\n"
)

// writeModel puts the tables that follow from the committed results in dir into a page.
func writeModel(dir, page string) error {
	all, err := costs(dir)
	if err != nil {
		return err
	}
	tables, err := model(all).tables()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, begins := strings.Cut(string(text), modelBegins)
	_, after, ends := strings.Cut(rest, modelEnds)
	if !begins || !ends {
		return fmt.Errorf("%q has no place for the tables", page)
	}
	if err := os.WriteFile(page, []byte(before+modelBegins+"\n"+tables+"\n"+modelEnds+after), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// tables are what each thing costs, what populations take, and the limits.
func (m model) tables() (string, error) {
	var b bytes.Buffer
	var missing error
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("| for each | memory | source |\n|---|---|---|")
	for _, u := range units() {
		c, ok := m[u.line]
		if !ok {
			missing = errors.Join(missing, fmt.Errorf("no committed result has %s", u.line))
		}
		line("| %s | %s %s | [%s](../bench/results/%s) |", u.what, short(c.Value), c.Unit, c.file, c.file)
	}
	fleet, all := fleetOf(fullSize()), tenThousand()
	line("\n| | fleet, measured | estimated |\n|---|---|---|")
	line("| locations, each with a space | %s | %s |", count(fleet.locations), count(all.locations))
	line("| objects of 2 KB | %s | %s |", count(fleet.objects), count(all.objects))
	line("| objects at locations | %s | %s |", count(fleet.pairs), count(all.pairs))
	line("| memory | %s (estimated %s) | %s |", megaOrGiga(1e6*m.value("fleet.memory")), megaOrGiga(m.memory(fleet)), megaOrGiga(m.memory(all)))
	line("| the log on disk | %s | at most %s |", megaOrGiga(1e6*m.value("fleet.disk")), megaOrGiga(m.log(all)))
	for _, t := range []struct {
		what          string
		measured, all float64
	}{
		{"restart: the hub is ready after", m.value("fleet.restart.ready"), m.start(all)},
		{"restart: all agents are in sync after", m.value("fleet.restart.back"), m.back(all)},
		{"all agents reconnect at once: the last is in sync after", m.value("fleet.reconnect.time"), m.value("fleet.reconnect.time") * m.wider(all)},
		{"an edit for all locations: the last agent has it after", m.value("fleet.shared.p50") / 1e3, m.value("fleet.shared.p50") / 1e3 * m.wider(all)},
	} {
		line("| %s | %s s | %s s |", t.what, short(t.measured), short(t.all))
	}
	line("\n| limit of %s locations with %s objects, the first one first | share used |\n|---|---|", count(all.locations), count(all.objects))
	for _, l := range m.limits(all) {
		line("| %s | %.2f |", l.what, l.fraction)
	}
	for _, id := range []string{"fleet.memory", "fleet.disk", "fleet.restart.ready", "fleet.restart.back", "fleet.reconnect.time", "fleet.shared.p50"} {
		if _, ok := m[id]; !ok {
			missing = errors.Join(missing, fmt.Errorf("no committed result has %s", id))
		}
	}
	return b.String(), missing
}

// count groups the digits of a number.
func count(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// megaOrGiga is a number of bytes with three digits.
func megaOrGiga(bytes float64) string {
	if bytes >= 1e9 {
		return fmt.Sprintf("%.3g GB", bytes/1e9)
	}
	return fmt.Sprintf("%.3g MB", bytes/1e6)
}
