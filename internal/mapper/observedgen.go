package mapper

import (
	"bytes"
	"encoding/json"
	"strconv"
)

var observedGenerationKey = []byte(`"observedGeneration"`)

// sourceStatus is a status at the target as it is to be read beside the source
// object, whose generations are others: an object that was made again begins
// anew. What says that it is about the object as it was last applied, or later,
// is about the source's generation; anything else is about an earlier one.
func sourceStatus(status []byte, rec *record) []byte {
	if rec.Source.Generation == 0 || !bytes.Contains(status, observedGenerationKey) {
		return status
	}
	var fields map[string]json.RawMessage
	var of struct {
		ObservedGeneration *int64 `json:"observedGeneration"`
	}
	if json.Unmarshal(status, &of) != nil || of.ObservedGeneration == nil || json.Unmarshal(status, &fields) != nil {
		return status // it is somewhere deeper, or not a number: whatever it means
	}
	generation := rec.Source.Generation
	if *of.ObservedGeneration < rec.Generation {
		generation--
	}
	fields["observedGeneration"] = strconv.AppendInt(nil, generation, 10)
	out, err := json.Marshal(fields)
	if err != nil {
		return status
	}
	return out
}
