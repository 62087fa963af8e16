package hub_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// listed contains the decoded fields of a list.
type listed struct {
	Metadata struct{ ResourceVersion, Continue string }
	Items    []struct{ Metadata struct{ Name string } }
}

// again deletes an object of root and creates it again once that is possible.
func (r *running) again(resource, kind, name string) {
	r.t.Helper()
	op := r.as("op", masters)
	if code, body := op.send("DELETE "+orreryOf(key.Root, resource)+"/"+name, ""); code != http.StatusOK {
		r.t.Fatalf("%d %s", code, body)
	}
	r.eventually(func() string {
		code, body := op.send("POST "+orreryOf(key.Root, resource), fmt.Sprintf(`{"apiVersion":"orrery.dev/v1alpha1","kind":%q,"metadata":{"name":%q}}`, kind, name))
		if code != http.StatusCreated {
			return body
		}
		return ""
	})
}

// formerReads are requests for what was at a path at a revision: lists, pages and watches.
func formerReads(path, rev, token, forged string) []string {
	return []string{
		path + "?resourceVersionMatch=Exact&resourceVersion=" + rev,
		path + "?limit=5&resourceVersion=" + rev,
		path + "?limit=1&continue=" + token, path + "?limit=1&continue=" + forged,
		path + "?watch=1&timeoutSeconds=1&resourceVersion=" + rev,
		path + "?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=" + rev,
		path + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=" + rev,
	}
}

// TestFormerContents: after a space or a location is deleted and created again, a user with all rights to it
// reads no object of its predecessor, by any revision or token of that time.
func TestFormerContents(t *testing.T) {
	t.Parallel()
	r := hostile(t)
	op := r.as("op", masters)
	place := func(s key.Space) {
		t.Helper()
		if code, body := op.send("POST "+orreryOf(s, "placements"), `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"p"},
			"spec":{"locations":[{"names":["edge"]}],"downsync":[{"apiGroup":"","resources":["secrets"]}]}}`); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	place("b")
	read := func(path string) (all listed) {
		t.Helper()
		code, body := op.send("GET "+path, "")
		if err := json.Unmarshal([]byte(body), &all); code != http.StatusOK || err != nil {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		return all
	}
	const secrets, inView = "/spaces/b/api/v1/secrets", "/views/locations/edge/api/v1/secrets"
	shows := func(what string) {
		t.Helper()
		r.eventually(func() string {
			if code, body := op.send("GET "+inView, ""); code != http.StatusOK || !strings.Contains(body, what) {
				return body
			}
			return ""
		})
	}
	shows(treasure + "-b")
	page := map[string]listed{secrets: read(secrets + "?limit=1"), inView: read(inView + "?limit=1")}
	r.again("spaces", "Space", "b")
	r.again("locations", "Location", "edge")
	place("a")
	shows(treasure + "-a")
	r.grant("b", "jane", `{"subjects":[{"kind":"User","name":"jane"}],"roles":[{"name":"admin"}]}`)
	r.grant(key.Root, "jane", `{"subjects":[{"kind":"User","name":"jane"}],"rules":[{"apiGroups":["orrery.dev"],"resources":["locations/content"],"resourceNames":["edge"],"verbs":["get","list","watch"]}]}`)
	jane := r.as("jane")
	for _, path := range []string{secrets, secrets + "/b-x", "/spaces/b/api/v1/namespaces/default/secrets", inView} {
		secretPage := page[secrets]
		if path == inView {
			secretPage = page[inView]
		}
		rev := secretPage.Metadata.ResourceVersion
		forged := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%s,"start":"a"}`, rev))
		for _, request := range formerReads(path, rev, secretPage.Metadata.Continue, forged) {
			code, body := jane.send("GET "+request, "")
			if strings.Contains(body, treasure+"-b") || strings.Contains(body, "b-x") && path == secrets {
				t.Errorf("GET %s: %d %.300s", request, code, body)
			}
			if strings.Contains(request, "resourceVersion="+rev) && !strings.Contains(request, "sendInitial") && path == secrets && !strings.Contains(body, "Expired") {
				t.Errorf("GET %s is not refused as expired: %d %.300s", request, code, body)
			}
		}
	}
	// The present objects can be read at present revisions.
	if code, body := jane.send("POST /spaces/b/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	const mine = "/spaces/b/api/v1/configmaps"
	rev := read(mine).Metadata.ResourceVersion
	for _, request := range formerReads(mine, rev, "", "")[:2] {
		if code, body := jane.send("GET "+request, ""); code != http.StatusOK || !strings.Contains(body, `"mine"`) {
			t.Errorf("GET %s: %d %s", request, code, body)
		}
	}
}
