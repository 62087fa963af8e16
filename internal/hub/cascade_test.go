package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/env"
)

// TestCascadedDeletions checks that one run of kubectl that deletes a Namespace and then its objects finds
// no object missing, and that any other request does.
func TestCascadedDeletions(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	r.addSpace("b")
	const session = "Kubectl-Session"
	jane, joe := r.as("jane", "system:masters"), r.as("joe", "system:masters")
	send := func(c client, want int, request string, header ...string) {
		t.Helper()
		code, body := c.send(request, "", header...)
		if code != want {
			t.Fatalf("%s %v: %d %s, want %d", request, header, code, body, want)
		}
		if code == http.StatusOK && strings.Contains(request, "configmaps") && !strings.Contains(body, `"status":"Success"`) {
			t.Errorf("%s: %s", request, body)
		}
	}
	const (
		namespace = "DELETE /spaces/a/api/v1/namespaces/n"
		object1   = namespace + "/configmaps/one"
		others    = "DELETE /spaces/a/api/v1/namespaces/other/configmaps/one"
	)
	fill := func() {
		t.Helper()
		for _, name := range []string{"n", "other"} {
			r.create("a", namespacesGVR, object("v1", "Namespace", "", name, nil, nil))
		}
		r.create("a", configMapsGVR, object("v1", "ConfigMap", "n", "one", nil, nil))
	}
	gone := func() {
		t.Helper()
		env.Eventually(t, timeout, func() error {
			if code, body := jane.send("GET /spaces/a/api/v1/namespaces/n", ""); code != http.StatusNotFound {
				return fmt.Errorf("the Namespace is not gone: %d %s", code, body)
			}
			return nil
		})
	}

	fill()
	send(jane, http.StatusOK, namespace+"?dryRun=All", session, "dry")
	send(jane, http.StatusOK, namespace, session, "one")
	gone()
	send(jane, http.StatusOK, object1, session, "one")
	send(jane, http.StatusOK, object1+"?dryRun=All", session, "one")
	for _, header := range [][]string{{}, {session, ""}, {session, "two"}, {session, "dry"}, {session, strings.Repeat("x", 65)}} {
		send(jane, http.StatusNotFound, object1, header...)
	}
	send(joe, http.StatusNotFound, object1, session, "one")
	send(jane, http.StatusNotFound, others, session, "one")
	send(jane, http.StatusNotFound, namespace+"/configmaps/two", session, "one")
	send(jane, http.StatusNotFound, namespace+"/secrets/one", session, "one")
	send(jane, http.StatusNotFound, strings.Replace(object1, "/a/", "/b/", 1), session, "one")
	send(jane, http.StatusNotFound, strings.Replace(object1, "DELETE", "GET", 1), session, "one")
	send(jane, http.StatusNotFound, namespace, session, "one")
}

// TestCascadesOfSpaces checks that deletions in one space do not end the memory of those in another, and that
// the memory follows the first deletion of a Namespace only, not a dry run.
func TestCascadesOfSpaces(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.addSpace("a")
	r.addSpace("b")
	const session = "Kubectl-Session"
	jane := r.as("jane", "system:masters")
	send := func(want int, request, body, id string) {
		t.Helper()
		if code, text := jane.send(request, body, session, id); code != want {
			t.Errorf("%s %s in session %s: %d %s, want %d", request, body, id, code, text, want)
		}
	}
	const (
		namespace = "DELETE /spaces/a/api/v1/namespaces/n"
		object1   = namespace + "/configmaps/one"
	)
	for _, space := range []key.Space{"a", "b"} {
		r.create(space, namespacesGVR, object("v1", "Namespace", "", "n", nil, nil))
		r.create(space, configMapsGVR, object("v1", "ConfigMap", "n", "one", nil, nil))
	}
	held := object("v1", "ConfigMap", "n", "held", nil, nil)
	held.SetFinalizers([]string{"example.org/hold"})
	r.create("b", configMapsGVR, held)

	send(http.StatusOK, namespace, `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}`, "dry")
	send(http.StatusOK, object1, "", "one")
	send(http.StatusNotFound, object1, "", "dry")
	r.create("a", configMapsGVR, object("v1", "ConfigMap", "n", "one", nil, nil))

	send(http.StatusOK, namespace, "", "one")
	for i := range 70 {
		jane.send("DELETE /spaces/b/api/v1/namespaces/n", "", session, fmt.Sprint("other", i))
	}
	env.Eventually(t, timeout, func() error {
		for _, path := range []string{"GET /spaces/a/api/v1/namespaces/n", "GET /spaces/b/api/v1/namespaces/n/configmaps/one"} {
			if code, body := jane.send(path, ""); code != http.StatusNotFound {
				return fmt.Errorf("%s: not gone: %d %s", path, code, body)
			}
		}
		return nil
	})
	send(http.StatusOK, object1, "", "one")
	send(http.StatusOK, "DELETE /spaces/b/api/v1/namespaces/n/configmaps/one", "", "other0")
	send(http.StatusNotFound, "DELETE /spaces/b/api/v1/namespaces/n/configmaps/one", "", "other69")
}
