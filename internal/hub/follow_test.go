package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/route"
)

// whyAt returns the response to a why request for an object of the space s at the location a.
func (c client) whyAt(object string) (w queries.Why) {
	c.r.t.Helper()
	q := url.Values{"object": {object}, "location": {"a"}}
	code, body := c.send("GET "+route.Question("s").Path(route.Why)+"?"+q.Encode(), "")
	if code != http.StatusOK || json.Unmarshal([]byte(body), &w) != nil {
		c.r.t.Fatalf("why %s: %d %s", object, code, body)
	}
	return w
}

// eventuallyFollow waits until exactly some of the objects that the Deployment of TestFollowing refers
// to are assigned to the location a.
func (c client) eventuallyFollow(want ...string) {
	c.r.t.Helper()
	c.r.eventually(func() string {
		var got []string
		for _, o := range []string{"core/configmaps/default/settings", "core/secrets/default/token", "core/serviceaccounts/default/web"} {
			if c.whyAt(o).Decision.Placed {
				got = append(got, strings.Split(o, "/")[1])
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%v follow, want %v", got, want)
		}
		return ""
	})
}

// TestFollowing checks that referenced objects follow a placed object if the writer of the Placement may
// read them. Writes of other users do not change that, and responses contain no object that their reader
// may not read.
func TestFollowing(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", nil)
	admin := r.as("admin", "system:masters")
	r.grant("s", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"view"}],"rules":[
		{"apiGroups":["orrery.dev"],"resources":["placements","placements/status"],"verbs":["get","create","update","patch"]}]}`)
	jane := r.as("jane")
	must := func(c client, request, body string, header ...string) string {
		t.Helper()
		code, answer := c.send(request, body, header...)
		if code != http.StatusOK && code != http.StatusCreated {
			t.Fatalf("%s: %d %s", request, code, answer)
		}
		return answer
	}
	const core = "POST /spaces/s/api/v1/namespaces/default/"
	must(admin, core+"configmaps", `{"metadata":{"name":"settings"}}`)
	must(admin, core+"serviceaccounts", `{"metadata":{"name":"web"}}`)
	must(admin, "POST /spaces/s/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"serviceAccountName":"web","containers":[{"name":"c","image":"i",
		"envFrom":[{"configMapRef":{"name":"settings"}},{"secretRef":{"name":"token"}},{"secretRef":{"name":"none"}}]}]}}}}`)

	resp := jane.open(t.Context(), "POST "+orreryOf("s", "placements"), `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},
		"spec":{"locations":[{"names":["a"]}],"downsync":[{"apiGroup":"apps","resources":["deployments"],"followReferences":true}]},
		"status":{"follows":[{"entry":0,"resources":["secrets"]}]}}`)
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("create: %s %v", resp.Status, err)
	}
	if warning := resp.Header.Get("Warning"); !strings.Contains(warning, "spec.downsync[0].followReferences: secrets do not follow") {
		t.Errorf("it warns %q", warning)
	}
	withoutSecrets := []string{"configmaps", "serviceaccounts"}
	admin.eventuallyFollow(withoutSecrets...)
	must(admin, core+"secrets", `{"metadata":{"name":"token"}}`)
	if f := admin.whyAt("core/secrets/default/token").Decision.Placements[0].Following; f == nil || f.Follows || !slices.Equal(f.Unread, []string{"apps/deployments/default/web"}) {
		t.Errorf("of the Secret it is said %+v", f)
	}
	// The writer may not read Secrets, so the response does not reveal whether the Secret exists.
	if f := admin.whyAt("apps/deployments/default/web").Decision.Placements[0].Following; f == nil || len(f.References) != 4 || !f.References[0].Missing {
		t.Errorf("of the Deployment it is said %+v", f)
	}
	if f := jane.whyAt("apps/deployments/default/web").Decision.Placements[0].Following; f == nil || len(f.References) != 2 {
		t.Errorf("a user that may not read Secrets gets %+v", f)
	}

	// Neither a status nor a write without a change of the spec changes which objects follow.
	one := "PATCH " + orreryOf("s", "placements/p")
	forged := `{"metadata":{"labels":{"x":"%s"}},"status":{"follows":[{"entry":0,"resources":["secrets","configmaps"]}]}}`
	must(jane, one, fmt.Sprintf(forged, "1"), contentType, mergePatch)
	must(jane, one+"/status", fmt.Sprintf(forged, "2"), contentType, mergePatch)
	must(jane, one+"/status", `{"status":null}`, contentType, mergePatch)
	must(admin, one, fmt.Sprintf(forged, "3"), contentType, mergePatch)
	admin.eventuallyFollow(withoutSecrets...)

	// Another spec is what its writer may.
	must(admin, one, `{"spec":{"onConflict":"Adopt"}}`, contentType, mergePatch)
	admin.eventuallyFollow("configmaps", "secrets", "serviceaccounts")
	must(jane, one, `{"spec":{"onConflict":"Fail"}}`, contentType, mergePatch)
	admin.eventuallyFollow(withoutSecrets...)
	r.grant("s", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	must(jane, one, `{"spec":{"onConflict":"Adopt"}}`, contentType, mergePatch)
	admin.eventuallyFollow("configmaps", "secrets", "serviceaccounts")
	must(admin, one, `{"spec":{"downsync":[{"apiGroup":"apps","resources":["deployments"]}]}}`, contentType, mergePatch)
	admin.eventuallyFollow()
	if answer := must(admin, "GET "+orreryOf("s", "placements/p"), ""); strings.Contains(answer, `"follows":[`) {
		t.Errorf("nothing is followed, and it says %s", answer)
	}
}
