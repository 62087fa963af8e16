package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/columns"
	"orrery.dev/orrery/test/support/seeds"
)

// TestScannedCells: cells that are made of an object's JSON are those of the decoded object, also where
// the JSON is not as an encoder writes it; most of what an encoder writes is not decoded.
func TestScannedCells(t *testing.T) {
	for _, k := range builtins(t) {
		definitions, err := k.Columns.ConvertToTable(t.Context(), k.NewList(), nil)
		if err != nil {
			t.Fatal(err)
		}
		columns := definitions.ColumnDefinitions
		counts := k.GVK.Group == "" && (k.GVK.Kind == "ConfigMap" || k.GVK.Kind == "Secret")
		if !counts && (len(columns) != 2 || columns[1].Name != "Age") {
			continue
		}
		t.Run(k.GVK.String(), func(t *testing.T) {
			scanned, usual := 0, 0
			seeds.Check(t, func(t *rapid.T) {
				strange := rapid.Bool().Draw(t, "strange")
				ok := checkScanned(t, k, written(t, k, strange))
				if !strange {
					usual++
					if ok {
						scanned++
					}
				}
			})
			if scanned < usual {
				t.Errorf("%d of %d objects have to be decoded", usual-scanned, usual)
			}
		})
	}
}

// TestLeftToDecoding has what the scanner must not take for what it is usually.
func TestLeftToDecoding(t *testing.T) {
	for _, k := range builtins(t) {
		if k.GVK.Group != "" || k.GVK.Kind != "ConfigMap" {
			continue
		}
		for _, fields := range []string{
			`"metadata":{"name":"x"},"metadata":{}`, `"metadata":null`, `"metadata":{"name":1}`, `"metadata":{"name":"\u0061"}`,
			`"metadata":{"name":"a","name":"b"}`, `"metadata":{"creationTimestamp":null,"creationTimestamp":null}`, `"metadata":{"creationTimestamp":"yesterday"}`,
			`"data":{"a":"","a":""}`, `"data":{"b":"","a":""}`, `"data":{"\u0061":""}`, `"data":{"a":1}`, `"data":[]`, `"data":{"a":"1"},"data":{"b":"1"}`, `"d\u0061ta":{}`,
			`"data":{"a":""`, `"data":{"a":"`, `"data":{"a"`, `"metadata":{"name":`, `"x":[{"a":"}]`,
		} {
			object := `{"kind":"ConfigMap","apiVersion":"v1",` + fields
			if json.Valid([]byte(object + "}")) {
				object += "}"
			}
			if cells, _, ok := k.Columns.(columns.Scanner).Scan(nil, []byte(object)); ok || len(cells) > 0 {
				t.Errorf("%s: %s", object, cells)
			}
		}
	}
}

// checkScanned compares the cells of an object's JSON, and where its metadata end, if it can be scanned.
func checkScanned(t *rapid.T, k *kinds.Kind, object string) bool {
	cells, end, ok := k.Columns.(columns.Scanner).Scan([]byte("["), []byte(object))
	if !ok {
		if string(cells) != "[" {
			t.Fatalf("%s: has to be decoded, with the cells %s", object, cells)
		}
		return false
	}
	decoded, err := runtime.Decode(k.StorageCodec, []byte(object))
	if err != nil {
		t.Fatalf("%s: scanned, but not decoded: %v", object, err)
	}
	table, err := k.Columns.ConvertToTable(context.Background(), decoded, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(table.Rows[0].Cells)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(append(cells, ']')); got != string(want) {
		t.Fatalf("%s:\n got %s\nwant %s", object, got, want)
	}
	if _, metadata, found := strings.Cut(object[:end], `"metadata"`); found != (end > 0) || found && !json.Valid([]byte(strings.TrimLeft(metadata, " \r\n\t:"))) {
		t.Fatalf("%s: the metadata are taken to end at %d", object, end)
	}
	return true
}

// written draws the JSON of an object, as an encoder writes it, or strange: with fields twice, in any case,
// escaped, null, with spaces.
func written(t *rapid.T, k *kinds.Kind, strange bool) string {
	w := writer{t, strange}
	fields := []string{w.field("kind", fmt.Sprintf("%q", k.GVK.Kind)), w.field("apiVersion", fmt.Sprintf("%q", k.Storage.String()))}
	all := []func() string{func() string { return w.field("metadata", w.metadata()) }}
	if k.GVK.Group == "" && k.GVK.Kind == "ConfigMap" {
		all = append(all, func() string { return w.field("data", w.texts("", "}", `\"`, `\\`, `a\u0062`, "é", `{\"a\":[`)) },
			func() string { return w.field("binaryData", w.texts("", "AA==")) })
	}
	if k.GVK.Group == "" && k.GVK.Kind == "Secret" {
		all = append(all, func() string { return w.field("data", w.texts("", "AA==")) },
			func() string {
				return w.field("type", w.one([]string{`"Opaque"`, `"a.io/b"`, `""`}, `null`, `"\u0061"`, `"<é>"`))
			})
		if strange {
			all = append(all, func() string { return w.field("stringData", w.texts("x")) })
		}
	}
	for _, field := range all {
		for range rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 1, 0, 2}).Draw(t, "times") {
			fields = append(fields, field())
			if !strange {
				break
			}
		}
	}
	if strange && rapid.Bool().Draw(t, "unknown") {
		fields = append(fields, w.field(w.one([]string{"Metadata", "DATA", "Data", "x"}), w.one([]string{`{"name":"y","data":{"a":"1"}}`, `[1,{"a":"]"}]`, `"}"`, `-1e3`, `true`})))
	}
	return w.object(fields) + w.one([]string{"\n", ""})
}

