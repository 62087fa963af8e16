package rollup

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/internal/protocol/wire"
)

// measure is a number of a spec by which counters are measured: the source's own, and
// what is wanted at a location by the live spec there, which may be another.
type measure int

const (
	replicas measure = iota
	// updates are the replicas that are updated: all but those below the partition.
	updates
	completions
	parallelism
)

func (b measure) String() string {
	return [...]string{"`spec.replicas`", "`spec.replicas` less the partition", "`spec.completions`", "`spec.parallelism`"}[b]
}

const (
	specReplicas    = "spec.replicas"
	specCompletions = "spec.completions"
	specParallelism = "spec.parallelism"
	specRolling     = "spec.updateStrategy.rollingUpdate"
	specPartition   = specRolling + ".partition"
)

// asked is the source's number.
func (m *merging) asked(by measure) int64 {
	field := map[measure]string{replicas: specReplicas, updates: specReplicas, completions: specCompletions, parallelism: specParallelism}[by]
	n := int64(1)
	if v := m.source.Get(field); v.Exists() {
		n = count(v)
	}
	if by == updates {
		n = max(n-count(m.source.Get(specPartition)), 0)
	}
	return n
}

// wanted is the number at a location.
func (m *merging) wanted(by measure, p part) int64 {
	if p.Wanted == nil {
		return m.asked(by)
	}
	of := func(n *int64, missing int64) int64 {
		if n == nil {
			return missing
		}
		return min(max(*n, 0), maxCount)
	}
	w := *p.Wanted
	switch by {
	case updates:
		return max(of(w.Replicas, 1)-of(w.Partition, 0), 0)
	case completions:
		return of(w.Completions, 1)
	case parallelism:
		return of(w.Parallelism, 1)
	}
	return of(w.Replicas, 1)
}

// counted is a counter as a value of the status: a zero is left out if the type of the
// kind leaves it out (not always), which is so if no location says it.
func (m *merging) counted(field string, n int64, always bool) any {
	if n != 0 || always {
		return min(n, maxCount)
	}
	for _, p := range m.parts {
		if p.status[field].Raw == "0" {
			return n
		}
	}
	return nil
}

// least is a counter of what is as it should be: the least of the locations, in the
// source's measure, rounded down and capped. What is not sound counts 0; a location that
// wants 0 leaves the minimum, and if all do, the number is the source's.
type least struct {
	by measure
	// unlessHealthy says that a Healthy location leaves the minimum, too: what its own
	// strategy has not updated is not to be.
	unlessHealthy bool
	always        bool
	// aside: no tool waits for it.
	aside bool
	// present reports that a location with an earlier version counts 0: nothing else in the status shows
	// which version the counter is about.
	present bool
	// within is the counter of all that is there, if locations leave that lack some.
	within string
}

func (r least) of(m *merging, field string) any { return m.counted(field, r.count(m, field), r.always) }

func (r least) count(m *merging, field string) int64 {
	asked := m.asked(r.by)
	n := asked
	for _, p := range m.parts {
		if !p.Sound || r.present && p.Behind {
			return 0
		}
		if want := m.wanted(r.by, p); want > 0 && !r.leaves(p) {
			n = min(n, asked*min(p.number(field), want)/want)
		}
	}
	if r.within != "" {
		n = min(n, above{}.count(m, r.within))
	}
	return n
}

func (r least) leaves(p part) bool { return r.unlessHealthy && p.Health == wire.Healthy }

// short says that a location has less than it wants.
func (r least) short(m *merging, field string) bool {
	for _, p := range m.parts {
		if p.Sound && !r.leaves(p) && p.number(field) < m.wanted(r.by, p) {
			return true
		}
	}
	return false
}

func (r least) text() string {
	text := fmt.Sprintf("the least, in the measure of %s", r.by)
	if r.unlessHealthy {
		text += "; a Healthy location leaves"
	}
	if r.present {
		text += "; a location with an earlier version counts 0"
	}
	return text
}

// worst is a counter of what should not be: the most of the locations, in the source's
// measure, rounded up. Where that has no measure, the number is as it is there.
type worst struct {
	by measure
	// unsound says that all is missing at a location that is not sound.
	unsound bool
}

func (r worst) of(m *merging, field string) any { return m.counted(field, r.count(m, field), false) }

func (r worst) count(m *merging, field string) (n int64) {
	for _, p := range m.parts {
		switch {
		case p.Sound:
			n = max(n, m.up(r.by, p, p.number(field)))
		case r.unsound:
			n = max(n, m.asked(r.by))
		}
	}
	return n
}

// up is a number of a location in the source's measure, rounded up.
func (m *merging) up(by measure, p part, have int64) int64 {
	asked, want := m.asked(by), m.wanted(by, p)
	if asked == 0 || want == 0 {
		return have
	}
	return (asked*have + want - 1) / want
}

