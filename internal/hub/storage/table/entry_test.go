package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

// splice inserts a field at an offset, as readers do.
func splice(value []byte, offset int, field string) []byte {
	comma := ","
	if rest := bytes.TrimLeft(value[offset:], " \t\r\n"); len(rest) > 0 && rest[0] == '}' {
		comma = ""
	}
	return slices.Concat(value[:offset], []byte(field+comma), value[offset:])
}

type parsed struct {
	Metadata struct {
		UID               string            `json:"uid"`
		Generation        int64             `json:"generation"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		ResourceVersion   string            `json:"resourceVersion"`
	} `json:"metadata"`
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

func mustParse(t failer, value []byte) parsed {
	t.Helper()
	var p parsed
	if err := json.Unmarshal(value, &p); err != nil {
		t.Fatalf("parse %s: %v", value, err)
	}
	return p
}

// jsonObject draws an object with fields in any order, and with white space at any place.
func jsonObject(t *rapid.T, fields map[string]string) string {
	blank := rapid.SampledFrom([]string{"", "", " ", "\n  ", "\t"})
	keys := rapid.Permutation(slices.Sorted(maps.Keys(fields))).Draw(t, "order")
	var b strings.Builder
	b.WriteString("{" + blank.Draw(t, "blank"))
	for i, k := range keys {
		if i > 0 {
			b.WriteString("," + blank.Draw(t, "blank"))
		}
		name, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(name)
		b.WriteString(blank.Draw(t, "blank") + ":" + blank.Draw(t, "blank") + fields[k] + blank.Draw(t, "blank"))
	}
	b.WriteString("}")
	return b.String()
}

// words returns texts that could mislead a careless parser.
func words() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringN(0, 8, 24), rapid.SampledFrom([]string{
		`"metadata":{"uid":"no"}`, `{"metadata":`, `\`, `"`, `}`, `{`, "uid", "labels", "é\u2028", "<>&",
	}))
}

func textMap(t *rapid.T, label string) map[string]string {
	return rapid.MapOfN(words(), words(), 0, 4).Draw(t, label)
}

func quoted(t *rapid.T, m map[string]string) string {
	fields := map[string]string{}
	for k, v := range m {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fields[k] = string(b)
	}
	return jsonObject(t, fields)
}

// TestEntryOfAnyObject compares entries of random objects with the result of a JSON decoder.
func TestEntryOfAnyObject(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		metadata := map[string]string{"name": `"x"`}
		optional := func(name, value string) {
			if rapid.Bool().Draw(t, "has "+name) {
				metadata[name] = value
			}
		}
		labels, annotations := textMap(t, "labels"), textMap(t, "annotations")
		optional("uid", `"u-1"`)
		optional("generation", strconv.Itoa(rapid.IntRange(0, 1<<40).Draw(t, "generation")))
		optional("deletionTimestamp", rapid.SampledFrom([]string{"null", `"2030-01-01T00:00:00Z"`}).Draw(t, "deleted"))
		optional("labels", rapid.SampledFrom([]string{quoted(t, labels), "null", "{}"}).Draw(t, "labels as"))
		optional("annotations", rapid.SampledFrom([]string{quoted(t, annotations), "null", "{}"}).Draw(t, "annotations as"))
		optional("managedFields", `[{"fieldsV1":{"f:metadata":{"f:labels":{".":{}}}}}]`)
		top := map[string]string{"kind": `"ConfigMap"`, "metadata": jsonObject(t, metadata)}
		if rapid.Bool().Draw(t, "has data") {
			top["data"] = quoted(t, textMap(t, "data"))
		}
		if rapid.Bool().Draw(t, "has template") {
			top["template"] = `{"metadata":{"uid":"inner","labels":{"a":"inner"}}}`
		}
		checkEntry(t, []byte(jsonObject(t, top)))
	})
}

