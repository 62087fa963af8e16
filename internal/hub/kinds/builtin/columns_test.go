package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/columns"
)

// tableTime is when the tables of tests are made.
func tableTime() time.Time { return time.Date(2026, 1, 2, 3, 14, 35, 0, time.UTC) }

// TestTables compares the tables of all samples with what a reviewer has seen.
// Run with UPDATE_GOLDEN=1 to write them anew.
func TestTables(t *testing.T) {
	var out strings.Builder
	var last *kinds.Kind
	all := append(samples(t), readSamples(t, "testdata/tables/*.yaml")...)
	slices.SortStableFunc(all, func(a, b sample) int { return strings.Compare(a.kind.GVK.String(), b.kind.GVK.String()) })
	for _, s := range all {
		obj := decodeAs(t, s.kind, runtime.ContentTypeYAML, s.yaml)
		m, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		m.SetCreationTimestamp(metav1.NewTime(tableTime().Add(-90 * time.Minute)))
		table, err := s.kind.Columns.ConvertToTable(context.Background(), obj, nil)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if last == nil || last.GVK != s.kind.GVK {
			fmt.Fprintf(&out, "\n%s\n", s.kind.GVR.GroupResource())
			for _, c := range table.ColumnDefinitions {
				fmt.Fprintf(&out, "| %s%s ", strings.ToUpper(c.Name), strings.Repeat("+", int(c.Priority)))
			}
			out.WriteByte('\n')
		}
		last = s.kind
		if len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
			t.Fatalf("%s: %d columns, rows %v", s.name, len(table.ColumnDefinitions), table.Rows)
		}
		for i, c := range table.Rows[0].Cells {
			checkCell(t, s.name, table.ColumnDefinitions[i], c)
			fmt.Fprintf(&out, "| %v ", c)
		}
		out.WriteByte('\n')
		compareScanned(t, s, obj, table)
	}
	compareGolden(t, "testdata/tables/golden.txt", out.String())
}

// compareScanned compares the cells that are made of an object's JSON, for kinds that have such.
func compareScanned(t *testing.T, s sample, obj runtime.Object, table *metav1.Table) {
	t.Helper()
	want, definitions := table.Rows[0].Cells, table.ColumnDefinitions
	stored, err := runtime.Encode(s.kind.StorageCodec, obj)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	got, _, ok := s.kind.Columns.(columns.Scanner).Scan([]byte("["), stored)
	if plain := len(definitions) == 2 && definitions[1].Name == "Age"; ok != (plain || slices.Contains([]string{"ConfigMap", "Secret"}, s.kind.GVK.Kind)) {
		t.Errorf("%s: scanned %t, with the cells %v", s.name, ok, want)
	}
	encoded, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if ok && string(append(got, ']')) != string(encoded) || !ok && string(got) != "[" {
		t.Errorf("%s: scanned %s, want %s", s.name, got, encoded)
	}
}

// checkCell holds a cell to the type that its column promises to clients.
func checkCell(t *testing.T, name string, d metav1.TableColumnDefinition, cell any) {
	t.Helper()
	ok := true
	switch d.Type {
	case "integer":
		_, ok = cell.(int64)
	case "boolean":
		_, ok = cell.(bool)
		ok = ok || cell == "True" || cell == "False" // Kubernetes has words in places
	}
	if !ok {
		t.Errorf("%s: column %s of type %s has a %T", name, d.Name, d.Type, cell)
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Fatalf("%s:%d:\n got %q\nwant %q", file, i+1, g, w)
		}
	}
}

// TestTablesOfLists checks what a table takes over from a list, and that
// every kind makes a table of nothing at all: a bookmark is an empty object.
func TestTablesOfLists(t *testing.T) {
	for _, k := range builtins(t) {
		list := k.NewList()
		if err := meta.SetList(list, []runtime.Object{k.New(), k.New()}); err != nil {
			t.Fatal(err)
		}
		l, err := meta.ListAccessor(list)
		if err != nil {
			t.Fatal(err)
		}
		l.SetResourceVersion("42")
		l.SetContinue("more")
		table, err := k.Columns.ConvertToTable(context.Background(), list, &metav1.TableOptions{NoHeaders: true})
		if err != nil {
			t.Errorf("%s: %v", k.GVK, err)
			continue
		}
		if len(table.Rows) != 2 || table.ResourceVersion != "42" || table.Continue != "more" || len(table.ColumnDefinitions) != 0 {
			t.Errorf("%s: table %+v", k.GVK, table)
		}
	}
}
