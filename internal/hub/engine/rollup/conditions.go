package rollup

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Types, statuses and reasons of conditions.
const (
	conditionsField = "conditions"

	// reconciling and stalled are conditions that kstatus reads for all kinds.
	reconciling = "Reconciling"
	stalled     = "Stalled"

	isTrue    = "True"
	isFalse   = "False"
	isUnknown = "Unknown"

	// ReasonNotEverywhere is the reason of conditions for incomplete locations, which their message
	// names.
	ReasonNotEverywhere = "NotEverywhere"
)

const (
	// maxNamed bounds the locations that a message names; the others are counted.
	maxNamed = 3
	// maxMessage bounds a message, in bytes, and maxWhy its text about one location.
	maxMessage = 1024
	maxWhy     = 320
	// maxTypes bounds the types of conditions in a status.
	maxTypes = 64
)

// condition holds the semantics of one type of conditions.
type condition struct {
	// negative: True is bad.
	negative bool
	// worst and best are reasons that are worse, or better, than others with the same status.
	worst, best []string
	// absent is the reason of the good condition that is assumed for a Healthy location without
	// one.
	absent string
	// all: it is present only if all locations have it.
	all bool
}

// conditions merges conditions: of each type the worst. Whether True is good for other types
// follows from their names, see badByName.
type conditions struct {
	types map[string]condition
	// negative: for all other types, True is bad.
	negative bool
	// also are fields that the type of a condition always encodes.
	also []string
}

func (r conditions) text() string {
	text := []string{"the worst of each type; its message names the locations"}
	for _, t := range slices.Sorted(maps.Keys(r.types)) {
		if r.types[t].all {
			text = append(text, "`"+t+"` if every location has it")
		}
	}
	return strings.Join(text, "; ")
}

func (r conditions) value(m *merging, field string) any {
	if m.asItIs() {
		return m.theOnly(field, r.also)
	}
	var types []string
	for _, p := range m.inputs {
		for _, c := range p.conditions {
			if !slices.Contains(types, c.conditionType) && len(types) < maxTypes {
				types = append(types, c.conditionType)
			}
		}
	}
	var merged []map[string]any
	for _, t := range types {
		if c := r.one(m, t); c != nil {
			merged = append(merged, c)
		}
	}
	merged = m.withPending(merged, r.also)
	if len(merged) == 0 {
		return nil
	}
	return merged
}

// theOnly returns the conditions of the one location unchanged; nil if there are none. If the location has a
// diagnosis, a condition is added that has it.
func (m *merging) theOnly(field string, also []string) any {
	p := m.inputs[0]
	if p.IsDiagnosed && (takesConditions(p.Report) || len(p.Status) == 0) {
		var all []map[string]any
		for _, c := range p.conditions {
			all = append(all, unchanged(c.Result))
		}
		if all = m.withPending(all, also); len(all) > 0 {
			return all
		}
	}
	if v := p.status[field]; v.IsArray() && len(v.Array()) > 0 {
		return json.RawMessage(v.Raw)
	}
	return nil
}

// unchanged returns the fields of a condition as they are.
func unchanged(c gjson.Result) map[string]any {
	fields := map[string]any{}
	c.ForEach(func(name, v gjson.Result) bool {
		fields[name.Str] = json.RawMessage(v.Raw)
		return true
	})
	return fields
}

// reportedCondition is a condition at a location; it is empty if there is none.
type reportedCondition struct {
	input
	gjson.Result
}

func (s reportedCondition) status() string {
	switch v := s.Get("status").Str; v {
	case isTrue, isFalse:
		return v
	}
	return isUnknown
}

// conditionOf returns a location's condition of a type.
func conditionOf(p input, t string) reportedCondition {
	for _, c := range p.conditions {
		if c.conditionType == t {
			return reportedCondition{p, c.Result}
		}
	}
	return reportedCondition{input: p}
}

func (r conditions) rule(t string) condition {
	if named, ok := r.types[t]; ok {
		return named
	}
	return condition{negative: r.negative || badByName(t)}
}

