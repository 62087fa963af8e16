package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report collects what a run measures. It is used by one goroutine.
type report struct {
	size  size
	start time.Time
	ended time.Time
	// before and after are the machine's state.
	before, after machine
	values        map[string]result
	curves        map[string][]point
	// times are how long steps took, by their names.
	times map[string]time.Duration
	// outside says for a value that is worse than its range what the range is.
	outside map[string]string
}

// result is one measured value.
type result struct {
	value float64
	// comment has further facts, such as the rates of a ratio.
	comment string
	// samples are what the value was made of, where they are few.
	samples []float64
}

func newReport(s size, before machine) *report {
	return &report{size: s, start: time.Now(), before: before, values: map[string]result{}, curves: map[string][]point{}, times: map[string]time.Duration{}, outside: map[string]string{}}
}

func (r *report) set(id string, value float64, format string, args ...any) {
	r.add(id, result{value: value, comment: fmt.Sprintf(format, args...)})
}

// point adds a point to a curve. A later one of the same x takes the place of the former.
func (r *report) point(curve string, x, y float64) {
	r.curves[curve] = slices.DeleteFunc(r.curves[curve], func(p point) bool { return p.X == x })
	r.curves[curve] = append(r.curves[curve], point{x, y})
}

func (r *report) add(id string, v result) { r.values[id] = v }

// took adds to the time that a step took, of which some are taken by parts.
func (r *report) took(step string, d time.Duration) { r.times[step] += d }

func (r *report) end(after machine) { r.ended, r.after = time.Now(), after }

// compare finds what is worse than its range.
func (r *report) compare(all ranges) {
	for _, s := range specs() {
		if v, ok := r.values[s.id]; ok {
			if limit := all[s.id]; !limit.contains(v.value) {
				r.outside[s.id] = limit.String()
			}
		}
	}
}

// worse is an error that names what is worse than its range; nil if nothing is.
func (r *report) worse() error {
	var all []error
	for _, id := range slices.Sorted(maps.Keys(r.outside)) {
		all = append(all, fmt.Errorf("%s is %g, outside its range %s", id, r.values[id].value, r.outside[id]))
	}
	return errors.Join(all...)
}

// print prints the table of what was measured.
func (r *report) print(out io.Writer) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tBAR\tSTRETCH\tVERDICT\tNOTE") //nolint:errcheck // to memory
	for _, s := range specs() {
		v, ok := r.values[s.id]
		if !ok {
			continue
		}
		text := s.result(v.value)
		if limit, worse := r.outside[s.id]; worse {
			text += ", WORSE than " + limit
		}
		//nolint:errcheck // to memory
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.what, s.show(v.value), s.limit(s.bar), s.limit(s.stretch), text, v.comment)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\nsize:    %s\nbefore:  %s\nafter:   %s\ntook:    %s\n", table.Bytes(), r.size, r.before, r.after, r.ended.Sub(r.start).Round(time.Second))
	return err
}

// saved is the JSON of a run.
type saved struct {
	Start   time.Time   `json:"start"`
	Seconds float64     `json:"seconds"`
	Commit  string      `json:"commit"`
	Go      string      `json:"go"`
	Before  machine     `json:"before"`
	After   machine     `json:"after"`
	Size    string      `json:"size"`
	Rows    []savedLine `json:"rows"`
	// Steps are the seconds that each step took; the rest of the run began and ended it.
	Steps map[string]float64 `json:"steps,omitempty"`
	// Curves are points by the name of a curve.
	Curves map[string][]point `json:"curves,omitempty"`
}

type savedLine struct {
	ID      string    `json:"id"`
	What    string    `json:"what"`
	Unit    string    `json:"unit,omitempty"`
	Value   float64   `json:"value"`
	Bar     *float64  `json:"bar,omitempty"`
	Stretch *float64  `json:"stretch,omitempty"`
	Result  string    `json:"verdict"`
	Worse   string    `json:"worseThan,omitempty"`
	Comment string    `json:"note,omitempty"`
	Samples []float64 `json:"samples,omitempty"`
}

// save writes the run into results below dir, under a name of its time and
// commit, and returns the file's name.
func (r *report) save(dir string) (string, error) {
	run := saved{
		Start: r.start.UTC(), Seconds: r.ended.Sub(r.start).Seconds(), Commit: commit(), Go: runtime.Version(),
		Before: r.before, After: r.after, Size: r.size.String(), Steps: map[string]float64{}, Curves: r.curves,
	}
	for step, took := range r.times {
		run.Steps[step] = math.Round(took.Seconds())
	}
	for _, s := range specs() {
		if v, ok := r.values[s.id]; ok {
			run.Rows = append(run.Rows, savedLine{
				ID: s.id, What: s.what, Unit: s.unit, Value: v.value, Bar: s.bar, Stretch: s.stretch,
				Result: s.result(v.value), Worse: r.outside[s.id], Comment: v.comment, Samples: v.samples,
			})
		}
	}
	text, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode the results: %w", err)
	}
	dir = filepath.Join(dir, "results")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("keep the results: %w", err)
	}
	file := filepath.Join(dir, run.Start.Format("20060102-150405-")+run.Commit+".json")
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("keep the results: %w", err)
	}
	return file, nil
}

// commit is what the checkout is at; a source without a history has none.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
