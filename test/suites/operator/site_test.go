package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	spaceName = "shop"
	siteName  = "edge"
	// namespace is implied at the site.
	namespace = "goods"
	// look is how long a test watches for what must not happen.
	observation = 2 * time.Second
)

// site is one location, with a cluster that is only an API server, and a space
// from which everything labelled what=app is placed there.
type site struct {
	*world.World
	*world.Site
	t     *testing.T
	space dynamic.Interface
	file  string // kubeconfig of the space
}

func newSite(t *testing.T, hubArgs ...string) *site {
	t.Helper()
	w := world.New(t, hubArgs...)
	s := &site{World: w, t: t, file: w.AddSpace(spaceName)}
	s.space = world.Dynamic(t, w.Hub.PathConfig("spaces/"+spaceName))
	s.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: goods}}`)
	s.Site = s.Join(siteName, nil, env.APIOnly())
	s.apply(`
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: app}
spec:
  locations: [{names: [edge]}]
  downsync: [{labelSelectors: [{matchLabels: {what: app}}]}]
`)
	return s
}

// apply applies YAML in the space.
func (s *site) apply(yaml string) {
	s.t.Helper()
	env.KubectlIn(s.t, s.file, yaml, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

// put makes or changes ConfigMaps in the space, all with one value.
func (s *site) put(value string, names ...string) {
	s.t.Helper()
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {what: app}}, data: {v: %q}}\n", name, namespace, value)
	}
	s.apply(b.String())
}

// unassign removes the ConfigMaps' label: a removal by policy.
func (s *site) unassign(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if _, err := s.space.Resource(world.ConfigMaps).Namespace(namespace).Patch(s.t.Context(), name,
			types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) target() dynamic.ResourceInterface {
	return s.Client.Resource(world.ConfigMaps).Namespace(namespace)
}

// hasValue returns an error unless a ConfigMap at the site has a value.
func (s *site) hasValue(name, value string) func() error {
	return func() error {
		u, err := s.target().Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if data := fmt.Sprint(u.Object["data"]); data != "map[v:"+value+"]" {
			return fmt.Errorf("%s has %s, want %q", name, data, value)
		}
		return nil
	}
}

func (s *site) lacks(name string) func() error {
	return func() error {
		_, err := s.target().Get(s.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s is still there", name)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
}

// mine returns an error unless so many of the site's ConfigMaps have Orrery's marks.
func (s *site) mine(want int) func() error {
	return func() error {
		l, err := s.Client.Resource(world.ConfigMaps).List(s.t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.LocationLabel})
		if err == nil && len(l.Items) != want {
			return fmt.Errorf("%d objects of ours, want %d", len(l.Items), want)
		}
		return err
	}
}

func (s *site) uids(names ...string) (all []types.UID) {
	s.t.Helper()
	for _, name := range names {
		u, err := s.target().Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, u.GetUID())
	}
	return all
}

// read reads a Location. It starts no process, so waits can afford it.
func (s *site) read(name string, into *v1alpha1.Location) error {
	u, err := world.Dynamic(s.t, s.Hub.PathConfig("spaces/root")).Resource(world.Locations).Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}

// location reads the Location as the command line shows it.
func (s *site) location() (l v1alpha1.Location) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(env.Orrery(s.t, s.Root, "location", "describe", siteName, "-o", "json")), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// described returns the Location or an error, for use in Eventually.
func (s *site) described() (l v1alpha1.Location, err error) {
	err = s.read(siteName, &l)
	return l, err
}

// hasCondition waits until a condition of the Location has a status and a reason.
func (s *site) hasCondition(kind string, status metav1.ConditionStatus, reason string) (l v1alpha1.Location) {
	s.t.Helper()
	s.Eventually(fmt.Sprintf("%s is %s, %s", kind, status, reason), func() (err error) {
		if l, err = s.described(); err != nil {
			return err
		}
		c := meta.FindStatusCondition(l.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("%+v", l.Status)
		}
		return nil
	})
	return l
}

// unproven waits until the agent reports that it waits for a proof of the log position, and that it
// does not change at least a number of objects.
func (s *site) unproven(deferred int) {
	s.t.Helper()
	s.Eventually("the agent is not proven", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if a := l.Status.Agent; a == nil || a.LogIdentity != "Unproven" || a.Awaits == "" || int(a.Deferred) < deferred {
			return fmt.Errorf("the agent reports %+v", a)
		}
		return nil
	})
}

// reports waits until `orrery why` shows a state of the widget.
func (s *site) reports(want string) {
	s.t.Helper()
	s.Eventually("the widget is "+want, func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: s.file, Args: []string{"why", "widgets/w", "-n", namespace, "--location", siteName}}.Try(s.t)
		if err != nil {
			return err
		}
		if !strings.Contains(out, want) {
			return errors.New(out)
		}
		return nil
	})
}

func widget(fields string) string {
	return fmt.Sprintf(`{apiVersion: example.org/v1, kind: Widget, metadata: {name: w, namespace: %s, labels: {what: app}}, spec: {%s}}`, namespace, fields)
}

// definition is the CRD of widgets whose spec has some fields of type string.
func definition(fields ...string) *unstructured.Unstructured {
	properties := map[string]any{}
	for _, f := range fields {
		properties[f] = map[string]any{"type": "string"}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.org"},
		"spec": map[string]any{
			"group": "example.org", "scope": "Namespaced",
			"names": map[string]any{"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": properties},
				}}},
			}},
		},
	}}
}
