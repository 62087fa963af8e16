package read

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// BenchmarkList reads all spaces at once over HTTP, in the forms that clients ask for.
func BenchmarkList(b *testing.B) {
	f := newFixture(b, func(_ *Config, tc *table.Config) { tc.Deriver = nil })
	var updates []table.Update
	const objects = 50000
	for i := range objects {
		o := cm(key.Space(fmt.Sprint("s", i%1000)), fmt.Sprint("x", i), strings.Repeat("a", 2500))
		updates = append(updates, table.Update{Key: o.key(), Value: o.value()})
	}
	f.apply(updates...)
	s := f.serve()
	for name, c := range map[string]struct{ path, accept string }{
		"json":       {"/spaces/*/api/v1/configmaps", "application/json"},
		"pretty":     {"/spaces/*/api/v1/configmaps?pretty=1", "application/json"},
		"table":      {"/spaces/*/api/v1/configmaps", tableAccept},
		"metadata":   {"/spaces/*/api/v1/configmaps", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
		"none":       {"/spaces/*/api/v1/configmaps?labelSelector=no%3Done", "application/json"},
		"space":      {"/spaces/s1/api/v1/configmaps", "application/json"},
		"space, one": {"/spaces/s1/api/v1/namespaces/default/configmaps/x1", "application/json"},
	} {
		b.Run(name, func(b *testing.B) {
			readAgain(b, s.URL+c.path, c.accept)
		})
	}
}

// BenchmarkProtobufList reads a list of 10,000 objects that has to be converted.
func BenchmarkProtobufList(b *testing.B) {
	f := newFixture(b, func(_ *Config, tc *table.Config) { tc.Deriver = nil })
	var updates []table.Update
	for i := range 10000 {
		o := cm("s", fmt.Sprint("x", i), strings.Repeat("a", 1800))
		updates = append(updates, table.Update{Key: o.key(), Value: o.value()})
	}
	f.apply(updates...)
	s := f.serve()
	readAgain(b, s.URL+"/spaces/s/api/v1/configmaps", "application/vnd.kubernetes.protobuf")
}

// BenchmarkTable reads 10,000 objects of 2 KB as a table, of which clients made all and so own
// all fields.
func BenchmarkTable(b *testing.B) {
	f := newFixture(b, func(_ *Config, tc *table.Config) { tc.Deriver = nil })
	var updates []table.Update
	for i := range 10000 {
		o := cm("s", fmt.Sprintf("list-%06d", i), "")
		value := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"f2a9c1de-6d0b-4d52-8d80-%012d",`+
			`"creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z",`+
			`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:payload":{},"f:value":{}}}}]},"data":{"payload":%q,"value":"first"}}`+"\n",
			o.name, i, strings.Repeat("0123456789abcdef", 2<<10/16))
		updates = append(updates, table.Update{Key: o.key(), Value: []byte(value)})
	}
	f.apply(updates...)
	s := f.serve()
	readAgain(b, s.URL+"/spaces/s/api/v1/configmaps", tableAccept)
}

// readAgain is the loop of a benchmark that reads one URL.
func readAgain(b *testing.B, url, accept string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		req.Header.Set("Accept-Encoding", "identity") // what is measured is the making of lists
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
		resp.Body.Close()
	}
}
