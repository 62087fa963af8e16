package rollup_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// What has no Rollup, and what is nowhere.
func TestWhatHasNone(t *testing.T) {
	deployments, configMaps := key.NewResource("apps", "deployments"), key.NewResource("", "configmaps")
	if rollup.HasRollup(configMaps) || !rollup.HasRollup(deployments) {
		t.Error("Has is wrong")
	}
	sound := []rollup.Report{{Location: "a", Sound: true, Status: json.RawMessage(`{"phase":"Active"}`)}}
	if status, ok := rollup.Merge(configMaps, []byte(`{}`), sound); ok {
		t.Errorf("a status without conditions is merged: %s", status)
	}
	if status, ok := rollup.Merge(deployments, []byte(`{}`), nil); status != nil || !ok {
		t.Errorf("without a location: %s, %v", status, ok)
	}
}

// location is a location of a scenario. It wants the source's numbers, unless wants is set; it is
// not sound if why is set.
type location struct {
	Status json.RawMessage `json:"status"`
	Wants  *wire.Wanted    `json:"wants"`
	Health wire.Health     `json:"health"`
	Why    string          `json:"why"`
	Behind bool            `json:"behind"`
}

// A scenario has a source, locations, and fields of the status that they make; a null is a
// field that is not there. The file is named after the resource.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		resource, group, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txtar"), ".")
		var inputs []rollup.Report
		var source []byte
		for _, f := range archive.Files {
			name, from, _ := strings.Cut(f.Name, " ")
			switch name {
			case "source":
				source, inputs = toJSON(t, f), nil
			case "at":
				var l location
				if err := yaml.UnmarshalStrict(f.Data, &l); err != nil {
					t.Fatalf("%s: %s: %v", file, f.Name, err)
				}
				inputs = append(inputs, rollup.Report{
					Location: key.Location(from), Sound: l.Why == "", Why: l.Why, Behind: l.Behind, Generation: 2, Wanted: l.Wants, Status: l.Status, Health: l.Health,
				})
			default:
				t.Run(resource+"/"+f.Name, func(t *testing.T) {
					got, ok := rollup.Merge(key.NewResource(group, resource), source, inputs)
					if !ok {
						t.Fatal("no status")
					}
					var gotFields, want map[string]any
					if err := json.Unmarshal(got, &gotFields); err != nil {
						t.Fatal(err)
					}
					if err := json.Unmarshal(toJSON(t, f), &want); err != nil {
						t.Fatal(err)
					}
					for field, v := range want {
						if !reflect.DeepEqual(gotFields[field], v) {
							t.Errorf("%s: %v, want %v, in %s", field, gotFields[field], v, got)
						}
					}
				})
				inputs = nil
			}
		}
	}
}

func toJSON(t *testing.T, f txtar.File) []byte {
	t.Helper()
	out, err := yaml.YAMLToJSON(f.Data)
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return out
}
