package registry

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// BenchmarkMemory measures what CRDs of a size take: in the light part, in the
// heavy part once everything was used, and in each further space that has the
// same. Run it with -benchtime=1x.
func BenchmarkMemory(b *testing.B) {
	for _, test := range []struct {
		name                string
		fields, crds, rules int // rules: one in so many fields has one
	}{{"5KB", 40, 20, 20}, {"30KB", 250, 20, 20}, {"300KB", 2500, 4, 500}, {"300KB,rules", 2500, 4, 20}} {
		b.Run(test.name, func(b *testing.B) {
			for range b.N {
				measureMemory(b, test.crds, test.fields, test.rules)
			}
		})
	}
}

func measureMemory(b *testing.B, crds, fields, rules int) {
	b.Helper()
	r, err := New()
	if err != nil {
		b.Fatal(err)
	}
	s := newSpaces(b)
	size := 0
	for i := range crds {
		crd := largeCRD(b, i, fields, rules)
		data, err := json.Marshal(crd)
		if err != nil {
			b.Fatal(err)
		}
		size = len(data)
		for _, space := range []key.Space{"a", "b"} {
			s.put(space, crd, apiextensionsv1.Established)
		}
	}
	for i := range 100 {
		for j := range crds {
			s.put(key.Space(fmt.Sprintf("s%d", i)), largeCRD(b, j, 1, 1), apiextensionsv1.Established)
		}
	}
	before := heap()
	all := s.catalog(r, "a")
	light := heap()
	for i := range crds {
		if err := r.compiler.Check(b.Context(), largeCRD(b, i, fields, rules)); err != nil {
			b.Fatal(err)
		}
	}
	for _, k := range all.Kinds() {
		describe(b, k)
	}
	heavy := heap()
	s.catalog(r, "b")
	second := heap()
	s.catalog(r, "s0")
	shared := heap()
	for i := range 99 {
		s.catalog(r, key.Space(fmt.Sprintf("s%d", i+1)))
	}
	further := heap()
	per := float64(crds)
	b.ReportMetric(float64(size), "B/crd")
	b.ReportMetric((light-before)/per, "B/light")
	b.ReportMetric((heavy-light)/per, "B/heavy")
	b.ReportMetric((second-heavy)/per, "B/again")
	b.ReportMetric((further-shared)/99/per, "B/further")
	runtime.KeepAlive(all)
	runtime.KeepAlive(r)
}

// describe has all documents made of what a CRD defines.
func describe(b *testing.B, k *kinds.Kind) {
	b.Helper()
	if k.Custom == nil || k.GVR.Group != "example.com" {
		return
	}
	for _, document := range []func() ([]byte, error){k.Custom.OpenAPI().V3, k.Custom.OpenAPI().V2Proto} {
		if _, err := document(); err != nil {
			b.Fatal(err)
		}
	}
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// largeCRD has a schema with a number of described fields, some of them deep in
// lists and with rules, as generated ones have.
func largeCRD(b *testing.B, n, fields, rules int) *apiextensionsv1.CustomResourceDefinition {
	b.Helper()
	properties := map[string]any{}
	for i := range fields {
		field := map[string]any{"type": "string", "maxLength": 64, "description": strings.Repeat("What this field means. ", 3)}
		if i%rules == 0 {
			field["x-kubernetes-validations"] = []any{map[string]any{"rule": "self != 'x'", "message": "not x"}}
		}
		group := fmt.Sprintf("group%d", i/10)
		if properties[group] == nil {
			properties[group] = map[string]any{"type": "array", "maxItems": 4, "items": map[string]any{"type": "object", "properties": map[string]any{}}}
		}
		properties[group].(map[string]any)["items"].(map[string]any)["properties"].(map[string]any)[fmt.Sprintf("field%d", i)] = field
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}}}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": fmt.Sprintf("things%d.example.com", n)},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names":    map[string]any{"plural": fmt.Sprintf("things%d", n), "singular": fmt.Sprintf("thing%d", n), "kind": fmt.Sprintf("Thing%d", n), "listKind": fmt.Sprintf("Thing%dList", n)},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}}, "schema": map[string]any{"openAPIV3Schema": schema}}},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(data, crd); err != nil {
		b.Fatal(err)
	}
	return crd
}
