package life

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

// TestNamespaceEndsAsInKubernetes deletes a namespace whose objects have finalizers, in a space and
// in a real cluster. Both give the same responses.
func TestNamespaceEndsAsInKubernetes(t *testing.T) {
	t.Parallel()
	h := hubAt(t, env.StartHub(t, "--unsafe-no-fsync"))
	cluster := env.StartCluster(t, "like")
	want := endOfNamespaces(t, newAPI(t, rest.CopyConfig(cluster.Config), true, nil))
	space := h.space("s")
	got := endOfNamespaces(t, space)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want) || i >= len(got):
			t.Fatalf("the space gives %d responses, the cluster %d", len(got), len(want))
		case want[i] != got[i]:
			t.Errorf("response of the space:\n%s\nof the cluster:\n%s", got[i], want[i])
		}
	}
	// The finalizers are removed.
	space.patch("/api/v1/namespaces/ends/configmaps/held", `{"metadata":{"finalizers":null}}`).is(t, http.StatusOK, "remove the finalizers")
	space.patch("/apis/example.org/v1beta1/namespaces/ends/gadgets/held", `{"metadata":{"finalizers":[]}}`).is(t, http.StatusOK, "remove the finalizers")
	space.patch("/api/v1/namespaces/kept", `{"metadata":{"finalizers":null}}`).is(t, http.StatusOK, "remove the finalizers")
	for _, name := range []string{"ends", "kept"} {
		eventuallyGone(t, space, "/api/v1/namespaces/"+name)
	}
}

func eventuallyGone(t *testing.T, a *api, path string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		if got := a.get(path); got.code != http.StatusNotFound {
			return errors.New(got.String())
		}
		return nil
	})
}

const (
	held   = `,"finalizers":["example.com/a"]`
	heldBy = `,"finalizers":["example.com/b","example.com/a"]`
)

// endOfNamespaces deletes namespaces with objects, and returns the responses.
func endOfNamespaces(t *testing.T, a *api) (responses []string) {
	t.Helper()
	add := func(what string, got answer) {
		responses = append(responses, fmt.Sprintf("%s: %d %s", what, got.code, sorted(t, got.raw)))
	}
	a.post(crds, gadgetCRD).is(t, http.StatusCreated, "define gadgets")
	const namespaces, inEnds = "/api/v1/namespaces", "/api/v1/namespaces/ends/configmaps"
	a.post(namespaces, namespaceNamed("ends")).is(t, http.StatusCreated, "create a namespace")
	a.post(namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kept","finalizers":["example.com/ns"]}}`).is(t, http.StatusCreated, "create a namespace")
	a.post("/api/v1/namespaces/kept/configmaps", configMap("plain", "")).is(t, http.StatusCreated, "create")
	a.post(inEnds, configMap("plain", "")).is(t, http.StatusCreated, "create")
	a.post(inEnds, configMap("held", held)).is(t, http.StatusCreated, "create")
	env.Eventually(t, soon, func() error { // a cluster serves a new resource after a while
		if got := a.post("/apis/example.org/v1/namespaces/ends/gadgets", gadget("v1", "held", heldBy)); got.code != http.StatusCreated {
			return errors.New(got.String())
		}
		return nil
	})
	add("delete default", a.delete("/api/v1/namespaces/default"))
	add("delete a missing namespace", a.delete("/api/v1/namespaces/never"))
	all := a.delete("/api/v1/namespaces")
	responses = append(responses, fmt.Sprintf("delete all: %d %s", all.code, all.field("reason")))
	add("create where there is no namespace", a.post("/api/v1/namespaces/never/configmaps", configMap("late", "")))
	for _, name := range []string{"ends", "kept"} {
		got := a.delete("/api/v1/namespaces/"+name).is(t, http.StatusOK, "delete the namespace")
		responses = append(responses, "phase of "+name+": "+got.field("status.phase").String())
	}
	add("create", a.post(inEnds, configMap("late", "")))
	add("create with a name to be made", a.post(inEnds, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"late-"}}`))
	add("dry run", a.post(inEnds+"?dryRun=All", configMap("late", "")))
	add("apply", a.do(http.MethodPatch, inEnds+"/late?fieldManager=test", asApply, configMap("late", "")))
	add("create a custom resource", a.post("/apis/example.org/v1beta1/namespaces/ends/gadgets", gadget("v1beta1", "late", "")))
	a.patch(inEnds+"/held", `{"data":{"k":"changed"}}`).is(t, http.StatusOK, "change an existing object")

	const remain = "Some resources are remaining: configmaps. has 1 resource instances, gadgets.example.org has 1 resource instances"
	responses = append(responses,
		conditionsOf(t, a, "ends", remain),
		conditionsOf(t, a, "kept", "All content successfully removed"))
	return responses
}

// sorted returns a JSON text with its fields in order.
func sorted(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// conditionsOf returns the conditions of a namespace, once they list the remaining resources.
func conditionsOf(t *testing.T, a *api, name, remaining string) string {
	t.Helper()
	var conditions gjson.Result
	env.Eventually(t, soon, func() error {
		got := a.get("/api/v1/namespaces/" + name)
		conditions = got.field("status.conditions")
		if m := conditions.Get(`#(type=="NamespaceContentRemaining").message`).String(); m != remaining {
			return fmt.Errorf("the condition NamespaceContentRemaining of namespace %s is %q: %s", name, m, got)
		}
		return nil
	})
	var all []string
	for _, c := range conditions.Array() {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Get("type"), c.Get("status"), c.Get("reason"), c.Get("message")))
	}
	slices.Sort(all)
	return name + ":\n" + strings.Join(all, "\n")
}
