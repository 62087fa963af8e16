package main

import "fmt"

// better says which way a value is good.
type better int

const (
	lower better = iota
	higher
)

// spec is one line of the table. Bar and stretch are what the design asks for.
type spec struct {
	id, what, unit string
	better         better
	bar, stretch   *float64
}

func at(v float64) *float64 { return &v }

// specs are all lines, in the order of the table.
func specs() []spec {
	return []spec{
		{"sync.rate", "full sync: rate / that of a bare client with 16 workers", "x", higher, at(0.75), at(0.9)},
		{"sync.extra", "full sync: target writes beyond one per object", "", lower, at(0), nil},
		{"sync.cpu", "full sync: CPU of the agent / that of the bare client", "x", lower, at(2), nil},
		{"edit.p50", "edit to target, one object: p50", "ms", lower, at(30), at(15)},
		{"edit.p99", "edit to target, one object: p99", "ms", lower, at(150), at(60)},
		{"status.p50", "status at the cluster to space: p50", "ms", lower, nil, nil},
		{"status.p99", "status at the cluster to space: p99", "ms", lower, at(1000), at(300)},
		{"drift.p50", "drift repaired: p50", "ms", lower, nil, nil},
		{"drift.p99", "drift repaired: p99", "ms", lower, at(2000), at(500)},
		{"quiet.requests", "nothing changing: requests of the agent to the target", "", lower, at(0), nil},
		{"quiet.revisions", "nothing changing: revisions of the hub's log", "", lower, at(0), nil},
		{"quiet.bytes", "nothing changing: between agent and hub, a day", "MB", lower, at(1), nil},
		{"writes.object", "one object on C locations: writes of the object", "", lower, at(1), nil},
		{"writes.keys", "one object on C locations: report keys / C", "x", lower, at(1), nil},
		{"writes.1", "one object on 1 location: further transactions", "", lower, at(3), nil},
		{"writes.10", "one object on 10 locations: further transactions", "", lower, at(3), nil},
		{"writes.100", "one object on 100 locations: further transactions", "", lower, at(3), nil},
		{"fanout.create", "one new object to 1,000 locations: the last has it", "s", lower, at(1), at(0.3)},
		{"fanout.edit", "one edit to 1,000 locations: the last has it", "s", lower, at(1), at(0.3)},
		{"memory.hub", "hub without objects: RssAnon", "MB", lower, nil, nil},
		{"memory.agent", "agent without objects: RssAnon", "MB", lower, at(25), at(15)},
		{"memory.object", "agent, for each object: RssAnon", "KB", lower, at(3), at(1)},
		{"api.create", "space API, 2 KB, 16 clients: creates / stock kube-apiserver's", "x", higher, at(1.5), at(2)},
		{"api.apply", "space API, 2 KB, 16 clients: applies / stock kube-apiserver's", "x", higher, at(1), at(1.5)},
	}
}

// meets says whether a value is at least as good as a limit.
func (s spec) meets(value, limit float64) bool {
	if s.better == higher {
		return value >= limit
	}
	return value <= limit
}

// verdict is how a value stands to bar and stretch.
func (s spec) verdict(value float64) string {
	switch {
	case s.bar == nil:
		return "-"
	case s.stretch != nil && s.meets(value, *s.stretch):
		return "stretch"
	case s.meets(value, *s.bar):
		return "met"
	}
	return "missed"
}

// limit shows a bar or a stretch.
func (s spec) limit(v *float64) string {
	if v == nil {
		return "-"
	}
	sign := map[better]string{lower: "≤", higher: "≥"}[s.better]
	return sign + s.show(*v)
}

// show shows a value with its unit.
func (s spec) show(v float64) string {
	digits := "%.2f%s"
	switch {
	case v == float64(int64(v)):
		digits = "%.0f%s"
	case s.unit == "ms":
		digits = "%.1f%s"
	}
	unit := s.unit
	if unit != "" && unit != "x" {
		unit = " " + unit
	}
	return fmt.Sprintf(digits, v, unit)
}
