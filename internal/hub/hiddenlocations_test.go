package hub_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestHiddenLocations: for a tenant, a location that accepts nothing of the space is like one that does not exist, in
// every answer about a name: Placements, annotations, and all queries.
func TestHiddenLocations(t *testing.T) {
	t.Parallel()
	const hidden, absent = "cellar", "garden"
	r := hostile(t)
	r.create(key.Root, locationsGVR, object("orrery.dev/v1alpha1", "Location", "", hidden, map[string]string{"where": "x"}, map[string]any{
		"spec": map[string]any{"admit": []any{}, "taints": []any{map[string]any{"key": "t", "effect": "Evict"}}},
	}))
	spaces := map[string]key.Space{hidden: "names-cellar", absent: "names-garden"} // alike but for the name of the location
	changing := regexp.MustCompile(`"(lastTransitionTime|creationTimestamp|uid|resourceVersion|time)":"[^"]*",?`)
	send := func(request, name string) string {
		t.Helper()
		code, body := r.as("edit").send(strings.NewReplacer("SPACE", string(spaces[name]), "NAME", name).Replace(request), "")
		return fmt.Sprint(code, " ", changing.ReplaceAllString(strings.ReplaceAll(body, name, "NAME"), ""))
	}
	for name, s := range spaces {
		r.addSpace(s)
		r.grant(s, "edit", `{"subjects":[{"kind":"User","name":"edit"}],"roles":[{"name":"edit"}]}`)
		u := object("v1", "ConfigMap", "default", "x", map[string]string{"what": "x"}, nil)
		u.SetAnnotations(map[string]string{"orrery.dev/assigned-locations": fmt.Sprintf("[%q]", name)})
		r.create(s, configMapsGVR, u)
		r.create(s, placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
			"locations": []any{map[string]any{"names": []any{name}}},
			"downsync":  []any{map[string]any{"labelSelectors": []any{map[string]any{"matchLabels": map[string]any{"what": "x"}}}}},
		}}))
		r.eventually(func() string {
			if got := send("GET /spaces/SPACE/apis/orrery.dev/v1alpha1/placements/p", name); !strings.Contains(got, `"LocationsKnown"`) {
				return got
			}
			return ""
		})
	}
	const query = "GET /ask/v1/spaces/SPACE/"
	for _, request := range []string{
		"GET /spaces/SPACE/apis/orrery.dev/v1alpha1/placements/p",
		"GET /spaces/SPACE/apis/orrery.dev/v1alpha1/locations/NAME",
		"GET /views/reports/spaces/SPACE/locations/NAME/api/v1/configmaps",
		query + "why?location=NAME&object=core/configmaps/default/x",
		query + "why?location=NAME&object=core/configmaps/default/none",
		query + "render?location=NAME&object=core/configmaps/default/x",
		query + "diff?location=NAME&object=core/configmaps/default/x",
		query + "status",
		query + "status?placement=p",
		query + "status?object=core/configmaps/default/x",
	} {
		if got, want := send(request, hidden), send(request, absent); got != want {
			t.Errorf("%s answers for a hidden location\n%s\nand for one that does not exist\n%s", request, got, want)
		}
	}
}