// writer draws JSON.
type writer struct {
	*rapid.T
	strange bool
}

// one is one of the usual texts, or of the others, too, if what is drawn is strange.
func (w writer) one(usual []string, others ...string) string {
	if w.strange {
		usual = append(usual, others...)
	}
	return rapid.SampledFrom(usual).Draw(w.T, "one")
}

// space is what may be between two tokens.
func (w writer) space() string {
	if !w.strange || rapid.IntRange(0, 9).Draw(w.T, "spaces") < 9 {
		return ""
	}
	return rapid.SampledFrom([]string{" ", "\n", "\t \r\n"}).Draw(w.T, "space")
}

func (w writer) field(name, value string) string {
	if w.strange && rapid.IntRange(0, 39).Draw(w.T, "escaped") == 39 {
		name = fmt.Sprintf(`\u%04x`, name[0]) + name[1:]
	}
	return `"` + name + `"` + w.space() + ":" + w.space() + value
}

func (w writer) object(fields []string) string {
	return "{" + w.space() + strings.Join(fields, w.space()+","+w.space()) + w.space() + "}"
}

func (w writer) metadata() string {
	if w.strange && rapid.IntRange(0, 9).Draw(w.T, "null") == 9 {
		return "null"
	}
	var fields []string
	for _, f := range []struct {
		name           string
		usual, strange []string
	}{
		{"name", []string{`"x"`, `"a.b-c"`, `"system:x"`}, []string{`null`, `"\u0061"`, `"<y>"`, `"é"`, `""`}},
		{"creationTimestamp", []string{`"2026-01-02T03:04:05Z"`, `null`, `"2025-01-02T03:04:05Z"`, `"2026-01-02T05:04:05+02:00"`, `"2999-01-02T03:04:05Z"`},
			[]string{`""`, `"yesterday"`, `"2026-13-02T03:04:05Z"`, `"0001-01-01T00:00:00Z"`, `"2026-01-02t03:04:05Z"`, `"2026-01-02T03:14:34.123456Z"`}},
		{"annotations", []string{`{"name":"}","a":"\"metadata\":{"}`}, []string{`null`}},
		{"managedFields", []string{`[{"manager":"m","fieldsV1":{"f:data":{".":{},"f:name":{}}}}]`}, nil},
	} {
		times := 1
		if w.strange {
			times = rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 1, 0, 2}).Draw(w.T, "times of "+f.name)
		}
		for range times {
			fields = append(fields, w.field(f.name, w.one(f.usual, f.strange...)))
		}
	}
	return w.object(fields)
}

// texts draws a map of some of the texts given.
func (w writer) texts(values ...string) string {
	if w.strange && rapid.IntRange(0, 9).Draw(w.T, "null") == 9 {
		return "null"
	}
	var fields []string
	for _, name := range []string{"a", "a-b", "a.b", "b"} {
		if rapid.Bool().Draw(w.T, "has "+name) {
			fields = append(fields, w.field(name, `"`+rapid.SampledFrom(values).Draw(w.T, "text")+`"`))
		}
	}
	if w.strange && rapid.Bool().Draw(w.T, "more") {
		fields = append(fields, w.field("a", w.one([]string{`"AA=="`, `null`, `1`})))
	}
	return w.object(fields)
}
