package hub_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/net"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/protocol/key"
)

// warned is what an answer to a request warns of; the request must succeed.
func (c client) warned(request, body string, header ...string) []string {
	c.r.t.Helper()
	resp := c.open(c.r.t.Context(), request, body, header...)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		text, err := io.ReadAll(resp.Body)
		c.r.t.Fatalf("%s: %s %s %v", request, resp.Status, text, err)
	}
	parsed, errs := net.ParseWarningHeaders(resp.Header["Warning"])
	if len(errs) > 0 {
		c.r.t.Fatalf("%v: %v", resp.Header["Warning"], errs)
	}
	var texts []string
	for _, w := range parsed {
		texts = append(texts, w.Text)
	}
	return texts
}

// TestPreview shows that dry runs of Placements and Customizers warn of what they would
// do, by whatever verb, only of what their sender may list, and that real writes don't.
func TestPreview(t *testing.T) {
	t.Parallel()
	now := time.Now() // an answer is not cut short, however long it takes
	r := start(t, t.TempDir(), func(c *hub.Config) { c.Now = func() time.Time { return now } })
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"in": "yes"})
		r.setProperties(string(l), `{"site":"`+string(l)+`"}`)
	}
	for _, name := range []string{"one", "two"} {
		r.addConfigMap(name, nil, "1")
	}
	r.grant("s", "owner", `{"subjects":[{"kind":"User","name":"owner"}],"roles":[{"name":"admin"}]}`)
	r.grant("s", "placer", `{"subjects":[{"kind":"User","name":"placer"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["placements"],"verbs":["*"]},{"apiGroups":["*"],"resources":["configmaps"],"resourceNames":["one"],"verbs":["get","list","watch"]}]}`)
	const (
		path      = "/spaces/s/apis/orrery.dev/v1alpha1/"
		placement = `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},"spec":{"locations":[{"selector":{}}],"downsync":[{"resources":["configmaps"],"namespaces":["default"],"names":["one","two"]}]}}`
		customize = `{"apiVersion":"orrery.dev/v1alpha1","kind":"Customizer","metadata":{"name":"c"},"spec":{"match":[{"resources":["configmaps"],"names":["two"]}],"rules":[{"path":"$.data.site","expression":"location.properties.site"}]}}`
		merge     = "application/merge-patch+json"
	)
	owner := r.as("owner")
	expect := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("warned is of\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	const places = "would place 2 objects at 2 locations: a +2, b +2"
	expect(owner.warned("POST "+path+"placements?dryRun=All", placement), places)
	expect(owner.warned("PATCH "+path+"placements/p?dryRun=All&fieldManager=x", placement, contentType, applyYAML), places)
	expect(r.as("placer").warned("POST "+path+"placements?dryRun=All", strings.ReplaceAll(placement, `,"two"`, "")),
		"would place 1 object at 2 locations: a +1, b +1", "objects that you may neither list nor get are not counted")
	expect(owner.warned("POST "+path+"placements", placement))
	expect(owner.warned("POST "+path+"customizers?dryRun=All", customize), "would change 1 object at 2 locations: a 1, b 1")
	expect(owner.warned("POST "+path+"customizers", customize))
	expect(owner.warned("PATCH "+path+"customizers/c?dryRun=All", `{"spec":{"rules":[{"path":"$.data.site","expression":"location.properties.none"}]}}`, contentType, merge),
		"would fail for 1 object at 2 locations, which keep what they have: a 1, b 1", "rules[0] of Customizer c: no such key: none: 1 object at 2 locations, such as core/configmaps/default/two at a")
	expect(owner.warned("PATCH "+path+"placements/p?dryRun=All", `{"spec":{"locations":[{"names":["b"]}]}}`, contentType, merge), "would remove 2 objects from 1 location: a -2")
	expect(owner.warned("DELETE "+path+"placements/p?dryRun=All", ""), "would remove 2 objects from 2 locations: a -2, b -2")
	expect(r.as("placer").warned("DELETE "+path+"placements/p?dryRun=All", ""), "would remove 1 object from 2 locations: a -1, b -1", "objects that you may neither list nor get are not counted")
	expect(owner.warned("DELETE "+path+"customizers/c?dryRun=All", ""), "would change 1 object at 2 locations: a 1, b 1")
}
