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

	// reconciling and stalled are what kstatus reads of any object.
	reconciling = "Reconciling"
	stalled     = "Stalled"

	isTrue    = "True"
	isFalse   = "False"
	isUnknown = "Unknown"

	// ReasonNotEverywhere is the reason of conditions that say that not all locations are
	// there yet, and which are not.
	ReasonNotEverywhere = "NotEverywhere"
)

const (
	// maxNamed is how many locations a message names, the others are counted.
	maxNamed = 3
	// maxMessage bounds a message, in bytes, and maxWhy what it says of one location.
	maxMessage = 1024
	maxWhy     = 160
	// maxTypes is how many types of conditions a status has.
	maxTypes = 64
)

// condition is what is known of one type of conditions.
type condition struct {
	// negative: it is bad if it is True.
	negative bool
	// worst and best are reasons that are worse, or better, than others with the same
	// status.
	worst, best []string
	// absent is the reason with which it is taken to be good at a Healthy location that has
	// no such condition.
	absent string
	// all: it is there only if all locations have it.
	all bool
}

// conditions merges conditions, each type to the worst. Types that are not named are good
// or bad by their name, see badByName.
type conditions struct {
	types map[string]condition
	// negative: all others are bad if they are True.
	negative bool
	// also are fields that the type of a condition does not leave out.
	also []string
}

func (r conditions) text() string {
	text := []string{"of each type the worst, with the locations in its message"}
	for _, t := range slices.Sorted(maps.Keys(r.types)) {
		if r.types[t].all {
			text = append(text, "`"+t+"` if all have it")
		}
	}
	return strings.Join(text, "; ")
}

