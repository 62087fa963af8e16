package protobuf_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"orrery.dev/orrery/internal/hub/kinds/protobuf"
)

// BenchmarkAppend transcodes a ConfigMap of 2 KB as an API server keeps it.
func BenchmarkAppend(b *testing.B) {
	stored := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12345","name":"config-1","namespace":"default",` +
		`"uid":"0f4d6a1e-5c55-4a0e-8f1c-5a6f9a0c2d11","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"a","tier":"b"},` +
		`"managedFields":[{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1",` +
		`"fieldsV1":{"f:data":{".":{},"f:fill":{},"f:value":{}},"f:metadata":{"f:labels":{".":{},"f:app":{},"f:tier":{}}}}}]},` +
		`"data":{"fill":"` + strings.Repeat("a", 1500) + `","value":"first"}}`)
	var types protobuf.Types
	t := types.Type(corev1.SchemeGroupVersion.WithKind("ConfigMap"), reflect.TypeFor[corev1.ConfigMap]())
	b.ReportAllocs()
	b.SetBytes(int64(len(stored)))
	var to []byte
	for b.Loop() {
		made, ok := t.Append(to[:0], stored)
		if !ok {
			b.Fatal("it has to be decoded")
		}
		to = made
	}
}
