package decide

import (
	"bytes"
	"encoding/json"
	"strconv"

	"orrery.dev/orrery/internal/agent/store"
)

const (
	observedGeneration = "observedGeneration"
	conditionsField    = "conditions"
)

// sourceStatus translates the observedGeneration of a status at the target, and of each of its conditions, to
// generations of the source object. Those of the target differ, and start again when the object is recreated. An
// observedGeneration not older than the last apply becomes the source's generation, an older one the generation
// before. Deeper fields of the status stay, since they may describe other objects.
func sourceStatus(status []byte, rec *store.Record) []byte {
	if rec.Source.Generation == 0 || !bytes.Contains(status, []byte(`"`+observedGeneration+`"`)) {
		return status
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(status, &fields) != nil {
		return status // it is no JSON object
	}
	changed := sourceGeneration(rec, fields)
	var conditions []map[string]json.RawMessage
	if json.Unmarshal(fields[conditionsField], &conditions) == nil {
		some := false
		for _, c := range conditions {
			some = sourceGeneration(rec, c) || some
		}
		if b, err := json.Marshal(conditions); some && err == nil {
			fields[conditionsField], changed = b, true
		}
	}
	if !changed {
		return status
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return status
	}
	return out
}

// sourceGeneration replaces observedGeneration among fields. It returns false if the fields have none.
func sourceGeneration(r *store.Record, fields map[string]json.RawMessage) bool {
	var observed *int64
	if json.Unmarshal(fields[observedGeneration], &observed) != nil || observed == nil {
		return false // none, or not a number
	}
	generation := r.Source.Generation
	if *observed < r.Generation {
		generation--
	}
	fields[observedGeneration] = strconv.AppendInt(nil, generation, 10)
	return true
}
