package summaries

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/scenario"
)

// TestScenarios runs testdata/*.txtar. The files of an archive are YAML, all of one space:
//
//	location NAME        labels, properties, stale
//	object PATH at NAME… an object, and the locations that it is assigned to; none: it stays
//	report NAME PATH     what a location reports of it
//	upsynced NAME PATH   an upsynced object of a location; owned: that belongs to a placed one
//	gone NAME PATH       it is there no longer
//	summary NAME         the spec of a Summary
//	NAME shows           what it is expected to show
func TestScenarios(t *testing.T) {
	l := newLanguage(t)
	scenario.Run(t, func(t *testing.T) scenario.Step {
		w := newWorld(l)
		return func(words []string, data []byte) (string, bool) {
			if words[1] != "shows" {
				k, value := step(t, words, data)
				w.put(t, map[string][]byte{k: value})
				return "", false
			}
			w.workAll()
			return tableOf(w.index, objectIn("shop", key.Summaries, "", words[0])), true
		}
	})
}

// step is what a step writes.
func step(t *testing.T, words []string, data []byte) (k string, value []byte) {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal(data, &content); err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	metadata, _ := content["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	objectAt := func(path string) key.Object {
		o, err := key.ParseIn("shop", path)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	reported := func(origin key.Origin) string {
		return key.Report{Location: key.Location(words[1]), Origin: origin, Object: objectAt(words[2])}.Key()
	}
	switch words[0] {
	case "location":
		connected := "True"
		if stale, _ := content["stale"].(bool); stale {
			connected = "False"
		}
		metadata["labels"] = content["labels"]
		return key.Location(words[1]).Key(), mustJSON(map[string]any{
			"metadata": metadata, "spec": map[string]any{"properties": content["properties"]},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Connected", "status": connected}}},
		})
	case "object":
		if len(words) > 3 {
			metadata["annotations"] = map[string]any{v1alpha1.AssignedLocationsAnnotation: string(mustJSON(words[3:]))}
		}
		content["metadata"] = metadata
		return objectAt(words[1]).Key(), mustJSON(content)
	case "report":
		content["digest"] = wire.SumOf([]byte(fmt.Sprint(cmp.Or(content["generation"], any(0)))))
		report := wire.Report{}
		if err := json.Unmarshal(mustJSON(content), &report); err != nil {
			t.Fatal(err)
		}
		return reported(key.Placed), mustJSON(report)
	case "upsynced":
		return reported(key.Upsynced), mustJSON(wire.Report{State: wire.Present, Object: mustJSON(content)})
	case "owned":
		return reported(key.Owned), mustJSON(wire.Report{State: wire.Present, Object: mustJSON(content)})
	case "gone":
		return reported(key.Upsynced), nil
	case "summary":
		return objectIn("shop", key.Summaries, "", words[1]).Key(), mustJSON(map[string]any{"metadata": map[string]any{}, "spec": content})
	}
	t.Fatalf("no such step: %s", words)
	return "", nil
}

// tableOf is what a Summary shows, for people.
func tableOf(x *Index, o key.Object) string {
	var st v1alpha1.SummaryStatus
	shown, ok := x.Show(o, &st)
	if !ok {
		return "nothing\n"
	}
	var b strings.Builder
	for i, c := range st.Columns {
		fmt.Fprintf(&b, "%s%s:%s", map[bool]string{true: " "}[i > 0], c.Name, c.Type)
	}
	if len(st.Columns) > 0 {
		b.WriteByte('\n')
	}
	for _, row := range st.Rows {
		for i, v := range row {
			fmt.Fprintf(&b, "%s%s", map[bool]string{true: " "}[i > 0], v.Raw)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d counted, %d stale, %d failed, %s\n", st.Counted, st.Stale, st.Failed, shown.Complete.Reason)
	for _, e := range st.Errors {
		fmt.Fprintf(&b, "%s: %s\n", e.Location, e.Message)
	}
	for _, p := range shown.Problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}
