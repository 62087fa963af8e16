package ready

import (
	"encoding/json"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Complete returns value, an object with the metadata m, with the condition Ready and the observed
// generation. It does not change value itself. ok is false for kinds without this condition.
func Complete(r key.Resource, name string, m table.Meta, value []byte) (completed []byte, ok bool) {
	c, conditions, ok := evaluate(r, name, m, value)
	if !ok {
		return nil, false
	}
	switch r {
	case key.Placements, key.Summaries: // they store it
	default:
		if observed := observedGeneration(r, conditions); observed > 0 {
			var err error
			if value, err = sjson.SetBytes(value, "status.observedGeneration", observed); err != nil {
				return nil, false
			}
		}
	}
	if stored := meta.FindStatusCondition(conditions, c.Type); stored != nil && *stored == c {
		return value, true
	}
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = latest(conditions, gjson.GetBytes(value, "metadata.creationTimestamp").Str)
	}
	if c.ObservedGeneration == 0 {
		c.ObservedGeneration = m.Generation
	}
	meta.RemoveStatusCondition(&conditions, c.Type)
	encoded, err := json.Marshal(append(conditions, c))
	if err != nil {
		return nil, false
	}
	if value, err = sjson.SetRawBytes(value, "status.conditions", encoded); err != nil {
		return nil, false
	}
	return value, true
}

// hasReady reports whether objects of a resource have the condition Ready.
func hasReady(r key.Resource) bool {
	switch r {
	case key.Placements, key.Locations, key.Customizers, key.KindRules, key.Summaries, key.Spaces, key.APIExports, key.APIBindings, key.APIExportViews:
		return true
	}
	return false
}

// evaluate returns the condition Ready of an object, and its other conditions.
func evaluate(r key.Resource, name string, m table.Meta, value []byte) (c metav1.Condition, conditions []metav1.Condition, ok bool) {
	if !hasReady(r) {
		return c, nil, false // most rows: their status is not decoded
	}
	status := []byte(gjson.GetBytes(value, "status").Raw)
	switch r {
	case key.Placements:
		if s, ok := decode[v1alpha1.PlacementStatus](status); ok {
			c, conditions = Placement(m.Generation, s), s.Conditions
		}
	case key.Locations:
		if s, ok := decode[v1alpha1.LocationStatus](status); ok {
			mapping := v1alpha1.Mapping(gjson.GetBytes(value, "spec.mapping").Str)
			c, conditions = Location(key.Location(name), m.Generation, mapping, s), s.Conditions
		}
	case key.Customizers:
		if s, ok := decode[v1alpha1.CustomizerStatus](status); ok {
			c, conditions = Customizer(m.Generation, s), s.Conditions
		}
	case key.KindRules:
		if s, ok := decode[v1alpha1.KindRulesStatus](status); ok {
			c, conditions = KindRules(m.Generation, s), s.Conditions
		}
	case key.Summaries:
		if s, ok := decode[v1alpha1.SummaryStatus](status); ok {
			c, conditions = Summary(m.Generation, s), s.Conditions
		}
	case key.Spaces, key.APIExports, key.APIBindings, key.APIExportViews:
		if s, ok := decode[struct{ Conditions []metav1.Condition }](status); ok {
			c, conditions = Served(m.Generation, s.Conditions), s.Conditions
		}
		if r == key.Spaces && m.Deleting {
			c = terminating(value)
		}
	}
	if v1alpha1.IsForBelow(m.Labels) && c.Type != "" {
		c = Below(conditions)
	}
	return c, conditions, c.Type != ""
}

// terminating returns the condition Ready of a Space that is being deleted since its deletion timestamp.
func terminating(space []byte) metav1.Condition {
	fields := gjson.GetManyBytes(space, "metadata.finalizers", "metadata.deletionTimestamp")
	var finalizers []string
	for _, f := range fields[0].Array() {
		finalizers = append(finalizers, f.Str)
	}
	c := Terminating(finalizers)
	if began, err := time.Parse(time.RFC3339, fields[1].Str); err == nil {
		c.LastTransitionTime = metav1.NewTime(began)
	}
	return c
}

// decode decodes a status, which may be absent. ok is false if a client stored one that is not of the
// type.
func decode[T any](status []byte) (s *T, ok bool) {
	s = new(T)
	return s, len(status) == 0 || json.Unmarshal(status, s) == nil
}

// observedGeneration returns the generation that a status describes, by the condition that the hub
// writes after each change of the object; 0 if the object has no such condition.
func observedGeneration(r key.Resource, conditions []metav1.Condition) int64 {
	evaluated := v1alpha1.ConditionReady
	switch r {
	case key.Locations:
		evaluated = v1alpha1.ConditionConnected
	case key.Customizers, key.KindRules:
		evaluated = v1alpha1.ConditionAccepted
	}
	if c := meta.FindStatusCondition(conditions, evaluated); c != nil {
		return c.ObservedGeneration
	}
	return 0
}

// latest returns the time of the last transition of any condition, or else the time of creation.
func latest(conditions []metav1.Condition, created string) (last metav1.Time) {
	for _, c := range conditions {
		if last.Before(&c.LastTransitionTime) {
			last = c.LastTransitionTime
		}
	}
	if last.IsZero() {
		if t, err := time.Parse(time.RFC3339, created); err == nil {
			return metav1.NewTime(t)
		}
	}
	return last
}
