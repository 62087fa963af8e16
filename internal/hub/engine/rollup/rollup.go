// Package rollup merges the statuses of an object at its locations into one status, such that tools
// that read it are right about all locations together: 3/3 means that each location has all items.
// The rules for fields are data, see kinds.
//
// A merge is a function of the source and of the reports, in any order. The package must never use
// other data, and never change the source.
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

// observedField is the field of a status, or of a condition, with the generation that it describes.
const observedField = "observedGeneration"

// Report is the report of one of the locations that must have the object.
type Report struct {
	Location key.Location
	// Sound reports whether the report counts: the object was applied and is the current one (by
	// UID). Objects that are unreported, failed, held or in conflict are not sound.
	Sound bool
	// Behind reports whether an earlier desired state is applied (by digest). It counts with at most its
	// actual numbers, none of them updated, and is not observed.
	Behind bool
	// Stale reports whether the location has no current reports. It counts with its last report,
	// and is not observed.
	Stale bool
	// Why is the reason why a report is not sound, with the message of the report; Since is when that began, RFC 3339. Both may
	// be empty.
	Why, Since string
	// Generation is the generation of the source that the report describes. The observed
	// generations in its status refer to it.
	Generation int64
	// Wanted holds the numbers of the live spec; nil from agents without support: then those of the
	// source are used.
	Wanted *wire.Wanted
	// Status is the object's status at the location; empty if there is none or it is unknown.
	Status json.RawMessage
	// Health is the health by kstatus; empty if it is unknown.
	Health wire.Health
	// HealthNote is the reason why the object is not Healthy; empty if there is none. IsDiagnosed
	// reports whether it has a reason that the status does not show.
	HealthNote  string
	IsDiagnosed bool
}

// HasRollup reports whether a resource has its own Rollup. Objects of other kinds have one if their
// statuses have conditions, as Merge reports.
func HasRollup(r key.Resource) bool {
	_, ok := rulesOf(r)
	return ok
}

// Merge returns the status of the source for the reports of all its locations; nil without a
// location. It returns false if there is no Rollup for the object: its kind has none, and no
// reported status has conditions.
func Merge(r key.Resource, source []byte, inputs []Report) (status json.RawMessage, ok bool) {
	rules, ok := rulesOf(r)
	if !ok {
		rules, ok = custom, slices.ContainsFunc(inputs, hasConditions) || slices.ContainsFunc(inputs, hasStatus) && slices.ContainsFunc(inputs, unobserved) && !slices.ContainsFunc(inputs, refusesConditions)
	}
	if len(inputs) == 0 || !ok {
		return nil, ok
	}
	m := newMerge(source, rules, inputs)
	merged := make(map[string]any, len(rules))
	ruled := map[string]bool{}
	for _, r := range rules {
		ruled[r.field] = true
		if v := r.merge.value(m, r.field); v != nil {
			merged[r.field] = v
		}
	}
	for _, p := range m.inputs {
		for _, field := range p.names {
			if ruled[field] {
				continue
			}
			ruled[field] = true
			if v := (same{}).value(m, field); v != nil {
				merged[field] = v
			}
		}
	}
	out, err := json.Marshal(merged)
	if err != nil { // cannot happen: reports contain only JSON
		return nil, false
	}
	return out, true
}

// hasStatus reports whether a part has a status.
func hasStatus(p Report) bool { return len(p.Status) > 0 }

// takesConditions reports whether conditions can be added to a status: whether it is an object, and
// its conditions, if any, have the form of Kubernetes.
func takesConditions(p Report) bool {
	status := gjson.ParseBytes(p.Status)
	all := status.Get(conditionsField)
	if !status.IsObject() || all.Exists() && !all.IsArray() {
		return false
	}
	return !slices.ContainsFunc(all.Array(), func(c gjson.Result) bool { return c.Get("type").Str == "" })
}

// refusesConditions reports whether a part has a status to which no conditions can be added.
func refusesConditions(p Report) bool { return hasStatus(p) && !takesConditions(p) }

// unobserved reports whether a part may not describe the present object.
func unobserved(p Report) bool { return !p.Sound || p.Behind || p.Stale }

// hasConditions reports whether the status of a part has conditions.
func hasConditions(p Report) bool {
	return bytes.Contains(p.Status, []byte(conditionsField)) && gjson.GetBytes(p.Status, conditionsField).IsArray()
}

// merging is the state of one merge: the source, and the inputs in the order of their locations.
type merging struct {
	source gjson.Result
	rules  []rule
	inputs []input
	// observed caches whether the merged status has an observedGeneration; nil: not computed yet.
	observed *bool
}

// input is a Report with its status parsed.
type input struct {
	Report
	// status holds the fields of the status, and names their order.
	status map[string]gjson.Result
	names  []string
	// conditions are the conditions of the status, with their types.
	conditions []typedCondition
}

// typedCondition is a condition at a location with its type.
type typedCondition struct {
	conditionType string
	gjson.Result
}

func parse(p Report) input {
	out := input{Report: p, status: map[string]gjson.Result{}}
	if quantity.Check(p.Status) != nil { // no type can decode it
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
			if conditionType := c.Get("type").Str; conditionType != "" {
				out.conditions = append(out.conditions, typedCondition{conditionType, c})
			}
			return true
		})
	}
	return out
}

func newMerge(source []byte, rules []rule, inputs []Report) *merging {
	m := &merging{source: gjson.ParseBytes(source), rules: rules, inputs: make([]input, len(inputs))}
	for i, p := range inputs {
		m.inputs[i] = parse(p)
	}
	slices.SortStableFunc(m.inputs, func(a, b input) int { return cmp.Compare(a.Location, b.Location) })
	return m
}

// alone reports whether there is only one location, and it is sound: its status becomes the
// source's, except for counters.
func (m *merging) alone() bool { return len(m.inputs) == 1 && m.inputs[0].Sound }

// asItIs reports whether the source gets the conditions of its one location unchanged.
func (m *merging) asItIs() bool { return m.alone() && !unobserved(m.inputs[0].Report) }

// showsObserved reports whether the merged status has an observedGeneration.
func (m *merging) showsObserved() bool {
	if m.observed == nil {
		shown := slices.ContainsFunc(m.rules, func(r rule) bool { return r.field == observedField && r.merge.value(m, r.field) != nil })
		m.observed = &shown
	}
	return *m.observed
}

// generation returns the generation of the source.
func (m *merging) generation() int64 { return m.source.Get("metadata.generation").Int() }

// number returns a counter of a status; 0 if it is not a number.
func (p input) number(field string) int64 { return count(p.status[field]) }

// maxCount is the greatest count: those of Kubernetes have 32 bits.
const maxCount = 1<<31 - 1

func count(v gjson.Result) int64 {
	if v.Type != gjson.Number {
		return 0
	}
	return min(max(v.Int(), 0), maxCount)
}