// one merges the conditions of a type.
func (r conditions) one(m *merging, t string) map[string]any {
	rule := r.rule(t)
	var all []reportedCondition // locations with a condition
	var missing []input         // locations that should have one
	for _, p := range m.inputs {
		switch c := conditionOf(p, t); {
		case p.Sound && c.Exists() && (!unobserved(p.Report) || m.tellsObserved(c) || rule.rank(c) < rankUnknown):
			all = append(all, c)
		case rule.negative && !rule.all:
		case p.Sound && rule.absent != "" && p.Health == wire.Healthy:
			made, err := json.Marshal(map[string]string{"type": t, "status": isTrue, "reason": rule.absent, "lastTransitionTime": m.since()})
			if err == nil {
				all = append(all, reportedCondition{p, gjson.ParseBytes(made)})
			}
		default:
			missing = append(missing, p)
		}
	}
	if rule.all && len(missing) > 0 || len(all)+len(missing) == 0 {
		return nil
	}
	if len(all) > 0 {
		if chosen := slices.MinFunc(all, rule.compare); len(missing) == 0 || rule.rank(chosen) < rankUnknown {
			return rule.merged(m, all, chosen, r.also)
		}
	}
	return m.made(t, isUnknown, ReasonNotEverywhere, strings.Join(whys(missing, "does not say"), "; "), r.also)
}

// tellsObserved reports whether readers of a condition can notice that it does not describe the
// present source: by an observedGeneration of the condition or of the status, which is held back.
// For the first generation it would be 0, which most types omit.
func (m *merging) tellsObserved(c reportedCondition) bool {
	if m.generation() <= 1 {
		return false
	}
	return c.Get(observedField).Exists() || m.showsObserved()
}

// Ranks of statuses, the worst first. Reasons are compared within a rank.
const (
	rankBad = 3 * iota
	rankUnknown
	rankGood
)

func (c condition) rank(s reportedCondition) int {
	rank := rankUnknown
	switch status := s.status(); {
	case status == isUnknown:
	case (status == isTrue) == c.negative:
		rank = rankBad
	default:
		rank = rankGood
	}
	switch reason := s.Get("reason").Str; {
	case slices.Contains(c.worst, reason):
		return rank - 1
	case slices.Contains(c.best, reason):
		return rank + 1
	}
	return rank
}

// compare orders conditions, the worst first; equal ones stay in the order of locations.
func (c condition) compare(a, b reportedCondition) int { return c.rank(a) - c.rank(b) }

// merged returns the chosen condition, with a message that names the locations with the same rank.
func (c condition) merged(m *merging, all []reportedCondition, chosen reportedCondition, also []string) map[string]any {
	var where []input
	alike := len(all) == len(m.inputs)
	transition := chosen.Get("lastTransitionTime").Str
	good := c.rank(chosen) >= rankGood
	for _, s := range all {
		alike = alike && s.Get("message").Str == chosen.Get("message").Str && s.Get("reason").Str == chosen.Get("reason").Str
		if c.rank(s) != c.rank(chosen) {
			continue
		}
		where = append(where, s.input)
		// All are good since the latest one is; something is wrong since the earliest one is.
		if other := s.Get("lastTransitionTime").Str; transition == "" || other != "" && later(other, transition) == good {
			transition = other
		}
	}
	message := chosen.Get("message").Str
	if !alike || len(where) < len(m.inputs) {
		message = names(where) + ": " + or(message, chosen.Get("reason").Str)
	}
	out := map[string]any{}
	chosen.ForEach(func(name, v gjson.Result) bool {
		// A field of another form would make all conditions invalid.
		if v.Type == gjson.String && (!strings.HasSuffix(name.Str, "Time") || isTime(v.Str)) {
			out[name.Str] = json.RawMessage(v.Raw)
		}
		return true
	})
	out["message"] = wire.Clip(message, maxMessage)
	if !isTime(transition) {
		transition = m.since()
	}
	out["lastTransitionTime"] = transition
	if chosen.Get(observedField).Exists() {
		out[observedField] = m.observedBy(all)
	}
	for _, name := range also {
		if _, ok := out[name]; !ok {
			out[name] = nil
		}
	}
	return out
}

// observedBy returns the generation of the source that all of some conditions describe.
func (m *merging) observedBy(all []reportedCondition) int64 {
	g := m.generation()
	n := g
	for _, s := range all {
		if o := s.Get(observedField).Int(); o < s.Generation || unobserved(s.Report) {
			n = min(n, o, g-1)
		}
	}
	return max(n, 0)
}

