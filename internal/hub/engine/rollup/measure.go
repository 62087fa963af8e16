package rollup

import (
	"fmt"
	"slices"

	"orrery.dev/orrery/internal/protocol/wire"
)

// measure is a number in a spec that is the unit of counters: the source's own, and the one in the
// live spec at a location, which may differ.
type measure int

const (
	replicas measure = iota
	// updates are the updated replicas: all except those below the partition.
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

// sourceNumber returns the source's number.
func (m *merging) sourceNumber(unit measure) int64 {
	field := map[measure]string{replicas: specReplicas, updates: specReplicas, completions: specCompletions, parallelism: specParallelism}[unit]
	n := int64(1)
	if v := m.source.Get(field); v.Exists() {
		n = count(v)
	}
	if unit == updates {
		n = max(n-count(m.source.Get(specPartition)), 0)
	}
	return n
}

// wanted returns the number at a location.
func (m *merging) wanted(unit measure, p input) int64 {
	if p.Wanted == nil {
		return m.sourceNumber(unit)
	}
	orDefault := func(n *int64, missing int64) int64 {
		if n == nil {
			return missing
		}
		return min(max(*n, 0), maxCount)
	}
	w := *p.Wanted
	switch unit {
	case updates:
		return max(orDefault(w.Replicas, 1)-orDefault(w.Partition, 0), 0)
	case completions:
		return orDefault(w.Completions, 1)
	case parallelism:
		return orDefault(w.Parallelism, 1)
	}
	return orDefault(w.Replicas, 1)
}

// counted returns a counter for the status. A zero is omitted if the type of the kind omits it (not
// always), that is, if no location reports it.
func (m *merging) counted(field string, n int64, always bool) any {
	if n != 0 || always {
		return min(n, maxCount)
	}
	for _, p := range m.inputs {
		if p.status[field].Raw == "0" {
			return n
		}
	}
	return nil
}

// least is a counter of good items: the least of the locations, in the source's unit, rounded down
// and capped. An unsound location counts 0. A location that wants 0 is left out; if all do, the
// number is the source's. A location with an earlier version counts at most its actual number, because
// the source may want more items than its live spec, and is never left out.
type least struct {
	unit measure
	// unlessHealthy leaves out Healthy locations, too: their own strategies do not update the rest.
	unlessHealthy bool
	always        bool
	// aside: no tool waits for this counter.
	aside bool
	// present makes a location with an earlier version count 0: its items are not of the current
	// version.
	present bool
	// within is the counter of all items, for locations with too few of these.
	within string
}

func (r least) value(m *merging, field string) any {
	return m.counted(field, r.count(m, field), r.always)
}

func (r least) count(m *merging, field string) int64 {
	sourceNumber := m.sourceNumber(r.unit)
	n := sourceNumber
	for _, p := range m.inputs {
		if !p.Sound || r.present && p.Behind {
			return 0
		}
		if p.Behind {
			n = min(n, p.number(field))
		}
		if want := m.wanted(r.unit, p); want > 0 && (p.Behind || !r.leaves(p)) {
			n = min(n, sourceNumber*min(p.number(field), want)/want)
		}
	}
	if r.within != "" {
		n = min(n, above{}.count(m, r.within))
	}
	return n
}

func (r least) leaves(p input) bool { return r.unlessHealthy && p.Health == wire.Healthy }

// short reports whether a location has fewer items than it wants.
func (r least) short(m *merging, field string) bool {
	for _, p := range m.inputs {
		if p.Sound && !r.leaves(p) && p.number(field) < m.wanted(r.unit, p) {
			return true
		}
	}
	return false
}

func (r least) text() string {
	text := fmt.Sprintf("minimum, scaled to %s", r.unit)
	if r.unlessHealthy {
		text += "; Healthy locations are not counted"
	}
	if r.present {
		text += "; a location with an earlier version counts 0"
	}
	return text
}

// worst is a counter of bad items: the most of the locations, in the source's unit, rounded up.
// Without a unit, the number is unchanged.
type worst struct {
	unit measure
	// unsound makes an unsound location count all items.
	unsound bool
}

func (r worst) value(m *merging, field string) any { return m.counted(field, r.count(m, field), false) }

func (r worst) count(m *merging, field string) (n int64) {
	for _, p := range m.inputs {
		switch {
		case p.Sound:
			n = max(n, m.up(r.unit, p, p.number(field)))
		case r.unsound:
			n = max(n, m.sourceNumber(r.unit))
		}
	}
	return n
}

// up returns a number of a location in the source's unit, rounded up.
func (m *merging) up(unit measure, p input, have int64) int64 {
	sourceNumber, want := m.sourceNumber(unit), m.wanted(unit, p)
	if sourceNumber == 0 || want == 0 {
		return have
	}
	return (sourceNumber*have + want - 1) / want
}

func (r worst) text() string { return fmt.Sprintf("maximum, scaled to %s", r.unit) }

// above is the counter of all items: those of base (by default this counter itself), plus the most
// that any location has in addition. At a location with an earlier version, this is at most its actual
// number.
type above struct {
	base string
	// present makes all items of a location with an earlier version other items, see least.
	present bool
	always  bool
}

func (r above) value(m *merging, field string) any {
	return m.counted(field, r.count(m, field), r.always)
}

func (r above) count(m *merging, field string) int64 {
	base := r.base
	if base == "" {
		base = field
	}
	excess := int64(0)
	for _, p := range m.inputs {
		if p.Sound {
			due := min(p.number(base), m.wanted(replicas, p))
			if r.present && p.Behind {
				due = 0
			}
			surplus := max(p.number(field)-due, 0)
			more := m.up(replicas, p, surplus)
			if p.Behind {
				more = min(more, surplus)
			}
			excess = max(excess, more)
		}
	}
	return least{unit: replicas, present: r.present}.count(m, base) + excess
}

func (r above) text() string {
	if r.base == "" {
		return "minimum, scaled to `spec.replicas`, plus the largest surplus of a location"
	}
	return fmt.Sprintf("`%s`, plus the largest number of other replicas at a location", r.base)
}

// share is a counter of items among those of base, which exist at present: the least share.
// Locations without base items are left out.
type share struct {
	base string
	unit measure
}

func (r share) value(m *merging, field string) any {
	all := worst{unit: r.unit}.count(m, r.base)
	n := all
	for _, p := range m.inputs {
		if !p.Sound {
			n = 0
		} else if there := p.number(r.base); there > 0 {
			n = min(n, all*min(p.number(field), there)/there)
			if p.Behind {
				n = min(n, p.number(field))
			}
		}
	}
	return m.counted(field, n, false)
}

func (r share) text() string { return fmt.Sprintf("the smallest share of `%s`", r.base) }

// sum adds the numbers of the locations, each limited by that of another counter.
type sum struct {
	upTo   string
	always bool
	// present makes a location with an earlier version count 0, see least.
	present bool
}

func (r sum) value(m *merging, field string) any {
	n := int64(0)
	for _, p := range m.inputs {
		if !p.Sound || r.present && p.Behind {
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
	text := "sum"
	if r.upTo != "" {
		text += "; each location counts at most its `" + r.upTo + "`"
	}
	if r.present {
		text += "; a location with an earlier version counts 0"
	}
	return text
}

// fewest is the smallest number, unchanged.
type fewest struct{}

func (fewest) value(m *merging, field string) any {
	n := int64(maxCount)
	for _, p := range m.inputs {
		if !p.Sound {
			n = 0
		}
		n = min(n, p.number(field))
	}
	return n
}

func (fewest) text() string { return "minimum" }

// observed is the generation of the source that all locations have observed: its own, or the last
// one of the slowest location.
type observed struct {
	// custom reports whether a kind may lack it; zero whether its type encodes a 0.
	custom, zero bool
	// unless is a condition that shows by itself, if it is True, that something is missing.
	unless string
}

func (r observed) value(m *merging, field string) any {
	g, some := m.generation(), !r.custom
	n := g
	for _, p := range m.inputs {
		reportedValue := p.status[field]
		some = some || reportedValue.Exists()
		o := reportedValue.Int()
		switch {
		case !unobserved(p.Report) && reportedValue.Exists() && o >= p.Generation:
			continue
		case !p.Sound && !reportedValue.Exists():
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

// unsaid reports whether a location is incomplete and no counter shows it: because tools compare
// counters with a number that the source omits or that is 0, or because the location is not Healthy
// for another reason. Conditions show Degraded locations.
func (m *merging) unsaid() bool {
	sick := func(h wire.Health) bool {
		return slices.ContainsFunc(m.inputs, func(p input) bool { return p.Sound && p.Health.Severity() >= h.Severity() })
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
			if (m.sourceNumber(rule.unit) == 0 || m.leavesOut(rule.unit)) && rule.short(m, r.field) {
				return true
			}
			full = full && rule.count(m, r.field) == m.sourceNumber(rule.unit)
		case above:
			full = full && rule.count(m, r.field) == m.sourceNumber(replicas)
		}
	}
	return counts && full && sick(wire.HealthUnknown)
}

// leavesOut reports whether the source omits a number that a cluster would default.
func (m *merging) leavesOut(unit measure) bool {
	if unit == updates && m.source.Get(specRolling).Exists() && !m.source.Get(specPartition).Exists() {
		return true
	}
	return !m.source.Get(specReplicas).Exists()
}

func (observed) text() string { return "generation of the source, once every location has observed it" }
