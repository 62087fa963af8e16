// Package rollup makes one status of those that an object has at its locations, such
// that the tools that read it are right about all locations together: 3/3 means that each
// has all that it should. What becomes of which field is data, see kinds.
//
// A merge is a function of the source and of what the locations report, in whatever
// order. The package must never look at anything else, and never change the source.
package rollup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/lib/quantity"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// observedField is the field of a status, or of a condition, that names the generation it is about.
const observedField = "observedGeneration"

// Part is what one of the locations that are to have the object says of it.
type Part struct {
	Location key.Location
	// Sound says that the report counts: the object was applied, and is the current one (by
	// UID). What is not reported, has failed, is held or is in conflict is not sound.
	Sound bool
	// Behind reports that what is applied is an earlier desired state (by digest). As in a
	// cluster whose controller has not looked yet, it counts, and is not observed.
	Behind bool
	// Stale reports that the location can't be seen now. It counts with its last report, and is
	// not observed.
	Stale bool
	// Why says in a few words why a part is not sound; Since is when that began, RFC 3339.
	// Both may be empty.
	Why, Since string
	// Generation is that of the source that the report is about, in terms of which its
	// status says what was observed.
	Generation int64
	// Wanted are the numbers of the live spec; nil from an agent that does not tell: those
	// of the source are taken.
	Wanted *wire.Wanted
	// Status is the object's at the location; empty if there is none, or it is not known.
	Status json.RawMessage
	// Health is by kstatus, empty if it is not known.
	Health wire.Health
}

// Has says whether a resource has a Rollup of its own. Other kinds have one for those
// of their objects whose statuses have conditions; Merge says which.
func Has(r key.Resource) bool {
	_, ok := rulesOf(r)
	return ok
}

// Merge is the status of the source for what all its locations report; nil without a
// location. It returns false if there is no Rollup for the object: its kind has none, and
// no status that is reported has conditions.
func Merge(r key.Resource, source []byte, parts []Part) (status json.RawMessage, ok bool) {
	rules, ok := rulesOf(r)
	if !ok {
		rules, ok = custom, slices.ContainsFunc(parts, hasConditions) || slices.ContainsFunc(parts, hasStatus) && slices.ContainsFunc(parts, unobserved) && !slices.ContainsFunc(parts, refusesConditions)
	}
	if len(parts) == 0 || !ok {
		return nil, ok
	}
	m := newMerge(source, rules, parts)
	merged := make(map[string]any, len(rules))
	ruled := map[string]bool{}
	for _, r := range rules {
		ruled[r.field] = true
		if v := r.merge.of(m, r.field); v != nil {
			merged[r.field] = v
		}
	}
	for _, p := range m.parts {
		for _, field := range p.names {
			if ruled[field] {
				continue
			}
			ruled[field] = true
			if v := (same{}).of(m, field); v != nil {
				merged[field] = v
			}
		}
	}
	out, err := json.Marshal(merged)
	if err != nil { // a value of a status that is not JSON, which no report has
		return nil, false
	}
	return out, true
}

// hasStatus reports whether a part has a status.
func hasStatus(p Part) bool { return len(p.Status) > 0 }

// takesConditions reports whether a status is an object whose conditions, if it has any, have the
// form of those of Kubernetes. To a status of another form no condition can be added.
func takesConditions(p Part) bool {
	status := gjson.ParseBytes(p.Status)
	all := status.Get(conditionsField)
	if !status.IsObject() || all.Exists() && !all.IsArray() {
		return false
	}
	return !slices.ContainsFunc(all.Array(), func(c gjson.Result) bool { return c.Get("type").Str == "" })
}

// refusesConditions reports whether a part has a status without room for conditions.
func refusesConditions(p Part) bool { return hasStatus(p) && !takesConditions(p) }

// unobserved reports whether what a part says may not be about what the object is now.
func unobserved(p Part) bool { return !p.Sound || p.Behind || p.Stale }

// hasConditions says whether the status of a part has conditions.
func hasConditions(p Part) bool {
	return bytes.Contains(p.Status, []byte(conditionsField)) && gjson.GetBytes(p.Status, conditionsField).IsArray()
}

// merging is one merge: the source, and the parts in the order of their locations.
type merging struct {
	source gjson.Result
	rules  []rule
	parts  []part
	// observed reports whether the merged status has an observedGeneration; nil: not asked yet.
	observed *bool
}

// part is a Part with its status parsed.
type part struct {
	Part
	// status has the fields of the status, names are theirs in order.
	status map[string]gjson.Result
	names  []string
	// conditions are those of the status, with their types.
	conditions []typed
}

// typed is a condition at a location.
type typed struct {
	of string
	gjson.Result
}

func parse(p Part) part {
	out := part{Part: p, status: map[string]gjson.Result{}}
	if quantity.Check(p.Status) != nil { // no type decodes it
		out.Sound, out.Status, out.Why = false, nil, "its status has a quantity that is too large"
	}
	if status := gjson.ParseBytes(out.Status); status.IsObject() {
		status.ForEach(func(name, v gjson.Result) bool {
			if _, twice := out.status[name.Str]; !twice {
				out.status[name.Str] = v
				out.names = append(out.names, name.Str)
			}
			return true
		})
	}
	if all := out.status[conditionsField]; all.IsArray() {
		all.ForEach(func(_, c gjson.Result) bool {
			if of := c.Get("type").Str; of != "" {
				out.conditions = append(out.conditions, typed{of, c})
			}
			return true
		})
	}
	return out
}

func newMerge(source []byte, rules []rule, parts []Part) *merging {
	m := &merging{source: gjson.ParseBytes(source), rules: rules, parts: make([]part, len(parts))}
	for i, p := range parts {
		m.parts[i] = parse(p)
	}
	slices.SortStableFunc(m.parts, func(a, b part) int { return cmp.Compare(a.Location, b.Location) })
	return m
}

// alone says that there is only one location, and it has what it is to have: its status is
// the source's, but for what is measured.
func (m *merging) alone() bool { return len(m.parts) == 1 && m.parts[0].Sound }

// asItIs reports whether the source has the conditions of its one location as they are.
func (m *merging) asItIs() bool { return m.alone() && !unobserved(m.parts[0].Part) }

// showsObserved reports whether the merged status has an observedGeneration.
func (m *merging) showsObserved() bool {
	if m.observed == nil {
		shown := slices.ContainsFunc(m.rules, func(r rule) bool { return r.field == observedField && r.merge.of(m, r.field) != nil })
		m.observed = &shown
	}
	return *m.observed
}

// generation is that of the source.
func (m *merging) generation() int64 { return m.source.Get("metadata.generation").Int() }

// number is a number of a status that counts something; anything else is 0.
func (p part) number(field string) int64 { return count(p.status[field]) }

// maxCount is what a count may be: those of Kubernetes have 32 bits.
const maxCount = 1<<31 - 1

func count(v gjson.Result) int64 {
	if v.Type != gjson.Number {
		return 0
	}
	return min(max(v.Int(), 0), maxCount)
}
