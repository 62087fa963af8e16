package write_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
)

// dump is the whole log, to see that nothing changed.
func (h *hub) dump() string {
	h.t.Helper()
	var all bytes.Buffer
	for _, row := range h.rows("") {
		fmt.Fprintf(&all, "%s %s\n", row.Key, row.Value)
	}
	return all.String()
}

func TestRefused(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", configMaps, configMap("c", object{"k": "v"})))
	h.must(201, h.do("POST", "a", customizers, `{"apiVersion":"orrery.dev/v1alpha1","kind":"Customizer","metadata":{"name":"good"},"spec":{"match":[{"names":["x"]}],"rules":[{"path":"$.data","release":true}]}}`))
	annotated := func(k, v string) object {
		c := configMap("x", nil)
		c["metadata"].(object)["annotations"] = object{k: v}
		return c
	}
	cm := func(metadata object) object {
		return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
	}
	named := func(apiVersion, kind, name string) object {
		return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}}
	}
	customizer := func(spec string) string {
		return `{"apiVersion":"orrery.dev/v1alpha1","kind":"Customizer","metadata":{"name":"x"},"spec":` + spec + `}`
	}
	placement := func(spec string) string {
		return `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"x"},"spec":{` + spec + `}}`
	}
	tainted := func(taints ...any) object {
		l := named("orrery.dev/v1alpha1", "Location", "l")
		l["spec"] = object{"taints": taints}
		return l
	}
	const strict = "?fieldValidation=Strict"
	merge := []string{"Content-Type", "application/merge-patch+json"}
	for _, test := range []struct {
		name, method, space, path string
		body                      any
		header                    []string
		code                      int
		reason                    metav1.StatusReason
		fragment                  string
	}{
		{"malformed JSON", "POST", "a", configMaps, `{"apiVersion":`, nil, 400, metav1.StatusReasonBadRequest, ""},
		{"empty body", "POST", "a", configMaps, "", nil, 400, metav1.StatusReasonBadRequest, ""},
		{"wrong type of a field", "POST", "a", configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"k":1}}`, nil, 400, metav1.StatusReasonBadRequest, "data"},
		{"another kind", "POST", "a", configMaps, named("v1", "Secret", "x"), nil, 400, metav1.StatusReasonBadRequest, "Secret"},
		{"an unknown kind", "POST", "a", configMaps, named("v1", "Foo", "x"), nil, 400, metav1.StatusReasonBadRequest, "Foo"},
		{"another version", "POST", "a", configMaps, named("v2", "ConfigMap", "x"), nil, 400, metav1.StatusReasonBadRequest, "v2"},
		{"media type", "POST", "a", configMaps, "x", []string{"Content-Type", "text/plain"}, 415, metav1.StatusReasonUnsupportedMediaType, ""},
		{"no name", "POST", "a", configMaps, cm(object{}), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"upper case name", "POST", "a", configMaps, cm(object{"name": "X"}), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"a name that leaves its segment", "POST", "a", configMaps, cm(object{"name": "../x"}), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"service names", "POST", "a", "/api/v1/namespaces/default/services", named("v1", "Service", "1x"), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"namespace names", "POST", "a", "/api/v1/namespaces", named("v1", "Namespace", "x.y"), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"role names", "POST", "a", "/apis/rbac.authorization.k8s.io/v1/clusterroles", named("rbac.authorization.k8s.io/v1", "ClusterRole", "a/b"), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"bad label", "POST", "a", configMaps, cm(object{"name": "x", "labels": object{"a b": "c"}}), nil, 422, metav1.StatusReasonInvalid, "metadata.labels"},
		{"another namespace", "POST", "a", configMaps, cm(object{"name": "x", "namespace": "other"}), nil, 400, metav1.StatusReasonBadRequest, "namespace"},
		{"missing namespace", "POST", "a", "/api/v1/namespaces/nope/configmaps", configMap("x", nil), nil, 404, metav1.StatusReasonNotFound, `namespaces "nope" not found`},
		{"missing namespace, invalid object, dry run", "POST", "a", "/api/v1/namespaces/nope/configmaps?dryRun=All", cm(object{"name": "X"}), nil, 404, metav1.StatusReasonNotFound, `namespaces "nope" not found`},
		{"no namespace", "POST", "a", "/api/v1/configmaps", configMap("x", nil), nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"a namespace too many", "POST", "a", "/api/v1/namespaces/default/nodes", named("v1", "Node", "x"), nil, 404, metav1.StatusReasonNotFound, ""},
		{"deletecollection of all namespaces", "DELETE", "a", "/api/v1/configmaps", nil, nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"create with a name in the path", "POST", "a", configMaps + "/x", configMap("x", nil), nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"another name than in the path", "PUT", "a", configMaps + "/c", configMap("x", nil), nil, 400, metav1.StatusReasonBadRequest, "name"},
		{"update of nothing", "PUT", "a", configMaps + "/x", configMap("x", nil), nil, 404, metav1.StatusReasonNotFound, "x"},
		{"strict unknown field", "POST", "a", configMaps + strict, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"foo":1}`, nil, 400, metav1.StatusReasonBadRequest, "foo"},
		{"strict duplicate field", "POST", "a", configMaps + strict, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"k":"a","k":"b"}}`, nil, 400, metav1.StatusReasonBadRequest, "k"},
		{"strict patch", "PATCH", "a", configMaps + "/c" + strict, `{"foo":1}`, merge, 422, metav1.StatusReasonInvalid, "foo"},
		{"bad patch", "PATCH", "a", configMaps + "/c", `[{"op":"nope"}]`, []string{"Content-Type", "application/json-patch+json"}, 422, metav1.StatusReasonInvalid, ""},
		{"patch of nothing", "PATCH", "a", configMaps + "/x", `{}`, merge, 404, metav1.StatusReasonNotFound, "x"},
		{"patch of the uid", "PATCH", "a", configMaps + "/c", `{"metadata":{"uid":"x"}}`, merge, 422, metav1.StatusReasonInvalid, "metadata.uid"},
		{"patch of the name", "PATCH", "a", configMaps + "/c", `{"metadata":{"name":"x"}}`, merge, 400, metav1.StatusReasonBadRequest, ""},
		{"apply without a manager", "PATCH", "a", configMaps + "/c", configMap("c", nil), []string{"Content-Type", "application/apply-patch+yaml"}, 422, metav1.StatusReasonInvalid, "fieldManager"},
		{"no such subresource", "PUT", "a", configMaps + "/c/status", configMap("c", nil), nil, 404, metav1.StatusReasonNotFound, ""},
		{"too large", "POST", "a", configMaps, configMap("x", object{"k": strings.Repeat("x", write.DefaultObjectBytes)}), nil, 413, metav1.StatusReasonRequestEntityTooLarge, "limit"},
		{"far too large", "POST", "a", configMaps, configMap("x", object{"k": strings.Repeat("x", 4<<20)}), nil, 413, metav1.StatusReasonRequestEntityTooLarge, "limit"},
		{"patched too large", "PATCH", "a", configMaps + "/c", object{"data": object{"k": strings.Repeat("x", write.DefaultObjectBytes)}}, merge, 413, metav1.StatusReasonRequestEntityTooLarge, "limit"},
		{"locations no list", "POST", "a", configMaps, annotated("orrery.dev/assigned-locations", "a,b"), nil, 422, metav1.StatusReasonInvalid, "metadata.annotations[orrery.dev/assigned-locations]"},
		{"locations null", "POST", "a", configMaps, annotated("orrery.dev/assigned-locations", "null"), nil, 422, metav1.StatusReasonInvalid, "metadata.annotations[orrery.dev/assigned-locations]"},
		{"too many locations", "POST", "a", configMaps, annotated("orrery.dev/assigned-locations", `["a"`+strings.Repeat(`,"a"`, 1024)+`]`), nil, 422, metav1.StatusReasonInvalid, "more than 1024 names"},
		{"bad location", "POST", "a", configMaps, annotated("orrery.dev/assigned-locations", `["a--b"]`), nil, 422, metav1.StatusReasonInvalid, "a--b"},
		{"bad return status", "POST", "a", configMaps, annotated("orrery.dev/return-status", "Sometimes"), nil, 422, metav1.StatusReasonInvalid, "metadata.annotations[orrery.dev/return-status]"},
		{"bad annotation by patch", "PATCH", "a", configMaps + "/c", `{"metadata":{"annotations":{"orrery.dev/return-status":"x"}}}`, merge, 422, metav1.StatusReasonInvalid, "orrery.dev/return-status"},
		{"bad annotation on a placement", "POST", "a", placements, object{"apiVersion": "orrery.dev/v1alpha1", "kind": "Placement", "metadata": object{"name": "p", "annotations": object{"orrery.dev/return-status": "x"}}, "spec": object{}}, nil, 422, metav1.StatusReasonInvalid, "orrery.dev/return-status"},
		{"no JSONPath", "POST", "a", customizers, customizer(`{"match":[{"names":["x"]}],"rules":[{"path":"$.data","release":true},{"path":"spec","release":true}]}`), nil, 422, metav1.StatusReasonInvalid, "spec.rules[1].path: Invalid value: \"spec\": not a JSONPath (RFC 9535)"},
		{"path to everything", "POST", "a", customizers, customizer(`{"match":[{"names":["x"]}],"rules":[{"path":"$","release":true}]}`), nil, 422, metav1.StatusReasonInvalid, "spec.rules[0].path: Invalid value: \"$\": must begin with the name of a field"},
		{"path to the name", "POST", "a", customizers, customizer(`{"match":[{"names":["x"]}],"rules":[{"path":"$.metadata.name","release":true}]}`), nil, 422, metav1.StatusReasonInvalid, "spec.rules[0].path"},
		{"path that is missing", "POST", "a", customizers, customizer(`{"match":[{"names":["x"]}],"rules":[{"release":true}]}`), nil, 422, metav1.StatusReasonInvalid, "spec.rules[0].path"},
		{"bad selector of objects", "POST", "a", customizers, customizer(`{"match":[{"labelSelectors":[{"matchLabels":{"a b":"c"}}]}],"rules":[{"path":"$.data","release":true}]}`), nil, 422, metav1.StatusReasonInvalid, "spec.match[0].labelSelectors[0].matchLabels"},
		{"bad selector of locations", "POST", "a", customizers, customizer(`{"match":[{"names":["x"]}],"locations":[{"selector":{"matchLabels":{"a b":"c"}}}],"rules":[{"path":"$.data","release":true}]}`), nil, 422, metav1.StatusReasonInvalid, "spec.locations[0].selector.matchLabels"},
		{"bad path by patch", "PATCH", "a", customizers + "/good", `{"spec":{"rules":[{"path":"$.kind","release":true}]}}`, merge, 422, metav1.StatusReasonInvalid, "spec.rules[0].path"},
		{"missing space", "POST", "nope", configMaps, configMap("x", nil), nil, 404, metav1.StatusReasonNotFound, `spaces.orrery.dev "nope" not found`},
		{"no name of a space", "POST", "A", configMaps, configMap("x", nil), nil, 400, metav1.StatusReasonBadRequest, "space"},
		{"all spaces", "POST", "*", configMaps, configMap("x", nil), nil, 400, metav1.StatusReasonBadRequest, "space"},
		{"a location outside of root", "POST", "a", locations, named("orrery.dev/v1alpha1", "Location", "l"), nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"location names", "POST", "root", locations, named("orrery.dev/v1alpha1", "Location", "a--b"), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"a taint's key", "POST", "root", locations, tainted(object{"key": "a b", "effect": "NoPlace"}), nil, 422, metav1.StatusReasonInvalid, "spec.taints[0].key"},
		{"a taint's value", "POST", "root", locations, tainted(object{"key": "a", "value": "b c", "effect": "NoPlace"}), nil, 422, metav1.StatusReasonInvalid, "spec.taints[0].value"},
		{"a taint's effect", "POST", "root", locations, tainted(object{"key": "a", "effect": "NoSchedule"}), nil, 422, metav1.StatusReasonInvalid, "spec.taints[0].effect"},
		{"a taint twice", "POST", "root", locations, tainted(object{"key": "a", "effect": "Evict"}, object{"key": "a", "value": "b", "effect": "Evict"}), nil, 422, metav1.StatusReasonInvalid, "spec.taints[1]"},
		{"no seats", "POST", "a", placements, placement(`"pick":{"count":0}`), nil, 422, metav1.StatusReasonInvalid, "spec.pick.count"},
		{"spread by no label", "POST", "a", placements, placement(`"pick":{"count":1,"spreadBy":"a b"}`), nil, 422, metav1.StatusReasonInvalid, "spec.pick.spreadBy"},
		{"a toleration's key", "POST", "a", placements, placement(`"tolerations":[{"key":"a b"}]`), nil, 422, metav1.StatusReasonInvalid, "spec.tolerations[0].key"},
		{"a toleration of any key", "POST", "a", placements, placement(`"tolerations":[{"value":"a"}]`), nil, 422, metav1.StatusReasonInvalid, "operator must be Exists when key is empty"},
		{"a toleration of any value", "POST", "a", placements, placement(`"tolerations":[{"key":"a","operator":"Exists","value":"b"}]`), nil, 422, metav1.StatusReasonInvalid, "value must be empty when operator is Exists"},
		{"a release without a name", "POST", "a", placements, placement(`"downsync":[{"helmReleases":[{"namespace":"n"}]}]`), nil, 422, metav1.StatusReasonInvalid, "spec.downsync[0].helmReleases[0].name"},
		{"space names", "POST", "root", spaces, named("orrery.dev/v1alpha1", "Space", "a.b"), nil, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"delete root", "DELETE", "root", spaces + "/root", nil, nil, 403, metav1.StatusReasonForbidden, "root"},
		{"delete all spaces", "DELETE", "root", spaces, nil, nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"delete namespace default", "DELETE", "a", "/api/v1/namespaces/default", nil, nil, 403, metav1.StatusReasonForbidden, "default"},
		{"delete all namespaces", "DELETE", "a", "/api/v1/namespaces", nil, nil, 405, metav1.StatusReasonMethodNotAllowed, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := h.t
			h.t = t
			defer func() { h.t = parent }()
			before := h.dump()
			h.refused(h.do(test.method, test.space, test.path, test.body, test.header...), test.code, test.reason, test.fragment)
			if after := h.dump(); after != before {
				t.Errorf("the log changed:\n%s", after)
			}
		})
	}
	h.must(http.StatusNotFound, h.do("POST", "a", "/apis/example.com/v1/foos", object{}))
	h.must(http.StatusNotFound, h.do("POST", "a", spaces, named("orrery.dev/v1alpha1", "Space", "c")))
}

// TestUnknownFieldWarns checks that an accepted unknown field is removed with a warning.
func TestUnknownFieldWarns(t *testing.T) {
	h := newHub(t)
	a := h.must(201, h.do("POST", "a", configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"foo":1}`))
	if len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "foo") || a.field("foo") != nil {
		t.Errorf("warnings %q: %s", a.warnings, a.raw)
	}
}

func TestGoodAnnotations(t *testing.T) {
	h := newHub(t)
	c := configMap("x", nil)
	c["metadata"].(object)["annotations"] = object{"orrery.dev/assigned-locations": `["a","b"]`, "orrery.dev/return-status": "Singleton"}
	h.must(201, h.do("POST", "a", configMaps, c))
}

// TestObjectAtTheLimit checks that a configured limit applies, also to dry runs.
func TestObjectAtTheLimit(t *testing.T) {
	h := newHub(t)
	fits := strings.Repeat("x", write.DefaultObjectBytes-2000)
	h.must(201, h.do("POST", "a", configMaps, configMap("x", object{"k": fits})))
	h.refused(h.do("POST", "a", configMaps+"?dryRun=All", configMap("y", object{"k": fits + strings.Repeat("x", 2000)})), 413, metav1.StatusReasonRequestEntityTooLarge, "limit")
}
