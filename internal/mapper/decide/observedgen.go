package decide

import (
	"bytes"
	"encoding/json"
	"strconv"

	"orrery.dev/orrery/internal/mapper/store"
)

const (
	observedGeneration = "observedGeneration"
	conditionsField    = "conditions"
)

// sourceStatus is a status at the target as it is to be read beside the source
// object, whose generations are others: an object that was made again begins
// anew. What says that it is about the object as it was last applied, or later,
// is about the source's generation; anything else is about an earlier one. That
// goes for the status and for each of its conditions; what is deeper may be about
// anything.
func sourceStatus(status []byte, rec *store.Record) []byte {
	if rec.Source.Generation == 0 || !bytes.Contains(status, []byte(`"`+observedGeneration+`"`)) {
		return status
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(status, &fields) != nil {
		return status // whatever it is
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

// sourceGeneration replaces an observed generation among fields; false: there is none.
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
