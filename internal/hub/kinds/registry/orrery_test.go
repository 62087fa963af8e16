package registry

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

func TestOrreryKinds(t *testing.T) {
	r := newTestRegistry(t)
	root, plain := r.Builtin(key.Root), r.Builtin("any")
	gvr := v1alpha1.GroupVersion.WithResource
	for _, resource := range []string{"spaces", "locations", "placements", "customizers", "kindrules", "summaries"} {
		k, ok := root.Lookup(gvr(resource))
		if !ok || root.Access(k) != kinds.ReadWrite || k.Namespaced || !k.HasStatus {
			t.Errorf("%s in root: %+v", resource, k)
		}
	}
	if _, ok := plain.Lookup(gvr("spaces")); ok {
		t.Error("spaces are served in every space")
	}
	locations, ok := plain.Lookup(gvr("locations"))
	if !ok || plain.Access(locations) != kinds.ReadOnly {
		t.Errorf("locations: %+v", locations)
	}
	for _, resource := range []string{"placements", "customizers", "kindrules", "summaries", "grants"} {
		if k, _ := plain.Lookup(gvr(resource)); k == nil || plain.Access(k) != kinds.ReadWrite {
			t.Errorf("%s: %+v", resource, k)
		}
	}
	if !slices.Contains(locations.ShortNames, "loc") {
		t.Errorf("got %v", locations.ShortNames)
	}
}

