package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report collects what a run measures. It is used by one goroutine.
type report struct {
	size   size
	start  time.Time
	ended  time.Time
	load   [2]float64 // the machine's, at start and end
	values map[string]result
	// outside says for a value that is worse than its range what the range is.
	outside map[string]string
}

// result is one measured value.
type result struct {
	value float64
	// note says what else there is to know, such as the rates of a ratio.
	note string
	// samples are what the value was made of, where they are few.
	samples []float64
}

func newReport(s size) *report {
	return &report{size: s, start: time.Now(), load: [2]float64{loadAverage(), 0}, values: map[string]result{}, outside: map[string]string{}}
}

// warn says what of the machine would spoil the numbers.
func (r *report) warn(out io.Writer) {
	if cpus := runtime.NumCPU(); r.load[0] > float64(cpus)/4 {
		fmt.Fprintf(out, "The machine is busy (load %.1f on %d CPUs): times will say little.\n", r.load[0], cpus)
	}
}

func (r *report) set(id string, value float64, format string, args ...any) {
	r.add(id, result{value: value, note: fmt.Sprintf(format, args...)})
}

func (r *report) add(id string, v result) { r.values[id] = v }

func (r *report) end() { r.ended, r.load[1] = time.Now(), loadAverage() }

// compare finds what is worse than its range.
func (r *report) compare(all ranges) {
	for _, s := range specs() {
		if v, ok := r.values[s.id]; ok {
			if limit := all[s.id]; !limit.holds(v.value) {
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

// missing names the lines that have no value.
func (r *report) missing() []string {
	var all []string
	for _, s := range specs() {
		if _, ok := r.values[s.id]; !ok {
			all = append(all, s.id)
		}
	}
	return all
}

// print prints the table of what was measured.
func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nWHAT\tMEASURED\tBAR\tSTRETCH\tVERDICT\tNOTE")
	for _, s := range specs() {
		v, ok := r.values[s.id]
		if !ok {
			continue
		}
		verdict := s.verdict(v.value)
		if limit, worse := r.outside[s.id]; worse {
			verdict += ", WORSE than " + limit
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.what, s.show(v.value), s.limit(s.bar), s.limit(s.stretch), verdict, v.note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s on %d CPUs, load %.1f at the start, %.1f at the end; %s\n",
		r.ended.Sub(r.start).Round(time.Second), runtime.NumCPU(), r.load[0], r.load[1], r.size)
	return err
}

// saved is the JSON of a run.
type saved struct {
	Start   time.Time   `json:"start"`
	Seconds float64     `json:"seconds"`
	Commit  string      `json:"commit"`
	Go      string      `json:"go"`
	CPUs    int         `json:"cpus"`
	Load    [2]float64  `json:"loadAtStartAndEnd"`
	Size    string      `json:"size"`
	Rows    []savedLine `json:"rows"`
}

type savedLine struct {
	ID      string    `json:"id"`
	What    string    `json:"what"`
	Unit    string    `json:"unit,omitempty"`
	Value   float64   `json:"value"`
	Bar     *float64  `json:"bar,omitempty"`
	Stretch *float64  `json:"stretch,omitempty"`
	Verdict string    `json:"verdict"`
	Worse   string    `json:"worseThan,omitempty"`
	Note    string    `json:"note,omitempty"`
	Samples []float64 `json:"samples,omitempty"`
}

// save writes the run into results below dir, under a name of its time and
// commit, and returns the file's name.
func (r *report) save(dir string) (string, error) {
	run := saved{
		Start: r.start.UTC(), Seconds: r.ended.Sub(r.start).Seconds(), Commit: commit(), Go: runtime.Version(),
		CPUs: runtime.NumCPU(), Load: r.load, Size: r.size.String(),
	}
	for _, s := range specs() {
		if v, ok := r.values[s.id]; ok {
			run.Rows = append(run.Rows, savedLine{
				ID: s.id, What: s.what, Unit: s.unit, Value: v.value, Bar: s.bar, Stretch: s.stretch,
				Verdict: s.verdict(v.value), Worse: r.outside[s.id], Note: v.note, Samples: v.samples,
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

// loadAverage is that of the last minute; 0 where the kernel does not say.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}