func checkEntry(t failer, value []byte) {
	t.Helper()
	e := NewEntry("o/s/core/configmaps/ns/x", value, 1, 2)
	want := mustParse(t, value)
	if e.Meta.UID != want.Metadata.UID || e.Meta.Generation != want.Metadata.Generation ||
		e.Meta.Deleting != (want.Metadata.DeletionTimestamp != nil) {
		t.Fatalf("%s: entry has %+v", value, e.Meta)
	}
	if got := e.Meta.Labels.Map(); len(got)+len(want.Metadata.Labels) > 0 && !maps.Equal(got, want.Metadata.Labels) {
		t.Fatalf("%s: labels %v, want %v", value, got, want.Metadata.Labels)
	}
	for k, v := range want.Metadata.Labels {
		if got, ok := e.Meta.Labels.Lookup(k); !ok || got != v {
			t.Fatalf("%s: label %q is %q, want %q", value, k, got, v)
		}
	}
	for k, v := range want.Metadata.Annotations {
		if got := e.Annotation(k); got != v {
			t.Fatalf("%s: annotation %q is %q, want %q", value, k, got, v)
		}
	}
	if got := e.Annotation("no such annotation"); got != "" {
		t.Fatalf("%s: annotation that is not there is %q", value, got)
	}
	spliced := mustParse(t, splice(value, e.Meta.Insert, `"resourceVersion":"7"`))
	if spliced.Metadata.ResourceVersion != "7" {
		t.Fatalf("%s: splice at %d misses the metadata", value, e.Meta.Insert)
	}
	spliced.Metadata.ResourceVersion = want.Metadata.ResourceVersion
	if fmt.Sprint(spliced) != fmt.Sprint(want) && want.Metadata.DeletionTimestamp == nil {
		t.Fatalf("%s: splice at %d changes more than the metadata", value, e.Meta.Insert)
	}
	if offset := e.Meta.InsertAnnotation; offset != 0 {
		spliced := mustParse(t, splice(value, offset, `"orrery.dev/space":"s"`))
		if spliced.Metadata.Annotations["orrery.dev/space"] != "s" {
			t.Fatalf("%s: splice at %d misses the annotations", value, offset)
		}
	} else if want.Metadata.Annotations != nil {
		t.Fatalf("%s: annotations not found", value)
	}
}

func TestEntryWithoutMetadata(t *testing.T) {
	for _, value := range []string{`{}`, `{"metadata":null}`, `{"metadata":[]}`, `[]`, `"metadata"`, ``} {
		e := NewEntry("o/s/core/configmaps/ns/x", []byte(value), 1, 1)
		if e.Meta.Insert != 0 || e.Meta.InsertAnnotation != 0 || e.Annotation("a") != "" {
			t.Errorf("%s: entry has %+v", value, e.Meta)
		}
	}
	if e := NewEntry("r/l/s/placed/core/configmaps/ns/x", []byte(`{"metadata":{"uid":"u"}}`), 1, 1); e.Meta.UID != "" {
		t.Errorf("a report has metadata %+v", e.Meta)
	}
}

// FuzzEntry searches for a valid object for which the offsets are wrong.
func FuzzEntry(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"annotations":{}},"data":{"a":"\"metadata\":{"}}`,
		`{"data":{"metadata":{"annotations":{"x":"y"}}},"metadata" : { }}`,
		`{"metadata":{"labels":null,"annotations":null,"uid":"\u0041"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var top map[string]json.RawMessage
		var want parsed
		if json.Unmarshal(value, &top) != nil || json.Unmarshal(value, &want) != nil {
			return
		}
		// Objects in the log are written by encoders: without duplicate names, names in another
		// case, and escaped plain names.
		if !bytes.HasPrefix(bytes.TrimSpace(top["metadata"]), []byte("{")) || !plainNames(value) {
			return
		}
		checkEntry(t, value)
	})
}

// plainNames reports whether every name of an object occurs once, regardless of case, and without
// escapes, and all texts are valid UTF-8.
func plainNames(value []byte) bool {
	if bytes.ContainsAny(value, `\`) || !strings.HasPrefix(strings.ToValidUTF8(string(value), "\x00"), string(value)) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var walk func() bool
	walk = func() bool {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		delim, ok := token.(json.Delim)
		if !ok {
			return true
		}
		seen := map[string]bool{}
		for dec.More() {
			if delim == '{' {
				name, err := dec.Token()
				if err != nil {
					return false
				}
				folded := strings.ToLower(name.(string))
				if seen[folded] || folded != name {
					return false
				}
				seen[folded] = true
			}
			if !walk() {
				return false
			}
		}
		_, err = dec.Token()
		return err == nil
	}
	return walk()
}
