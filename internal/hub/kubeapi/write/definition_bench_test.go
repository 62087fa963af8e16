package write_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
)

// BenchmarkDefinitions creates 20 large CRDs in a space at once, as a chart does, and reads the
// kinds of the space after each. The CPU is that of hub, log and clients.
func BenchmarkDefinitions(b *testing.B) {
	const definitions, clients = 20, 8
	all := make([]object, 0, definitions)
	for i := range definitions {
		spec := object{}
		for field := range 40 * (1 + i%5) {
			spec[fmt.Sprint("field", field)] = deepField(field)
		}
		all = append(all, crd(fmt.Sprintf("%c%cs", 'a'+i, 'a'+i), fmt.Sprint("Kind", i), widgetSpec(spec)))
	}
	names := make([]string, len(all))
	for i, definition := range all {
		names[i] = definition["metadata"].(object)["name"].(string)
	}
	h := newHub(b)
	var used, round, size int64
	for b.Loop() {
		b.StopTimer()
		bodies := make([][]byte, len(all))
		size = 0
		for i, definition := range all { // nothing is known from the last round
			for _, v := range definition["spec"].(object)["versions"].([]any) {
				v.(object)["schema"].(object)["openAPIV3Schema"].(object)["description"] = fmt.Sprint("round ", round)
			}
			var err error
			if bodies[i], err = json.Marshal(definition); err != nil {
				b.Fatal(err)
			}
			size += int64(len(bodies[i]))
		}
		round++
		b.StartTimer()
		before := cpu(b)
		var group errgroup.Group
		group.SetLimit(clients)
		for i, body := range bodies {
			group.Go(func() error {
				if a := h.do("POST", "a", crds, string(body)); a.code != 201 {
					return fmt.Errorf("create: %.1000s", a.raw)
				}
				if a := h.do("GET", "a", crds+"/"+names[i], nil); a.code >= 500 {
					return fmt.Errorf("get: %.1000s", a.raw)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
		used += cpu(b) - before
		b.StopTimer()
		for _, name := range names {
			h.must(200, h.do("DELETE", "a", crds+"/"+name, nil))
			h.finish(func() (progress, error) { return h.server.FinishCRD(h.ctx, "a", name) })
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(used)/1e6/float64(b.N*len(all)), "cpu-ms/definition")
	b.ReportMetric(float64(size)/float64(len(all)), "B/definition")
}

func deepField(n int) object {
	field := object{"type": "string", "maxLength": 64, "description": strings.Repeat("What this field means. ", 5)}
	switch n % 10 {
	case 0:
		field = object{"type": "array", "maxItems": 8, "items": object{"type": "object", "properties": object{"name": field, "other": field, "number": object{"type": "integer", "format": "int32"}}}}
	case 1:
		field["enum"] = []any{"A", "B", "C"}
		field["default"] = "A"
	case 2:
		field["pattern"] = "^[a-z]+$"
	case 3:
		field["x-kubernetes-validations"] = []any{object{"rule": "self != 'x'", "message": "not x"}}
	}
	return object{"type": "object", "description": strings.Repeat("A group of fields. ", 5), "properties": object{"one": field, "two": field}}
}

// cpu is what the process has taken, in nanoseconds.
func cpu(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
