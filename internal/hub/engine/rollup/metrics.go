package rollup

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/internal/lib/quantity"
)

// maxMetrics is how many metrics a merged status has.
const maxMetrics = 64

// highest are the metrics of a HorizontalPodAutoscaler: of each the largest.
type highest struct{}

func (highest) text() string { return "of each the highest" }

func (highest) of(m *merging, field string) any {
	if m.alone() {
		return (same{}).of(m, field)
	}
	type metric struct {
		raw  json.RawMessage
		load load
	}
	var order []string
	most := map[string]metric{}
	for _, p := range m.parts {
		if !p.Sound {
			continue
		}
		for _, entry := range p.status[field].Array() {
			id, current := identify(entry)
			before, known := most[id]
			if !known {
				if len(order) == maxMetrics {
					continue
				}
				order = append(order, id)
			}
			if !known || current.above(before.load) {
				most[id] = metric{json.RawMessage(entry.Raw), current}
			}
		}
	}
	if len(order) == 0 {
		return json.RawMessage("null") // the type does not leave it out
	}
	all := make([]json.RawMessage, len(order))
	for i, id := range order {
		all[i] = most[id].raw
	}
	return all
}

// load is the current value of a metric: a share of what was asked for, or a quantity.
type load struct {
	share    int64
	quantity resource.Quantity
}

func (l load) above(other load) bool {
	if l.share != other.share {
		return l.share > other.share
	}
	return l.quantity.Cmp(other.quantity) > 0
}

// identify says which metric an entry is about, and its current value.
func identify(entry gjson.Result) (id string, current load) {
	of := entry.Get("type").Str // a type is the name of its field, but for its first letter
	if of != "" {
		of = strings.ToLower(of[:1]) + of[1:]
	}
	value := entry.Get(of + ".current")
	current.share = count(value.Get("averageUtilization"))
	for _, name := range []string{"averageValue", "value"} {
		if q, err := quantity.Parse(value.Get(name).Str); err == nil {
			current.quantity = q
			break
		}
	}
	rest, err := sjson.Delete(entry.Raw, of+".current")
	if err != nil {
		return entry.Raw, current
	}
	return canonical(gjson.Parse(rest)), current
}
