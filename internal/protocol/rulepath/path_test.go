package rulepath

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment",
	"metadata":{"name":"web","labels":{"app":"web","a/b":"c"}},
	"spec":{"replicas":2,"template":{"spec":{"containers":[
		{"name":"a","image":"x","resources":{"limits":{"cpu":1}}},
		{"name":"b","image":"y","resources":{"limits":{"cpu":2}}}]}}}}`

func decode(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLocate(t *testing.T) {
	const containers = "spec template spec containers"
	for path, want := range map[string]string{
		"$.spec.replicas":                                           "[[spec replicas]]",
		"$['spec']['replicas']":                                     "[[spec replicas]]",
		"$.spec":                                                    "[[spec]]",
		"$.spec.missing":                                            "[]",
		"$.spec.replicas.deeper":                                    "[]",
		"$.spec.replicas[0]":                                        "[]",
		"$.metadata.labels.app":                                     "[[metadata labels app]]",
		`$.metadata.labels["a/b"]`:                                  "[[metadata labels a/b]]",
		"$.spec.template.spec.containers[-3].image":                 "[]",
		"$.spec.template.spec.containers[2].image":                  "[]",
		"$.spec.template.spec.*[*].name":                            "[[" + containers + " 0 name] [" + containers + " 1 name]]",
		"$.spec.template.spec.containers[*].resources":              "[[" + containers + " 0 resources] [" + containers + " 1 resources]]",
		"$.spec.template.spec.containers[-1].image":                 "[[" + containers + " 1 image]]",
		`$.spec.template.spec.containers[?@.name=="b"].image`:       "[[" + containers + " 1 image]]",
		`$.spec.template.spec.containers[?@['name'] == 'b']`:        "[[" + containers + " 1]]",
		`$.spec.template.spec.containers[?@.resources.limits=="1"]`: "[]",
		`$.spec.template.spec.containers[?@.missing=="a"].image`:    "[]",
		`$.spec.template.spec.containers[?@.image=="a\"] == \"b"]`:  "[]",
	} {
		p, err := Parse(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		found, err := Paths{p}.Locate(decode(t, deployment))
		if got := fmt.Sprint(found); got != want || err != nil {
			t.Errorf("%s selects %s (%v), want %s", path, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const (
		filter    = `may have filters only that compare one value with a string, as in [?@.name=="app"]`
		descends  = `may not have ".."`
		selectors = "may have one selector only in each pair of brackets"
	)
	for path, want := range map[string]string{
		"":                              "not a JSONPath (RFC 9535)",
		".spec.replicas":                "not a JSONPath (RFC 9535)",
		"spec.replicas":                 "not a JSONPath (RFC 9535)",
		"$.spec.":                       "not a JSONPath (RFC 9535)",
		"$.spec\n.replicas":             "must be on one line",
		"$." + strings.Repeat("a", 300): "may not be longer than 256 bytes",
		"$":                             "must begin with the name of a field, as in $.spec",
		"$..replicas":                   descends,
		"$.*":                           "must begin with the name of a field, as in $.spec",
		"$[0]":                          "must begin with the name of a field, as in $.spec",
		"$.apiVersion":                  "may not select apiVersion",
		"$['kind']":                     "may not select kind",
		"$.status.replicas":             "may not select status, which does not travel",
		"$.metadata":                    "may select only single labels and annotations of metadata",
		"$.metadata.name":               "may select only single labels and annotations of metadata",
		"$.metadata.uid":                "may select only single labels and annotations of metadata",
		"$.metadata..a":                 descends,
		"$.metadata.labels":             "may select only single labels of metadata, by name",
		"$.metadata.annotations.*":      "may select only single annotations of metadata, by name",
		"$.metadata.*":                  "may select only single labels and annotations of metadata",
		"$.metadata.labels.a.b":         "may select only single labels of metadata, by name",
		"$.metadata.labels['orrery.dev/location']": "may not select orrery.dev/location, which is Orrery's",
		"$.spec..a":                          descends,
		"$.spec['a','b']":                    selectors,
		"$.spec[*,*]":                        selectors,
		"$.spec[1:]":                         "may have names, indexes, [*] and filters only in brackets",
		"$.spec[?@.a]":                       filter,
		"$.spec[?@..a=='x']":                 "not a JSONPath (RFC 9535)",
		"$.spec[?@.a[?@.b=='x']]":            filter,
		"$.spec[?$.spec.a==$.spec.b]":        filter,
		"$.spec[?@.a==$.spec.b]":             filter,
		"$.spec[?$.a=='x']":                  filter,
		"$.spec[?'x'==@.a]":                  filter,
		"$.spec[?@=='x']":                    filter,
		"$.spec[?@[0]=='x']":                 filter,
		"$.spec[?@.a!='x']":                  filter,
		"$.spec[?@.a==1]":                    filter,
		"$.spec[?@.a=='x'&&@.b=='y']":        filter,
		"$.spec[?@.a=='x'||@.b=='y']":        filter,
		"$.spec[?(@.a=='x')]":                filter,
		"$.spec[?!(@.a=='x')]":               filter,
		"$.spec[?match(@.a,'x')]":            filter,
		"$.spec[?search(@.a,$.spec.b)]":      filter,
		"$.spec[?length(@.a)=='x']":          filter,
		"$.spec[?value(@.a)=='x']":           filter,
		`$.spec[?@["a"] == "x" || @ == "x"]`: filter,
	} {
		if _, err := Parse(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	lines := Join([]string{"$.spec.template.*.containers[*].image", "$.spec.replicas", "$.spec['replicas']", "$.spec.template.spec.containers[1]", "$.spec.replicas"})
	const want = "$.spec.replicas\n$.spec.template.*.containers[*].image\n$.spec.template.spec.containers[1]\n$.spec['replicas']"
	if lines != want {
		t.Errorf("joined: %q", lines)
	}
	paths, err := ParsePaths(lines)
	if err != nil {
		t.Fatal(err)
	}
	found, err := paths.Locate(decode(t, deployment))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(found)
	if want := "[[spec replicas] [spec template spec containers 0 image] [spec template spec containers 1]]"; got != want {
		t.Errorf("located %s, want %s", got, want)
	}
	if none, err := ParsePaths(""); err != nil || len(none) != 0 {
		t.Errorf("no paths: %v %v", none, err)
	}
	if _, err := ParsePaths("$.spec\n$"); err == nil {
		t.Error("a bad path among others is not refused")
	}
}

// The cost of rules is limited for all paths and objects.
func TestLocateIsBounded(t *testing.T) {
	paths, err := ParsePaths("$.spec.*[*]\n$.spec.l[*]")
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, maxSteps/2)
	if found, err := paths.Locate(map[string]any{"spec": map[string]any{"l": list[2:]}}); err != nil || len(found) != len(list)-2 {
		t.Errorf("%d found: %v", len(found), err)
	}
	if _, err := paths.Locate(map[string]any{"spec": map[string]any{"l": list}}); !errors.Is(err, errTooLarge) {
		t.Errorf("more than may be looked at: %v", err)
	}
}

// Users write paths, and agents follow them: no path may crash either of them.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"$.spec.replicas", "$.spec.*[*]", "$.a[-2]", "$.a[0].b", `$.spec.template.spec.containers[?@.name=="a"].image`,
		"$.spec.template.spec.containers[?(@.resources.limits.cpu == 'a')]", `$.spec[?@.a=="\u0022"]`, "$.spec[?match(@.b,'x')]",
	} {
		f.Add(path, deployment)
	}
	f.Fuzz(func(t *testing.T, path, object string) {
		var v any
		if json.Unmarshal([]byte(object), &v) != nil {
			return
		}
		if _, err := Parse(path); err != nil {
			return
		}
		paths, err := ParsePaths(Join([]string{path}))
		if err != nil || len(paths) != 1 {
			t.Fatalf("%q comes back as %d paths: %v", path, len(paths), err)
		}
		found, err := paths.Locate(v)
		if err != nil {
			return
		}
		for _, l := range found {
			if len(l) == 0 || l[0] == "apiVersion" || l[0] == "kind" || l[0] == "status" || l[0] == "metadata" && len(l) != 3 {
				t.Fatalf("%q selects %v", path, l)
			}
		}
	})
}
