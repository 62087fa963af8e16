package customize

import (
	"encoding/json"
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
		"$.spec.replicas":                                            "[[spec replicas]]",
		"$['spec']['replicas']":                                      "[[spec replicas]]",
		"$.spec":                                                     "[[spec]]",
		"$.spec.missing":                                             "[]",
		"$.spec.replicas.deeper":                                     "[]",
		"$.spec.replicas[0]":                                         "[]",
		"$.metadata.labels.app":                                      "[[metadata labels app]]",
		`$.metadata.labels["a/b"]`:                                   "[[metadata labels a/b]]",
		"$.spec..cpu":                                                "[[" + containers + " 0 resources limits cpu] [" + containers + " 1 resources limits cpu]]",
		"$.spec.template.spec.*[*].name":                             "[[" + containers + " 0 name] [" + containers + " 1 name]]",
		"$.spec.template.spec.containers[*].resources":               "[[" + containers + " 0 resources] [" + containers + " 1 resources]]",
		"$.spec.template.spec.containers[-1].image":                  "[[" + containers + " 1 image]]",
		"$.spec.template.spec.containers[1:].image":                  "[[" + containers + " 1 image]]",
		`$.spec.template.spec.containers[?@.name=="b"].image`:        "[[" + containers + " 1 image]]",
		`$.spec.template.spec.containers[?@.resources.limits.cpu>1]`: "[[" + containers + " 1]]",
		`$.spec.template.spec.containers[?match(@.name, '[bc]')]`:    "[[" + containers + " 1]]",
		`$.spec.template.spec.containers[?@.image == "a,b..*:?"]`:    "[]",
	} {
		p, err := Parse(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := fmt.Sprint(p.Locate(decode(t, deployment))); got != want {
			t.Errorf("%s selects %s, want %s", path, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const costs = "a filter may look at single values only, not at several"
	for path, want := range map[string]string{
		"":                               "not a JSONPath (RFC 9535)",
		".spec.replicas":                 "not a JSONPath (RFC 9535)",
		"spec.replicas":                  "not a JSONPath (RFC 9535)",
		"$.spec.":                        "not a JSONPath (RFC 9535)",
		"$.spec\n.replicas":              "must be on one line",
		"$." + strings.Repeat("a", 1100): "may not be longer than 1024 bytes",
		"$":                              "must begin with the name of a field, as in $.spec",
		"$..replicas":                    "must begin with the name of a field, as in $.spec",
		"$.*":                            "must begin with the name of a field, as in $.spec",
		"$[0]":                           "must begin with the name of a field, as in $.spec",
		"$.apiVersion":                   "may not select apiVersion",
		"$['kind']":                      "may not select kind",
		"$.status.replicas":              "may not select status, which does not travel",
		"$.metadata":                     "may select of metadata single labels and annotations only",
		"$.metadata.name":                "may select of metadata single labels and annotations only",
		"$.metadata.uid":                 "may select of metadata single labels and annotations only",
		"$.metadata..a":                  "may select of metadata single labels and annotations only",
		"$.metadata.labels":              "may select of metadata.labels single ones only, by name",
		"$.metadata.annotations.*":       "may select of metadata.annotations single ones only, by name",
		"$.metadata.labels..a":           "may select of metadata.labels single ones only, by name",
		"$.metadata.labels.a.b":          "may select of metadata.labels single ones only, by name",
		"$.metadata.labels['orrery.dev/location']": "may not select orrery.dev/location, which is Orrery's",
		"$.spec..a..b":                  `may have ".." only once`,
		"$.spec['a','b']":               "may have one selector only in each pair of brackets",
		"$.spec[*,*]":                   "may have one selector only in each pair of brackets",
		"$.spec[?@..a]":                 costs,
		"$.spec[?@.*]":                  costs,
		"$.spec[?@[1:]]":                costs,
		"$.spec[?@[?@.a]]":              costs,
		"$.spec[?@['a','a']['a','a']]":  costs,
		"$.spec[?count(@[0,0][0,0])>1]": costs,
	} {
		if _, err := Parse(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	lines := Join([]string{"$.spec.template..image", "$.spec.replicas", "$.spec['replicas']", "$.spec.template.spec.containers[1]", "$.spec.replicas"})
	const want = "$.spec.replicas\n$.spec.template..image\n$.spec.template.spec.containers[1]\n$.spec['replicas']"
	if lines != want {
		t.Errorf("joined: %q", lines)
	}
	paths, err := ParsePaths(lines)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(paths.Locate(decode(t, deployment)))
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

// Users write paths, and agents follow them: neither may end an agent.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"$.spec.replicas", "$.spec..a", "$.spec[?@.a<1]", "$.spec[?1<@.a]", "$.spec[?@.a==@.b||!@.c]", "$.a[::-2]",
		"$.spec[?length(@.a)>1&&match(@.b,'x')]", "$.spec[?search(@,'(')]", "$.spec[?value(@.a)==$.spec]", "$.spec[?count(@.a)<=2]",
	} {
		f.Add(path, deployment)
	}
	f.Fuzz(func(t *testing.T, path, object string) {
		var v any
		if json.Unmarshal([]byte(object), &v) != nil {
			return
		}
		p, err := Parse(path)
		if err != nil {
			return
		}
		if again, err := ParsePaths(Join([]string{p.String()})); err != nil || len(again) != 1 || again[0].String() != path {
			t.Fatalf("%q comes back as %v: %v", path, again, err)
		}
		for _, l := range p.Locate(v) {
			if len(l) == 0 || l[0] == "apiVersion" || l[0] == "kind" || l[0] == "status" || l[0] == "metadata" && len(l) != 3 {
				t.Fatalf("%q selects %v", path, l)
			}
		}
	})
}
