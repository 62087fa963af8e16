package binding_test

import (
	"fmt"
	"testing"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// TestDefines: a CRD defines something from when it is established, while it serves a version.
func TestDefines(t *testing.T) {
	for _, c := range []struct {
		established, deleting string
		served                []bool
		want                  bool
	}{
		{established: "True", served: []bool{true}, want: true},
		{established: "True", served: []bool{false, true}, want: true},
		{established: "True", served: []bool{false}},
		{established: "True"},
		{established: "False", served: []bool{true}},
		{established: "True", served: []bool{true}, deleting: `"deletionTimestamp":"2026-01-01T00:00:00Z",`},
	} {
		versions := ""
		for i, served := range c.served {
			if i > 0 {
				versions += ","
			}
			versions += fmt.Sprintf(`{"name":"v%d","served":%v}`, i+1, served)
		}
		value := fmt.Sprintf(`{"metadata":{%s"name":"widgets.example.com"},"spec":{"versions":[%s]},"status":{"conditions":[{"type":"Established","status":%q}]}}`, c.deleting, versions, c.established)
		row := &table.Row{Entry: table.NewEntry(key.OfPath("p/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"), []byte(value), 1, 1)}
		if got := binding.Defines(row); got != c.want {
			t.Errorf("%s: %v", value, got)
		}
	}
	if binding.Defines(nil) {
		t.Error("nothing defines something")
	}
}
