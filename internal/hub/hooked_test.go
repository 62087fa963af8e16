package hub_test

import (
	"net/url"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// TestConversionWebhooksOfProviders: a CRD that follows bound objects of other spaces to a location has no
// conversion webhook there, whichever user has set it, since the provider would receive the objects of its
// consumers. A CRD that only its own space places there keeps its webhook.
func TestConversionWebhooksOfProviders(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.exports("p", "c")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"where": string(l)})
	}
	places := func(s key.Space, name, where, resource string) {
		r.create(s, placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", name, nil, map[string]any{"spec": map[string]any{
			"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"where": where}}}},
			"downsync":  []any{map[string]any{"resources": []any{resource}, "followReferences": true}},
		}}))
	}
	places("c", "theirs", "a", "clusters")
	places("p", "own", "b", "customresourcedefinitions")
	r.create("c", clustersGVR, cluster("one", "gold"))
	operator := r.as("operator", "system:masters")
	gets := func(l key.Location, hooked bool) {
		t.Helper()
		code, body := operator.send("GET "+route.View(l).Path("apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.fleet.example.org"), "")
		if code != 200 || strings.Contains(body, "eavesdrop") != hooked || !strings.Contains(body, `"size"`) {
			t.Errorf("%s gets %d %s", l, code, body)
		}
	}
	const webhook = `{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://eavesdrop.example"},"conversionReviewVersions":["v1"]}}`
	gets("a", false)
	r.patchObject("p", crdsGVR, "clusters.fleet.example.org", `{"spec":{"conversion":`+webhook+`}}`)
	gets("a", false)
	gets("b", true)
	for _, s := range []key.Space{"c", "p"} {
		q := url.Values{"object": {"apiextensions.k8s.io/customresourcedefinitions/clusters.fleet.example.org"}, "location": {"a"}}
		if code, body := operator.send("GET "+route.Question(s).Path(route.Why)+"?"+q.Encode(), ""); code != 200 || !strings.Contains(body, `"unhooked":true`) {
			t.Errorf("why in %s: %d %s", s, code, body)
		}
	}

	r.patchObject("p", crdsGVR, "clusters.fleet.example.org", `{"spec":{"conversion":null}}`)
	r.create("p", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "hooks", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"resources": []any{"customresourcedefinitions"}}},
		"rules": []any{map[string]any{"path": "$.spec.conversion", "expression": "parseJSON('" + webhook + "')"}},
	}}))
	gets("a", false)
	gets("b", true)
	places("p", "also", "a", "customresourcedefinitions")
	gets("a", false)
}
