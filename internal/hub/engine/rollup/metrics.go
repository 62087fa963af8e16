package rollup

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/internal/lib/quantity"
)

// maxMetrics bounds the metrics in a merged status.
const maxMetrics = 64

// highest merges the metrics of a HorizontalPodAutoscaler: of each the highest.
type highest struct{}

func (highest) text() string { return "the highest value of each metric" }

func (highest) value(m *merging, field string) any {
	if m.alone() {
		return (same{}).value(m, field)
	}
	type metric struct {
		raw  json.RawMessage
		load load
	}
	var order []string
	most := map[string]metric{}
	for _, p := range m.inputs {
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
		return json.RawMessage("null") // the type always encodes it
	}
	all := make([]json.RawMessage, len(order))
	for i, id := range order {
		all[i] = most[id].raw
	}
	return all
}

// load is the current value of a metric: a share of the requested resources, or a quantity.
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

// identify returns the identity of an entry's metric, and its current value.
func identify(entry gjson.Result) (id string, current load) {
	fieldName := entry.Get("type").Str // the type is the name of its field, except for the first letter
	if fieldName != "" {
		fieldName = strings.ToLower(fieldName[:1]) + fieldName[1:]
	}
	value := entry.Get(fieldName + ".current")
	current.share = count(value.Get("averageUtilization"))
	for _, name := range []string{"averageValue", "value"} {
		if q, err := quantity.Parse(value.Get(name).Str); err == nil {
			current.quantity = q
			break
		}
	}
	rest, err := sjson.Delete(entry.Raw, fieldName+".current")
	if err != nil {
		return entry.Raw, current
	}
	return canonical(gjson.Parse(rest)), current
}