func TestOrreryKindsAreValidated(t *testing.T) {
	root := newTestRegistry(t).Builtin(key.Root)
	for _, test := range []struct {
		name, resource, kind, object, want string
	}{
		{"placement", "placements", "Placement",
			`{"locations": [{"selector": {}}], "downsync": [{"apiGroup": "apps", "resources": ["deployments"]}]}`, ""},
		{"empty test", "placements", "Placement", `{"downsync": [{}]}`, "an object test needs at least one of"},
		{"only a policy", "placements", "Placement", `{"downsync": [{"returnStatus": "Singleton"}]}`, "an object test needs at least one of"},
		{"unknown policy", "placements", "Placement", `{"downsync": [{"names": ["a"], "returnStatus": "All"}]}`, "Unsupported value"},
		{"empty location", "placements", "Placement", `{"locations": [{}]}`, "give a selector, names, or both"},
		{"customizer", "customizers", "Customizer", `{"match": [{"names": ["a"]}], "rules": [{"path": "$.spec.replicas", "release": true}]}`, ""},
		{"customizer of nothing", "customizers", "Customizer", `{"match": [], "rules": [{"path": "$.spec", "release": true}]}`, "spec.match"},
		{"customizer of anything", "customizers", "Customizer", `{"match": [{}], "rules": [{"path": "$.spec", "release": true}]}`, "an object test needs at least one of"},
		{"kind rules", "kindrules", "KindRules", `{"kinds": [{"apiGroup": "a.example", "resources": ["widgets"]}], "health": {"state": "'Healthy'"}}`, ""},
		{"kind rules of any kind", "kindrules", "KindRules", `{"kinds": [{"apiGroup": "a.example", "resources": ["*"]}], "health": {"state": "'Healthy'"}}`, "spec.kinds[0].resources[0]"},
		{"kind rules without a state", "kindrules", "KindRules", `{"kinds": [{"resources": ["pods"]}], "health": {"state": ""}}`, "spec.health.state"},
		{"no rule", "customizers", "Customizer", `{"match": [{"names": ["a"]}], "rules": []}`, "spec.rules"},
		{"rule without a path", "customizers", "Customizer", `{"match": [{"names": ["a"]}], "rules": [{"path": "", "release": true}]}`, "spec.rules[0].path"},
		{"rule that says two things", "customizers", "Customizer", `{"match": [{"names": ["a"]}], "rules": [{"path": "$.spec", "release": true, "remove": true}]}`, "a rule is exactly one of"},
		{"rule that releases nothing", "customizers", "Customizer", `{"match": [{"names": ["a"]}], "rules": [{"path": "$.spec", "release": false}]}`, "remove and release are true where they are given"},
		{"customizer of no location", "customizers", "Customizer", `{"match": [{"names": ["a"]}], "locations": [{}], "rules": [{"path": "$.spec", "release": true}]}`, "give a selector, names, or both"},
		{"summary", "summaries", "Summary", `{"match": [{"names": ["a"]}], "combine": [{"name": "n", "type": "COUNT"}], "groupBy": [{"name": "g", "expression": "1"}]}`, ""},
		{"summary of nothing", "summaries", "Summary", `{"match": [], "combine": [{"name": "n", "type": "COUNT"}]}`, "spec.match"},
		{"summary of two forms", "summaries", "Summary", `{"match": [{"names": ["a"]}], "combine": [{"name": "n", "type": "COUNT"}], "select": [{"name": "g", "expression": "1"}]}`, "combine or select, and not both"},
		{"summary of two columns of a name", "summaries", "Summary", `{"match": [{"names": ["a"]}], "combine": [{"name": "n", "type": "COUNT"}], "groupBy": [{"name": "n", "expression": "1"}]}`, "a name of its own"},
		{"sum of nothing", "summaries", "Summary", `{"match": [{"names": ["a"]}], "combine": [{"name": "n", "type": "AVG"}]}`, "only COUNT needs no expression"},
		{"unknown way to combine", "summaries", "Summary", `{"match": [{"names": ["a"]}], "combine": [{"name": "n", "type": "MEDIAN", "expression": "1"}]}`, "Unsupported value"},
		{"grant", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "roles": [{"name": "view", "namespaces": ["a"]}],
			"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}], "spaces": {"selector": {}}}`, ""},
		{"grant of paths", "grants", "Grant", `{"subjects": [{"kind": "Group", "name": "x"}], "rules": [{"nonResourceURLs": ["/metrics", "*"], "verbs": ["get"]}]}`, ""},
		{"grant to nobody", "grants", "Grant", `{"subjects": [], "roles": [{"name": "view"}]}`, "spec.subjects"},
		{"grant to something", "grants", "Grant", `{"subjects": [{"kind": "ServiceAccount", "name": "x"}], "roles": [{"name": "view"}]}`, "Unsupported value"},
		{"grant of nothing", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}]}`, "a grant needs roles, rules, or both"},
		{"unknown role", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "roles": [{"name": "owner"}]}`, "Unsupported value"},
		{"rule without a resource", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "rules": [{"apiGroups": [""], "verbs": ["get"]}]}`, "a rule needs apiGroups and resources"},
		{"rule without a group", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "rules": [{"resources": ["pods"], "verbs": ["get"]}]}`, "a rule needs apiGroups and resources"},
		{"rule without a verb", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}]}`, "spec.rules[0].verbs"},
		{"rule of both", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "rules": [{"apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/"], "verbs": ["get"]}]}`, "or nonResourceURLs alone"},
		{"rule of no path", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "rules": [{"nonResourceURLs": ["metrics"], "verbs": ["get"]}]}`, "nonResourceURLs"},
		{"paths in spaces", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}], "spaces": {"names": ["a"]}}`, "nonResourceURLs are of the hub"},
		{"spaces that say nothing", "grants", "Grant", `{"subjects": [{"kind": "User", "name": "x"}], "roles": [{"name": "view"}], "spaces": {}}`, "give a selector, names, or both"},
		{"location", "locations", "Location", `{}`, ""},
		{"prune", "locations", "Location", `{"prune": {"maxPercent": 101}}`, "less than or equal to 100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k, ok := root.Lookup(v1alpha1.GroupVersion.WithResource(test.resource))
			if !ok {
				t.Fatal("not served")
			}
			u := decode(t, k, `{"apiVersion":"orrery.dev/v1alpha1","kind":"`+test.kind+
				`","metadata":{"name":"x"},"spec":`+test.object+`}`)
			checkErrors(t, k.Custom.Strategy().Validate(context.Background(), u), test.want)
		})
	}
	t.Run("name", func(t *testing.T) {
		k, _ := root.Lookup(v1alpha1.GroupVersion.WithResource("locations"))
		u := decode(t, k, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Location","metadata":{"name":"a--b"}}`)
		checkErrors(t, k.Custom.Strategy().Validate(context.Background(), u), "DNS label")
	})
}

// decode reads a request's body as handlers do that refuse unknown fields.
func decode(t *testing.T, k *kinds.Kind, body string) runtime.Object {
	t.Helper()
	s := k.Scope("").Serializer
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no serializer for JSON")
	}
	gvk := k.GVK
	o, _, err := s.DecoderToVersion(info.StrictSerializer, gvk.GroupVersion()).Decode([]byte(body), &gvk, k.New())
	if err != nil {
		t.Fatal(err)
	}
	return o
}
