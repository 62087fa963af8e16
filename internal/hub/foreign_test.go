package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestCoreGroupHasTwoNames: by the core group's other name a Placement takes no more than
// its writer may read.
func TestCoreGroupHasTwoNames(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	r.grant("a", "vi", `{"subjects":[{"kind":"User","name":"vi"}],"roles":[{"name":"view"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["placements","customizers"],"verbs":["*"]}]}`)
	vi, placements := r.as("vi"), written{"Placement", "placements"}
	for _, c := range []struct {
		test string
		may  bool
	}{
		{`"apiGroup":"core","resources":["secrets"]`, false},
		{`"apiGroup":"core"`, false},
		{`"apiGroup":"","resources":["secrets"]`, false},
		{`"apiGroup":"core","resources":["configmaps"]`, true},
	} {
		r.attempts(placements, vi, "a", `{"suspend":true}`, `{"downsync":[{`+c.test+`}]}`, c.may)
	}
	r.grant("a", "vi2", `{"subjects":[{"kind":"User","name":"vi"}],"rules":[{"apiGroups":["core"],"resources":["secrets"],"verbs":["*"]}]}`)
	r.attempts(placements, vi, "a", `{"suspend":true}`, `{"downsync":[{"apiGroup":"core","resources":["secrets"]}]}`, false)
	const rules = `"rules":[{"path":"$.data.x","release":true}]`
	r.attempts(written{"Customizer", "customizers"}, vi, "a", `{"match":[{"apiGroup":"x.example"}],`+rules+`}`, `{"match":[{"apiGroup":"core","resources":["secrets"]}],`+rules+`}`, false)
}

// TestTokensTellNothingOfSpaces: a user that requests a token for a space, and has no right there, can't
// find out whether the space exists.
func TestTokensTellNothingOfSpaces(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	jane := r.as("jane")
	for _, spec := range []string{`{"user":"jane","space":"S"}`, `{"user":"jane","space":"S","request":"x"}`, `{"space":"S","role":"view"}`, `{"user":"jane","space":"S","role":"view"}`, `{"space":"S"}`} {
		code, _, body := jane.mint(strings.ReplaceAll(spec, `"S"`, `"b"`))
		other, _, text := jane.mint(strings.ReplaceAll(spec, `"S"`, `"none"`))
		if code != http.StatusForbidden || other != code || strings.ReplaceAll(body, `\"b\"`, `\"none\"`) != text {
			t.Errorf("%s: %d %s, and where there is none: %d %s", spec, code, body, other, text)
		}
	}
	// Nor can a user that makes tokens for others.
	const maker = `"rules":[{"nonResourceURLs":["/admin/v1/tokens"],"verbs":["post"]},{"apiGroups":[""],"resources":["users"],"verbs":["impersonate"]}]`
	r.grant(key.Root, "maker", `{"subjects":[{"kind":"User","name":"maker"}],`+maker+`}`)
	r.grant("a", "maker", `{"subjects":[{"kind":"User","name":"maker"}],"roles":[{"name":"view"}]}`)
	for s, want := range map[string]int{"a": http.StatusOK, "b": http.StatusForbidden, "none": http.StatusForbidden} {
		for _, spec := range []string{`{"user":"jane","space":"S"}`, `{"space":"S"}`} {
			if code, _, body := r.as("maker").mint(strings.ReplaceAll(spec, `"S"`, `"`+s+`"`)); code != want {
				t.Errorf("%s in %s: %d %s", spec, s, code, body)
			}
		}
	}
	r.grant(key.Root, "knower", `{"subjects":[{"kind":"User","name":"knower"}],"roles":[{"name":"view"}],`+maker+`}`)
	for s, want := range map[string]int{"b": http.StatusOK, "none": http.StatusNotFound} {
		if code, _, body := r.as("knower").mint(`{"user":"jane","space":"` + s + `"}`); code != want {
			t.Errorf("a user that may get it, in %s: %d %s", s, code, body)
		}
	}
	if code, _, body := jane.mint(`{"user":"jane","space":"a"}`); code != http.StatusOK {
		t.Errorf("where jane has a right: %d %s", code, body)
	}
}

// TestLocationsTellNothingOfOthers: a Location is seen in each space it admits, without the
// names of other spaces and of what these have there.
func TestLocationsTellNothingOfOthers(t *testing.T) {
	t.Parallel() // it waits much of the time
	r := hostile(t)
	r.grant("a", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}]}`)
	root, jane := r.as("admin", masters), r.as("jane")
	edge := orreryOf(key.Root, "locations/edge")
	for _, c := range []struct{ path, patch string }{
		{edge, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"SECRETIVE","x":"y"}},"spec":{"admit":[{"spaces":{"names":["secretive"]}},{"spaces":{"names":["a"]}}]}}`},
		{edge + "/status", `{"status":{"agent":{"version":"v9","purge":{"left":1,"objects":["secretive/core/secrets/n/x"]},"prune":{"pending":1,"digest":"d","objects":["secretive/core/secrets/n/x"],
			"spaces":[{"space":"secretive","pending":1,"digest":"d"}],"placements":[{"space":"secretive","placement":"p","pending":1,"digest":"d"}]}}}}`},
	} {
		if code, body := root.send("PATCH "+c.path, c.patch, contentType, mergePatch); code != http.StatusOK || !strings.Contains(strings.ToLower(body), "secretive") {
			t.Fatalf("%d %s", code, body)
		}
	}
	locations := orreryOf("a", "locations")
	// What another space has there is counted in root alone.
	for _, o := range []string{"b/api/v1/namespaces/default/configmaps/b-x", "b/api/v1/namespaces/default/secrets/b-y"} {
		if code, body := root.send("PATCH /spaces/"+o, `{"metadata":{"annotations":{"orrery.dev/assigned-locations":"[\"edge\"]"}}}`, contentType, mergePatch); code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
	}
	r.grant(key.Root, "ops", `{"subjects":[{"kind":"User","name":"ops"}],"roles":[{"name":"view"}]}`)
	counted := func(c client, path string) bool {
		_, body := c.send("GET "+path, "")
		return strings.Contains(body, `"assigned"`) || strings.Contains(body, "Synced")
	}
	if !counted(r.as("ops"), edge) {
		t.Errorf("in root nothing is counted")
	}
	for _, path := range []string{locations, locations + "/edge", locations + "/edge/status", locations + "?watch=1&timeoutSeconds=1"} {
		if counted(jane, path) {
			_, body := jane.send("GET "+path, "")
			t.Errorf("%s counts what others have: %s", path, body)
		}
	}
	const table, metadata, pb = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", "application/yaml"
	for _, path := range []string{locations, locations + "/edge", locations + "/edge/status", locations + "?watch=1&timeoutSeconds=1", locations + "?includeObject=Object", locations + "?pretty=1", locations + "?fieldSelector=metadata.name=edge"} {
		for _, form := range []string{"application/json", table, metadata, pb} {
			code, body := jane.send("GET "+path, "", "Accept", form)
			if strings.Contains(strings.ToLower(body), "secretive") {
				t.Errorf("%s as %s: %d %s", path, form, code, body)
			}
		}
	}
	if code, body := jane.send("GET "+locations+"/edge", ""); code != http.StatusOK || !strings.Contains(body, `"version":"v9"`) || !strings.Contains(body, `"x":"y"`) {
		t.Errorf("the rest: %d %s", code, body)
	}
	if _, body := root.send("GET "+edge, ""); strings.Count(strings.ToLower(body), "secretive") != 6 {
		t.Errorf("in root: %s", body)
	}
}
