package presence

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/lib/jsonscan"
	"orrery.dev/orrery/internal/lib/jsonsplice"
	"orrery.dev/orrery/internal/protocol/wire"
)

// During an upgrade, hubs of two versions and agents of a newer one share a log. A hub keeps the fields that its
// version does not know: those of a status that an agent sends, and those of a value that another hub has written.

// maxFields is how many fields a status may have of which any is kept that this version does not know. Each of
// them is copied by itself.
const maxFields = 64

// textOf returns the stored text of a status that an agent has sent, if that has fields that this version
// does not know. They keep their bytes, also those in fields that this version keeps whole. It returns nil if
// there are none, or if they are too many or too large.
func textOf(text []byte, sent wire.AgentStatus, kept *wire.AgentStatus) []byte {
	if len(text) == 0 {
		return nil
	}
	if _, isRepeated := jsonscan.Repeated(text); isRepeated {
		return nil // versions could read different ones
	}
	sent.APIs = nil
	known, all := membersOf(sent), map[string]json.RawMessage{}
	result, err := json.Marshal(kept)
	if err != nil || json.Unmarshal(text, &all) != nil || len(all) > maxFields {
		return nil
	}
	bounded, isChanged := membersOf(*kept), false
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch is, exact := isKnown(name); {
		case is && !exact, !jsonscan.IsPlain([]byte(name)):
			continue
		case exact && (known[name] == nil || !bytes.Equal(known[name], bounded[name]) || bytes.Equal(known[name], all[name])):
			continue
		}
		next, err := jsonsplice.Copy(result, text, jsonsplice.Field(name))
		if err != nil {
			return nil
		}
		isChanged, result = true, next
	}
	if !isChanged || len(result) > maxStatus {
		return nil
	}
	return result
}

// membersOf are the fields of a status as this version writes them.
func membersOf(s wire.AgentStatus) (all map[string]json.RawMessage) {
	text, err := json.Marshal(s)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}

// isKnown reports whether a decoder of this version reads a field of a status, and whether that is its exact name.
func isKnown(name string) (is, exact bool) {
	for f := range reflect.TypeFor[wire.AgentStatus]().Fields() {
		known, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		is, exact = is || strings.EqualFold(known, name), exact || known == name
	}
	return is, exact
}

// over returns the text of a value that takes the place of another one of the same location: fields of the other
// that this version does not know stay. previous is the other as this version reads it; status replaces the status, if
// it is not nil. If the result is too large, it is the value itself.
func over(value, old []byte, previous AgentStatus, status []byte) []byte {
	result := value
	if old != nil {
		known, err := json.Marshal(previous)
		if err != nil {
			return value
		}
		changed, err := jsonsplice.Differing(known, value, "")
		if err != nil {
			return value
		}
		if result, err = jsonsplice.Copy(old, value, changed...); err != nil {
			return value
		}
	}
	if status != nil {
		field := jsonsplice.Field("status")
		wrapped := append(append([]byte(`{"status":`), status...), '}')
		var err error
		if result, err = jsonsplice.Copy(result, wrapped, field); err != nil {
			return value
		}
	}
	if len(result) > maxStatus {
		return value
	}
	return result
}

// status is the text of the status in a value; nil: it has none.
func status(value []byte) []byte {
	var stored struct {
		Status json.RawMessage `json:"status"`
	}
	if json.Unmarshal(value, &stored) != nil {
		return nil
	}
	return stored.Status
}
