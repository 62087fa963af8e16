package rollup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/internal/lib/quantity"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxIngress and maxRefs bound the entries of a union.
	maxIngress = 256
	maxRefs    = 256
)

// same is the value that all locations have; nothing if a location is not sound.
type same struct{}

func (same) value(m *merging, field string) any {
	first := m.inputs[0].status[field]
	for _, p := range m.inputs {
		if v := p.status[field]; !p.Sound || !v.Exists() || !alike(v, first) {
			return nil
		}
	}
	return json.RawMessage(first.Raw)
}

func (same) text() string { return "kept if all locations report the same value" }

// alike reports whether two values are equivalent.
func alike(a, b gjson.Result) bool { return a.Raw == b.Raw || canonical(a) == canonical(b) }

// canonical returns a value with its fields in order.
func canonical(v gjson.Result) string {
	var value any
	if json.Unmarshal([]byte(v.Raw), &value) != nil {
		return v.Raw
	}
	out, err := json.Marshal(value)
	if err != nil {
		return v.Raw
	}
	return string(out)
}

// own is the value of a single location. It has no meaning for several.
type own struct{}

func (own) value(m *merging, field string) any {
	if !m.alone() {
		return nil
	}
	return (same{}).value(m, field)
}

func (own) text() string { return "only with one location" }

// union is a list of all entries that any location has, sound or not. It may be within an object.
type union struct {
	list string
	most int
}

func (r union) value(m *merging, field string) any {
	var entries []json.RawMessage
	have := map[string]bool{}
	for _, p := range m.inputs {
		list := p.status[field]
		if r.list != "" {
			list = list.Get(r.list)
		}
		if !list.IsArray() {
			continue
		}
		for _, entry := range list.Array() {
			if id := canonical(entry); isEntry(entry) && !have[id] && len(entries) < r.most {
				have[id] = true
				entries = append(entries, json.RawMessage(entry.Raw))
			}
		}
	}
	switch {
	case r.list == "" && len(entries) == 0:
		return nil
	case r.list == "":
		return entries
	case len(entries) == 0:
		return struct{}{}
	}
	return map[string]any{r.list: entries}
}

// isEntry reports whether an entry has the form of Kubernetes, whose fields are texts and lists. An
// entry of another form would make all entries invalid.
func isEntry(v gjson.Result) bool {
	is := v.IsObject()
	v.ForEach(func(_, field gjson.Result) bool {
		is = is && (field.Type == gjson.String || field.IsArray())
		return is
	})
	return is
}

func (r union) text() string {
	text := "union"
	if r.list != "" {
		text += " of `" + r.list + "`"
	}
	return fmt.Sprintf("%s, at most %d entries", text, r.most)
}

// earliest and latest are times that all locations have.
type (
	earliest struct{}
	latest   struct {
		// present reports whether there is none while a location has an earlier version.
		present bool
	}
)

func (earliest) value(m *merging, field string) any { return m.time(field, -1) }
func (earliest) text() string                       { return "the earliest, once every location has one" }

func (r latest) value(m *merging, field string) any {
	if r.present && slices.ContainsFunc(m.inputs, func(p input) bool { return p.Behind }) {
		return nil
	}
	return m.time(field, 1)
}

func (r latest) text() string {
	if r.present {
		return "the latest, once every location has one of the current version"
	}
	return "the latest, once every location has one"
}

// time returns the first or last of the times of a field; nil if a location has none.
func (m *merging) time(field string, direction int) any {
	var chosenTime time.Time
	chosen := ""
	for _, p := range m.inputs {
		t, err := time.Parse(time.RFC3339, p.status[field].Str)
		if !p.Sound || err != nil {
			return nil
		}
		if chosen == "" || t.Compare(chosenTime) == direction {
			chosenTime, chosen = t, p.status[field].Str
		}
	}
	return chosen
}

// phase is the worst of the phases, by an order that begins with the worst. Unsound locations have
// the phase missing. Without an order it is the common phase, or that of the least healthy
// location.
type phase struct {
	missing string
	order   []string
}

func (r phase) value(m *merging, field string) any {
	if len(r.order) == 0 {
		return r.leastHealthy(m, field)
	}
	phaseOf := func(p input) string {
		if chosen := p.status[field].Str; p.Sound && chosen != "" {
			return chosen
		}
		return r.missing
	}
	chosen := phaseOf(m.inputs[0])
	for _, p := range m.inputs[1:] {
		// A phase that is not in the order has index -1: it may be bad.
		if other := phaseOf(p); slices.Index(r.order, other) < slices.Index(r.order, chosen) {
			chosen = other
		}
	}
	return chosen
}

func (phase) leastHealthy(m *merging, field string) any {
	first := m.inputs[0]
	differ, ill := false, first
	for _, p := range m.inputs {
		chosen := p.status[field]
		if !p.Sound || chosen.Type != gjson.String {
			return nil
		}
		differ = differ || chosen.Str != first.status[field].Str
		if p.Health.Severity() > ill.Health.Severity() {
			ill = p
		}
	}
	if differ && ill.Health == wire.Healthy {
		return nil // the worst one is unknown
	}
	return ill.status[field].Str
}

func (r phase) text() string {
	if len(r.order) == 0 {
		return "the common value, or that of the least healthy location"
	}
	return "the worst: " + strings.Join(r.order, ", ")
}

// smallest is a map of quantities: of each name the smallest one.
type smallest struct{}

func (smallest) value(m *merging, field string) any {
	least, chosen := map[string]resource.Quantity{}, map[string]string{}
	for _, p := range m.inputs {
		p.status[field].ForEach(func(name, v gjson.Result) bool {
			q, err := quantity.Parse(v.Str)
			if before, ok := least[name.Str]; err == nil && (!ok || q.Cmp(before) < 0) {
				least[name.Str], chosen[name.Str] = q, v.Str
			}
			return true
		})
	}
	if len(chosen) == 0 {
		return nil
	}
	return chosen
}

func (smallest) text() string { return "the minimum of each" }

// common is a list of the entries that all lists of the locations contain.
type common struct{}

func (common) value(m *merging, field string) any {
	var entries []string
	first := true
	for _, p := range m.inputs {
		list := p.status[field]
		if !list.IsArray() {
			continue
		}
		var there []string
		for _, v := range list.Array() {
			if v.Str != "" {
				there = append(there, v.Str)
			}
		}
		if first {
			entries, first = there, false
		}
		entries = slices.DeleteFunc(entries, func(e string) bool { return !slices.Contains(there, e) })
	}
	if len(entries) == 0 {
		return nil
	}
	return entries
}

func (common) text() string { return "entries that every location has" }

// revision is a field of the pair currentRevision and updateRevision, whose difference shows an
// update: the value of a location that is being updated.
type revision struct{}

func (revision) value(m *merging, field string) any {
	var chosen *input
	for i := range m.inputs {
		p := &m.inputs[i]
		if !p.Sound {
			continue
		}
		switch updating := p.status["currentRevision"].Str != p.status["updateRevision"].Str; {
		case updating && p.Health != wire.Healthy:
			return known(p.status[field])
		case !updating && chosen == nil:
			chosen = p
		}
	}
	if count(m.source.Get(specPartition)) > 0 { // then their difference is desired
		return (same{}).value(m, field)
	}
	if chosen == nil {
		return nil
	}
	return known(chosen.status[field])
}

func known(v gjson.Result) any {
	if v.Type != gjson.String || v.Str == "" {
		return nil
	}
	return v.Str
}

func (revision) text() string {
	return "that of a location that is being updated, otherwise of the first one"
}