// isTime reports whether a text is a time by RFC 3339.
func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// later reports whether a time is later than another, by RFC 3339.
func later(a, b string) bool {
	x, err := time.Parse(time.RFC3339, a)
	y, bad := time.Parse(time.RFC3339, b)
	return err == nil && bad == nil && x.After(y)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// made returns a new condition that no location has.
func (m *merging) made(t, status, reason, message string, also []string) map[string]any {
	out := map[string]any{
		"type": t, "status": status, "reason": reason,
		"message": wire.Clip(message, maxMessage), "lastTransitionTime": m.since(),
	}
	for _, name := range also {
		out[name] = nil
	}
	return out
}

// since returns when the last of the unsound locations became unsound, or when the source was
// created.
func (m *merging) since() string {
	since := m.source.Get("metadata.creationTimestamp").Str
	if !isTime(since) {
		since = time.Unix(0, 0).UTC().Format(time.RFC3339)
	}
	for _, p := range m.inputs {
		if !p.Sound && later(p.Since, since) {
			since = p.Since
		}
	}
	return since
}

const (
	// earlierVersion and lastSeen are the reasons for locations that count but are not observed.
	earlierVersion = "it has an earlier version"
	lastSeen       = "not all locations can be seen now, see orrery status --state stale"
)

// withPending adds the conditions that kstatus reads for all kinds: Stalled if a location is
// Degraded, and Reconciling if one is not complete. Their messages name locations for readers.
func (m *merging) withPending(merged []map[string]any, also []string) []map[string]any {
	var unsound, behind, degraded, progressing []input
	stale := false
	for _, p := range m.inputs {
		stale = stale || p.Stale
		switch {
		case !p.Sound:
			unsound = append(unsound, p)
		case p.Behind:
			behind = append(behind, p)
		case p.Health == wire.Degraded, p.Health == "" && conditionOf(p, stalled).status() == isTrue:
			degraded = append(degraded, p)
		case p.Health == wire.Progressing, p.Health == wire.HealthUnknown:
			progressing = append(progressing, p)
		}
	}
	why := whys(unsound, "")
	if len(behind) > 0 {
		why = append(why, names(behind)+": "+earlierVersion)
	}
	if stale { // without names: each change of a connection would be a write of each object
		why = append(why, lastSeen)
	}
	why = append(why, describe(progressing, "progressing")...)
	if len(why) > 0 {
		merged = m.first(merged, m.made(reconciling, isTrue, ReasonNotEverywhere, strings.Join(why, "; "), also))
	}
	if len(degraded) > 0 {
		merged = m.first(merged, m.made(stalled, isTrue, string(wire.Degraded), strings.Join(describe(degraded, "degraded"), "; "), also))
	}
	return merged
}

// describe describes locations that are not healthy: the first of those with a diagnosis one by one, with
// their HealthNote, and the others together. Other notes change with each Pod, and each change would be a
// write of the object.
func describe(inputs []input, state string) (all []string) {
	var plain []input
	for _, p := range inputs {
		if p.IsDiagnosed && len(all) < maxNamed {
			all = append(all, wire.Clip(string(p.Location)+": "+p.HealthNote, maxWhy))
		} else {
			plain = append(plain, p)
		}
	}
	if len(plain) > 0 {
		all = append(all, names(plain)+": "+state)
	}
	return all
}

// whys returns, for the first of some locations, the reasons why they do not count, or otherwise
// for those that do, and the number of the others.
func whys(inputs []input, otherwise string) (all []string) {
	seen := make([]input, 0, len(inputs))
	for _, p := range inputs {
		if !p.Sound || p.Behind || !p.Stale {
			seen = append(seen, p)
		}
	}
	stale := len(seen) < len(inputs)
	inputs = seen
	for _, p := range inputs[:min(len(inputs), maxNamed)] {
		why := otherwise
		switch {
		case !p.Sound:
			why = wire.Clip(or(p.Why, "not reported"), maxWhy)
		case p.Behind:
			why = earlierVersion
		}
		all = append(all, string(p.Location)+": "+why)
	}
	if more := len(inputs) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if stale { // without names: each change of a connection would be a write of each object
		all = append(all, lastSeen)
	}
	return all
}

// first inserts a condition before all others. It replaces a condition of the same type, but keeps
// that one if the status is the same.
func (m *merging) first(merged []map[string]any, c map[string]any) []map[string]any {
	i := slices.IndexFunc(merged, func(other map[string]any) bool { return text(other["type"]) == c["type"] })
	if i >= 0 {
		if text(merged[i]["status"]) == c["status"] {
			c = merged[i]
		}
		merged = slices.Delete(merged, i, i+1)
	}
	return slices.Insert(merged, 0, c)
}

// text returns a string of a condition, which may be raw JSON.
func text(v any) string {
	if raw, ok := v.(json.RawMessage); ok {
		return gjson.ParseBytes(raw).Str
	}
	s, _ := v.(string)
	return s
}

// names returns the first of some locations, and the number of the others.
func names(inputs []input) string {
	var first []key.Location
	for _, p := range inputs[:min(len(inputs), maxNamed)] {
		first = append(first, p.Location)
	}
	var b strings.Builder
	for i, l := range first {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(l))
	}
	if more := len(inputs) - len(first); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
