package kinds

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/test/support/env"
)

// tablesFile has further samples, with a status, for their tables.
const tablesFile = "../../../internal/hub/kinds/builtin/testdata/tables/status.yaml"

// TestTablesAreThoseOfKubernetes writes all samples to a real API server and to a space,
// and compares the columns and cells of the tables that both return. A space has three
// columns more, behind the others.
func TestTablesAreThoseOfKubernetes(t *testing.T) {
	hub := env.StartHub(t)
	env.CreateSpace(t, hub.Kubeconfig, "tables")
	config := hub.PathConfig("spaces/tables")
	cluster := env.StartCluster(t, "tables", env.APIOnly(), env.APIServerArgs("--disable-admission-plugins="+
		"ServiceAccount,Priority,RuntimeClass,DefaultIngressClass,DefaultStorageClass,ResourceQuota,LimitRanger,"+
		"ValidatingAdmissionPolicy,MutatingAdmissionPolicy,ValidatingAdmissionWebhook,MutatingAdmissionWebhook"))
	space, stock := newAPI(t, config), newAPI(t, cluster.Config)
	for _, a := range []api{space, stock} {
		a.must(t, http.MethodPost, "/api/v1/namespaces", asYAML, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+shop+"}"))
	}
	all := samples(t, config)
	for _, s := range all {
		var status []byte
		if is, ok := statuses[s.gvk.Kind]; ok && !slices.Contains(unlikely, s.gvk.Kind) {
			status = []byte(`{"status":` + is + `}`)
		}
		compareTables(t, stock, space, s, status)
	}
	for _, s := range tableSamples(t, all) {
		var status []byte
		if is := s.written(t)["status"]; is != nil && !slices.Contains(unlikely, s.gvk.Kind) {
			status = encode(t, map[string]any{"status": is})
		}
		compareTables(t, stock, space, s, status)
	}
}

// unlikely are kinds whose status in the samples a real API server would not take.
var unlikely = []string{
	"APIService",                // written by the API server itself
	"CertificateSigningRequest", // the certificate is none
	"ResourceClaim",             // reserved, but not allocated
}

func compareTables(t *testing.T, stock, space api, s sample, status []byte) {
	t.Run(s.String()+"."+s.name, func(t *testing.T) {
		want, got := tablesOf(t, stock, s, status), tablesOf(t, space, s, status)
		for i := range want {
			if !s.never() {
				got[i].expectCounts(t)
			}
			got[i].compare(t, s, want[i])
		}
	})
}

func tableSamples(t *testing.T, all []sample) []sample {
	t.Helper()
	content, err := os.ReadFile(tablesFile)
	if err != nil {
		t.Fatal(err)
	}
	var more []sample
	for doc := range bytes.SplitSeq(content, []byte("\n---\n")) {
		more = append(more, another(t, all, string(doc)))
	}
	return more
}

// table is what a server shows of one object.
type table struct {
	columns []map[string]any
	cells   []any
}

// tablesOf writes a sample and reads its table, before and after its status is
// written, if there is one.
func tablesOf(t *testing.T, a api, s sample, status []byte) []*table {
	t.Helper()
	a.must(t, http.MethodPost, s.collection(), asJSON, s.canonical)
	all := []*table{readTable(t, a, s)}
	if status != nil {
		a.must(t, http.MethodPatch, s.path()+"/status", mergePatch, status)
		all = append(all, readTable(t, a, s))
	}
	return all
}

func readTable(t *testing.T, a api, s sample) *table {
	t.Helper()
	made := decode(t, a.raw(t, http.MethodGet, s.path(), "", asTable, nil))
	rows, _ := made["rows"].([]any)
	if len(rows) != 1 {
		t.Fatalf("the table is %v", made)
	}
	is := &table{}
	columns, _ := made["columnDefinitions"].([]any)
	for _, c := range columns {
		is.columns = append(is.columns, c.(map[string]any))
	}
	is.cells, _ = rows[0].(map[string]any)["cells"].([]any)
	return is
}

// expectCounts checks the four columns that only spaces have, and removes them.
func (is *table) expectCounts(t *testing.T) {
	t.Helper()
	n := len(is.columns) - 4
	if n < 0 || is.columns[n]["name"] != "Placed" || is.columns[n+1]["name"] != "Applied" || is.columns[n+2]["name"] != "Healthy" || is.columns[n+3]["name"] != "Failed" ||
		fmt.Sprint(is.cells[n:]) != "[0 0 0 0]" {
		t.Errorf("columns %v with cells %v do not end with Placed, Applied, Healthy and Failed", is.columns, is.cells)
		return
	}
	is.columns, is.cells = is.columns[:n], is.cells[:n]
}

// compare checks that a space has the columns and cells of Kubernetes, but for those that
// only a controller or an allocator there fills.
func (is *table) compare(t *testing.T, s sample, want *table) {
	t.Helper()
	if len(is.columns) != len(want.columns) {
		t.Errorf("columns %v, want %v", is.columns, want.columns)
		return
	}
	for i, c := range want.columns {
		for _, field := range []string{"name", "type", "format", "priority"} {
			if fmt.Sprint(is.columns[i][field]) != fmt.Sprint(c[field]) {
				t.Errorf("%s of column %v is %v, want %v", field, c["name"], is.columns[i][field], c[field])
			}
		}
		name := fmt.Sprint(c["name"])
		if why := differing[s.gvk.Kind+" "+name]; why != "" {
			continue
		}
		if g, w := fmt.Sprint(is.cells[i]), fmt.Sprint(want.cells[i]); g != w && !isAge(name) {
			t.Errorf("%s is %q, want %q", name, g, w)
		}
	}
}

// isAge reports whether a column depends on the time of the request.
func isAge(column string) bool {
	return strings.Contains("Age,Created At,Last Seen,First Seen", column)
}

// differing are cells that may differ, by kind and column, and why that is right.
var differing = map[string]string{
	"APIService Available":                "the API server looks for itself",
	"FlowSchema MissingPL":                "the API server looks for itself",
	"CertificateSigningRequest Requestor": "the API server writes down who asks",
	"Job Selector":                        "the API server gives a Job a selector of its own",
	"Service Cluster-IP":                  "the API server allocates addresses",
	"Service Port(s)":                     "the API server allocates node ports",
}
