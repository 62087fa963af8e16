package columns

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/test/support/cost"
)

// column is a column of texts.
func column(path string) apiextensionsv1.CustomResourceColumnDefinition {
	return apiextensionsv1.CustomResourceColumnDefinition{Name: "A", Type: "string", JSONPath: path}
}

const sampleObject = `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"cluster.x-k8s.io/name": "blue", "app": "shop"}},
	"spec": {"hosts": ["a.example", "b.example"], "size": 3, "ratio": 0.5, "on": true, "none": null, "big": 1000000, "empty": [], "first": [{"a": 1}, {"b": 2}, {"b": 3}],
		"class": {"name": "gold"}},
	"status": {"conditions": [{"type": "Synced", "status": "False", "n": 1}, {"type": "Ready", "status": "True", "reason": "Fine", "n": 2}, {"status": "Unknown"}],
		"addresses": [{"type": "IP"}, {"type": "IP", "value": "10.0.0.1"}]}}`

// parsed is an object as the hub decodes it.
func parsed(t testing.TB, object string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal([]byte(object), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// row has the cells of an object without its name.
func row(t testing.TB, table rest.TableConvertor, u *unstructured.Unstructured) []any {
	t.Helper()
	made, err := table.ConvertToTable(t.Context(), u, nil)
	if err != nil || len(made.Rows) != 1 {
		t.Fatalf("got %d rows, %v", len(made.Rows), err)
	}
	return made.Rows[0].Cells[1:]
}

// theirs has the cells of an object by the library of Kubernetes.
func theirs(t testing.TB, path string, u *unstructured.Unstructured) []any {
	t.Helper()
	table, err := tableconvertor.New([]apiextensionsv1.CustomResourceColumnDefinition{column(path)})
	if err != nil {
		t.Fatalf("the library refuses %q: %v", path, err)
	}
	return row(t, table, u)
}

// TestColumnsAreKubernetesOwn: a path that the hub admits shows what Kubernetes shows.
func TestColumnsAreKubernetesOwn(t *testing.T) {
	for _, path := range []string{
		".metadata.name", ".metadata.labels.app", `.metadata.labels.cluster\.x-k8s\.io/name`, `.metadata.labels['cluster\.x-k8s\.io/name']`,
		".spec.hosts", ".spec.hosts[0]", ".spec.hosts[-1]", ".spec.hosts[*]", ".spec.hosts[1:]", ".spec.hosts[0:1]", ".spec.hosts[-1:]", ".spec.hosts[:1]", ".spec.hosts[7]",
		".spec.size", ".spec.ratio", ".spec.on", ".spec.none", ".spec.big", ".spec.empty", ".spec.empty[*]", ".spec.missing", ".spec.missing.more", ".spec.size.more",
		".spec.first[*].b", ".spec.class", ".spec['class'].name", ".spec['class.name']", ".",
		`.status.conditions[?(@.type=="Ready")].status`, `.status.conditions[?(@.type=='Ready')].reason`, `.status.conditions[?(@.type == "Ready")].status`,
		`.status.conditions[?(@.type=="Gone")].status`, `.status.conditions[?(@.type!="Synced")].status`, `.status.conditions[?(@.reason)].type`,
		`.status.conditions[?(@.n==2)].type`, `.status.conditions[?(@.type=="Ready")]`, `.status.conditions[?(@.status=="True")].type`,
		".spec$.class", ".spec@.hosts[0]", ".$.spec.class", ".spec.$ref", ".spec.@type.class", ".spec.hosts@",
		".status.conditions[-1:].status", ".status.conditions[*].type", ".status.addresses[*].value", `.spec.hosts[?(@=="b.example")]`,
	} {
		u := parsed(t, sampleObject)
		if errs := ValidateCustom(field.NewPath("columns"), []apiextensionsv1.CustomResourceColumnDefinition{column(path)}, nil); len(errs) > 0 {
			t.Errorf("%s: %v", path, errs)
		}
		got := row(t, Custom([]apiextensionsv1.CustomResourceColumnDefinition{column(path)}), u)
		if want := theirs(t, path, u); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestColumnsOfTypes: cells have the types of their columns.
func TestColumnsOfTypes(t *testing.T) {
	for path, kind := range map[string]string{
		".spec.size": "integer", ".spec.ratio": "integer", ".spec.big": "number", ".spec.on": "boolean", ".spec.hosts": "integer",
		".metadata.creationTimestamp": "date", ".metadata.name": "date", ".spec.class": "boolean", ".spec.none": "date",
	} {
		defined := []apiextensionsv1.CustomResourceColumnDefinition{{Name: "A", Type: kind, JSONPath: path}}
		u := parsed(t, sampleObject)
		library, err := tableconvertor.New(defined)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := row(t, Custom(defined), u), row(t, library, u); !reflect.DeepEqual(got, want) {
			t.Errorf("%s as %s: got %v, want %v", path, kind, got, want)
		}
	}
}

// columnBombs are columns that are small and would take much, with what the user reads of them.
func columnBombs() map[string]string {
	return map[string]string{
		".spec" + strings.Repeat("['in','in']", 20): "column of its own",
		"." + strings.Repeat(".a", 3):               "name each field",
		".spec..*..*..*..*":                         "name each field",
		".spec.*.a":                                 "name the field",
		".spec{range .spec.hosts}{.spec}{end}":      "can't be read",
		".spec}{.spec":                              "can't be read",
		`.status.conditions[?(@.a[?(@.b=="c")])]`:   "must compare",
		"$.spec.class":                              "begin with a dot",
		"@.spec.class":                              "begin with a dot",
		".spec.$true":                               "can't be read",
		`.status.conditions[?(@.a>1)]`:              "must compare",
		`.status.conditions[?(@.a==@.b)]`:           "must compare",
		"." + strings.Repeat("a", 2000):             "at most 1024 bytes",
		".spec.hosts[0:1:1]":                        "without a step",
		".spec[" + strings.Repeat("[", 500):         "not closed",
		".spec" + strings.Repeat("[?(@.a", 100):     "not closed",
	}
}

// TestColumnBombs: a column that could take much is refused with a way out. If it is stored
// already, it is empty, the other columns are there, and it takes next to nothing.
func TestColumnBombs(t *testing.T) {
	u := parsed(t, sampleObject)
	deep := u.Object["spec"].(map[string]any)
	for range 20 { // each union doubles the results of the library where it finds something
		inner := map[string]any{"a": "b"}
		deep["in"] = inner
		deep = inner
	}
	for path, detail := range columnBombs() {
		defined := []apiextensionsv1.CustomResourceColumnDefinition{column(path), column(".spec.size")}
		errs := ValidateCustom(field.NewPath("columns"), defined, nil)
		if len(errs) != 1 || errs[0].Field != "columns[0].jsonPath" || !strings.Contains(errs[0].Detail, detail) {
			t.Errorf("%.40s: got %v", path, errs)
		}
		if errs := ValidateCustom(field.NewPath("columns"), defined, defined); len(errs) > 0 {
			t.Errorf("%.40s: is refused where it is stored: %v", path, errs)
		}
		var got []any
		if used := cost.Allocated(func() { got = row(t, Custom(defined), u) }); used > 1<<20 {
			t.Errorf("%.40s: %d bytes for one row", path, used)
		}
		if !reflect.DeepEqual(got, []any{nil, "3"}) {
			t.Errorf("%.40s: got %v", path, got)
		}
	}
}

// TestCellsAreBounded: neither very many columns nor large values make large rows.
func TestCellsAreBounded(t *testing.T) {
	many := make([]apiextensionsv1.CustomResourceColumnDefinition, 5000)
	for i := range many {
		many[i] = column(".spec")
	}
	if errs := ValidateCustom(field.NewPath("columns"), many, nil); len(errs) != 1 || errs[0].Type != field.ErrorTypeTooMany {
		t.Errorf("got %v", errs)
	}
	if errs := ValidateCustom(field.NewPath("columns"), many, many); len(errs) > 0 {
		t.Errorf("they are refused where they are stored: %v", errs)
	}
	items := strings.TrimSuffix(strings.Repeat(`{"a":1},`, 100_000), ",")
	u := parsed(t, fmt.Sprintf(`{"metadata":{"name":"a"},"spec":{"a":[%s],"text":%q}}`, items, strings.Repeat("ü", 100_000)))
	table := Custom(many)
	if used := cost.Allocated(func() {
		if got := row(t, table, u); len(got) != maxColumns || got[0] != nil {
			t.Errorf("got %d cells, %.100v", len(got), got[0])
		}
	}); used > 1<<20 {
		t.Errorf("%d bytes for cells that are empty", used)
	}
	for i := range many {
		many[i] = column(`.spec.a[?(@.b=="c")]`)
	}
	if budget := maxVisits; Custom(many).(*customTable).columns[0].cell(u.Object, &budget) != nil || budget >= 0 {
		t.Errorf("%d of %d visits are left after 100000 items", budget, maxVisits)
	}
	got := row(t, Custom([]apiextensionsv1.CustomResourceColumnDefinition{column(".spec.text")}), u)[0].(string)
	if len(got) > maxCell || !strings.HasSuffix(got, "ü...") {
		t.Errorf("got a cell of %d bytes", len(got))
	}
}

// FuzzColumns checks that a cell takes bounded work and memory for any path and object, and that it is
// what Kubernetes shows, if that shows one.
func FuzzColumns(f *testing.F) {
	for path := range columnBombs() {
		f.Add(path, sampleObject)
	}
	for _, path := range []string{".", ".spec.hosts[-1:]", `.status.conditions[?(@.type=="Ready")].status`, ".spec['class.name']", `.a\.b`, `.spec.class.`, ".spec.hosts[:]", `.spec.hosts[?(@)]`, ".spec$.class", ".spec.$ref.x", ".spec.@[0]"} {
		f.Add(path, sampleObject)
	}
	f.Fuzz(func(t *testing.T, path, object string) {
		u := &unstructured.Unstructured{}
		if len(object) > 1<<16 || utiljson.Unmarshal([]byte(object), &u.Object) != nil || u.Object == nil {
			return
		}
		c := Custom([]apiextensionsv1.CustomResourceColumnDefinition{column(path)}).(*customTable).columns[0]
		budget := maxVisits
		var got any
		if used := cost.Allocated(func() { got = c.cell(u.Object, &budget) }); used > 1<<20 {
			t.Fatalf("a cell takes %d bytes", used)
		}
		if shown, err := json.Marshal(got); err != nil || len(shown) > 6*maxCell+2 {
			t.Fatalf("a cell of %d bytes, %v", len(shown), err)
		}
		if c.path == nil {
			if got != nil {
				t.Fatalf("a path that is refused shows %v", got)
			}
			return
		}
		library, err := tableconvertor.New([]apiextensionsv1.CustomResourceColumnDefinition{column(path)})
		if err != nil {
			t.Fatalf("the library refuses what the hub admits: %v", err)
		}
		made, err := library.ConvertToTable(t.Context(), u, nil)
		if err != nil || len(made.Rows) != 1 {
			return // it has no metadata
		}
		if want := made.Rows[0].Cells[1]; want != nil && len(fmt.Sprint(want)) < maxCell && got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
