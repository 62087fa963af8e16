package hub_test

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/limit"
	"orrery.dev/orrery/test/support/seeds"
)

// prefixed is a hub with a location that has namespaces of each space, to which two spaces
// send the same ConfigMap.
func prefixed(t *testing.T) *running {
	r := start(t, t.TempDir())
	location := object("orrery.dev/v1alpha1", "Location", "", "a", map[string]string{"where": "x"}, map[string]any{"spec": map[string]any{"namespaces": "Prefixed"}})
	r.create(key.Root, locationsGVR, location)
	for _, s := range []key.Space{"s", "t"} {
		r.addSpace(s)
		r.addPlacement(s, "p", "x", "app", nil)
		r.create(s, configMapsGVR, object("v1", "ConfigMap", "default", "one", map[string]string{"what": "app"}, map[string]any{"data": map[string]any{"of": string(s)}}))
	}
	return r
}

// halting returns the reason for which the settings in a frame halt the agent, and whether the frame has
// settings: those of a hello are newer the later the session gets to send it.
func halting(f wire.Frame) (reason string, is bool) {
	switch {
	case f.Hello != nil:
		return f.Hello.Settings.Halt, true
	case f.Settings != nil:
		return f.Settings.Halt, true
	}
	return "", false
}

// TestPrefixedAndOldAgents shows that an agent that does not know where the location has
// objects put is sent none of them, that the location says so, and that one that knows is
// sent all, by the names that they have in their spaces.
func TestPrefixedAndOldAgents(t *testing.T) {
	t.Parallel()
	r := prefixed(t)
	a := r.join("a")
	s := a.open(0, "")
	f, _ := s.next()
	if f.Hello == nil || f.Hello.Count != 0 || f.Hello.Settings.Namespaces != "Prefixed" {
		t.Fatalf("an agent of an older version receives %+v", f.Hello)
	}
	have := holding{}
	if a.walk(have); len(have) > 0 {
		t.Errorf("an agent of before finds %v", have)
	}
	for reason, _ := halting(f); reason == ""; reason, _ = halting(f) { // nothing else comes
		var ok bool
		if f, ok = s.next(); !ok || f.Put != nil || f.Hold != nil || f.Conflict != nil || f.Bye != nil {
			t.Fatalf("before it is halted, an agent of before is sent %+v (the session goes on: %v)", f, ok)
		}
	}
	l := r.becomes("a", v1alpha1.ConditionCompatible, metav1.ConditionFalse, v1alpha1.ReasonProtocol)
	if c := l.Status.Conditions; !slices.ContainsFunc(c, func(c metav1.Condition) bool { return strings.Contains(c.Message, "namespaces: Prefixed") }) {
		t.Errorf("it has no reason: %+v", c)
	}

	a.Capabilities = wire.Prefixes
	s = a.open(0, "")
	if f, _ = s.next(); f.Hello == nil || f.Hello.Count != 2 {
		t.Fatalf("an agent that supports it receives %+v", f.Hello)
	}
	if a.walk(have); len(have) != 2 || have["s/core/configmaps/default/one"] == (wire.Sum{}) || have["t/core/configmaps/default/one"] == (wire.Sum{}) {
		t.Errorf("an agent that knows finds %v", have)
	}
	if reason, _ := halting(f); reason != "" {
		s.until(func(f wire.Frame) bool { reason, is := halting(f); return is && reason == "" })
	}
	r.becomes("a", v1alpha1.ConditionCompatible, metav1.ConditionTrue, v1alpha1.ReasonProtocol)
}

// TestPrefixedView shows what a location with Prefixed namespaces is to have, by the names
// that it has there, and what it refuses.
func TestPrefixedView(t *testing.T) {
	t.Parallel()
	r := prefixed(t)
	view := r.view("a").Resource(configMapsGVR)
	list, err := view.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		o := &list.Items[i]
		got = append(got, o.GetNamespace()+"/"+o.GetName()+" from "+o.GetAnnotations()[v1alpha1.SourceNamespaceAnnotation]+" of "+o.GetLabels()[v1alpha1.SpaceLabel])
	}
	if want := []string{"s--default/one from default of s", "t--default/one from default of t"}; !slices.Equal(got, want) {
		t.Errorf("it is to have %v, want %v", got, want)
	}
	one, err := view.Namespace("t--default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || one.GetNamespace() != "t--default" || one.Object["data"].(map[string]any)["of"] != "t" {
		t.Errorf("the one of t is %v, %v", one, err)
	}
	if _, err := view.Namespace("default").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the name of the space is found: %v", err)
	}
	selected, err := view.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.namespace=s--default"})
	if err != nil || len(selected.Items) != 1 {
		t.Errorf("selected: %v, %v", selected, err)
	}
	w, err := view.Namespace("s--default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, s := range []key.Space{"t", "s"} {
		if err := r.space(s).Resource(configMapsGVR).Namespace("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if e := limit.Receive(t, w.ResultChan(), "the deletion"); e.Type != "DELETED" || e.Object.(metav1.Object).GetNamespace() != "s--default" {
		t.Errorf("the watch of the namespace of s shows %+v", e)
	}

	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	r.create("s", roles, object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "role", map[string]string{"what": "app"}, nil))
	if _, rows := r.statusRows(); rows != "rbac.authorization.k8s.io/clusterroles/role a Failed "+v1alpha1.ReasonClusterScoped {
		t.Errorf("status: %s", rows)
	}
	r.eventually(func() string {
		if p := r.placement(); p.Status.Failed != 1 || len(p.Status.Errors) != 1 || p.Status.Errors[0].Reason != v1alpha1.ReasonClusterScoped {
			return "the Placement does not say so"
		}
		return ""
	})
}

// TestNamespacesOfLocationsStay shows that what a location does with namespaces is decided
// when it is made.
func TestNamespacesOfLocationsStay(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	for name, spec := range seeds.Ordered(map[string]map[string]any{
		"none": nil, "empty": {"spec": map[string]any{}}, "same": {"spec": map[string]any{"namespaces": "Same"}}, "prefixed": {"spec": map[string]any{"namespaces": "Prefixed"}},
	}) {
		r.create(key.Root, locationsGVR, object("orrery.dev/v1alpha1", "Location", "", name, nil, spec))
	}
	locations := r.space(key.Root).Resource(locationsGVR)
	for _, c := range []struct {
		name, patch string
		may         bool
	}{
		{"none", `{"spec":{"namespaces":"Prefixed"}}`, false},
		{"empty", `{"spec":{"namespaces":"Prefixed"}}`, false},
		{"same", `{"spec":{"namespaces":"Prefixed"}}`, false},
		{"prefixed", `{"spec":{"namespaces":"Same"}}`, false},
		{"prefixed", `{"spec":{"namespaces":null}}`, false},
		{"prefixed", `{"spec":null}`, false},
		{"prefixed", `{"spec":{"mapping":"Paused"},"metadata":{"labels":{"a":"b"}}}`, true},
		{"none", `{"spec":{"namespaces":"Same"}}`, true},
		{"same", `{"spec":{"namespaces":null}}`, true},
	} {
		_, err := locations.Patch(t.Context(), c.name, types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
		if c.may {
			if err != nil {
				t.Errorf("%s %s: %v", c.name, c.patch, err)
			}
			continue
		}
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.namespaces") || !strings.Contains(err.Error(), "can't be changed") {
			t.Errorf("%s %s: %v", c.name, c.patch, err)
		}
	}
}
