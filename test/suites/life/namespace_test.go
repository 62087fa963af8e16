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

// TestNamespaceEndsAsInKubernetes deletes a namespace whose content has finalizers, in a
// space and in a real cluster: both report the same.
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
			t.Fatalf("the space says %d things, the cluster %d", len(got), len(want))
		case want[i] != got[i]:
			t.Errorf("the space says\n%s\nthe cluster\n%s", got[i], want[i])
		}
	}
	// What holds it lets go.
	space.patch("/api/v1/namespaces/ends/configmaps/held", `{"metadata":{"finalizers":null}}`).is(t, http.StatusOK, "let go")
	space.patch("/apis/example.org/v1beta1/namespaces/ends/gadgets/held", `{"metadata":{"finalizers":[]}}`).is(t, http.StatusOK, "let go")
	space.patch("/api/v1/namespaces/kept", `{"metadata":{"finalizers":null}}`).is(t, http.StatusOK, "let go")
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

// endOfNamespaces deletes namespaces with content and returns what it was told.
func endOfNamespaces(t *testing.T, a *api) (told []string) {
	t.Helper()
	tell := func(what string, got answer) {
		told = append(told, fmt.Sprintf("%s: %d %s", what, got.code, sorted(t, got.raw)))
	}
	a.post(crds, gadgetCRD).is(t, http.StatusCreated, "define gadgets")
	const namespaces, inEnds = "/api/v1/namespaces", "/api/v1/namespaces/ends/configmaps"
	a.post(namespaces, namespaceNamed("ends")).is(t, http.StatusCreated, "create a namespace")
	a.post(namespaces, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kept","finalizers":["example.com/ns"]}}`).is(t, http.StatusCreated, "create a namespace")
	a.post("/api/v1/namespaces/kept/configmaps", configMap("plain", "")).is(t, http.StatusCreated, "create")
	a.post(inEnds, configMap("plain", "")).is(t, http.StatusCreated, "create")
	a.post(inEnds, configMap("held", held)).is(t, http.StatusCreated, "create")
	env.Eventually(t, soon, func() error { // a cluster takes its time
		if got := a.post("/apis/example.org/v1/namespaces/ends/gadgets", gadget("v1", "held", heldBy)); got.code != http.StatusCreated {
			return errors.New(got.String())
		}
		return nil
	})
	tell("delete default", a.delete("/api/v1/namespaces/default"))
	tell("delete what is not there", a.delete("/api/v1/namespaces/never"))
	all := a.delete("/api/v1/namespaces")
	told = append(told, fmt.Sprintf("delete all: %d %s", all.code, all.at("reason")))
	tell("create where there is no namespace", a.post("/api/v1/namespaces/never/configmaps", configMap("late", "")))
	for _, name := range []string{"ends", "kept"} {
		got := a.delete("/api/v1/namespaces/"+name).is(t, http.StatusOK, "delete the namespace")
		told = append(told, "phase of "+name+": "+got.at("status.phase").String())
	}
	tell("create", a.post(inEnds, configMap("late", "")))
	tell("create with a name to be made", a.post(inEnds, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"late-"}}`))
	tell("dry run", a.post(inEnds+"?dryRun=All", configMap("late", "")))
	tell("apply", a.do(http.MethodPatch, inEnds+"/late?fieldManager=test", asApply, configMap("late", "")))
	tell("create a custom resource", a.post("/apis/example.org/v1beta1/namespaces/ends/gadgets", gadget("v1beta1", "late", "")))
	a.patch(inEnds+"/held", `{"data":{"k":"changed"}}`).is(t, http.StatusOK, "change what is there")

	const remain = "Some resources are remaining: configmaps. has 1 resource instances, gadgets.example.org has 1 resource instances"
	told = append(told,
		conditionsOf(t, a, "ends", remain),
		conditionsOf(t, a, "kept", "All content successfully removed"))
	return told
}

// sorted is a JSON text with its fields in order, without what says who and when.
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

// conditionsOf are the conditions of a namespace once it says what remains.
func conditionsOf(t *testing.T, a *api, name, remaining string) string {
	t.Helper()
	var conditions gjson.Result
	env.Eventually(t, soon, func() error {
		got := a.get("/api/v1/namespaces/" + name)
		conditions = got.at("status.conditions")
		if m := conditions.Get(`#(type=="NamespaceContentRemaining").message`).String(); m != remaining {
			return fmt.Errorf("namespace %s says %q: %s", name, m, got)
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