func (r conditions) of(m *merging, field string) any {
	if m.asItIs() {
		return list(m.parts[0].status[field])
	}
	var types []string
	for _, p := range m.parts {
		for _, c := range p.conditions {
			if !slices.Contains(types, c.of) && len(types) < maxTypes {
				types = append(types, c.of)
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

// list is a list of conditions as it is; nil if there is none.
func list(v gjson.Result) any {
	if !v.IsArray() || len(v.Array()) == 0 {
		return nil
	}
	return json.RawMessage(v.Raw)
}

// said is a condition at a location; an empty one is none.
type said struct {
	part
	gjson.Result
}

func (s said) status() string {
	switch v := s.Get("status").Str; v {
	case isTrue, isFalse:
		return v
	}
	return isUnknown
}

// conditionOf is a location's condition of a type.
func conditionOf(p part, t string) said {
	for _, c := range p.conditions {
		if c.of == t {
			return said{p, c.Result}
		}
	}
	return said{part: p}
}

func (r conditions) rule(t string) condition {
	if of, ok := r.types[t]; ok {
		return of
	}
	return condition{negative: r.negative || badByName(t)}
}

// one merges the conditions of a type.
func (r conditions) one(m *merging, t string) map[string]any {
	rule := r.rule(t)
	var all []said     // those that say something
	var missing []part // those that don't, and should
	for _, p := range m.parts {
		switch c := conditionOf(p, t); {
		case p.Sound && c.Exists() && (!unobserved(p.Part) || m.tellsObserved(c) || rule.rank(c) < rankUnknown):
			all = append(all, c)
		case rule.negative && !rule.all:
		case p.Sound && rule.absent != "" && p.Health == wire.Healthy:
			made, err := json.Marshal(map[string]string{"type": t, "status": isTrue, "reason": rule.absent, "lastTransitionTime": m.since()})
			if err == nil {
				all = append(all, said{p, gjson.ParseBytes(made)})
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

// tellsObserved reports whether tools that read a condition learn that it is not about what the
// source is now: by an observedGeneration of the condition or of the status, which is held back. That
// of a first generation would be 0, which most types leave out.
func (m *merging) tellsObserved(c said) bool {
	if m.generation() <= 1 {
		return false
	}
	return c.Get(observedField).Exists() || m.showsObserved()
}

// Ranks of statuses, from the worst. Within one of them reasons are compared.
const (
	rankBad = 3 * iota
	rankUnknown
	rankGood
)

func (c condition) rank(s said) int {
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

// compare orders conditions from the worst on; what is equally bad stays in the order of
// the locations.
func (c condition) compare(a, b said) int { return c.rank(a) - c.rank(b) }

// merged is the chosen condition, with the locations that say the same in its message.
func (c condition) merged(m *merging, all []said, chosen said, also []string) map[string]any {
	var where []part
	alike := len(all) == len(m.parts)
	at := chosen.Get("lastTransitionTime").Str
	good := c.rank(chosen) >= rankGood
	for _, s := range all {
		alike = alike && s.Get("message").Str == chosen.Get("message").Str && s.Get("reason").Str == chosen.Get("reason").Str
		if c.rank(s) != c.rank(chosen) {
			continue
		}
		where = append(where, s.part)
		// All are good since the last is; something is wrong since the first is.
		if other := s.Get("lastTransitionTime").Str; at == "" || other != "" && later(other, at) == good {
			at = other
		}
	}
	message := chosen.Get("message").Str
	if !alike || len(where) < len(m.parts) {
		message = names(where) + ": " + or(message, chosen.Get("reason").Str)
	}
	out := map[string]any{}
	chosen.ForEach(func(name, v gjson.Result) bool {
		// What is not as the type of a condition has it would take all others with it.
		if v.Type == gjson.String && (!strings.HasSuffix(name.Str, "Time") || isTime(v.Str)) {
			out[name.Str] = json.RawMessage(v.Raw)
		}
		return true
	})
	out["message"] = wire.Clip(message, maxMessage)
	if !isTime(at) {
		at = m.since()
	}
	out["lastTransitionTime"] = at
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

// observedBy is the generation of the source by which all of some conditions are.
func (m *merging) observedBy(all []said) int64 {
	g := m.generation()
	n := g
	for _, s := range all {
		if o := s.Get(observedField).Int(); o < s.Generation || unobserved(s.Part) {
			n = min(n, o, g-1)
		}
	}
	return max(n, 0)
}

// isTime says whether a text is a time by RFC 3339.
func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// later says whether a time is later than another, by RFC 3339.
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

// made is a condition that no location has.
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

// since is when what is not sound began to be so; without that, when the source began.
func (m *merging) since() string {
	at := m.source.Get("metadata.creationTimestamp").Str
	if !isTime(at) {
		at = time.Unix(0, 0).UTC().Format(time.RFC3339)
	}
	for _, p := range m.parts {
		if !p.Sound && later(p.Since, at) {
			at = p.Since
		}
	}
	return at
}

const (
	// earlierVersion and lastSeen are the reasons for which a location that counts is not observed.
	earlierVersion = "it has an earlier version"
	lastSeen       = "not all locations can be seen now, see orrery status --state stale"
)

// withPending adds what kstatus reads of any object: Stalled, if a location is Degraded,
// and Reconciling, if one is not there yet. Who reads the object learns which.
func (m *merging) withPending(merged []map[string]any, also []string) []map[string]any {
	var unsound, behind, degraded, progressing []part
	stale := false
	for _, p := range m.parts {
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
	if stale { // which is not said: each change of a link would be a write of each object
		why = append(why, lastSeen)
	}
	if len(progressing) > 0 {
		why = append(why, names(progressing)+": progressing")
	}
	if len(why) > 0 {
		merged = m.first(merged, m.made(reconciling, isTrue, ReasonNotEverywhere, strings.Join(why, "; "), also))
	}
	if len(degraded) > 0 {
		merged = m.first(merged, m.made(stalled, isTrue, string(wire.Degraded), names(degraded)+": degraded", also))
	}
	return merged
}

// whys says of the first of some locations why they don't count, or something else of
// those that do, and how many more there are.
func whys(of []part, otherwise string) (all []string) {
	seen := make([]part, 0, len(of))
	for _, p := range of {
		if !p.Sound || p.Behind || !p.Stale {
			seen = append(seen, p)
		}
	}
	stale := len(seen) < len(of)
	of = seen
	for _, p := range of[:min(len(of), maxNamed)] {
		why := otherwise
		switch {
		case !p.Sound:
			why = wire.Clip(or(p.Why, "not reported"), maxWhy)
		case p.Behind:
			why = earlierVersion
		}
		all = append(all, string(p.Location)+": "+why)
	}
	if more := len(of) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if stale { // not which: each change of a link would be a write of each object
		all = append(all, lastSeen)
	}
	return all
}

// first puts a condition before all others. One of its type that locations have, and that
// says the same, takes its place.
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

// text is a text of a condition, which may be raw.
func text(v any) string {
	if raw, ok := v.(json.RawMessage); ok {
		return gjson.ParseBytes(raw).Str
	}
	s, _ := v.(string)
	return s
}

// names are the first of some locations, and how many more there are.
func names(of []part) string {
	var first []key.Location
	for _, p := range of[:min(len(of), maxNamed)] {
		first = append(first, p.Location)
	}
	var b strings.Builder
	for i, l := range first {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(l))
	}
	if more := len(of) - len(first); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