func (r worst) text() string { return fmt.Sprintf("the most, in the measure of %s", r.by) }

// above is the counter of all that is there: those of base (this counter itself, if it has
// none), and the most that any location has besides.
type above struct {
	base   string
	always bool
}

func (r above) of(m *merging, field string) any { return m.counted(field, r.count(m, field), r.always) }

func (r above) count(m *merging, field string) int64 {
	base := r.base
	if base == "" {
		base = field
	}
	excess := int64(0)
	for _, p := range m.parts {
		if p.Sound {
			due := min(p.number(base), m.wanted(replicas, p))
			excess = max(excess, m.up(replicas, p, max(p.number(field)-due, 0)))
		}
	}
	return least{by: replicas}.count(m, base) + excess
}

func (r above) text() string {
	if r.base == "" {
		return "the least, in the measure of `spec.replicas`, and the most that a location has above what it wants"
	}
	return fmt.Sprintf("`%s`, and the most that a location has besides", r.base)
}

// share is a counter of those among others, which are what there is at the moment: the
// least share of these. Locations without any leave.
type share struct {
	among string
	by    measure
}

func (r share) of(m *merging, field string) any {
	all := worst{by: r.by}.count(m, r.among)
	n := all
	for _, p := range m.parts {
		if !p.Sound {
			n = 0
		} else if there := p.number(r.among); there > 0 {
			n = min(n, all*min(p.number(field), there)/there)
		}
	}
	return m.counted(field, n, false)
}

func (r share) text() string { return fmt.Sprintf("the least share of `%s`", r.among) }

// sum adds up, each location's number up to that of another counter.
type sum struct {
	upTo   string
	always bool
}

func (r sum) of(m *merging, field string) any {
	n := int64(0)
	for _, p := range m.parts {
		if !p.Sound {
			continue
		}
		have := p.number(field)
		if r.upTo != "" {
			have = min(have, p.number(r.upTo))
		}
		n += have
	}
	return m.counted(field, min(n, maxCount), r.always)
}

func (r sum) text() string {
	if r.upTo != "" {
		return "the sum, of each location up to its `" + r.upTo + "`"
	}
	return "the sum"
}

// fewest is the smallest number, as it is.
type fewest struct{}

func (fewest) of(m *merging, field string) any {
	n := int64(maxCount)
	for _, p := range m.parts {
		if !p.Sound {
			n = 0
		}
		n = min(n, p.number(field))
	}
	return n
}

func (fewest) text() string { return "the least" }

// observed is the generation of the source that all locations have observed: its own, or
// the last that the slowest has.
type observed struct {
	// custom says that a kind need not have it, zero that its type keeps a 0.
	custom, zero bool
	// unless is a condition that says by itself that something is missing, if it is True.
	unless string
}

func (r observed) of(m *merging, field string) any {
	g, some := m.generation(), !r.custom
	n := g
	for _, p := range m.parts {
		said := p.status[field]
		some = some || said.Exists()
		o := said.Int()
		switch {
		case !unobserved(p.Part) && said.Exists() && o >= p.Generation:
			continue
		case !p.Sound && !said.Exists():
			o = g - 1
		}
		n = min(n, o, g-1)
	}
	if m.unsaid() && (r.unless == "" || len(m.are(r.unless)) == 0) {
		n = min(n, g-1)
	}
	if n = max(n, 0); !some || n == 0 && !r.zero {
		return nil
	}
	return n
}

// unsaid says that a location has not all that it is to have and that no counter shows
// it: tools compare counters with a number that the source leaves out, or that is 0, or the
// location is not Healthy for another reason. One that is Degraded says so by its conditions.
func (m *merging) unsaid() bool {
	sick := func(h wire.Health) bool {
		return slices.ContainsFunc(m.parts, func(p part) bool { return p.Sound && sickness(p.Health) >= sickness(h) })
	}
	if sick(wire.Degraded) {
		return false
	}
	full, counts := true, false
	for _, r := range m.rules {
		switch rule := r.merge.(type) {
		case least:
			if rule.aside {
				continue
			}
			counts = true
			if (m.asked(rule.by) == 0 || m.leavesOut(rule.by)) && rule.short(m, r.field) {
				return true
			}
			full = full && rule.count(m, r.field) == m.asked(rule.by)
		case above:
			full = full && rule.count(m, r.field) == m.asked(replicas)
		}
	}
	return counts && full && sick(wire.HealthUnknown)
}

// leavesOut says that the source leaves out a number that a cluster would fill in.
func (m *merging) leavesOut(by measure) bool {
	if by == updates && m.source.Get(specRolling).Exists() && !m.source.Get(specPartition).Exists() {
		return true
	}
	return !m.source.Get(specReplicas).Exists()
}

func (observed) text() string { return "the source's, once all have observed it" }
